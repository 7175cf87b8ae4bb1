package probe

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/cri/fakecri"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/runtime"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestContainers checks that a look combines the readers: each fact comes from its reader, and an unknown one has a
// reason.
func TestContainers(t *testing.T) {
	id := fmt.Sprintf("%x", sha256.Sum256([]byte("gone")))
	for _, c := range []struct {
		name   string
		change func(*testNode, *fakecri.Server)
		good   func(Containers) bool
		words  string
	}{
		{"the runtime answers", func(*testNode, *fakecri.Server) {}, func(a Containers) bool {
			return a.Unasked == nil && len(a.Lists) == 1 && len(a.Lists[0].Sandboxes) == 1
		}, ""},
		{"the runtime is not asked", func(n *testNode, _ *fakecri.Server) { n.cfg.Waive = true }, func(a Containers) bool {
			return errors.Is(a.Unasked, runtime.ErrNotAsked) && len(a.Errors) == 0
		}, ""},
		{
			"the runtime cannot be found", func(_ *testNode, s *fakecri.Server) { s.Close() },
			func(a Containers) bool { return a.Unasked != nil }, "cannot find the runtime",
		},
		{"a cgroup has an ID", func(n *testNode, _ *fakecri.Server) { n.Mkdir("cgroup/kubepods.slice/crio-" + id + ".scope") }, func(a Containers) bool {
			return a.Cgroups.Err == nil && a.Cgroups.Kube && a.Cgroups.Found[id] != ""
		}, ""},
		{"the cgroups cannot be read", func(n *testNode, _ *fakecri.Server) { n.cfg.CgroupRoot = n.Path("none") }, func(a Containers) bool {
			return a.Cgroups.Err != nil
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			n, server := runtimeNode(t)
			server.SetSandboxes(fakecri.Pod{UID: string(newUID()), Namespace: "shop", Name: "db-0"}.Sandbox())
			n.cfg.ProcDir = testkit.ProcTree(t)
			c.change(n, server)
			fd, err := unix.Open(n.Path("."), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
			must(t, err)
			dir := bounded.NewHandle(fd)
			defer dir.Unref()
			a := n.probe().Containers(t.Context(), dir)
			if !c.good(a) || a.Node.MayEnforce.Truth != policy.Yes {
				t.Errorf("%+v", a)
			}
			if got := fmt.Sprint(a.Errors); !strings.Contains(got, c.words) {
				t.Errorf("the errors are %s, want %q", got, c.words)
			}
			if a := n.probe().Containers(t.Context(), nil); a.Node.MayEnforce.Truth != policy.Unknown {
				t.Errorf("without a directory the namespaces are %+v", a.Node.MayEnforce)
			}
		})
	}
}
