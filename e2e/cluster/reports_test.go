package cluster

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	fleetreport "github.com/orphan-reaper/orphan-reaper/reaper/fleet/report"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

const reportsURL = apiServer + fleetreport.ResourcePath

func (c *cluster) orphanReport(t *testing.T, node string) (r fleetreport.Resource) {
	t.Helper()
	out, err := c.try("get", "orphanreport", node, "-o", "json")
	if err == nil {
		err = json.Unmarshal([]byte(out), &r)
	}
	if err != nil {
		t.Logf("%s has no report: %v", node, err)
	}
	return r
}

// reported waits until the node's report satisfies has. A changed report comes after 10 s, or after up to two minutes
// if much has changed lately.
func (c *cluster) reported(t *testing.T, node, what string, has func(fleetreport.Report) bool) (r fleetreport.Resource) {
	t.Helper()
	eventually(t, 4*patience, func() string {
		r = c.orphanReport(t, node)
		return missing(has(r.Report), "the report of %s does not have: %s: %+v", node, what, r.Report)
	})
	return r
}

// reports: every node has a report that agrees with the daemon's records in the journal, is removed with its node,
// and can be written only by that daemon. kubectl shows it and its pods.
func reports(t *testing.T, c *cluster) {
	d := c.daemon(t, c.nodes[0])
	uid := d.dead(t, newUID(t), data)
	d.parked(t, uid)
	// A parked pod is listed until it is confirmed, for 20 s here, in which no report may be written, so only its
	// entry counts.
	kept := newUID(t)
	volume := d.mounted(t, kept)
	d.look(t)
	own := c.reported(t, d.name, "one pod is in quarantine and another kept", func(r fleetreport.Report) bool {
		return r.Counts.Quarantine > 0 && r.Done.Parked > 0 && slices.ContainsFunc(r.Pods, func(p fleetreport.Pod) bool {
			return p.UID == kept && len(p.Why) > 0 && p.Why[0].Reason == policy.ReasonMounted
		})
	})
	d.Run(t, "umount", volume)
	nodeUID := c.kubectl(t, "get", "node", d.name, "-o", "jsonpath={.metadata.uid}")
	if want := []fleetreport.Owner{{APIVersion: "v1", Kind: "Node", Name: d.name, UID: nodeUID}}; !slices.Equal(own.Metadata.Owners, want) {
		t.Errorf("owned by %+v, want %+v", own.Metadata.Owners, want)
	}
	if own.Report.Node != d.name || own.Report.Mode != "enforce" || len(own.Report.Missing) > 0 {
		t.Errorf("%+v", own.Report)
	}
	other := c.nodes[1].name
	c.reported(t, other, "it enforces", func(r fleetreport.Report) bool { return r.Mode == "enforce" })
	table := c.kubectl(t, "get", "orphans")
	for _, word := range []string{d.name, other, "NEEDS PERSON", "BREAKER"} {
		if !strings.Contains(table, word) {
			t.Errorf("kubectl get orphans lacks %s:\n%s", word, table)
		}
	}
	shown = append(shown, strings.Split(table, "\n")...)
	t.Run("a stolen token", func(t *testing.T) { stolen(t, c, d, other) })
	t.Run("a node that is deleted", func(t *testing.T) { c.collected(t) })
	d.removed(t, kept)
	t.Run("the policies' types", func(t *testing.T) {
		for _, name := range []string{"orphan-reaper-report", "orphan-reaper-events"} {
			c.kubectlEventually(t, "the types of "+name, func() string {
				out := c.kubectl(t, "get", "validatingadmissionpolicy", name, "-o", "jsonpath={.status.observedGeneration} {.status.typeChecking}")
				return missing(out == "1 {}", "%s", out)
			})
		}
	})
}

