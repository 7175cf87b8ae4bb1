package openfiles

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/reading"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestInUse checks that working directory, program and open files of a process count as use, for a pod in place and
// in quarantine. A deleted file has no name that a removal could affect.
func TestInUse(t *testing.T) {
	if !testkit.InNamespace(t) {
		return
	}
	n := newNode(t)
	cwd, fd, deleted, none, exe := newUID(), newUID(), newUID(), newUID(), newUID()
	for _, uid := range []parsers.PodUID{cwd, none} {
		n.Mkdir(n.PodDir(uid) + "/volumes/kubernetes.io~empty-dir/tmp")
	}
	n.Write(n.PodDir(fd)+"/containers/c/0", "x")
	n.Write(n.PodDir(deleted)+"/containers/c/0", "x")
	child(t, nil, n.Path(n.PodDir(cwd)+"/volumes/kubernetes.io~empty-dir"), "")
	child(t, nil, "", "exec 7<'"+n.Path(n.PodDir(fd))+"/containers/c/0'")
	child(t, nil, "", "exec 7<'"+n.Path(n.PodDir(deleted))+"/containers/c/0'")
	must(t, os.Remove(n.Path(n.PodDir(deleted)+"/containers/c/0")))
	sleep, err := exec.LookPath("sleep")
	must(t, err)
	binary, err := os.ReadFile(sleep)
	must(t, err)
	n.Mkdir(n.PodDir(exe))
	must(t, os.WriteFile(n.Path(n.PodDir(exe)+"/sleep"), binary, 0o755))
	cmd := exec.CommandContext(t.Context(), n.Path(n.PodDir(exe)+"/sleep"), "100")
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	parked := newUID()
	n.Mkdir("kubelet/orphan-reaper/" + string(parked) + ".1/volumes")
	child(t, nil, n.Path("kubelet/orphan-reaper/"+string(parked)+".1/volumes"), "")

	a := n.read()
	for uid, words := range map[parsers.PodUID]string{cwd: "as cwd", fd: "as fd 7", exe: "as exe"} {
		n.want(a, uid, policy.Yes, words)
	}
	n.unused(a, none)
	n.unused(a, deleted)
	if f := a.Fact(parked, nil); f.Truth != policy.Yes {
		t.Errorf("entry in quarantine: %+v", f)
	}
}

// TestUse checks that what is held of the parked directory does not count as use of the new one.
func TestUse(t *testing.T) {
	n, again, elder := newNode(t), newUID(), newUID()
	for _, uid := range []parsers.PodUID{again, elder} {
		n.Mkdir(n.PodDir(uid)+"/d", "kubelet/orphan-reaper/"+string(uid)+".1/d")
	}
	child(t, nil, n.Path(n.PodDir(again)+"/d"), "")
	child(t, nil, n.Path("kubelet/orphan-reaper/"+string(elder)+".1/d"), "")
	a := n.read()
	if u := a.Use(again); !strings.Contains(u.User, "as cwd") || u.Doubt != "" || u.Err != nil {
		t.Errorf("new directory: %+v", u)
	}
	if u := a.Use(elder); u != (reading.NewUse{}) {
		t.Errorf("parked directory: %+v", u)
	}
}

// TestInUseOwnHandles checks that this process's own handles below a pod do not count.
func TestInUseOwnHandles(t *testing.T) {
	n, uid := newNode(t), newUID()
	n.Mkdir(n.PodDir(uid))
	openTest(t, n.Path(n.PodDir(uid)))
	n.unused(n.read(), uid)
}

// TestInUseAlone checks that nothing is in use if this process is PID 1 and alone, and that nothing is known if it
// merely cannot see others (hidepid=).
func TestInUseAlone(t *testing.T) {
	for self, want := range map[string]policy.Truth{"1": policy.No, "7": policy.Unknown} {
		n, uid := newNode(t), newUID()
		n.Mkdir("proc/" + self)
		must(t, os.Symlink(self, n.Path("proc/self")))
		n.ProcDir = n.Path("proc")
		if f := n.Read(t.Context(), n.handle("kubelet/pods"), nil, parsers.PodSet{uid: true}).Fact(uid, nil); f.Truth != want {
			t.Errorf("alone as PID %s: %s (%s), want %s", self, f.Truth, f.Detail, want)
		}
	}
}
