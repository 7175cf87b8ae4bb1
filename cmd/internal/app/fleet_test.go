package app

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/reaper/fleet/report"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestPasswordInTheClear checks that a password is sent over TLS only. On this host the connection cannot be
// read, but any process may open the port while the daemon is down.
func TestPasswordInTheClear(t *testing.T) {
	file := testkit.File(t, "pw", "secret\n")
	open := func(user string, targets ...string) error {
		o := FleetOptions{Targets: targets, User: user, Parallel: 1, Patience: time.Second}
		if user != "" {
			o.PasswordFile = file
		}
		_, err := OpenFleet(t.Context(), o)
		return err
	}
	for _, target := range []string{"http://10.0.0.1:9477", "n=http://node-1:9477", "http://127.0.0.1:9477", "http://localhost:9477", "n=http://[::1]:9477"} {
		if err := open("sweeper", "https://10.0.0.2", target); exit.Code(err) != exit.UsageCode || !strings.Contains(err.Error(), "has no TLS") {
			t.Errorf("%s: %v", target, err)
		}
		if err := open("", target); err != nil {
			t.Errorf("%s without a user: %v", target, err)
		}
	}
	for _, target := range []string{"https://10.0.0.1:9477", "https://127.0.0.1:9477", "https://localhost:9477"} {
		if err := open("sweeper", target); err != nil {
			t.Errorf("%s: %v", target, err)
		}
	}
}

// TestService checks that the daemons behind a Service get the password over TLS under the one name of all
// certificates, and that one with another name in its certificate gets none.
func TestService(t *testing.T) {
	daemon := testkit.TLSServer(t, "", func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "sweeper" || password != "s3cret" {
			t.Errorf("%v", r.Header)
		}
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, `{"node":"n1","look":7}`)
	})
	api := testkit.TLSServer(t, "", testkit.Answer(`{"kind":"EndpointSliceList","items":[{"addressType":"IPv4","endpoints":[`+
		`{"addresses":["127.0.0.1"],"nodeName":"n1"}],"ports":[{"name":"http","port":`+testkit.PortOf(t, daemon)+`}]}]}`))
	o := FleetOptions{Service: "tools/orphan-reaper", CAFile: testkit.File(t, "ca.pem", testkit.CertOf(daemon)), Parallel: 1, Patience: 10 * time.Second}
	o.User, o.PasswordFile = "sweeper", testkit.File(t, "password", "s3cret\n")
	o.Kubeconfig = testkit.KubeconfigOf(t, api.URL, testkit.CertOf(api), "token: a")
	for name, want := range map[string]string{"example.com": "", "example.org": "not example.org"} {
		o.ServerName = name
		f, err := OpenFleet(t.Context(), o)
		testkit.Must(t, err)
		results := 0
		f.Sweep(t.Context(), f.Targets, 2, 0, func(at report.Target, a *report.Swept, err error) {
			results++
			if at.Node != "n1" || !at.Named || (err == nil) != (want == "") || err == nil && a.Look != 7 || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %+v %+v %v", name, at, a, err)
			}
		})
		if results != 1 {
			t.Errorf("%d results", results)
		}
	}
	o.CAFile, o.ServerName = "", ""
	if _, err := OpenFleet(t.Context(), o); exit.Code(err) != exit.UsageCode || !strings.Contains(err.Error(), "has no TLS") {
		t.Errorf("a password without TLS: %v", err)
	}
	o.User, o.PasswordFile = "", ""
	if _, err := OpenFleet(t.Context(), o); err != nil {
		t.Error(err)
	}
	for service, want := range map[string]string{"orphan-reaper": "is not NAMESPACE/NAME", "a/b/c": "is not", "/a": "is not", "a/": "is not", "a/b?": "is not"} {
		o.Service = service
		if _, err := OpenFleet(t.Context(), o); exit.Code(err) != exit.UsageCode || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", service, err)
		}
	}
}

// TestWhichAPIServer checks which API server is used: the configured one, that of the environment, or that of the
// pod.
func TestWhichAPIServer(t *testing.T) {
	home := t.TempDir()
	config := func(server string) string { return testkit.KubeconfigOf(t, server, "", "token: a") }
	half := testkit.File(t, "half", "users: [{name: u, user: {token: b}}]\n")
	for name, c := range map[string]struct {
		flag string
		env  map[string]string
		want string // the server, or a part of the error
	}{
		"the flag":        {config("https://10.0.0.1"), map[string]string{"KUBECONFIG": config("https://10.0.0.2"), "HOME": home}, "https://10.0.0.1"},
		"the environment": {"", map[string]string{"KUBECONFIG": config("https://10.0.0.2"), "HOME": home}, "https://10.0.0.2"},
		"one of a list":   {"", map[string]string{"KUBECONFIG": ":" + config("https://10.0.0.2") + ":"}, "https://10.0.0.2"},
		"a list":          {"", map[string]string{"KUBECONFIG": "/nowhere:" + half + ":" + config("https://10.0.0.2")}, "https://10.0.0.2"},
		"a pod": {
			"", map[string]string{"HOME": t.TempDir(), "KUBERNETES_SERVICE_HOST": "10.0.0.3", "KUBERNETES_SERVICE_PORT": "443"}, "serviceaccount/token: no such file",
		},
		"home":     {"", map[string]string{"HOME": home, "KUBERNETES_SERVICE_HOST": "10.0.0.3", "KUBERNETES_SERVICE_PORT": "443"}, "https://10.0.0.4"},
		"nothing":  {"", nil, "no API server is named"},
		"missing":  {"/nonexistent", nil, "no such file"},
		"insecure": {testkit.KubeconfigOf(t, `https://a", insecure-skip-tls-verify: true, x: "`, "", "token: a"), nil, "insecure-skip-tls-verify"},
	} {
		testkit.Must(t, os.MkdirAll(filepath.Join(home, ".kube"), 0o700))
		testkit.Must(t, os.Rename(config("https://10.0.0.4"), filepath.Join(home, ".kube", "config")))
		for _, key := range []string{"KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"} {
			t.Setenv(key, c.env[key])
		}
		a := APIServer{Kubeconfig: c.flag, Env: func(key string) string { return c.env[key] }}
		s, err := a.open(testkit.Noon)
		if err == nil && s.Base != c.want || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
		if e, ok := errors.AsType[*exit.Error](err); name == "insecure" && (!ok || !strings.Contains(e.Hint, "kubectl create token")) {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

// TestMostBreakers checks the limit as a number and as a share of the nodes.
func TestMostBreakers(t *testing.T) {
	f := &Fleet{Targets: make([]report.Target, 4950)}
	for text, want := range map[string]int{"0": 0, "2": 2, "1%": 50, "0%": 0, "100%": 4950} {
		if got, err := f.MostBreakers(text); err != nil || got != want {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "-1", "-1%", "101%", "x", "1.5%", "%"} {
		if got, err := f.MostBreakers(text); exit.Code(err) != exit.UsageCode {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
}