// stolen checks what can be written with a stolen token of a daemon, or with one made for its account.
func stolen(t *testing.T, c *cluster, d *daemon, other string) {
	token := d.token(t)
	unbound := c.kubectl(t, "--namespace", namespace, "create", "token", "orphan-reaper")
	apply := "?fieldManager=orphan-reaper&force=true"
	write := func(node, more string) string {
		return fmt.Sprintf(`{"apiVersion":%q,"kind":"OrphanReport","metadata":{"name":%q%s},`+
			`"report":{"node":"x","at":"2026-01-01T00:00:00Z","mode":"observe","counts":{}}}`, fleetreport.APIVersion, node, more)
	}
	event := func(kind, name string) string {
		return fmt.Sprintf(`{"metadata":{"generateName":"e2e"},"involvedObject":{"kind":%q,"name":%q},"reason":"E2E","type":"Warning"}`, kind, name)
	}
	owner := `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"` + other + `","uid":"u"}]}}`
	const events = apiServer + "/api/v1/namespaces/default/events"
	for _, r := range []struct {
		token, method, url, body string
		code                     int
	}{
		{token, "APPLY", reportsURL + "/" + d.name + apply, write(d.name, ""), http.StatusOK},
		{token, "APPLY", reportsURL + "/" + other + apply, write(other, ""), http.StatusForbidden},
		{token, "APPLY", reportsURL + "/no-node" + apply, write("no-node", ""), http.StatusForbidden},
		{token, "POST", reportsURL, write(other, ""), http.StatusForbidden},
		{token, "PATCH", reportsURL + "/" + other, `{"report":{"mode":"observe"}}`, http.StatusForbidden},
		{token, "PATCH", reportsURL + "/" + d.name, `{"report":{"mode":"x"}}`, http.StatusUnprocessableEntity},
		{token, "PATCH", reportsURL + "/" + d.name, `{"metadata":{"labels":{"tried":"yes"}}}`, http.StatusForbidden},
		{token, "PATCH", reportsURL + "/" + d.name, `{"metadata":{"finalizers":["example.invalid/x"]}}`, http.StatusForbidden},
		{token, "PATCH", reportsURL + "/" + d.name, owner, http.StatusForbidden},
		{token, "GET", reportsURL, "", http.StatusForbidden},
		{token, "GET", reportsURL + "/" + d.name, "", http.StatusForbidden},
		{token, "DELETE", reportsURL + "/" + d.name, "", http.StatusForbidden},
		{unbound, "APPLY", reportsURL + "/" + d.name + apply, write(d.name, ""), http.StatusForbidden},
		{token, "POST", events, event("Node", d.name), http.StatusCreated},
		{token, "POST", events, event("Node", other), http.StatusForbidden},
		{token, "POST", events, event("Pod", d.name), http.StatusForbidden},
		{token, "POST", apiServer + "/api/v1/namespaces/" + namespace + "/events", event("Node", d.name), http.StatusForbidden},
		{token, "GET", events, "", http.StatusForbidden},
		{unbound, "POST", events, event("Node", d.name), http.StatusForbidden},
	} {
		if code, body := c.ask(t, d.node, r.token, r.method, r.url, r.body); code != r.code {
			t.Errorf("%s %s %s: %d, want %d: %s", r.method, r.url, r.body, code, r.code, body)
		}
	}
	kubelets(t, c, d.name, other)
}

// kubelets checks that a kubelet's user with every right by RBAC can change only its own node's report.
func kubelets(t *testing.T, c *cluster, own, other string) {
	t.Helper()
	as := func(node string, args ...string) error {
		_, err := c.try(append([]string{"--as", "system:node:" + node, "--as-group", "system:masters"}, args...)...)
		return err
	}
	change := []string{"patch", "orphans", own, "--type=merge", "--patch", `{"report":{"version":"tried"}}`}
	for _, args := range [][]string{change, {"delete", "orphans", own}} {
		if err := as(other, args...); err == nil || !strings.Contains(err.Error(), "not of "+own) {
			t.Errorf("%s does %q: %v", other, args, err)
		}
	}
	if err := as(own, change...); err != nil {
		t.Error(err)
	}
}

func (c *cluster) collected(t *testing.T) {
	t.Helper()
	c.apply(t, `{apiVersion: v1, kind: Node, metadata: {name: gone}, spec: {taints: [{key: e2e, effect: NoSchedule}]}}`)
	uid := c.kubectl(t, "get", "node", "gone", "-o", "jsonpath={.metadata.uid}")
	c.apply(t, fmt.Sprintf(`{apiVersion: orphan-reaper.github.io/v1alpha1, kind: OrphanReport, metadata: {name: gone, ownerReferences: [
  {apiVersion: v1, kind: Node, name: gone, uid: %s}]}, report: {node: gone, at: "2026-01-01T00:00:00Z", mode: observe, counts: {}}}`, uid))
	c.kubectl(t, "delete", "node", "gone")
	c.kubectlEventually(t, "the report of a node that is gone", func() string {
		out, err := c.try("get", "orphanreport", "gone", "--ignore-not-found", "-o", "name")
		return missing(err == nil && out == "", "%s%v", out, err)
	})
}
