package fleet

import (
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// slicesJSON is a page of EndpointSlices as an API server writes it, with what is not read left out.
const slicesJSON = `{"kind":"EndpointSliceList","metadata":{"continue":"%s"},"items":[{"addressType":"%s","endpoints":[%s],
	"ports":[{"name":"probes","port":9478,"protocol":"TCP"},{"name":"https","port":9477,"protocol":"TCP"}]}]}`

func endpointJSON(address, node, pod string, ready bool) string {
	return fmt.Sprintf(`{"addresses":[%q],"conditions":{"ready":%v},"nodeName":%q,"targetRef":{"kind":"Pod","uid":%q}}`, address, ready, node, pod)
}

// apiServer serves over TLS, and writes a kubeconfig for it whose credentials come from a program.
func apiServer(t *testing.T, serve http.HandlerFunc) (kubeconfig string) {
	t.Helper()
	s := httptest.NewTLSServer(serve)
	t.Cleanup(s.Close)
	dir := t.TempDir()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	must(t, os.WriteFile(filepath.Join(dir, "ca.crt"), ca, 0o600))
	credentials := `{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"from-a-program"}}`
	must(t, os.WriteFile(filepath.Join(dir, "login"), []byte("#!/bin/sh\necho '"+credentials+"'\n"), 0o700))
	kubeconfig = filepath.Join(dir, "config")
	must(t, os.WriteFile(kubeconfig, fmt.Appendf(nil, `
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: k, user: u}}]
clusters: [{name: k, cluster: {server: %q, certificate-authority: ca.crt}}]
users: [{name: u, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: ./login, interactiveMode: Never}}}]
`, s.URL+"/prefix"), 0o600))
	return kubeconfig
}

// TestDaemons reads two pages, the first one twice, since the list has become too old between them. A daemon that is not
// ready counts, one with addresses of both families counts once, and so does an address that two pods have.
func TestDaemons(t *testing.T) {
	pages := []string{
		fmt.Sprintf(slicesJSON, "next", "IPv6", endpointJSON("fd00::1", "n1", "p1", true)+","+endpointJSON("fd00::3", "n3", "p3", true)),
		"", // 410
		fmt.Sprintf(slicesJSON, "next", "IPv6", endpointJSON("fd00::1", "n1", "p1", true)+","+endpointJSON("fd00::3", "n3", "p3", true)),
		fmt.Sprintf(slicesJSON, "", "IPv4", endpointJSON("10.0.0.1", "n1", "p1", true)+","+endpointJSON("10.0.0.2", "n2", "p2", false)+","+endpointJSON("10.0.0.2", "n2", "p2-before", false)),
	}
	kubeconfig := apiServer(t, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if r.Header.Get("Authorization") != "Bearer from-a-program" || r.URL.Path != "/prefix/apis/discovery.k8s.io/v1/namespaces/ns/endpointslices" ||
			q.Get("labelSelector") != "kubernetes.io/service-name=orphan-reaper" || q.Get("limit") == "" || len(pages) == 0 {
			t.Errorf("%s %s %s", r.Header.Get("Authorization"), r.URL, pages)
		}
		page := pages[0]
		if pages = pages[1:]; page == "" {
			w.WriteHeader(http.StatusGone)
			page = `{"kind":"Status","message":"the provided continue parameter is too old"}`
		}
		_, _ = io.WriteString(w, page)
	})
	found, err := Daemons(t.Context(), kubeconfig, Service{"ns", "orphan-reaper"})
	must(t, err)
	want := "[{n1 https://10.0.0.1:9477} {n3 https://[fd00::3]:9477} {n2 https://10.0.0.2:9477}]"
	if got := fmt.Sprint(found); got != want || len(pages) > 0 {
		t.Errorf("%s\nwant %s, pages not read: %d", got, want, len(pages))
	}
}

// TestDaemonsErrors has what an API server may answer in place of a list.
func TestDaemonsErrors(t *testing.T) {
	for _, c := range []struct {
		code int
		body string
		want string
	}{
		{403, `{"message":"User \"u\" cannot list resource"}`, "right to list endpointslices"},
		{401, ``, "expired"},
		{410, `{"message":"too old"}`, "too old"},
		{302, ``, "302"},
		{500, strings.Repeat("x", 1<<20), "500"},
		{200, `{"items":[]}`, "no endpoints"},
		{200, `{"metadata":{"continue":"again"}}`, "pages"},
		{200, `<html>`, "not an API server's"},
		{200, strings.Repeat(`{"items":`, 100_000), "not an API server's"},
		{200, fmt.Sprintf(slicesJSON, "", "IPv4", endpointJSON("not-an-address", "n", "p", true)), "no address"},
		{200, `{"items":[{"addressType":"IPv4","endpoints":[{"addresses":["10.0.0.1"]}],"ports":[{"port":1},{"port":2}]}]}`, "https"},
	} {
		kubeconfig := apiServer(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(c.code)
			_, _ = io.WriteString(w, c.body)
		})
		_, err := Daemons(t.Context(), kubeconfig, Service{"ns", "orphan-reaper"})
		if err == nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 1000 {
			t.Errorf("%d %.40q: %.2000v", c.code, c.body, err)
		}
	}
	if _, err := Daemons(t.Context(), filepath.Join(t.TempDir(), "none"), Service{"ns", "x"}); err == nil || !strings.Contains(err.Error(), "--kubeconfig") {
		t.Errorf("no kubeconfig: %v", err)
	}
}

// TestParse has addresses that are refused, each with what to write.
func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"https://n1:9477": "", "https://[fd00::1]:9477/": "", "http://n1:9477": "https://n1:9477", "n1:9477": "https://",
		"https://u:secret@n1": "--password-file", "https://n1/report": "has a path", "": "https://HOST:PORT",
	} {
		_, err := ParseTarget(text)
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%q: %v", text, err)
		}
	}
	for text, want := range map[string]bool{":9477": true, "probes=127.0.0.1:9478": true, "9477": false, "probes=": false, ":0": false} {
		if l, err := ParseListen(text); (err == nil) != want || want && l.Probes != strings.HasPrefix(text, "probes=") {
			t.Errorf("%q: %+v, %v", text, l, err)
		}
	}
	for text, want := range map[string]bool{"ns/name": true, "name": false, "/": false, "a/b/c": false} {
		if _, err := ParseService(text); (err == nil) != want {
			t.Errorf("%q: %v", text, err)
		}
	}
}
