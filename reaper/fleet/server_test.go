package fleet

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/orphan-reaper/orphan-reaper/reaper/fleet/report"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// publish publishes the report of a pass.
func publish(s *Server, p *report.Pass) {
	s.Publish(new(report.New(report.Report{Node: "n1"}, p)), nil, time.Hour)
}

// onePod returns a pass over one kept pod.
func onePod() *report.Pass {
	yes := policy.Fact{Truth: policy.Yes}
	return &report.Pass{
		Number: 3,
		Look: policy.Look{
			At: policy.Instant{Wall: time.Unix(1e9, 0)}, Node: policy.Node{Kubelet: yes, MayEnforce: yes, Agrees: yes},
		},
		Pods: []policy.Judged{{
			Evidence: policy.Evidence{UID: "00000001-0000-4000-8000-000000000001"},
			Verdict:  policy.Verdict{Decision: policy.Keep, Why: []policy.Why{{Reason: policy.ReasonMounted}}},
		}},
	}
}

// newTestServer returns a server whose time the test sets, and the number of requested looks.
func newTestServer(tb testing.TB, webConfig string) (s *Server, now *time.Time, asks *uint64) {
	tb.Helper()
	now, asks = new(time.Now()), new(uint64)
	reg := prometheus.NewRegistry()
	reg.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "orphan_reaper_test", Help: "For tests."}))
	return New(Config{
		Node: "n1", WebConfig: webConfig, Metrics: reg, Log: slog.New(slog.DiscardHandler), Hangs: time.Hour,
		Now: func() time.Time { return *now }, Stuck: func() time.Duration { return 0 },
		Ask: func(context.Context) (Asked, error) { *asks++; return Asked{Look: 7, In: 2 * time.Second}, nil },
	}), now, asks
}

// do calls the handler without a network.
func do(s *Server, method, path, from string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	r.RemoteAddr, r.Host = from, "127.0.0.1:9477"
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	return w
}

const here, elsewhere = "127.0.0.1:1234", "192.0.2.7:1234"

func TestReady(t *testing.T) {
	s, now, _ := newTestServer(t, "")
	check := func(what string, code int, words ...string) {
		t.Helper()
		w := do(s, "GET", "/readyz", elsewhere)
		if w.Code != code {
			t.Errorf("%s: %d %s", what, w.Code, w.Body)
		}
		for _, word := range words {
			if !strings.Contains(w.Body.String(), word) {
				t.Errorf("%s: %q does not contain %q", what, w.Body, word)
			}
		}
	}
	check("before the first look", 503, "no look has ended yet")
	if w := do(s, "GET", "/v1/orphans", here); w.Code != 503 {
		t.Errorf("a report before the first look: %d %s", w.Code, w.Body)
	}
	publish(s, onePod())
	check("after it", 200, "ok")
	*now = now.Add(time.Hour + lateBy + time.Minute)
	check("when it is late", 503, "was due")
	s.Publish(nil, errors.New("permission denied"), 30*time.Second)
	check("when it failed", 503, "the node cannot be looked at: permission denied")
	p := onePod()
	p.Look.Node.MayEnforce = policy.Fact{Detail: "this is not the node's PID namespace: set hostPID"}
	publish(s, p)
	check("when it may not enforce", 503, "although the mode is enforce", "hostPID")
	p.BreakerOpen = true
	p.Observe = true
	publish(s, p)
	check("when it is to observe", 200)
	p = onePod()
	p.BreakerOpen = true
	publish(s, p)
	check("when the breaker is open", 503, "the breaker is open", "quarantine list")
}

