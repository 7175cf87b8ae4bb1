package kube

import (
	"errors"
	"io"
	"net/http"
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
		"":                     `current-context "" is not among`,
		"current-context: a\n": `current-context "a" is not among`,
		context:                `no cluster "c" or no user "u"`,
		context + "clusters: [{name: c, cluster: {server: 'https://a'}}]\n":                   `no user "u"`,
		context + "users: [{name: u}]\nclusters: [{name: d, cluster: {server: 'https://a'}}]": `no cluster "c"`,
		"\tx: [":                 "error loading config file",
		"current-context: [1]\n": "error loading config file",
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
	conf := k.transport.TLSClientConfig
	if k.Node() != "node-7" || k.Token != "abc" || conf.ServerName != "kubernetes" || conf.InsecureSkipVerify || conf.GetClientCertificate == nil ||
		conf.RootCAs == nil || k.Base != "https://api.example:6443/k8s/clusters/c-1" {
		t.Errorf("%+v, %+v", k, conf)
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

// TestPrograms: a program that gives credentials is started for the user of a command, never by the daemon.
func TestPrograms(t *testing.T) {
	s := testkit.TLSServer(t, "", func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Header.Get("Authorization")) })
	dir := t.TempDir()
	program := testkit.WriteText(t, filepath.Join(dir, "aws"), "#!/bin/sh\ntouch "+dir+"/started\n"+
		`echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"made"}}'`+"\n")
	testkit.Must(t, os.Chmod(program, 0o700))
	file := testkit.KubeconfigOf(t, s.URL, testkit.CertOf(s),
		"exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: "+program+"}")
	_, err := ReadConfig(file, testkit.Noon)
	if _, refused := errors.AsType[*RefusedError](err); !refused {
		t.Errorf("the daemon: %v", err)
	}
	testkit.There(t, dir+"/started", false)
	server, err := ReadPersonal(file, nil, "", testkit.Noon)
	testkit.Must(t, err)
	var got []byte
	testkit.Must(t, server.Get(t.Context(), "/", "", func(r io.Reader) (err error) { got, err = io.ReadAll(r); return err }))
	if string(got) != "Bearer made" {
		t.Errorf("asked with %q", got)
	}
	server.Close()
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
