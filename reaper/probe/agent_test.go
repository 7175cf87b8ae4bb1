package probe

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestAgent: a mount that only a process of another pod has is told with that pod's name, since
// its restart is all that helps. What the node itself has mounted, or the pod's own container, is
// told as it was.
func TestAgent(t *testing.T) {
	uid, agent, unnamed := newUID(), newUID(), newUID()
	mount := testkit.MountLine(61, "/", "/host/var/lib/kubelet/pods/"+string(uid)+"/volumes/v")
	slice := func(pod string) string {
		return "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + strings.ReplaceAll(pod, "-", "_") + ".slice/cri-containerd-0123.scope\n"
	}
	for name, c := range map[string]struct{ one, other, cgroup, want string }{
		"an agent's":              {"", mount, slice(string(agent)), "; the process is of pod monitoring/agent-x7k2p: restart that pod to end the mount"},
		"an agent's by cgroupfs":  {"", mount, "3:cpu:/x\n4:memory:/kubepods/burstable/pod" + string(agent) + "/0123\n", "pod monitoring/agent-x7k2p"},
		"of a pod without a name": {"", mount, slice(string(unnamed)), "of pod " + string(unnamed) + ": restart"},
		"the node's":              {mount, mount, slice(string(agent)), ""},
		"its own":                 {"", mount, slice(string(uid)), ""},
		"a service's":             {"", mount, "0::/system.slice/x.service\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.Mkdir(n.PodDir(uid), fmt.Sprintf("logs/monitoring_agent-x7k2p_%s", agent))
			n.cfg.ProcDir = testkit.ProcMounts(t, map[string]string{"1": testkit.MountLine(20, "/", "/") + c.one, "7": testkit.MountLine(60, "/", "/") + c.other})
			must(t, os.WriteFile(filepath.Join(n.cfg.ProcDir, "7", "cgroup"), []byte(c.cgroup), 0o600))
			f := n.one(uid).Facts[policy.FactMounted]
			if f.Truth != policy.Yes || strings.Contains(f.Detail, "restart that pod") != (c.want != "") || !strings.Contains(f.Detail, c.want) {
				t.Errorf("mounted is %+v, want %q in it", f, c.want)
			}
		})
	}
}
