package kube

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestNoProxy: what the environment says of proxies is for others. net/http reads it once in
// a process and never uses it for the loopback, so the field itself is looked at.
func TestNoProxy(t *testing.T) {
	a := NewAsker("https://127.0.0.1:1", "", nil)
	if tr, ok := a.client.Transport.(*http.Transport); !ok || tr.Proxy != nil {
		t.Error("a proxy may be asked")
	}
}

// TestSend: what is sent arrives as it is; any success is one, and what is none is told in the
// server's words.
func TestSend(t *testing.T) {
	var code int
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		told := r.Method + " " + r.URL.Path + " " + r.Header.Get("Content-Type") + " " + r.Header.Get("Authorization") + " " + string(body)
		w.WriteHeader(code)
		if code >= 300 {
			told = `{"kind":"Status","message":"no: ` + r.Method + `"}`
		}
		_, _ = io.WriteString(w, told)
	}))
	defer s.Close()
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	server := Server{Base: s.URL, Token: "abc", TLS: &tls.Config{RootCAs: pool}}
	a := server.Asker()
	defer a.Close()
	for _, code = range []int{200, 201, 202, 302, 403, 409, 422, 503} {
		var told []byte
		err := a.Send(t.Context(), http.MethodPatch, "/x", "application/apply-patch+yaml", []byte("{}"), func(r io.Reader) (err error) {
			told, err = io.ReadAll(r)
			return err
		})
		if good := code < 300; good != (err == nil) || good && string(told) != "PATCH /x application/apply-patch+yaml Bearer abc {}" {
			t.Errorf("%d: %q, %v", code, told, err)
		}
		if code >= 300 && (!Refused(err, code) || !strings.HasSuffix(err.Error(), ": no: PATCH")) {
			t.Errorf("%d: %v", code, err)
		}
	}
}

// TestInCluster: the environment and the two files are all there is to it, and what is missing is named.
func TestInCluster(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string {
		return map[string]string{"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}[name]
	}
	ca, _ := testkit.NewCert(t, "ca", testkit.Later)
	for _, step := range []struct{ file, text, want string }{
		{"", "", "authority"}, {"ca.crt", "x", "no certificate"}, {"ca.crt", ca, "cannot read the token"}, {"token", " \n", "holds no token"}, {"token", "abc\n", ""},
	} {
		if step.file != "" {
			testkit.WriteText(t, filepath.Join(dir, step.file), step.text)
		}
		s, err := InCluster(dir, in)
		if step.want != "" && (err == nil || !strings.Contains(err.Error(), step.want)) || step.want == "" && err != nil {
			t.Fatalf("%v: %v", step, err)
		}
		if err == nil && (s.Base != "https://[fd00::1]:443" || s.Token != "abc" || s.TLS.RootCAs == nil) {
			t.Errorf("%+v", s)
		}
	}
	if _, err := InCluster(dir, func(string) string { return "" }); err == nil || !strings.Contains(err.Error(), "name a kubeconfig") {
		t.Errorf("outside of a cluster: %v", err)
	}
}
