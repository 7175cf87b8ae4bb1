package cluster

import (
	"slices"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// kubeconfig: the program on a node, outside its pod, asks the API server with the node's own credentials. It gets
// the pods bound to the node. It gets no list of another node's pods, and then keeps them.
func kubeconfig(t *testing.T, c *cluster) {
	n := c.nodes[0]
	var lives pod
	for _, p := range c.pods(t, living, "app=living") {
		if p.Spec.NodeName == n.name {
			lives = p
		}
	}
	// The daemon would remove this pod at once, except for a file that a process holds open.
	dead := n.dead(t, newUID(t), unmounted)
	hold := n.holdOpen(t, "/var/lib/kubelet/pods/"+dead+"/volumes/"+csi+"/pvc-e2e/vol_data.json")
	defer hold()
	own := n.scanAs(t, n.name)
	for uid, want := range map[string]string{lives.Metadata.UID: "yes", dead: "no"} {
		if fact := own.pod(t, uid).Facts["api_lists"]; fact.Value != want || want == "yes" && !strings.Contains(fact.Origin+fact.Detail, "10.213.78.1") {
			t.Errorf("the API server's fact of %s is %+v, want %s", uid, fact, want)
		}
	}
	if p := own.pod(t, lives.Metadata.UID); p.Verdict != "keep" || !slices.Contains(p.Reasons, string(policy.ReasonAPILists)) {
		t.Errorf("living pod: %+v", p)
	}
	other := n.scanAs(t, c.nodes[1].name).pod(t, dead)
	if other.Facts["api_lists"].Value != "unknown" || !slices.Contains(other.Reasons, string(policy.ReasonAPIUnknown)) {
		t.Errorf("as another node: %+v", other)
	}
}

// scanAs runs scan on the node with the node's own credentials, under that node name.
func (n *node) scanAs(t *testing.T, name string) report {
	t.Helper()
	out, err := n.Try("/usr/local/bin/orphan-reaper", "scan", "-o", "json", "--kubeconfig", "/etc/kubernetes/kubelet.conf", "--node-name", name)
	return parse(t, out, err)
}
