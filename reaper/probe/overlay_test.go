package probe

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// TestOverlayLayers: the options of an overlay whose layers lie in a pod do not always name it.
func TestOverlayLayers(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	for name, mount := range map[string]func(t *testing.T, n *testNode, vol string) string{
		"relative layers": func(t *testing.T, n *testNode, vol string) string {
			t.Helper()
			t.Chdir(n.Path(vol))
			return "lowerdir=l1:l2,upperdir=up,workdir=work"
		},
		"relative lower layers only": func(t *testing.T, n *testNode, vol string) string {
			t.Helper()
			t.Chdir(n.Path(vol))
			return "lowerdir=l1:l2"
		},
		"by a descriptor": func(t *testing.T, n *testNode, vol string) string {
			t.Helper()
			f := openTest(t, n.Path(vol))
			fd := fmt.Sprintf("/proc/self/fd/%d", f.Fd())
			return "lowerdir=" + fd + "/l1,upperdir=" + fd + "/up,workdir=" + fd + "/work"
		},
		"a path that has gone": func(t *testing.T, n *testNode, vol string) string {
			t.Helper()
			n.mount(vol, "data")
			return "lowerdir=" + n.Path("data/l1") + ",upperdir=" + n.Path("data/up") + ",workdir=" + n.Path("data/work")
		},
	} {
		t.Run(name, func(t *testing.T) {
			n, uid, other := newNode(t), newUID(), newUID()
			vol := n.PodDir(uid) + "/volumes/kubernetes.io~empty-dir/d"
			n.Mkdir(vol+"/l1", vol+"/l2", vol+"/up", vol+"/work", n.PodDir(other)+"/volumes/up", "over", "data")
			opts := mount(t, n, vol)
			must(t, unix.Mount("o", n.Path("over"), "overlay", 0, opts))
			_ = unix.Unmount(n.Path("data"), unix.MNT_DETACH)
			t.Cleanup(func() { _ = unix.Unmount(n.Path("over"), unix.MNT_DETACH) })
			t.Chdir(n.Base)
			p := n.probe()
			look := func(uid string) policy.Evidence {
				l, err := p.Look(t.Context(), nil, nil)
				must(t, err)
				for _, e := range l.Pods {
					if string(e.UID) == uid {
						return e
					}
				}
				t.Fatal("no such pod")
				return policy.Evidence{}
			}
			for range 2 {
				e := look(string(uid))
				check(t, e, facts{policy.FactMounted: policy.Yes})
				wantDetail(t, e.Facts[policy.FactMounted], "mounted at "+n.Path("over")+" (overlay)")
				check(t, look(string(other)), facts{policy.FactMounted: policy.No})
			}
			// The guard off: no line of mountinfo names the pod.
			if inMountinfo(t, os.Getpid(), string(uid)) {
				t.Error("its mountinfo names the pod: the test shows nothing")
			}
		})
	}
	t.Run("elsewhere", func(t *testing.T) {
		n, uid := newNode(t), newUID()
		n.Mkdir(n.PodDir(uid)+"/volumes", "l1", "up", "work", "over")
		must(t, unix.Mount("o", n.Path("over"), "overlay", 0, "lowerdir="+n.Path("l1")+",upperdir="+n.Path("up")+",workdir="+n.Path("work")))
		t.Cleanup(func() { _ = unix.Unmount(n.Path("over"), unix.MNT_DETACH) })
		check(t, n.one(uid), dead())
	})
}