func TestHealth(t *testing.T) {
	s, _, _ := newTestServer(t, "")
	if w := do(s, "GET", "/healthz", elsewhere); w.Code != 200 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	s.cfg.Stuck = func() time.Duration { return 2 * time.Hour }
	if w := do(s, "GET", "/healthz", elsewhere); w.Code != 503 || !strings.Contains(w.Body.String(), "2h0m0s") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestWhoMayAsk checks that without authentication only this host gets pod names or may cause a look, that every host
// gets the rest, and that no other path exists.
func TestWhoMayAsk(t *testing.T) {
	s, _, asks := newTestServer(t, "")
	publish(s, onePod())
	for _, c := range []struct {
		method, path, from string
		code               int
	}{
		{"GET", "/metrics", elsewhere, 200},
		{"HEAD", "/metrics", elsewhere, 200},
		{"GET", "/v1/orphans", here, 200},
		{"GET", "/v1/orphans", "[::1]:9", 200},
		{"POST", "/v1/sweep", here, 202},
		{"GET", "/v1/orphans", elsewhere, 403},
		{"POST", "/v1/sweep", elsewhere, 403},
		{"POST", "/v1/sweep", "127.0.0.1.example.com:9", 403},
		{"POST", "/v1/sweep", "", 403},
		{"GET", "/v1/sweep", here, 405},
		{"DELETE", "/v1/orphans", here, 405},
		{"POST", "/v1/orphans", here, 405},
		{"POST", "/v1/purge", here, 404},
		{"GET", "/debug/pprof/", here, 404},
		{"GET", "/", here, 404},
	} {
		if w := do(s, c.method, c.path, c.from); w.Code != c.code {
			t.Errorf("%s %s from %s: %d, want %d", c.method, c.path, c.from, w.Code, c.code)
		}
	}
	if *asks != 1 {
		t.Errorf("%d looks were requested", *asks)
	}
	r := httptest.NewRequest(http.MethodPost, "/v1/sweep", nil)
	r.RemoteAddr, r.Host = here, "127.0.0.1:9477"
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	w := httptest.NewRecorder()
	if s.handler.ServeHTTP(w, r); w.Code != 403 {
		t.Errorf("request from a web page: %d", w.Code)
	}
	for host, code := range map[string]int{
		"evil.example": 403, "evil.example:9477": 403, "localhost:9477": 200, "127.0.0.1:9477": 200, "[::1]:9477": 200, "[::1]": 200,
	} {
		r := httptest.NewRequest(http.MethodGet, "/v1/orphans", nil)
		r.RemoteAddr, r.Host = here, host
		w := httptest.NewRecorder()
		if s.handler.ServeHTTP(w, r); w.Code != code {
			t.Errorf("with the host name %s: %d, want %d", host, w.Code, code)
		}
	}
}

func TestSweep(t *testing.T) {
	s, _, _ := newTestServer(t, "")
	w := do(s, "POST", "/v1/sweep", here)
	var a report.Answer
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil || a != (report.Answer{Node: "n1", Look: 7, InSeconds: 2}) {
		t.Errorf("%d %s: %v", w.Code, w.Body, err)
	}
	p := onePod()
	p.BreakerOpen = true
	publish(s, p)
	if w := do(s, "POST", "/v1/sweep", here); !strings.Contains(w.Body.String(), `"breaker_open":true`) {
		t.Errorf("with an open breaker: %s", w.Body)
	}
	s.cfg.Ask = func(context.Context) (Asked, error) { return Asked{}, errors.New("context canceled") }
	if w := do(s, "POST", "/v1/sweep", here); w.Code != 503 {
		t.Errorf("stopping daemon: %d %s", w.Code, w.Body)
	}
}

// fromElsewhere is a listener whose clients all have another host's address.
type fromElsewhere struct{ net.Listener }

type connElsewhere struct{ net.Conn }

func (connElsewhere) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 9} }

func (l fromElsewhere) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return connElsewhere{c}, nil
}

