package look

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/cri/fakecri"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// TestCNIPeersMistakes replays how other programs took what a living pod needs. Each scene
// has that program's own question, which must be answered with "take it": else the scene
// would show nothing. The mistake of a missing lock is TestCNILockSaves of package remove.
func TestCNIPeersMistakes(t *testing.T) {
	live, gone := id("live"), id("gone")
	const ip = "10.244.0.7"
	address := func(n *cniNode, content string) { n.write("cni/networks/cbr0/"+ip, content) }
	for _, c := range []struct {
		name string
		// scene makes the node and returns the file's name and what the peer would do.
		scene func(n *cniNode) (file string, takes bool)
		// dead is what becomes of a file that nobody needs.
		dead policy.Decision
	}{
		{"antrea#8239: the addresses that no pod's status names, which lags behind ADD", func(n *cniNode) (string, bool) {
			n.sandbox(live, true)
			address(n, live+"\r\neth0")
			var status []string // the API server has not been told the pod's address yet
			return ip, !slices.Contains(status, ip)
		}, policy.Reap},
		{"StarlingX: the runtime was asked before the files were listed", func(n *cniNode) (string, bool) {
			var before []string
			for _, s := range n.sandboxes {
				before = append(before, s.GetId())
			}
			n.sandbox(live, true)
			return n.cache("cbr0", live, "eth0", string(newUID()), n.netns("live")), !slices.Contains(before, live)
		}, policy.Reap},
		{"StarlingX: crictl ps lists running containers only", func(n *cniNode) (string, bool) {
			n.sandbox(live, true)
			n.container(id("init"), live, false)
			running := slices.ContainsFunc(n.containers, func(c *runtimeapi.Container) bool {
				return c.GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING && c.GetPodSandboxId() == live
			})
			return n.cache("cbr0", live, "eth0", string(newUID()), n.netns("live")), !running
		}, policy.Reap},
		{"cni-cleanup: the whole content is compared with the ID", func(n *cniNode) (string, bool) {
			n.sandbox(live, true)
			content := live + "\r\neth0"
			address(n, content)
			return ip, content != live
		}, policy.Reap},
		{"CRI-O: the names that contain the beginning of an ID that is gone", func(n *cniNode) (string, bool) {
			like := gone[:12] + live[12:]
			n.sandbox(like, true)
			name := n.cache("cbr0", like, "eth0", string(newUID()), n.netns("live"))
			return name, strings.Contains(name, gone[:12])
		}, policy.Reap},
		{"StarlingX: crictl answers nothing", func(n *cniNode) (string, bool) {
			n.cri.SetSandboxes()
			address(n, live+"\r\neth0")
			return ip, true
		}, policy.Keep},
		{"StarlingX: crictl fails, and its error goes to /dev/null", func(n *cniNode) (string, bool) {
			n.sandbox(live, true)
			n.cri.SetFault(fakecri.ListPodSandbox, fakecri.Fault{Err: status.Error(codes.Unavailable, "starting")})
			address(n, live+"\r\neth0")
			return ip, true
		}, policy.Keep},
		{"whereabouts#162: ADD has reserved the address of a pod that nobody lists yet", func(n *cniNode) (string, bool) {
			n.write("run/netns/cni-live", "")
			address(n, live+"\r\neth0")
			listed := slices.ContainsFunc(n.sandboxes, func(s *runtimeapi.PodSandbox) bool { return s.GetId() == live })
			return ip, !listed
		}, policy.Reap},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newCNINode(t)
			dead := n.cache("cbr0", gone, "eth0", string(newUID()), n.netns("gone"))
			file, takes := c.scene(n)
			if !takes {
				t.Fatal("the peer would have kept it, too")
			}
			looks := n.sweep()
			if got := judgeLater(looks, dead); got != c.dead {
				t.Errorf("what is dead is to %s, want %s", got, c.dead)
			}
			if got := judgeLater(looks, file); got == policy.Reap {
				t.Errorf("%s of a living pod is taken", file)
			}
		})
	}
}

// judgeLater judges a file as the daemon would a day later, with nothing else changed and a
// kubelet that has run all the time. What is not among the files lives, and is kept.
func judgeLater(looks []cni.Look, name string) policy.Decision {
	for _, l := range looks {
		for _, f := range l.Files {
			if f.Name != name {
				continue
			}
			later := func(d time.Duration) policy.Instant {
				return policy.Instant{Wall: l.At.Wall.Add(d), BootID: l.At.BootID, Boot: l.At.Boot + d}
			}
			rules := policy.Rules{Hold: time.Minute, Settle: time.Minute, CNIOlderThan: 24 * time.Hour}
			var listings cni.Listings
			for _, d := range []time.Duration{time.Hour, 25 * time.Hour} {
				listings.Add(l.Listed, l.Node.RuntimeLists.Truth, rules.Hold, later(d))
			}
			node := l.Node
			node.Kubelet = policy.Fact{Truth: policy.Yes}
			return cni.Judge(&f, node, listings.Older, rules, later(25*time.Hour)).Decision
		}
	}
	return policy.Keep
}
