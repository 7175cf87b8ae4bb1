package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestFullRange: a hard reboot leaves every address of the node's range to sandboxes that are gone, and no pod gets one. The
// daemon's defaults free them, also where libcni's cache is gone, and the kubelet's next try succeeds.
func TestFullRange(t *testing.T) {
	t.Parallel()
	if len(versions) == 0 {
		t.Fatal("E2E_VERSIONS names no kubelet; make e2e does")
	}
	cniTurn.Lock()
	defer cniTurn.Unlock()
	n := offNode(t, machine, versions[len(versions)-1], 6)
	t.Cleanup(func() {
		if err := os.RemoveAll(filepath.Join(cniDir, "networks", n.tag)); err != nil {
			t.Error(err)
		}
	})
	store := newStore(cniDir, n.tag, n.ranges)
	full := n.fill(t, store, true)
	if full != 253 {
		t.Fatalf("the plugin gave %d addresses of a /24", full)
	}
	n.boot(t)
	n.startsOnFull(t, full, pod{uid: n.uid("5a11fe00-0000-4000-8000-00000000003_"), name: "after-boot"})
	t.Run("without a cache", func(t *testing.T) {
		n.startsOnFull(t, n.fill(t, store, false)+1, pod{uid: n.uid("5a11fe00-0000-4000-8000-00000000004_"), name: "without-cache"})
	})
}

// fill has the plugin give all addresses that are left to sandboxes of an earlier boot, and returns how many it gave.
func (n *node) fill(t *testing.T, store cniStore, cached bool) (given int) {
	t.Helper()
	// Where /run is no tmpfs, it is older than the boot.
	var run unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, "/run", 0, unix.STATX_BTIME, &run); err != nil {
		t.Fatal(err)
	}
	old := time.Since(time.Unix(run.Btime.Sec, 0)) + time.Hour
	for ; ; given++ {
		a := store.attachment("/run/netns/cni-none")
		_, err := a.add()
		if errors.Is(err, errFull) {
			return given
		}
		if err != nil {
			t.Fatal(err)
		}
		for path := range a.files {
			if !cached && !strings.HasPrefix(path, store.ipam.dataDir) {
				err = errors.Join(err, os.Remove(path))
				delete(a.files, path)
			}
		}
		if err := errors.Join(err, a.age(old)); err != nil {
			t.Fatal(err)
		}
	}
}

// startsOnFull runs a pod that gets no address, and then the daemon with all defaults.
func (n *node) startsOnFull(t *testing.T, full int, p pod) {
	t.Helper()
	p.spec, p.mounts, p.dirs = `volumes: [{name: data, emptyDir: {}}]`, `[{name: data, mountPath: /data}]`, `/data`
	p.files = []string{filepath.Join("volumes", emptyDir, "data")}
	mark := n.kubelet.size()
	n.run(t, p)
	eventually(t, 60*time.Second, func() string {
		log := strings.Join(n.kubelet.since(mark), "\n")
		return missing(strings.Contains(log, "no IP addresses available in range set"), "the kubelet has not failed: %s", n.kubelet.Tail(3))
	})
	d := n.daemon(t, "--cni-dir", cniDir)
	out, stderr, _ := d.try("doctor")
	if _, cni, _ := strings.Cut(out, "\nCNI\n"); !strings.HasPrefix(strings.TrimSpace(cni), "Network "+n.tag+" is full") {
		t.Errorf("doctor does not begin with the full network: %s%s", out, stderr)
	}
	began := time.Now()
	d.run(t, nil)
	freed := time.Duration(0)
	eventually(t, 2*time.Minute, func() string {
		if left := n.cniFiles(t, ""); freed == 0 && len(left) < full {
			freed = time.Since(began)
		}
		return n.beating(p)
	})
	t.Logf("%d addresses were used; they were free after %s, and the pod ran %s after the daemon's start", full, freed.Round(100*time.Millisecond), time.Since(began).Round(100*time.Millisecond))
	d.end(t)
	pods := len(n.tasks()) / 2                          // each has a sandbox and a container
	if left := n.cniFiles(t, ""); len(left) != 3*pods { // two addresses and the cache
		t.Errorf("%d files of %d pods remain: %v", len(left), pods, left)
	}
}
