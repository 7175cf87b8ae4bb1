package openfiles

import (
	"context"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestNamedElsewhere checks that a path with a pod's UID that leads elsewhere keeps nothing, such as the journal
// directory of a machine whose ID is a static pod's UID.
func TestNamedElsewhere(t *testing.T) {
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			n, uid, machine := mode(t), newUID(), newStaticUID()
			n.Mkdir(n.PodDir(machine), "x/"+string(uid)+".1")
			n.Write(n.PodDir(uid)+"/f", "the same name as the other")
			n.Write("x/"+string(uid)+"/f", "x")
			n.Write("x/"+string(uid)+"/deleted", "x")
			n.Write("x/"+string(uid)+"/gone/f", "x")
			n.Write("log/journal/"+string(machine)+"/system.journal", "x")
			child(t, nil, n.Path("x/"+string(uid)), "")
			child(t, nil, n.Path("x/"+string(uid)+".1"), "")
			for _, file := range []string{
				"x/" + string(uid) + "/f", "x/" + string(uid) + "/deleted", "x/" + string(uid) + "/gone/f",
				"log/journal/" + string(machine) + "/system.journal",
			} {
				child(t, nil, "", "exec 7<'"+n.Path(file)+"'")
			}
			must(t, os.Remove(n.Path("x/"+string(uid)+"/deleted")))
			must(t, os.RemoveAll(n.Path("x/"+string(uid)+"/gone")))
			a := n.read()
			n.unused(a, uid)
			n.unused(a, machine)
			// By the names alone both pods would be kept.
			for _, uid := range []parsers.PodUID{uid, machine} {
				if len(spots(parsers.PodSet{uid: true}, n.Path("x/"+string(uid)+"/f"))) != 1 {
					t.Errorf("the paths do not contain %s", uid)
				}
			}
		})
	}
}

// TestHeldByAnotherName checks that files held through another name of the pods directory count, in this mount
// namespace or another.
func TestHeldByAnotherName(t *testing.T) {
	if !testkit.InNamespace(t) {
		return
	}
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			n, here, deleted, there, gone, none := mode(t), newUID(), newUID(), newUID(), newUID(), newUID()
			n.Mkdir("alias", "foreign", n.PodDir(none))
			for _, uid := range []parsers.PodUID{here, deleted, there, gone} {
				n.Write(n.PodDir(uid)+"/volumes/kubernetes.io~empty-dir/d/f", "x")
			}
			n.bind("kubelet/pods", "alias")
			file := func(dir string, uid parsers.PodUID) string {
				return n.Path(dir + "/" + string(uid) + "/volumes/kubernetes.io~empty-dir/d/f")
			}
			own := &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
			bind := "mount --bind '" + n.Path("kubelet/pods") + "' '" + n.Path("foreign") + "'; "
			child(t, nil, "", "exec 7<'"+file("alias", here)+"'")
			child(t, nil, "", "exec 7<'"+file("alias", deleted)+"'")
			child(t, own, "", bind+"exec 7<'"+file("foreign", there)+"'")
			child(t, own, "", bind+"exec 7<'"+file("foreign", gone)+"'")
			for _, uid := range []parsers.PodUID{deleted, gone} {
				must(t, os.RemoveAll(n.Path(n.PodDir(uid)+"/volumes")))
			}
			a := n.read()
			for _, uid := range []parsers.PodUID{here, there} {
				n.want(a, uid, policy.Yes, "as fd 7")
			}
			for _, uid := range []parsers.PodUID{deleted, gone, none} {
				n.unused(a, uid)
			}
		})
	}
}

// TestHintInDoubt checks that a pod is unknown if a link with its UID cannot be followed.
func TestHintInDoubt(t *testing.T) {
	if !testkit.InNamespace(t) {
		return
	}
	// inJail runs a process with another root and namespace that holds a file.
	inJail := func(t *testing.T, n *node, how, file string) {
		t.Helper()
		n.Mkdir("jail")
		cmd := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0], "-test.run=^TestHolder$")
		cmd.Env = append(os.Environ(), holderEnv+"="+how+"|"+n.Path("jail"))
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
		cmd.ExtraFiles = []*os.File{openTest(t, n.Path(file))}
		testkit.UntilReady(t, cmd)
	}
	t.Run("mapped, from another root in another namespace", func(t *testing.T) {
		n, uid := newNode(t), newUID()
		n.Mkdir(n.PodDir(uid))
		n.Write("x/"+string(uid)+"/f", "x")
		inJail(t, n, mapsFromOutside, "x/"+string(uid)+"/f")
		n.unused(n.read(), uid)
		n.Write(n.PodDir(uid)+"/f", "x") // another inode: another user's path keeps nothing
		n.unused(n.read(), uid)
	})
	t.Run("it does not answer", func(t *testing.T) {
		n, uid := newNode(t), newUID()
		n.Write(n.PodDir(uid)+"/f", "x")
		at := spot{uid: uid, prefix: n.Path("kubelet/pods/"), entry: string(uid), rest: "f"}
		s := places{Reader: n.Reader, pods: n.handle("kubelet/pods"), ctx: t.Context()}
		self := link{process: "self", name: "self/fd/0"}
		if truth := s.leads(at, self); truth != policy.No {
			t.Errorf("another file: %s, want no", truth)
		}
		stick(t, n.Guard, "file self/fd/0") // like a thread that never returns
		if truth := s.leads(at, self); truth != policy.Unknown {
			t.Errorf("unresponsive file: %s, want unknown", truth)
		}
		if truth := s.leads(at, link{process: "self", name: "self/fd/1"}); truth != policy.Unknown {
			t.Errorf("another file after that: %s, want unknown", truth)
		}
	})
}
