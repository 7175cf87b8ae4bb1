package poddir

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// TestMadeAgain checks that the first files that a kubelet makes are not yet use, and that anything more is.
func TestMadeAgain(t *testing.T) {
	for name, c := range map[string]struct {
		make   func(n *testTree, pod string)
		want   policy.Truth
		detail string
	}{
		"nothing is there":      {func(*testTree, string) {}, policy.No, "gone again"},
		"empty":                 {func(n *testTree, pod string) { n.Mkdir(pod) }, policy.No, ""},
		"what is made first":    {func(n *testTree, pod string) { n.Mkdir(pod+"/volumes", pod+"/plugins") }, policy.No, ""},
		"a volume's plugin":     {func(n *testTree, pod string) { n.Mkdir(pod + "/volumes/kubernetes.io~secret") }, policy.Yes, "volumes/kubernetes.io~secret"},
		"a third entry":         {func(n *testTree, pod string) { n.Mkdir(pod+"/volumes", pod+"/plugins", pod+"/containers") }, policy.Yes, "containers"},
		"volumes is a file":     {func(n *testTree, pod string) { n.Write(pod+"/volumes", "") }, policy.Yes, "it holds volumes (not a directory"},
		"volumes is a symlink":  {func(n *testTree, pod string) { n.Symlink("/", pod+"/volumes") }, policy.Yes, "it holds volumes (not a directory"},
		"the pod is a file":     {func(n *testTree, pod string) { n.Write(pod, "") }, policy.Yes, "not a directory"},
		"the pod is a symlink":  {func(n *testTree, pod string) { n.Symlink("/", pod) }, policy.Yes, "not a directory"},
		"many, none made first": {func(n *testTree, pod string) { n.Mkdir(pod+"/a", pod+"/b", pod+"/c", pod+"/d") }, policy.Yes, "it holds "},
		"the pod is a FIFO":     {func(n *testTree, pod string) { must(n.T, unix.Mkfifo(n.Path(pod), 0o600)) }, policy.Yes, "not a directory"},
	} {
		for way, mode := range modes {
			t.Run(name+" "+way, func(t *testing.T) {
				n, uid := mode(t), newUID()
				c.make(n, n.PodDir(uid))
				wantFact(t, n.MadeAgain(t.Context(), n.open(), uid), c.want, c.detail)
			})
		}
	}
	t.Run("it hangs", func(t *testing.T) {
		n, uid := newTree(t), newUID()
		n.Mkdir(n.PodDir(uid))
		d := n.open()
		stick(t, n.Guard, n.Path(n.PodDir(uid)))
		wantFact(t, n.MadeAgain(t.Context(), d, uid), policy.Unknown, "")
	})
	t.Run("it cannot be read", func(t *testing.T) {
		n, uid := newTree(t), newUID()
		n.Mkdir(n.PodDir(uid) + "/volumes")
		d := n.open()
		must(t, os.Chmod(n.Path(n.PodDir(uid)), 0))
		t.Cleanup(func() { must(t, os.Chmod(n.Path(n.PodDir(uid)), 0o755)) })
		if os.Getuid() == 0 {
			wantFact(t, n.MadeAgain(t.Context(), d, uid), policy.No, "") // root reads it anyway
			return
		}
		wantFact(t, n.MadeAgain(t.Context(), d, uid), policy.Unknown, "permission denied")
	})
}
