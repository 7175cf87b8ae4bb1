package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

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
	throughout(t, hold+5*time.Second, func() string {
		for _, p := range pods {
			n.forge(t, p.uid)
		}
		s := d.scan(t)
		for _, p := range pods {
			if v := s.pod(p.uid).Verdict; v != "keep" && v != "wait" {
				return fmt.Sprintf("%s: %s %v", p.uid, v, s.pod(p.uid).Reasons)
			}
		}
		return missing(len(s.Quarantine) == 0, "moved: %+v", s.Quarantine)
	})
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
