package podlists

import (
	"errors"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/kube"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

func TestKubeconfigRefused(t *testing.T) {
	const good = "https://10.0.0.1:6443"
	for _, c := range []struct {
		name, url, cluster, user, want string
		refused                        bool
	}{
		{
			"exec", good, "", "exec: {apiVersion: client.authentication.k8s.io/v1, command: aws}",
			"(exec), and no program is started for them; use a client certificate", true,
		},
		{"auth-provider", good, "", "auth-provider: {name: oidc}", "auth-provider, which is not supported; use", true},
		{"insecure", good, ", insecure-skip-tls-verify: true", "token: x", "set certificate-authority instead", true},
		{"plain HTTP", "http://10.0.0.1:8080", "", "token: x", `its server "http://10.0.0.1:8080" is not https`, true},
		{"no server", "", "", "token: x", "is not https", true},
		{"a password in the address", "https://u:p@h", "", "token: x", "is not https", true},
		{"two at once", good, ", insecure-skip-tls-verify: true", "exec: {command: x}", "instead; its user's", true},
		{"no credentials", good, "", "", "its user has no credentials; use", false},
		{"a token file that is not there", good, "", "tokenFile: gone", "gone: no such file", false},
		{"an authority that is not there", good, ", certificate-authority: ca.crt", "token: x", "unable to read certificate-authority", false},
		{"an authority that is none", good, ", certificate-authority-data: eHh4", "token: x", "unable to load root certificates", false},
		{"no base64", good, ", certificate-authority-data: '?'", "token: x", "illegal base64", false},
		{"a certificate without key", good, "", "client-certificate-data: eHh4", "client-key-data or client-key must be specified", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := testkit.File(t, "kubeconfig", `current-context: a
contexts: [{name: a, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "`+c.url+`"`+c.cluster+`}}]
users: [{name: u, user: {`+c.user+`}}]
`)
			errs := newReader(Reader{Kubeconfig: path}).CheckCredentials(t.Context())
			if len(errs) != 1 || !strings.Contains(errs[0].Error(), c.want) || !strings.Contains(errs[0].Error(), path) {
				t.Fatalf("%v, want %q", errs, c.want)
			}
			if _, ok := errors.AsType[*kube.RefusedError](errs[0]); ok != c.refused {
				t.Errorf("permanently refused: %t, want %t", ok, c.refused)
			}
		})
	}
}

func TestCheckCredentials(t *testing.T) {
	errs := newReader(Reader{KubeletTokenFile: "/nowhere/t", KubeletClientCertificate: "/nowhere/c"}).CheckCredentials(t.Context())
	if len(errs) != 2 || !strings.HasPrefix(errs[0].Error(), "kubelet_token_file: ") || !strings.HasPrefix(errs[1].Error(), "kubelet_client_certificate: ") {
		t.Errorf("%v", errs)
	}
	if errs := newReader(Reader{}).CheckCredentials(t.Context()); errs != nil {
		t.Errorf("without settings: %v", errs)
	}
}
