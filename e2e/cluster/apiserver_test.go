package cluster

import (
	"slices"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// away: the API server dies. Then a kubelet cannot check the daemon's token and refuses its requests. The daemon
// continues to reap by the log. A program that must ask the API server keeps everything meanwhile.
func away(t *testing.T, c *cluster) {
	n := c.nodes[0]
	c.apiserver.Kill()
	time.Sleep(6 * time.Second) // until a kubelet's cache of tokens expires: cacheTTL
	heard := n.dead(t, newUID(t), unmounted)
	n.waitRecord(t, heard, policy.KindParked, "")
	t.Run("a kubeconfig keeps everything meanwhile", func(t *testing.T) {
		waits := n.dead(t, newUID(t), unmounted)
		p := n.scanAs(t, n.name).pod(t, waits)
		if p.Facts["api_lists"].Value != "unknown" || !slices.Contains(p.Reasons, string(policy.ReasonAPIUnknown)) {
			t.Errorf("of %s: %+v", waits, p)
		}
	})
	n.waitRecord(t, heard, policy.KindRemoved, "")
	c.apiserver.start(t)
	c.apiReady(t)
	c.nodesReady(t)
}
