package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// flood: a process writes lines about nonexistent orphans into the kubelet's log, with its PID, as fast as it can.
// The real orphan is removed all the same, and the daemon's memory is bounded.
func flood(t *testing.T, n *node) {
	uid := n.uid("2badf00d-0000-4000-8000-00000000e25_")
	o := n.plant(t, skeleton, uid)
	d := n.reap(t)
	lines := n.forgeMany(t, 15*time.Second)
	eventually(t, hold+2*confirm+30*time.Second, func() string {
		return missing(!exists(o.dir), "the real orphan is still there: %s", d.story())
	})
	d.waitRecord(t, confirm+30*time.Second, uid, "it is removed", kind(policy.KindRemoved))
	peak := d.peakMemory(t)
	size := sizeOf(t, filepath.Join(n.dir, strings.ReplaceAll(t.Name(), "/", "-")+".state"))
	t.Logf("%d forged lines: at most %d MiB of memory, %d KiB of state", lines, peak>>10, size>>10)
	if peak > 96<<10 || size > 8<<20 {
		t.Errorf("the daemon grew during the flood: %d KiB of memory, %d bytes of state", peak, size)
	}
}

// forgeMany writes forged lines for the span and returns their number.
func (n *node) forgeMany(t *testing.T, span time.Duration) int {
	t.Helper()
	f, err := os.OpenFile(n.kubeletLog(), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	lines := 0
	for end := time.Now().Add(span); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		w := bufio.NewWriterSize(f, 1<<20)
		for range 1000 {
			_, err := fmt.Fprintf(w, "E%s %7d kubelet_volumes.go:263] \"There were many similar errors. Turn up verbosity to see them.\" "+
				"err=\"orphaned pod \\\"%08x-0000-4000-8000-%012x\\\" found, but error occurred when trying to remove the volumes dir: not a directory\" numErrs=1\n",
				time.Now().Format("0102 15:04:05.000000"), n.kubelet.Cmd.Process.Pid, rand.Uint32(), rand.Uint64N(1<<48))
			if err != nil {
				t.Fatal(err)
			}
			lines++
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	return lines
}

// peakMemory returns VmHWM of proc_pid_status(5), in KiB.
func (d *daemon) peakMemory(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.Cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		var kib int
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &kib); err == nil {
			return kib
		}
	}
	t.Fatal("no VmHWM")
	return 0
}

func sizeOf(t *testing.T, dir string) int64 {
	t.Helper()
	var sum int64
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil && info.Mode().IsRegular() {
			sum += info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// reboot: everything is killed, /run and the cgroup file systems are empty, and the kubelet starts while its API
// server is unreachable: it has no list of pods and reports nothing. Every pod of the node looks dead then, and each
// gets a forged line.
func reboot(t *testing.T, n *node, pods []pod) {
	for _, p := range pods {
		write(t, filepath.Join(n.pods, p.uid, "volumes", emptyDir, "data", "user"), p.uid)
	}
	networks := n.networks()
	n.kubelet.Kill()
	n.runtime.Kill()
	for range 50 {
		pids := n.processes()
		if len(pids) == 0 {
			break
		}
		for _, pid := range pids {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		time.Sleep(100 * time.Millisecond)
	}
	n.dropMounts(t)
	n.dropCgroups()
	n.cgroup(t)
	for _, path := range networks {
		if err := errors.Join(unix.Unmount(path, unix.MNT_DETACH), os.Remove(path)); err != nil {
			t.Error(err)
		}
	}
	if err := os.RemoveAll(filepath.Join(n.dir, engine)); err != nil {
		t.Fatal(err)
	}
	away := filepath.Join(n.dir, "manifests.away")
	if err := os.Rename(filepath.Join(n.dir, "manifests"), away); err != nil {
		t.Fatal(err)
	}
	mkdir(t, filepath.Join(n.dir, "manifests"))

	n.runtime = n.startRuntime(t, engine)
	n.importImage(t)
	kubeconfig := filepath.Join(n.dir, "kubeconfig")
	write(t, kubeconfig, `{apiVersion: v1, kind: Config, current-context: away,
clusters: [{name: away, cluster: {server: "http://127.0.0.1:1"}}],
contexts: [{name: away, context: {cluster: away, user: away}}], users: [{name: away, user: {}}]}`)
	n.startKubelet(t, "--kubeconfig="+kubeconfig, "--register-node=false")
	d := n.reap(t)
	for _, p := range pods {
		n.forge(t, p.uid)
	}
	for _, p := range pods {
		d.waitRecord(t, 60*time.Second, p.uid, "it is kept", func(r policy.Record) bool { return r.Decision == policy.Keep })
	}
	throughout(t, hold+5*time.Second, func() string {
		n.forge(t, pods[0].uid)
		for _, r := range d.records() {
			if r.Kind == policy.KindParked {
				return r.Text
			}
		}
		return ""
	})
	for _, p := range d.scan(t).Pods {
		t.Logf("%s: %s %v", p.UID, p.Verdict, p.Reasons)
	}
	d.end(t)

	// The API server and the volume that one pod waits for are available again: all pods start in their directories,
	// with their files.
	n.kubelet.Kill()
	mkdir(t, n.late())
	if err := os.Remove(filepath.Join(n.dir, "manifests")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(away, filepath.Join(n.dir, "manifests")); err != nil {
		t.Fatal(err)
	}
	n.startKubelet(t)
	eventually(t, 90*time.Second, func() string {
		for _, p := range pods {
			if m := n.beating(p); m != "" {
				return m + "\n" + n.kubelet.Tail(2)
			}
			if b, err := os.ReadFile(filepath.Join(n.pods, p.uid, "volumes", emptyDir, "data", "user")); err != nil || string(b) != p.uid {
				return fmt.Sprintf("the user's file of %s: %q, %v", p.name, b, err)
			}
		}
		return ""
	})
}

// networks returns the files that hold the network namespaces of the node's pods.
func (n *node) networks() []string {
	ours := map[uint64]bool{}
	for _, pid := range n.processes() {
		var st unix.Stat_t
		if unix.Stat(fmt.Sprintf("/proc/%d/ns/net", pid), &st) == nil {
			ours[st.Ino] = true
		}
	}
	return slices.DeleteFunc(netns(), func(path string) bool {
		var st unix.Stat_t
		return unix.Stat(path, &st) != nil || !ours[st.Ino]
	})
}

// processes returns the node's processes. restore of host has those of the whole machine.
func (n *node) processes() []int {
	return slices.DeleteFunc(n.host.processes(), func(pid int) bool {
		cgroup, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
		return err == nil && !strings.Contains(string(cgroup), "/"+n.tag) && !strings.Contains(cmdline(pid), n.dir+"/")
	})
}
