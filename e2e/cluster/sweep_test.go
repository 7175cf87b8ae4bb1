package cluster

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// sweepValues are the chart's values for the Job.
var sweepValues = []string{"web.expose=true", "web.configSecret=web", "sweep.enabled=true", "sweep.passwordSecret=sweeper"}

// certified: the certificate that helm makes is kept by the next upgrade, and clients trust it.
func certified(t *testing.T, c *cluster) {
	values := []string{"web.expose=true", "web.certificate=helm"}
	c.upgrade(t, values...)
	c.rolledOut(t) // the readiness probe uses HTTPS
	made := c.certificate(t)
	c.upgrade(t, values...)
	if again := c.certificate(t); again != made {
		t.Error("the upgrade made another certificate")
	}
	c.rolledOut(t)
	c.helmTest(t)
	c.upgrade(t)
	c.rolledOut(t)
}

// swept: the CronJob's Job makes all nodes look, and fails visibly if one does not respond. The daemons let in the
// user of the web configuration only.
func swept(t *testing.T, c *cluster) {
	crt, key := c.ca.sign(t, "web", "orphan-reaper", nil, "orphan-reaper")
	// The password is "secret", at bcrypt's lowest cost.
	web := lay(t, c.ca.file("web.yaml"), "tls_server_config: {cert_file: tls.crt, key_file: tls.key}\n"+
		"basic_auth_users: {sweeper: $2y$04$scKiezGA.qUEoByWtLxGh.GutsqWc1/wl94T1rEnmU8K.9HSplA8G}\n")
	c.kubectl(t, "--namespace", namespace, "create", "secret", "generic", "web", "--from-file=web.yaml="+web, "--from-file=tls.crt="+crt,
		"--from-file=tls.key="+key, "--from-file=ca.crt="+c.ca.file("ca.crt"))
	c.kubectl(t, "--namespace", namespace, "create", "secret", "generic", "sweeper", "--from-literal=username=sweeper", "--from-literal=password=secret")
	c.upgrade(t, sweepValues...)
	c.rolledOut(t)
	defer func() {
		c.upgrade(t)
		c.rolledOut(t)
	}()
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

// whoMayAsk sends requests to the other node's daemon with and without the password.
func (c *cluster) whoMayAsk(t *testing.T) {
	from, to := c.nodes[0], c.nodes[1]
	trusted := &http.Transport{DisableKeepAlives: true, TLSClientConfig: trust(t, []byte(read(t, c.ca.file("ca.crt"))), "orphan-reaper")}
	for _, r := range []struct {
		user, password, method, path string
		want                         int
	}{
		{"sweeper", "secret", http.MethodPost, "/v1/sweep", http.StatusAccepted},
		{"sweeper", "secret", http.MethodGet, "/v1/orphans", http.StatusOK},
		{"sweeper", "wrong", http.MethodPost, "/v1/sweep", http.StatusUnauthorized},
		{"other", "secret", http.MethodPost, "/v1/sweep", http.StatusUnauthorized},
		{"", "", http.MethodGet, "/v1/orphans", http.StatusUnauthorized},
	} {
		req, err := http.NewRequestWithContext(t.Context(), r.method, "https://"+to.address+":9477"+r.path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if r.user != "" {
			req.SetBasicAuth(r.user, r.password)
		}
		resp, err := from.client(trusted).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != r.want {
			t.Errorf("%s:%s: %s %s: %d, want %d", r.user, r.password, r.method, r.path, resp.StatusCode, r.want)
		}
	}
}
