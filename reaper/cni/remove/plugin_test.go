package remove

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// hostLocalBinary is where Debian's containernetworking-plugins has the plugin.
const hostLocalBinary = "/usr/lib/cni/host-local"

// plugin runs the real host-local.
func plugin(ctx context.Context, dataDir, command, id string) (string, error) {
	conf := fmt.Sprintf(`{"cniVersion":"0.4.0","name":"podnet","type":"test","ipam":{"type":"host-local","dataDir":%q,
		"ranges":[[{"subnet":"10.0.0.0/26"}],[{"subnet":"fd00::/122"}]]}}`, dataDir)
	cmd := exec.CommandContext(ctx, hostLocalBinary)
	cmd.Env = []string{"CNI_COMMAND=" + command, "CNI_CONTAINERID=" + id, "CNI_NETNS=/proc/self/ns/net", "CNI_IFNAME=eth0", "CNI_PATH=/usr/lib/cni"}
	cmd.Stdin = strings.NewReader(conf)
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w %s %s", command, id, err, &out, &stderr)
	}
	var result struct {
		IPs []struct{ Address string }
	}
	if command == "ADD" {
		if err := json.Unmarshal(out.Bytes(), &result); err != nil || len(result.IPs) != 2 {
			return "", fmt.Errorf("%w %s", err, &out)
		}
		addr, _, _ := strings.Cut(result.IPs[0].Address, "/")
		return addr, nil
	}
	return "", nil
}

// dead returns the dead containers' files in the network.
func (x *cniTree) dead() []cni.File {
	x.T.Helper()
	entries, err := os.ReadDir(x.network)
	x.Must(err)
	var files []cni.File
	for _, e := range entries {
		c, err := readCNI(cni.Address, x.network, e.Name())
		if id, _, ok := bytes.Cut(c.Data, []byte("\r\n")); err == nil && ok && bytes.HasPrefix(id, []byte("dead")) {
			c.Container, c.IfName = string(id), "eth0"
			files = append(files, c)
		}
	}
	return files
}

// TestCNIPlugin runs the real plugin at the same time, dual-stack. No living container's address is lost, and the
// dead ones' addresses are assigned again: there are fewer addresses than containers.
func TestCNIPlugin(t *testing.T) {
	if _, err := os.Stat(hostLocalBinary); err != nil {
		t.Skipf("containernetworking-plugins is not installed: %v", err)
	}
	testkit.OnTmpfs(t)
	x := newCNI(t, false)
	x.r.lockWait = lockWait
	rounds := 20
	if testkit.Long() {
		rounds = 100
	}
	var wg sync.WaitGroup
	errs := make([]error, 2)
	for w := range errs {
		wg.Go(func() {
			for i := range rounds {
				errs[w] = errors.Join(errs[w], pluginRound(t.Context(), x.cni+"/networks", x.network, fmt.Sprintf("%d-%d", w, i)))
			}
		})
	}
	finished := make(chan bool)
	go func() { wg.Wait(); close(finished) }()
	results := map[policy.Result]int{}
	for running := true; running; {
		select {
		case <-finished:
			running = false
		default:
		}
		for _, o := range x.r.remove(context.Background(), x.dead()) {
			results[o.Result]++
		}
	}
	x.Must(errors.Join(errs...))
	t.Logf("%v beside %d ADD and DEL", results, 4*rounds)
	if want := 2 * 2 * rounds; results[policy.Done] != want {
		t.Errorf("%d addresses removed, want %d", results[policy.Done], want)
	}
	for _, name := range []string{"lock", "last_reserved_ip.0", "last_reserved_ip.1"} {
		testkit.There(t, x.network+"/"+name, true)
	}
	// The plugin locks the same file.
	fd, err := unix.Open(x.network+"/lock", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	x.Must(err)
	defer beneath.Close(fd)
	x.Must(flockWait(fd))
	ctx, cancel := context.WithCancel(t.Context())
	waits := make(chan error, 1)
	go func() {
		_, err := plugin(ctx, x.cni+"/networks", "ADD", "live-last")
		waits <- err
	}()
	for !waitsForLock(t, fd) {
		select {
		case err := <-waits:
			t.Fatal("the plugin did not wait for the lock: ", err)
		default:
		}
	}
	cancel()
	if err := <-waits; err == nil {
		t.Error("the plugin got a lock that this process holds")
	}
}

// waitsForLock reports whether the kernel lists a process that waits for the lock.
func waitsForLock(t *testing.T, fd int) bool {
	t.Helper()
	id, err := beneath.IDOf(fd)
	if err != nil {
		t.Fatal(err)
	}
	table, err := os.ReadFile("/proc/locks")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(table)) {
		if strings.Contains(line, "->") && strings.Contains(line, fmt.Sprintf(":%d ", id.Ino)) {
			return true
		}
	}
	return false
}

// pluginRound adds a container that dies and one that lives, and deletes the latter.
func pluginRound(ctx context.Context, dataDir, network, id string) error {
	if _, err := plugin(ctx, dataDir, "ADD", "dead-"+id); err != nil {
		return err
	}
	addr, err := plugin(ctx, dataDir, "ADD", "live-"+id)
	if err != nil {
		return err
	}
	b, err := os.ReadFile(network + "/" + addr)
	if err != nil || string(b) != "live-"+id+"\r\neth0" {
		return fmt.Errorf("lost %s of live-%s: %q %w", addr, id, b, err)
	}
	_, err = plugin(ctx, dataDir, "DEL", "live-"+id)
	return err
}
