package fleet

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/crypto/bcrypt"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// clock is a clock that a test sets.
type clock struct{ boot time.Duration }

func (c *clock) Now() judge.Instant { return judge.Instant{BootID: "b", Boot: c.boot} }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newServer() *Server {
	return &Server{
		Node: "n1", Version: "v1", Start: time.Unix(1e9, 7).UTC(), Settings: judge.Settings{Hold: time.Minute, Confirm: 5 * time.Minute},
		Metrics: prometheus.NewRegistry(), Ask: func(string) uint64 { return 9 }, Alive: func() error { return nil },
		Clock: &clock{time.Hour}, Log: slog.New(slog.DiscardHandler),
	}
}

// newCert returns a certificate for 127.0.0.1 and the name of a Service, which is its own authority, and its key.
func newCert(t *testing.T) (cert, key []byte) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{Service{"ns", "orphan-reaper"}.Host()},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, k.Public(), k)
	must(t, err)
	pk, err := x509.MarshalPKCS8PrivateKey(k)
	must(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pk})
}

const withTLS = "tls_server_config: {cert_file: tls.crt, key_file: tls.key}\n"

// users returns the part of a web configuration that has the password "right" of the user "op".
func users(t *testing.T) string {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte("right"), bcrypt.MinCost)
	must(t, err)
	return "basic_auth_users: {op: '" + string(hash) + "'}\n"
}

// served is a server with a web configuration, and a client that trusts it.
type served struct {
	*Server
	url    string
	client *http.Client
	roots  *x509.CertPool
}

func (s *served) configure(t *testing.T, config string) {
	t.Helper()
	must(t, os.WriteFile(s.WebConfigFile, []byte(config), 0o600))
}

// serve serves with a web configuration until the test ends.
func serve(t *testing.T, config string, probes bool) *served {
	t.Helper()
	dir := t.TempDir()
	cert, key := newCert(t)
	must(t, os.WriteFile(filepath.Join(dir, "tls.crt"), cert, 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "tls.key"), key, 0o600))
	s := &served{Server: newServer(), roots: x509.NewCertPool()}
	s.WebConfigFile = filepath.Join(dir, "web.yaml")
	s.configure(t, config)
	s.roots.AppendCertsFromPEM(cert)
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.serve(ctx, l, probes) }()
	t.Cleanup(func() { cancel(); must(t, <-done) })
	scheme := "http"
	if strings.Contains(config, "tls") && !probes {
		scheme = "https"
	}
	s.url = scheme + "://" + l.Addr().String()
	s.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.roots}, DisableKeepAlives: true}}
	return s
}

// status returns the HTTP status of a request with a password, "" for none.
func (s *served) status(t *testing.T, method, path, password string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.url+path, http.NoBody)
	must(t, err)
	if password != "" {
		r.SetBasicAuth("op", password)
	}
	a, err := s.client.Do(r)
	must(t, err)
	defer a.Body.Close()
	return a.StatusCode
}

// TestAccess is the table of who gets a report and a scan: nobody without TLS or without a password.
func TestAccess(t *testing.T) {
	for _, c := range []struct {
		name, config, password   string
		probes                   bool
		report, metrics, healthz int
	}{
		{"nothing configured", "", "", false, 404, 200, 200},
		{"no TLS, right password", users(t), "right", false, 404, 200, 200},
		{"no TLS, no password", users(t), "", false, 401, 401, 401},
		{"TLS, no users", withTLS, "", false, 404, 200, 200},
		{"TLS, no users, some password", withTLS, "right", false, 404, 200, 200},
		{"TLS, no password", withTLS + users(t), "", false, 401, 401, 401},
		{"TLS, wrong password", withTLS + users(t), "wrong", false, 401, 401, 401},
		{"TLS, right password", withTLS + users(t), "right", false, 200, 200, 200},
		{"probes", withTLS + users(t), "right", true, 404, 404, 200},
		{"probes without password", withTLS + users(t), "", true, 404, 404, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, c.config, c.probes)
			for path, want := range map[string]int{"/report": c.report, "/metrics": c.metrics, "/healthz": c.healthz} {
				if got := s.status(t, "GET", path, c.password); got != want {
					t.Errorf("GET %s: %d, want %d", path, got, want)
				}
			}
			scan := c.report
			if scan == 200 {
				scan = 202
			}
			if got := s.status(t, "POST", "/scan", c.password); got != scan {
				t.Errorf("POST /scan: %d, want %d", got, scan)
			}
		})
	}
}

