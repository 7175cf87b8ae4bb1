package probe

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/cri/fakecri"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestSweepCNI has the rooms put together: each fact of a file whose container is gone comes from
// the room that knows it, and the file is read once more.
func TestSweepCNI(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*testNode, *fakecri.Server)
		fact   cni.FactName
		want   policy.Truth
		words  string
	}{
		{"the runtime does not list it", func(*testNode, *fakecri.Server) {}, cni.Listed, policy.No, ""},
		{"the runtime is not asked", func(n *testNode, _ *fakecri.Server) { n.cfg.Waive = true }, cni.Listed, policy.Unknown, "not asked"},
		{"the runtime cannot be found", func(_ *testNode, s *fakecri.Server) { s.Close() }, cni.Listed, policy.Unknown, "cannot find the runtime"},
		{"no cgroup has its ID", func(*testNode, *fakecri.Server) {}, cni.Alive, policy.No, ""},
		{"a cgroup has its ID", func(n *testNode, _ *fakecri.Server) {
			n.Mkdir("cgroup/kubepods.slice/crio-" + id("gone") + ".scope")
		}, cni.Alive, policy.Yes, "the cgroup "},
		{"the cgroups cannot be read", func(n *testNode, _ *fakecri.Server) {
			n.cfg.CgroupRoot = n.Path("none")
		}, cni.Alive, policy.Unknown, "cannot read the cgroups"},
		{"the runtime says where its network configuration is", func(n *testNode, s *fakecri.Server) {
			n.Write("told/1.conf", `{"name":"cbr0","type":"bridge"}`)
			s.SetStatusInfo(map[string]string{"cniconfig": `{"PluginConfDir":"` + n.Path("told") + `"}`})
		}, cni.Foreign, policy.No, ""},
		{"the runtime says so, and a person named another", func(n *testNode, s *fakecri.Server) {
			n.Write("told/1.conf", `{"name":"cbr0","type":"bridge"}`)
			s.SetStatusInfo(map[string]string{"cniconfig": `{"PluginConfDir":"` + n.Path("told") + `"}`})
			n.cfg.CNIConfDirSet = true
		}, cni.Foreign, policy.Yes, "no configuration in "},
	} {
		t.Run(c.name, func(t *testing.T) {
			n, runtime := runtimeNode(t)
			runtime.SetSandboxes(fakecri.Pod{UID: string(newUID()), Namespace: "shop", Name: "db-0"}.Sandbox())
			n.cfg.ProcDir = testkit.ProcTree(t)
			n.cfg.CNICacheDirs, n.cfg.CNIDataDirs, n.cfg.CNIConfDir = []string{n.Path("cni")}, []string{n.Path("cni/networks")}, n.Path("net.d")
			n.Mkdir("net.d")
			n.Write("cni/networks/cbr0/10.244.0.9", id("gone")+"\r\neth0")
			c.change(n, runtime)
			p := n.probe()
			s := p.SweepCNI(true)
			defer s.Close()
			look, ok := s.Next(t.Context())
			if !ok || len(look.Files) != 1 || look.Node.MayEnforce.Truth != policy.Yes {
				t.Fatalf("%+v", look)
			}
			f := look.Files[0].Facts[c.fact]
			if f.Truth != c.want {
				t.Errorf("%s is %s, want %s", c.fact, f.Truth, c.want)
			}
			wantDetail(t, f, c.words)
			if told := strings.Contains(strings.Join(look.Errors, "\n"), c.words); c.words != "" && told != (c.want == policy.Unknown && !n.cfg.Waive) {
				t.Errorf("the errors are %q", look.Errors)
			}
			if got := look.Files[0]; got.Err != "" || !strings.HasPrefix(string(got.Data), id("gone")) {
				t.Errorf("%+v", got)
			}
			if _, ok := s.Next(t.Context()); ok {
				t.Error("there is another chunk")
			}
		})
	}
}

// id makes a container ID of a name for it.
func id(name string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(name))) }
