package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/cri/fakecri"
)

const (
	stopSignal = unix.SIGSTOP
	contSignal = unix.SIGCONT
)

// waitingPod is a pod that gets no further than its directories, because one of its volumes is missing. It has a
// cgroup and neither sandbox, container nor mount: with an orphan's log line it looks dead to a program that trusts
// logs.
func (n *node) waitingPod(t *testing.T) pod {
	t.Helper()
	return pod{
		uid: n.uid("5a11fe00-0000-4000-8000-00000000003_"), name: "waiting",
		spec:   `volumes: [{name: data, emptyDir: {}}, {name: late, hostPath: {type: Directory, path: ` + n.late() + `}}]`,
		mounts: `[{name: data, mountPath: /data}, {name: late, mountPath: /late}]`, dirs: `/data, /late`,
		files: []string{"volumes/kubernetes.io~empty-dir/data"},
	}
}

func (n *node) late() string { return filepath.Join(n.dir, "late") }

// alive misleads every sensor: the runtime is another one, the cgroups are another tree, the kubelet's list does not
// respond and its log is forged, so a pod that cannot start is moved. When the kubelet creates its directory again, it is
// restored with all its files, the circuit breaker opens, and nothing more is removed until the operator decides.
func alive(t *testing.T, n *node) {
	p := n.stubbornPod()
	n.serve(p)
	t.Cleanup(func() { n.serve() })
	user := filepath.Join(n.pods, p.uid, "volumes", emptyDir, "data", "user")
	eventually(t, 60*time.Second, func() string {
		return missing(exists(filepath.Dir(user)), "the kubelet has not made the directory")
	})
	write(t, user, "a user's")
	age(filepath.Join(n.pods, p.uid)) // a volume that was made just now keeps its pod for three minutes
	within, endpoint := n.lies(t)
	d := n.daemon(t, "--hold", hold.String(), "--confirm", "5m")
	d.flags[slices.Index(d.flags, "--runtime-endpoints")+1] = endpoint
	d.run(t, within)
	d.await(t, 60*time.Second, "the false facts have an effect", func(s status) bool {
		n.forge(t, p.uid)
		return s.entry(p.uid).Entry != "" || s.Breaker != nil
	})
	eventually(t, 60*time.Second, func() string {
		return missing(exists(filepath.Join(n.pods, p.uid)), "the kubelet has not made the directory again")
	})
	d.look() // in place of the scan every 30 s
	s := d.await(t, 60*time.Second, "it is restored, and the breaker is open", func(s status) bool { return s.Breaker != nil })
	if b, err := os.ReadFile(user); s.entry(p.uid).Phase == "" && (err != nil || string(b) != "a user's") {
		t.Errorf("the user's file: %q, %v", b, err)
	}
	d.awaitMetric(t, "breaker_open 1")

	dead := n.uid("2badf00d-0000-4000-8000-00000000e24_")
	o := n.plant(t, skeleton, dead)
	throughout(t, 2*hold, func() string { return missing(exists(o.dir), "the open breaker did not keep it") })
	if e := d.scan(t); e.entry(p.uid).Phase == "conflict" {
		if out, stderr, code := d.try("quarantine", "restore", p.uid, "--replace"); code != 0 {
			t.Fatalf("restore: %d\n%s%s", code, out, stderr)
		}
		if b, err := os.ReadFile(user); err != nil || string(b) != "a user's" {
			t.Errorf("the user's file after the restore: %q, %v", b, err)
		}
	}
	o.remove(filepath.Join(o.dir, "volumes", csi, "pvc-e2e", "vol_data.json"))
	eventually(t, 20*time.Second, func() string { return missing(!exists(o.dir), "the kubelet has not removed %s", o.dir) })
	d.end(t)
	tasks := len(n.tasks())
	n.serve()
	eventually(t, 60*time.Second, func() string {
		return missing(len(n.tasks()) < tasks && !exists(filepath.Join(n.pods, p.uid)), "the kubelet has not taken the pod down")
	})
}

// stubbornPod has a sandbox and no container: its image does not exist. The kubelet retries every 10 to 15 s
// (backOffPeriod with jitter) and makes a missing pod directory again each time. (It waits 2 min 3 s and the back-off
// for a missing volume: podAttachAndMountTimeout in pkg/kubelet/volumemanager.)
func (n *node) stubbornPod() pod {
	return pod{
		uid: n.uid("5a11fe00-0000-4000-8000-0000000000c_"), name: "stubborn", image: "orphan-reaper.invalid/nowhere:1",
		spec: `volumes: [{name: data, emptyDir: {}}]`, mounts: `[{name: data, mountPath: /data}]`, dirs: `/data`,
	}
}

// lies makes a runtime that lists one unrelated pod that has a directory, and a cgroup tree without the pod of the
// scenario, which only the daemon sees: in a mount namespace that is a slave of the node's, as in a container.
func (n *node) lies(t *testing.T) (within []string, endpoint string) {
	t.Helper()
	dir := mkdir(t, filepath.Join(n.dir, "lies"))
	cgroups := filepath.Join(dir, "cgroup")
	for _, p := range append(n.livingPods(t), n.waitingPod(t)) {
		mkdir(t, filepath.Join(cgroups, "kubepods", "besteffort", "pod"+p.uid))
	}
	runtime, err := fakecri.Start(t.Context(), filepath.Join(dir, "sock"), fakecri.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(runtime.Close)
	runtime.SetPods(fakecri.Pod{UID: n.livingPods(t)[0].uid, Namespace: "lies", Name: "other", Running: 1})
	if n.minor(t) >= 37 {
		rename(t, n.podsSocket(), n.podsSocket()+".away")
		t.Cleanup(func() { rename(t, n.podsSocket()+".away", n.podsSocket()) })
	}
	return []string{"unshare", "--mount", "--propagation", "slave", "sh", "-c", `mount --bind "$0" /sys/fs/cgroup && exec "$@"`, cgroups}, runtime.Endpoint()
}