// TestConfigurationChanges has the file change under a running server, also between the toolkit's reading and ours.
func TestConfigurationChanges(t *testing.T) {
	s := serve(t, withTLS, false)
	want := func(password string, want int) {
		t.Helper()
		if got := s.status(t, "GET", "/report", password); got != want {
			t.Errorf("%d, want %d", got, want)
		}
	}
	want("right", 404)
	s.configure(t, withTLS+users(t))
	want("", 401)
	want("right", 200)
	// The toolkit has read the file without users, and passed a request on with any password.
	r := httptest.NewRequest("GET", "https://node/report", http.NoBody)
	r.SetBasicAuth("op", "wrong")
	answer := httptest.NewRecorder()
	if s.handler(false).ServeHTTP(answer, r); answer.Code != 404 {
		t.Errorf("a password that nobody has compared: %d, want 404", answer.Code)
	}
	r = httptest.NewRequest("POST", "https://node/scan", http.NoBody)
	r.SetBasicAuth("op", "right")
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	answer = httptest.NewRecorder()
	if s.handler(false).ServeHTTP(answer, r); answer.Code != 403 {
		t.Errorf("a web page of another origin, with the password that the browser has: %d, want 403", answer.Code)
	}
	s.configure(t, "basic_auth_users: [\n")
	r = httptest.NewRequest("GET", "https://node/report", http.NoBody)
	r.SetBasicAuth("op", "right")
	answer = httptest.NewRecorder()
	if s.handler(false).ServeHTTP(answer, r); answer.Code != 404 {
		t.Errorf("a broken file: %d, want 404", answer.Code)
	}
}

// TestReady has /readyz over the life of a daemon: a rolling update waits for a node that has run with a closed breaker.
func TestReady(t *testing.T) {
	s := newServer()
	now := &clock{time.Hour}
	s.Clock = now
	get := func() int {
		answer := httptest.NewRecorder()
		s.handler(true).ServeHTTP(answer, httptest.NewRequest("GET", "/readyz", http.NoBody))
		return answer.Code
	}
	passed := func(breaker bool) func() {
		return func() {
			st := reaper.Status{At: now.Now(), Mode: "enforce"}
			if breaker {
				st.Breaker = &judge.Event{Kind: judge.EventBreaker}
			}
			s.Ended(1, st, nil)
		}
	}
	for _, step := range []struct {
		name string
		do   func()
		want int
	}{
		{"before the first pass", func() {}, 503},
		{"after the first pass", passed(false), 503},
		{"a second before hold, confirm and 4 minutes", func() { now.boot += 10*time.Minute - time.Second }, 503},
		{"then", func() { now.boot += time.Second }, 200},
		{"a pass failed", func() { s.Ended(2, reaper.Status{}, errors.New("cannot lock the ledger")) }, 503},
		{"the next did not", passed(false), 200},
		{"the breaker opens", passed(true), 503},
		{"it is closed again: the time runs anew", func() { now.boot += time.Hour; passed(false)() }, 503},
		{"and has passed", func() { now.boot += 10 * time.Minute }, 200},
		{"observe", func() { passed(true)(); s.Reload(judge.Settings{Observe: true}) }, 200},
	} {
		step.do()
		if got := get(); got != step.want {
			t.Errorf("%s: %d, want %d", step.name, got, step.want)
		}
	}
	s.Alive = func() error { return errors.New("a call hangs") }
	answer := httptest.NewRecorder()
	if s.handler(true).ServeHTTP(answer, httptest.NewRequest("GET", "/healthz", http.NoBody)); answer.Code != 503 {
		t.Errorf("healthz while a call hangs: %d", answer.Code)
	}
	answer = httptest.NewRecorder()
	if s.getReport(answer, httptest.NewRequest("GET", "/report", http.NoBody)); strings.Count(answer.Body.String(), `"stuck"`) != 2 {
		t.Errorf("the report while a call hangs: %s", answer.Body)
	}
}

// bigStatus returns a status of 10,000 pods, of which every tenth is alive, every hundredth is kept, and one, the last, needs an
// operator. Each has a long text of the kubelet.
func bigStatus() reaper.Status {
	s := reaper.Status{Mode: "enforce", Operator: true, Hidden: 3}
	for i := range 10_000 {
		p := reaper.PodStatus{Words: strings.Repeat("<", 3000)}
		p.UID = parsers.PodUID(fmt.Sprintf("0badf00d-0001-4aaa-8bbb-%012d", i))
		p.Decision, p.Reasons = judge.Wait, []judge.Reason{{Reason: judge.OnHold}}
		p.Facts[judge.Reported].Truth = judge.Yes
		switch {
		case i == 9_999:
			p.Decision, p.Reasons, p.Operator = judge.Keep, []judge.Reason{{Reason: judge.IsMounted}}, true
		case i%100 == 0:
			p.Decision, p.Reasons = judge.Keep, []judge.Reason{{Reason: judge.IsMounted}}
		case i%10 == 0:
			p.Decision, p.Reasons = judge.IsAlive, []judge.Reason{{Reason: judge.IsRunning}}
		}
		s.Pods = append(s.Pods, p)
	}
	e := judge.JudgedEntry{Entry: judge.Entry{Left: []judge.Residue{{Tally: judge.Tally{Bytes: 70}}, {Tally: judge.Tally{Bytes: 7}}}}}
	s.Quarantine = append(s.Quarantine, e)
	s.CNI = &reaper.CNIStatus{Files: 5, Stale: 4, Networks: []reaper.CNINetwork{{Full: true}, {}}}
	return s
}

