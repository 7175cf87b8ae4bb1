package cluster

import (
	"net/http"
	"strings"
	"testing"
)

// reports: each node has its OrphanReport, people can read all, and the token of one node's daemon writes only its own.
func reports(t *testing.T, c *cluster) {
	c.kubectlEventually(t, "kubectl get orphans", func() string {
		out, err := c.try("get", "orphans", "-o", `jsonpath={range .items[*]}{.metadata.name}={.report.mode} {end}`)
		return missing(err == nil && strings.TrimSpace(out) == "node-a=enforce node-b=enforce", "%s %v", out, err)
	})
	d := c.daemon(t, c.nodes[0])
	token, all := d.token(t), apiServer+"/apis/orphan-reaper.github.io/v1alpha1/orphanreports"
	for _, r := range []struct {
		method, path string
		want         int
	}{
		{"PATCH", "/node-a", http.StatusOK},
		{"PATCH", "/node-b", http.StatusForbidden},
		{"GET", "/node-a", http.StatusForbidden},
		{"GET", "", http.StatusForbidden},
		{"DELETE", "/node-a", http.StatusForbidden},
	} {
		if code, said := c.ask(t, d.node, token, r.method, all+r.path); code != r.want {
			t.Errorf("%s %s: %d %s", r.method, r.path, code, said)
		}
	}
}
