package probe

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// TestOverlayText: an overlay keeps the pod that its mount point or its options name, and no answer
// about one pod is remembered for another one.
func TestOverlayText(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	for name, overlay := range map[string]func(n *testNode, vol string) (at, opts string){
		"options": func(n *testNode, vol string) (string, string) {
			return n.Path("over"), "lowerdir=" + n.Path(vol+"/l1") + ",upperdir=" + n.Path(vol+"/up") + ",workdir=" + n.Path(vol+"/work")
		},
		"lower layer only": func(n *testNode, vol string) (string, string) {
			return n.Path("over"), "lowerdir=" + n.Path(vol+"/l1") + ":" + n.Path("l2")
		},
		"relative layers, mounted in the pod": func(n *testNode, vol string) (string, string) {
			return n.Path(vol + "/over"), "lowerdir=l1,upperdir=up,workdir=work"
		},
	} {
		t.Run(name, func(t *testing.T) {
			n, first, second := newNode(t), newUID(), newUID()
			vol := n.PodDir(second) + "/volumes/kubernetes.io~empty-dir/d"
			n.Mkdir(vol+"/l1", vol+"/up", vol+"/work", vol+"/over", n.PodDir(first)+"/volumes", "over", "l2")
			at, opts := overlay(n, vol)
			t.Chdir(n.Path(vol))
			must(t, unix.Mount("o", at, "overlay", 0, opts))
			t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
			t.Chdir(n.Base)
			p := n.probe()
			for range 2 {
				for uid, want := range map[parsers.PodUID]policy.Truth{first: policy.No, second: policy.Yes} {
					if f := p.Mounts(t.Context(), []parsers.PodUID{uid})[uid]; f.Truth != want {
						t.Errorf("asked about %s alone: %v, want %v", uid, f, want)
					}
				}
			}
		})
	}
}
