package poddir

import (
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// TestHostsName: what the kubelet has written tells the name, and nothing else does.
func TestHostsName(t *testing.T) {
	const managed = "# Kubernetes-managed hosts file.\n"
	const localhost = managed + "127.0.0.1\tlocalhost\n"
	for name, c := range map[string]struct {
		text string
		want policy.PodName
	}{
		"with a subdomain":     {localhost + "10.0.0.7\tweb-0.web.shop.svc.cluster.local\tweb-0\n", policy.PodName{Namespace: "shop", Name: "web-0"}},
		"without one":          {managed + "10.0.0.7\tweb-0\n", policy.PodName{Name: "web-0"}},
		"with aliases":         {managed + "10.0.0.7\tweb-0\n\n# Entries added by HostAliases.\n1.2.3.4\tother\n", policy.PodName{Name: "web-0"}},
		"no name of a pod":     {managed + "10.0.0.1\t\x1b[31mred\n", policy.PodName{}},
		"localhost alone":      {localhost, policy.PodName{}},
		"the host's network":   {"# Kubernetes-managed hosts file (host network).\n10.0.0.7\tnode-1\n", policy.PodName{}},
		"somebody else's file": {"10.0.0.7\tweb-0\n", policy.PodName{}},
	} {
		if got := hostsName([]byte(c.text)); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
