package kube

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestProxy: the kubelet is asked without a proxy, an API server by that of the kubeconfig, else of the environment.
func TestProxy(t *testing.T) {
	if NewAsker("https://10.0.0.1", "", nil).transport.Proxy != nil {
		t.Error("a kubelet may be asked by a proxy")
	}
	r := httptest.NewRequest(http.MethodGet, "https://10.0.0.1:6443", http.NoBody)
	s, err := ReadConfig(testkit.KubeconfigOf(t, `https://10.0.0.1:6443", proxy-url: "http://proxy:3128`, "", "token: x"), testkit.Noon)
	testkit.Must(t, err)
	if u, err := s.transport.Proxy(r); err != nil || u.Host != "proxy:3128" {
		t.Errorf("by %v, %v", u, err)
	}
	s, err = ReadConfig(testkit.KubeconfigOf(t, "https://10.0.0.1:6443", "", "token: x"), testkit.Noon)
	testkit.Must(t, err)
	if s.transport.Proxy == nil {
		t.Error("the environment is not asked for a proxy")
	}
}

// TestSend: what is sent arrives as it is; any success is one, and what is none is reported in the
// server's words.
func TestSend(t *testing.T) {
	var code int
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		text := r.Method + " " + r.URL.Path + " " + r.Header.Get("Content-Type") + " " + r.Header.Get("Authorization") + " " + string(body)
		w.WriteHeader(code)
		if code >= 300 {
			text = `{"kind":"Status","message":"no: ` + r.Method + `"}`
		}
		_, _ = io.WriteString(w, text)
	}))
	defer s.Close()
	server, err := NewServer(testkit.ConfigOf(s, "abc"), "")
	testkit.Must(t, err)
	defer server.Close()
	for _, code = range []int{200, 201, 202, 302, 403, 409, 422, 503} {
		var text []byte
		err := server.Send(t.Context(), http.MethodPatch, "/x", "application/apply-patch+yaml", []byte("{}"), func(r io.Reader) (err error) {
			text, err = io.ReadAll(r)
			return err
		})
		if good := code < 300; good != (err == nil) || good && string(text) != "PATCH /x application/apply-patch+yaml Bearer abc {}" {
			t.Errorf("%d: %q, %v", code, text, err)
		}
		if code >= 300 && (!Refused(err, code) || !strings.HasSuffix(err.Error(), ": no: PATCH")) {
			t.Errorf("%d: %v", code, err)
		}
	}
}

// TestInCluster: outside of a pod it says so, and in one without a service account it names the file.
func TestInCluster(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_PORT", "443")
	for host, want := range map[string]string{"": "name a kubeconfig", "fd00::1": "serviceaccount/token: no such file"} {
		t.Setenv("KUBERNETES_SERVICE_HOST", host)
		if _, err := InCluster(testkit.Noon); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", host, err)
		}
	}
}
