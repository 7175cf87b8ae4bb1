package kube

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

func TestKubeconfigCurrent(t *testing.T) {
	const context = "current-context: a\ncontexts: [{name: a, context: {cluster: c, user: u}}]\n"
	for text, want := range map[string]string{
		"":                     "no current-context",
		"current-context: a\n": `no context "a"`,
		context:                `no cluster "c"`,
		context + "clusters: [{name: c, cluster: {server: 'https://a'}}]\n":                   `no user "u"`,
		context + "users: [{name: u}]\nclusters: [{name: d, cluster: {server: 'https://a'}}]": `no cluster "c"`,
		"\tx: [":                 "cannot read",
		"current-context: [1]\n": "cannot read",
	} {
		if _, err := ReadConfig(testkit.File(t, "k", text), testkit.Noon); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// TestKubeconfigFiles: what a kubeadm node has, with files beside it and one for certificate
// and key; relative paths begin where the kubeconfig lies; JSON is YAML.
func TestKubeconfigFiles(t *testing.T) {
	dir := t.TempDir()
	ca, _ := testkit.NewCert(t, "ca", testkit.Later)
	cert, key := testkit.NewCert(t, "system:node:node-7", testkit.Later)
	old, oldKey := testkit.NewCert(t, "system:node:node-7", testkit.Noon.Add(-time.Hour))
	testkit.Must(t, os.Mkdir(filepath.Join(dir, "pki"), 0o700))
	testkit.WriteText(t, filepath.Join(dir, "pki", "ca.crt"), ca)
	current := testkit.WriteText(t, filepath.Join(dir, "pki", "kubelet-client-current.pem"), cert+key)
	testkit.WriteText(t, filepath.Join(dir, "token"), "abc\n")
	path := testkit.WriteText(t, filepath.Join(dir, "kubelet.conf"), `{"kind":"Config","current-context":"a",
"contexts":[{"name":"a","context":{"cluster":"c","user":"u"}}],
"clusters":[{"name":"c","cluster":{"server":"https://api.example:6443/k8s/clusters/c-1","certificate-authority":"pki/ca.crt","tls-server-name":"kubernetes"}}],
"users":[{"name":"u","user":{"client-certificate":"`+current+`","client-key":"pki/kubelet-client-current.pem","token":"inline","tokenFile":"token"}}]}`)
	k, err := ReadConfig(path, testkit.Noon)
	testkit.Must(t, err)
	if k.Node() != "node-7" || k.Token != "abc" || k.TLS.ServerName != "kubernetes" || k.TLS.InsecureSkipVerify || len(k.TLS.Certificates) != 1 ||
		k.TLS.RootCAs == nil || k.Base != "https://api.example:6443/k8s/clusters/c-1" {
		t.Errorf("%+v, %+v", k, k.TLS)
	}
	testkit.WriteText(t, filepath.Join(dir, "token"), "new\n")
	if k, err = ReadConfig(path, testkit.Noon); err != nil || k.Token != "new" {
		t.Errorf("a token that was replaced: %v", err)
	}
	testkit.WriteText(t, current, old+oldKey)
	if _, err := ReadConfig(path, testkit.Noon); err == nil || !strings.Contains(err.Error(),
		"the client certificate expired at 2026-11-21T11:00:00Z; renew it") {
		t.Errorf("expired: %v", err)
	}
}

// TestToken: a token that cannot be sent is not sent, and its text is not shown.
func TestToken(t *testing.T) {
	for text, good := range map[string]bool{"abc.def\n": true, "": false, " \n": false, "a b": false, "a\nX-Evil: 1": false} {
		token, err := ReadToken(testkit.File(t, "token", text))
		if (err == nil) != good || good && token != "abc.def" || err != nil && strings.Contains(err.Error(), "Evil") {
			t.Errorf("%q: %q, %v", text, token, err)
		}
	}
}
