package cluster

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"strings"
	"testing"
)

// refused sends requests with the daemon's own token, as a thief might. The API server returns nothing of the
// cluster; a kubelet returns only its pods, its metrics and its health.
func refused(t *testing.T, c *cluster) {
	d := c.daemon(t, c.nodes[0])
	token := d.token(t)
	pod := "/api/v1/namespaces/" + namespace + "/pods/" + d.pod.Metadata.Name
	t.Run("by the API server", func(t *testing.T) {
		for _, r := range []struct{ method, path string }{
			{"GET", "/api/v1/secrets"},
			{"GET", "/api/v1/namespaces/" + namespace + "/secrets"},
			{"GET", "/api/v1/namespaces/kube-system/configmaps"},
			{"GET", "/api/v1/pods"},
			{"GET", "/api/v1/namespaces/" + namespace + "/pods"},
			{"GET", pod},
			{"DELETE", pod},
			{"POST", pod + "/eviction"},
			{"GET", pod + "/exec?command=/orphan-reaper&container=orphan-reaper&stdout=true"},
			{"GET", pod + "/log"},
			{"GET", "/api/v1/nodes"},
			{"GET", "/api/v1/nodes/" + d.name},
			{"PATCH", "/api/v1/nodes/" + d.name},
			{"GET", "/api/v1/nodes/" + d.name + "/proxy/pods"},
			{"GET", "/api/v1/nodes/" + d.name + "/proxy/configz"},
			{"GET", "/api/v1/namespaces"},
			{"GET", "/api/v1/persistentvolumes"},
			{"POST", "/api/v1/namespaces/" + namespace + "/serviceaccounts/orphan-reaper/token"},
			{"GET", "/apis/apps/v1/namespaces/" + namespace + "/daemonsets/orphan-reaper"},
			{"PATCH", "/apis/apps/v1/namespaces/" + namespace + "/daemonsets/orphan-reaper"},
			{"GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles"},
		} {
			if code, body := c.ask(t, d.node, token, r.method, apiServer+r.path, "{}"); code != http.StatusForbidden {
				t.Errorf("%s %s: %d %s", r.method, r.path, code, body)
			}
		}
	})
	t.Run("by the kubelet", func(t *testing.T) {
		base := "https://" + d.address + ":10250"
		container := "/" + namespace + "/" + d.pod.Metadata.Name + "/orphan-reaper"
		for path, want := range map[string]int{
			"/pods": http.StatusOK, "/runningpods/": http.StatusOK, "/metrics": http.StatusOK, "/healthz": http.StatusOK,
			"/configz": http.StatusForbidden, "/logs/": http.StatusForbidden, "/stats/summary": http.StatusForbidden,
			"/debug/pprof/":              http.StatusForbidden,
			"/containerLogs" + container: http.StatusForbidden, "/exec" + container + "?command=/orphan-reaper&output=1": http.StatusForbidden,
			"/attach" + container + "?output=1": http.StatusForbidden, "/portForward/" + namespace + "/" + d.pod.Metadata.Name: http.StatusForbidden,
		} {
			if code, body := c.ask(t, d.node, token, "GET", base+path, ""); code != want {
				t.Errorf("%s: %d %s", path, code, body)
			}
		}
		for _, path := range []string{
			"/run" + container + "?cmd=/orphan-reaper", "/exec" + container + "?command=/orphan-reaper&output=1", "/checkpoint" + container,
		} {
			if code, body := c.ask(t, d.node, token, "POST", base+path, "{}"); code != http.StatusForbidden {
				t.Errorf("POST %s: %d %s", path, code, body)
			}
		}
		if code, body := c.ask(t, d.node, token+"x", "GET", base+"/pods", ""); code != http.StatusUnauthorized {
			t.Errorf("with an invalid token: %d %s", code, body)
		}
	})
	t.Run("and its service account has no more rights", func(t *testing.T) {
		out := c.kubectl(t, "auth", "can-i", "--list", "--no-headers", "--as", "system:serviceaccount:"+namespace+":orphan-reaper")
		for line := range strings.Lines(out) {
			f := strings.Fields(line)
			if len(f) == 0 || strings.HasPrefix(f[0], "[") || strings.HasPrefix(f[0], "self") { // health, discovery, and requests about itself
				continue
			}
			if verbs := strings.TrimSpace(line[strings.LastIndex(line, "["):]); !granted[f[0]+" "+verbs] {
				t.Errorf("the daemon also has the right: %s", line)
			}
		}
	})
}

// granted lists the daemon's rights with these values, as kubectl auth can-i --list prints them.
var granted = map[string]bool{
	// Kubernetes grants it to every service account (system:cluster-trust-bundle-discovery, 1.37).
	"clustertrustbundles.certificates.k8s.io [get list watch]": true,

	"nodes/pods [get]":    true,
	"nodes/metrics [get]": true,
	"nodes/healthz [get]": true,
}

// trust returns the configuration of a client that trusts the authority. name is the server's name; "" means that of
// its address.
func trust(t *testing.T, authority []byte, name string) *tls.Config {
	t.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		t.Fatal("the authority has no certificate")
	}
	return &tls.Config{RootCAs: roots, ServerName: name}
}

// ask sends a request with a token to a server of the cluster, from within a node.
func (c *cluster) ask(t *testing.T, n *node, token, method, url, body string) (int, string) {
	t.Helper()
	return n.ask(t, trust(t, []byte(read(t, c.ca.file("ca.crt"))), ""), token, method, url, body)
}

// ask sends a request from within the node and returns the status and the body.
func (n *node) ask(t *testing.T, trusted *tls.Config, token, method, url, body string) (int, string) {
	t.Helper()
	kind := "application/json"
	if method == "PATCH" {
		kind = "application/merge-patch+json"
	}
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Content-Type", kind)
	}
	resp, err := n.client(&http.Transport{DisableKeepAlives: true, TLSClientConfig: trusted}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}