// TestReport has the report of a node with many pods: it is short, counts all, and has the pod that needs an operator.
func TestReport(t *testing.T) {
	server := newServer()
	server.Ended(1, bigStatus(), nil)
	answer := httptest.NewRecorder()
	server.getReport(answer, nil)
	text := answer.Body.Bytes()
	if len(text) > mostReport || bytes.Contains(text, []byte(`"facts"`)) {
		t.Errorf("%d bytes; it has facts: %v", len(text), bytes.Contains(text, []byte(`"facts"`)))
	}
	var r struct {
		Status struct {
			Pods []struct {
				UID string `json:"uid"`
			} `json:"pods"`
		} `json:"status"`
	}
	must(t, json.Unmarshal(text, &r))
	server.Ended(2, reaper.Status{}, errors.New("cannot lock the ledger"))
	answer = httptest.NewRecorder()
	server.getReport(answer, nil)
	if failed, err := parseHead(answer.Body.Bytes()); err != nil || failed.Pass != 2 || failed.Failed == "" || failed.Summary.Wait != 8999 {
		t.Errorf("after a pass that failed: %+v, %v", failed, err)
	}
	if pods := r.Status.Pods; len(pods) < 2 || !strings.HasSuffix(pods[0].UID, "9999") {
		t.Errorf("pods: %v", pods)
	}
	head, err := parseHead(text)
	must(t, err)
	s := head.Summary
	if !head.Operator || s.Wait != 8999 || s.Keep != 101 || s.Alive != 900 || s.Operator != 1 || s.Hidden != 3 || s.Bytes != 77 ||
		s.CNIStale != 4 || s.FullRanges != 1 || s.Reasons[judge.IsMounted] != 101 || s.Reasons[judge.IsRunning] != 0 {
		t.Errorf("%+v", head)
	}
}

// TestStoppedEnds: what has stopped an earlier pass is not in the report of the next one.
func TestStoppedEnds(t *testing.T) {
	s := newServer()
	for _, want := range []judge.ReasonName{judge.NoKubelet, ""} {
		var st reaper.Status
		if want != "" {
			st.Stopped = &judge.Reason{Reason: want}
		}
		s.Ended(1, st, nil)
		answer := httptest.NewRecorder()
		s.getReport(answer, nil)
		if h, err := parseHead(answer.Body.Bytes()); err != nil || h.Stopped != want {
			t.Errorf("stopped by %q, want %q, %v", h.Stopped, want, err)
		}
	}
}

// pipes is a listener without a network, so that the test controls the time.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (pipes) Close() error   { return nil }
func (pipes) Addr() net.Addr { return &net.UnixAddr{} }

// TestHostileClients has clients that fill every connection, send nothing, or send without end: they are cut off, and
// another client is served.
func TestHostileClients(t *testing.T) {
	for name, send := range map[string][2]string{
		"nothing":          {},
		"endless headers":  {"GET /metrics HTTP/1.1\r\nHost: x\r\n", "X-A: " + strings.Repeat("a", 1000) + "\r\n"},
		"endless body":     {"POST /scan HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n", strings.Repeat("a", 1000)},
		"endless requests": {"", "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			l, done := make(pipes), make(chan error)
			go func() { done <- newServer().serve(ctx, l, false) }()
			began := time.Now()
			for range mostOpen {
				ours, theirs := net.Pipe()
				l <- theirs
				go func() {
					_, err := io.WriteString(ours, send[0])
					for send[1] != "" && err == nil {
						_, err = io.WriteString(ours, send[1])
					}
				}()
				go func() { _, _ = io.Copy(io.Discard, ours) }()
			}
			ours, theirs := net.Pipe()
			l <- theirs
			go func() { _, _ = io.WriteString(ours, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n") }()
			text, err := io.ReadAll(ours)
			if err != nil || !strings.Contains(string(text), "200 OK") {
				t.Errorf("%s: another client: %q, %v", name, text, err)
			}
			if waited := time.Since(began); waited > requestTime {
				t.Errorf("%s: another client waited for %s of the bubble's time", name, waited)
			}
			cancel()
			synctest.Wait() // the server is closed
			close(l)
			must(t, <-done)
		})
	}
}
