package cluster

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// sweepValues are the chart's values for the Job, with a certificate made by helm.
var sweepValues = []string{"web.expose=true", "web.certificate=helm", "web.tokenReview=true", "sweep.enabled=true"}

// swept: the CronJob's Job makes all nodes look, and fails visibly if one does not respond. The daemons authorize by
// RBAC, and accept only tokens made for them.
func swept(t *testing.T, c *cluster) {
	c.upgrade(t, sweepValues...)
	c.rolledOut(t) // the readiness probe uses HTTPS
	made := c.certificate(t)
	c.upgrade(t, sweepValues...)
	if again := c.certificate(t); again != made {
		t.Error("the upgrade made another certificate")
	}
	c.rolledOut(t)
	defer func() {
		c.upgrade(t)
		c.rolledOut(t)
	}()
	c.helmTest(t)
	c.podsReachNodes(t)
	t.Run("the Job has all nodes look", func(t *testing.T) {
		if out, done := c.job(t, "sweep-now"); !done || !strings.Contains(out, "2 of 2 nodes look now.") {
			t.Errorf("done: %t, %s", done, out)
		}
	})
	t.Run("who may ask", c.whoMayAsk)
	t.Run("a node that does not answer fails the Job", func(t *testing.T) {
		defer func() { c.kubectl(t, "--namespace", namespace, "delete", "endpointslice", "gone") }()
		c.apply(t, `{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: gone, namespace: `+namespace+`,
  labels: {kubernetes.io/service-name: orphan-reaper, endpointslice.kubernetes.io/managed-by: e2e}}, addressType: IPv4,
  ports: [{name: http, port: 9477}], endpoints: [{addresses: [10.213.78.99], nodeName: node-gone}]}`)
		if out, done := c.job(t, "sweep-silent"); done || !strings.Contains(out, "2 of 3 nodes look now.") || !strings.Contains(out, "node-gone") {
			t.Errorf("done: %t, %s", done, out)
		}
	})
}

// certificate returns the certificate that helm made for the daemons, from the Secret.
func (c *cluster) certificate(t *testing.T) string {
	t.Helper()
	return c.kubectl(t, "--namespace", namespace, "get", "secret", "orphan-reaper-tls", "-o", "jsonpath={.data}")
}

// podsReachNodes adds routes from the nodes to the pods of the others, as a cluster's network does.
func (c *cluster) podsReachNodes(t *testing.T) {
	t.Helper()
	for _, n := range c.nodes {
		for _, other := range c.nodes {
			if other != n {
				command(t, "nsenter", "--target", strconv.Itoa(n.Leader), "--net", "ip", "route", "replace", other.pods, "via", other.address)
			}
		}
	}
}

// job runs the CronJob manually and returns its pod's output and whether it succeeded.
func (c *cluster) job(t *testing.T, name string) (out string, succeeded bool) {
	t.Helper()
	c.kubectl(t, "--namespace", namespace, "create", "job", "--from=cronjob/orphan-reaper-sweep", name)
	c.kubectlEventually(t, "the Job "+name, func() string {
		ended, err := c.try("--namespace", namespace, "get", "job", name, "-o", `jsonpath={range .status.conditions[?(@.status=="True")]}{.type} {end}`)
		succeeded = strings.Contains(ended, "Complete")
		if err == nil && (succeeded || strings.Contains(ended, "Failed")) {
			return ""
		}
		events, _ := c.try("--namespace", namespace, "get", "events", "--field-selector=type=Warning")
		return fmt.Sprintf("%q %v\n%s", ended, err, events)
	})
	return c.kubectl(t, "--namespace", namespace, "logs", "job/"+name), succeeded
}

// whoMayAsk sends requests to the other node's daemon with all kinds of tokens.
func (c *cluster) whoMayAsk(t *testing.T) {
	from, to := c.nodes[0], c.nodes[1]
	for _, account := range []string{"reader", "stranger"} {
		c.kubectl(t, "--namespace", namespace, "create", "serviceaccount", account)
	}
	c.kubectl(t, "create", "clusterrolebinding", "reader", "--clusterrole=orphan-reaper-read", "--serviceaccount="+namespace+":reader")
	token := func(account string, audience ...string) string {
		args := []string{"--namespace", namespace, "create", "token", account}
		for _, a := range audience {
			args = append(args, "--audience", a)
		}
		return c.kubectl(t, args...)
	}
	defer func() {
		c.kubectl(t, "--namespace", namespace, "delete", "serviceaccount", "reader", "stranger")
		c.kubectl(t, "delete", "clusterrolebinding", "reader")
	}()
	const ours = "orphan-reaper"
	ca, err := base64.StdEncoding.DecodeString(c.kubectl(t, "--namespace", namespace, "get", "secret", "orphan-reaper-tls", "-o", `jsonpath={.data.ca\.crt}`))
	if err != nil {
		t.Fatal(err)
	}
	sweeper := token("orphan-reaper-sweep", ours)
	daemon := "https://" + to.address + ":9477"
	for _, r := range []struct {
		what, token, method, path string
		want                      int
	}{
		{"the Job's account", sweeper, "POST", "/v1/sweep", http.StatusAccepted},
		{"the Job's account", sweeper, "GET", "/v1/orphans", http.StatusForbidden},
		{"a reader", token("reader", ours), "GET", "/v1/orphans", http.StatusOK},
		{"a reader", token("reader", ours), "POST", "/v1/sweep", http.StatusForbidden},
		{"somebody without rights", token("stranger", ours), "POST", "/v1/sweep", http.StatusForbidden},
		{"a token for the API server", token("orphan-reaper-sweep"), "POST", "/v1/sweep", http.StatusUnauthorized},
		{"a token for something else", token("orphan-reaper-sweep", "vault"), "POST", "/v1/sweep", http.StatusUnauthorized},
		{"garbage", "garbage", "POST", "/v1/sweep", http.StatusUnauthorized},
	} {
		if code, out := from.ask(t, trust(t, ca, "orphan-reaper"), r.token, r.method, daemon+r.path, "{}"); code != r.want {
			t.Errorf("%s: %s %s: %d %s, want %d", r.what, r.method, r.path, code, out, r.want)
		}
	}
	// The API server rejects a token that is made for the nodes' daemons.
	if code, out := c.ask(t, from, sweeper, "GET", apiServer+"/api", ""); code != http.StatusUnauthorized {
		t.Errorf("the API server accepts the token made for the nodes' daemons: %d %s", code, out)
	}
}