// TestPassword checks that every client needs a password if the web configuration has users, also on this host, and
// that the file is read for each request.
func TestPassword(t *testing.T) {
	// The password is "secret", at bcrypt's lowest cost.
	const users = "basic_auth_users:\n  sweeper: $2y$04$scKiezGA.qUEoByWtLxGh.GutsqWc1/wl94T1rEnmU8K.9HSplA8G\n"
	for from, without := range map[string]int{"tcp": 202, "unix": 202, "elsewhere": 403} {
		path := testkit.File(t, "web.yaml", users)
		s, _, _ := newTestServer(t, path)
		network, address := "tcp", "127.0.0.1:0"
		if from == "unix" {
			network, address = "unix", filepath.Join(t.TempDir(), "s")
		}
		l, err := new(net.ListenConfig).Listen(t.Context(), network, address)
		testkit.Must(t, err)
		listener := l
		if from == "elsewhere" {
			listener = fromElsewhere{l}
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.serve(ctx, listener) }()
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, l.Addr().String())
		}}}
		post := func(user, password string, want int) {
			t.Helper()
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/v1/sweep", http.NoBody)
			testkit.Must(t, err)
			if user != "" {
				r.SetBasicAuth(user, password)
			}
			answer, err := client.Do(r)
			testkit.Must(t, err)
			testkit.Must(t, answer.Body.Close())
			if answer.StatusCode != want {
				t.Errorf("%s, %s:%s: %d, want %d", from, user, password, answer.StatusCode, want)
			}
		}
		post("", "", 401)
		post("sweeper", "wrong", 401)
		post("other", "secret", 401)
		post("sweeper", "secret", 202)
		testkit.WriteText(t, path, "http_server_config:\n  http2: false\n")
		post("sweeper", "secret", without)
		cancel()
		testkit.Must(t, <-done)
	}
}

// TestCertificateOfTheConnection checks that a file that now requires certificates does not authenticate a connection
// that began without one.
func TestCertificateOfTheConnection(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.yaml")
	const text = "tls_server_config: {cert_file: a, key_file: b, client_auth_type: RequireAndVerifyClientCert, client_ca_file: c}\n"
	testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
	s, _, _ := newTestServer(t, path)
	for name, c := range map[string]struct {
		state *tls.ConnectionState
		code  int
	}{
		"plain":               {nil, 403},
		"TLS, no certificate": {&tls.ConnectionState{}, 403},
		"verified":            {&tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{}}}, 202},
	} {
		r := httptest.NewRequest(http.MethodPost, "/v1/sweep", nil)
		r.RemoteAddr, r.TLS = elsewhere, c.state
		w := httptest.NewRecorder()
		if s.handler.ServeHTTP(w, r); w.Code != c.code {
			t.Errorf("%s: %d, want %d", name, w.Code, c.code)
		}
	}
}

// TestRefused checks that an unusable web configuration is reported at the start.
func TestRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.yaml")
	testkit.Must(t, os.WriteFile(path, []byte("tls_server_config: {cert_file: /nowhere}\n"), 0o600))
	s, _, _ := newTestServer(t, path)
	if err := s.Check(); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("broken web configuration: %v", err)
	}
	if _, err := systemdSockets(); err == nil || !strings.Contains(err.Error(), "orphan-reaper.socket") {
		t.Errorf("no socket from systemd: %v", err)
	}
}

// TestTaken checks that an address in use is retried until it is free.
func TestTaken(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	address := l.Addr().String()
	s, _, _ := newTestServer(t, "")
	logged := make(chan struct{}, 1)
	s.cfg.Log = slog.New(slog.NewTextHandler(writer(func(text string) {
		if strings.Contains(text, "cannot serve HTTP") {
			logged <- struct{}{}
		}
	}), nil))
	s.cfg.Addresses, s.again = []string{address}, 10*time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { s.Serve(ctx); close(done) }()
	<-logged // logged once for all retries
	testkit.Must(t, l.Close())
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/healthz", http.NoBody)
		testkit.Must(t, err)
		answer, err := http.DefaultClient.Do(r)
		if err == nil {
			_ = answer.Body.Close()
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	cancel()
	<-done
}

// writer is a stream that passes on what is written.
type writer func(text string)

func (w writer) Write(b []byte) (int, error) { w(string(b)); return len(b), nil }
