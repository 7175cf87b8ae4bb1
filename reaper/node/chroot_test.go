//go:build !race

// A program with the race detector needs the C library, which a made root directory has not.

package node

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// chrooted starts a command in another root directory.
func chrooted(t *testing.T, root string, command ...string) int {
	t.Helper()
	cmd := exec.Command("chroot", append([]string{root}, command...)...)
	cmd.Env = append(os.Environ(), kubeletEnv+"=1")
	return started(t, cmd)
}

// TestKubeletInChroot: a kubelet's root directory is a path in its own root.
func TestKubeletInChroot(t *testing.T) {
	testkit.NeedProcesses(t)
	testkit.NeedRoot(t)
	n := newNode(t)
	n.mkdir("other" + n.cfg.RootDir)
	self, err := os.Executable()
	must(t, err)
	must(t, os.WriteFile(n.dir+"/other/kubelet", nil, 0o700))
	testkit.Mount(t, self, n.dir+"/other/kubelet", "", unix.MS_BIND, "")
	pid := chrooted(t, n.dir+"/other", "/kubelet", "--root-dir="+n.cfg.RootDir)
	s := n.scan()
	wantFact(t, s.Node.KubeletKnown, judge.No, false, "PID "+strconv.Itoa(pid)+" (kubelet) has another root directory")
	testkit.Mount(t, n.cfg.RootDir, n.dir+"/other"+n.cfg.RootDir, "", unix.MS_BIND, "")
	s = n.scan()
	if !strings.Contains(s.Node.KubeletKnown.Detail, strconv.Itoa(pid)) || s.Node.KubeletKnown.Truth != judge.Yes {
		t.Errorf("with our directory in its root: %+v", s.Node.KubeletKnown)
	}
}
