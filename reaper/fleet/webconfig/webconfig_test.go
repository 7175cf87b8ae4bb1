package webconfig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit/webcases"
)

func TestDemands(t *testing.T) {
	type demand struct{ password, certificate, tls bool }
	for text, want := range map[string]demand{
		"":                           {},
		"basic_auth_users: {}\n":     {},
		"basic_auth_users: {a: b}\n": {password: true},
		"tls_server_config: {cert_file: a, key_file: b}\n":                                             {tls: true},
		"tls_server_config: {cert: PEM, key: PEM}\n":                                                   {tls: true},
		"tls_server_config: {client_auth_type: RequestClientCert, client_ca_file: c}\n":                {},
		"tls_server_config: {client_auth_type: RequireAnyClientCert, client_ca_file: c}\n":             {},
		"tls_server_config: {client_auth_type: VerifyClientCertIfGiven, client_ca_file: c}\n":          {},
		"tls_server_config: {client_auth_type: RequireAndVerifyClientCert}\n":                          {}, // any public certificate would do
		"tls_server_config: {client_auth_type: RequireAndVerifyClientCert, client_ca_file: /ca.pem}\n": {certificate: true},
		"tls_server_config: {client_auth_type: RequireAndVerifyClientCert, client_ca: PEM}\n":          {certificate: true},
	} {
		f, err := Parse([]byte(text), "/")
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got := (demand{f.WantsPassword(), f.WantsCertificate(), f.HasTLS()}); got != want {
			t.Errorf("%q: %+v", text, got)
		}
	}
	if _, err := Parse([]byte("basic_auth_users: ["), "/"); err == nil {
		t.Error("no error of a broken file")
	}
}

// TestWords: what is wrong is said with its line or its key, and never with a password's hash or a key.
func TestWords(t *testing.T) {
	dir := t.TempDir()
	for name, text := range webcases.PEMs(t) {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	const pair = "tls_server_config: {cert_file: server.crt, key_file: server.key, "
	for text, want := range map[string]string{
		"rate_limit: []\n":                                                 "into rate_limit",
		"tls_config: {}\n":                                                 "line 1: field tls_config not found in a web configuration",
		pair + "cert_fil: a}\n":                                            "field cert_fil not found in tls_server_config",
		pair + "min_version: SSL30}\n":                                     `line 1: there is no version of TLS "SSL30"`,
		pair + "cipher_suites: [A]}\n":                                     `there is no cipher suite "A"`,
		pair + "curve_preferences: [B]}\n":                                 `there is no curve "B"`,
		pair + "client_auth_type: C}\n":                                    `there is no client_auth_type "C"`,
		pair + "client_ca_file: ca.crt}\n":                                 "client_auth_type is missing",
		pair + "client_ca_file: x, client_auth_type: RequestClientCert}\n": "client_ca_file",
		"tls_server_config: {cert_file: server.crt}\n":                     "neither key_file nor key",
		"tls_server_config: {cert_file: junk.crt, key_file: server.key}\n": "the certificate and its key cannot be used",
		"tls_server_config: {cert_file: none, key_file: server.key}\n":     "no such file",
		"basic_auth_users: {alice: s3cret}\n":                              `what stands for "alice" is no bcrypt hash`,
		"http_server_config: {headers: {Server: x}}\n":                     `cannot set the header "Server"`,
		"http_server_config: {headers: {X-Frame-Options: x}}\n":            "deny, sameorigin",
		strings.Repeat("#", fileBytes+1):                                   "more than 1048576 bytes",
	} {
		path := filepath.Join(dir, "web.yml")
		testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
		err := New(path, time.Now, slog.New(slog.DiscardHandler)).Check()
		if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%.100q: %v", text, err)
		}
	}
}

// TestSaidOnce: a file that cannot be used is logged once, and again when it was good in between.
func TestSaidOnce(t *testing.T) {
	dir := t.TempDir()
	for name, text := range webcases.PEMs(t) {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	path := filepath.Join(dir, "web.yml")
	write := func(text string) { testkit.Must(t, os.WriteFile(path, []byte(text), 0o600)) }
	var said bytes.Buffer
	g := New(path, time.Now, slog.New(slog.NewTextHandler(&said, nil)))
	h := g.Handler(http.NotFoundHandler())
	ask := func() {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", http.NoBody))
		_, _ = g.forClient(nil)
	}
	lines := func(want int, what string) {
		t.Helper()
		for range 3 {
			ask()
		}
		if n := strings.Count(said.String(), "level=ERROR"); n != want {
			t.Errorf("%s: %d lines, want %d\n%s", what, n, want, said.String())
		}
		said.Reset()
	}
	const good = "tls_server_config: {cert_file: server.crt, key_file: server.key}\n"
	write(good)
	lines(0, "good")
	write("junk")
	lines(2, "a broken file, of connections and of requests")
	write(good)
	lines(0, "good again")
	testkit.Must(t, os.Remove(filepath.Join(dir, "server.crt")))
	lines(1, "no certificate")
	write("{}")
	lines(1, "TLS is gone")
}

// TestMadeOnce: while nothing changes on disk the file is not parsed and the certificate not loaded again.
func TestMadeOnce(t *testing.T) {
	dir := t.TempDir()
	texts := webcases.PEMs(t)
	put := func(name, text string) { testkit.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)) }
	put("a.crt", texts["server.crt"])
	put("a.key", texts["server.key"])
	put("web.yml", "tls_server_config: {cert_file: a.crt, key_file: a.key}\n")
	g := New(filepath.Join(dir, "web.yml"), time.Now, slog.New(slog.DiscardHandler))
	first, err := g.forClient(nil)
	testkit.Must(t, err)
	if again, err := g.forClient(nil); err != nil || again != first {
		t.Errorf("made again: %v", err)
	}
	put("a.crt", texts["second.crt"])
	put("a.key", texts["second.key"])
	if other, err := g.forClient(nil); err != nil || other == first {
		t.Errorf("not made again: %v", err)
	}
	if !first.SessionTicketsDisabled {
		t.Error("a session can be resumed without the certificate")
	}
}

// TestFrom: who is let in learns by which file, whatever the file is by then.
func TestFrom(t *testing.T) {
	path := testkit.File(t, "web.yml", "basic_auth_users: {alice: $2y$04$scKiezGA.qUEoByWtLxGh.GutsqWc1/wl94T1rEnmU8K.9HSplA8G}\n")
	g := New(path, time.Now, slog.New(slog.DiscardHandler))
	in := false
	h := g.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		in = true
		testkit.Must(t, os.WriteFile(path, nil, 0o600))
		if !From(r.Context()).WantsPassword() {
			t.Error("it was let in by the file that had users")
		}
	}))
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	r.SetBasicAuth("alice", "secret")
	if h.ServeHTTP(httptest.NewRecorder(), r); !in {
		t.Error("it was not let in")
	}
}

// slow are passwords whose comparison takes so long, and whose hash is the password.
func slow(takes time.Duration, compared, running *atomic.Int64) *passwords {
	p := newPasswords(time.Now)
	p.compare = func(hash, password []byte) error {
		if running.Add(1) > 1 {
			panic("two at once")
		}
		defer running.Add(-1)
		compared.Add(1)
		time.Sleep(takes)
		if !bytes.Equal(hash, password) {
			return errors.New("another")
		}
		return nil
	}
	return p
}

// TestFlood: a minute of wrong passwords, as many as connections may be open, takes a quarter of one processor. Who was let in
// before comes in without waiting, who is new is told to come again.
func TestFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const takes = 60 * time.Millisecond
		var compared, running atomic.Int64
		p := slow(takes, &compared, &running)
		users := map[string]string{"alice": "a", "bob": "b"}
		if p.check(t.Context(), users, "alice", "a") != right {
			t.Fatal("alice")
		}
		began, count := time.Now(), compared.Load()
		var flood sync.WaitGroup
		answers := map[answer]*atomic.Int64{wrong: {}, right: {}, busy: {}}
		for i := range 64 {
			flood.Go(func() {
				for n := 0; time.Since(began) < time.Minute; n++ {
					user := []string{"alice", "bob", "nobody"}[n%3]
					answers[p.check(t.Context(), users, user, fmt.Sprint("wrong", i, n))].Add(1)
				}
			})
		}
		time.Sleep(30 * time.Second)
		at := time.Now()
		if p.check(t.Context(), users, "alice", "a") != right || time.Since(at) != 0 {
			t.Errorf("alice has waited for %s", time.Since(at))
		}
		flood.Wait()
		took := time.Since(began)
		used := time.Duration(compared.Load()-count) * takes
		if used > took/(1+restFactor)+takes || used < took/10 {
			t.Errorf("%s of %s", used, took)
		}
		if took > time.Minute+mostWait+takes || answers[right].Load() > 0 || answers[busy].Load() == 0 {
			t.Errorf("it took %s: %d wrong, %d busy", took, answers[wrong].Load(), answers[busy].Load())
		}
		time.Sleep(time.Second)
	})
}

// TestStrangers: who is no user is compared with a user's hash, and never let in by it.
func TestStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var compared, running atomic.Int64
		p := slow(time.Millisecond, &compared, &running)
		users := map[string]string{"alice": "a"}
		for i := range 3 {
			if got := p.check(t.Context(), users, "stranger", "a"); got != wrong || compared.Load() != int64(i+1) {
				t.Errorf("%d after %d comparisons", got, compared.Load())
			}
		}
		for range 3 {
			if got := p.check(t.Context(), users, "alice", "a"); got != right || compared.Load() != 4 {
				t.Errorf("%d after %d comparisons", got, compared.Load())
			}
		}
		if got := p.check(t.Context(), map[string]string{"alice": "other"}, "alice", "a"); got != wrong {
			t.Error("the old password, after the hash was replaced")
		}
		time.Sleep(time.Second)
	})
}

// TestGone: who has gone away waits no longer; ten who bring the same password at once cost one comparison.
func TestGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var compared, running atomic.Int64
		p := slow(time.Second, &compared, &running)
		users := map[string]string{"alice": "a"}
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				if p.check(t.Context(), users, "alice", "a") != right {
					t.Error("alice")
				}
			})
		}
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if p.check(ctx, users, "alice", "b") != busy {
			t.Error("it waits for nobody")
		}
		all.Wait()
		if compared.Load() != 1 {
			t.Errorf("%d comparisons", compared.Load())
		}
	})
}

// TestKnownIsBounded: however many passwords are right, so many are kept.
func TestKnownIsBounded(t *testing.T) {
	p := newPasswords(time.Now)
	p.compare = func(_, _ []byte) error { return nil }
	for i := range 3 * mostKnown {
		user := fmt.Sprint(i)
		if p.check(t.Context(), map[string]string{user: "h"}, user, "p") != right {
			t.Fatal(user)
		}
	}
	if len(p.known) != mostKnown {
		t.Errorf("%d are kept", len(p.known))
	}
}

// TestRate: a bound on the rate lets one more in each interval, and no more than the burst after a long time.
func TestRate(t *testing.T) {
	now := time.Unix(1e9, 0)
	g := New("", func() time.Time { return now }, slog.New(slog.DiscardHandler))
	r := Rate{Burst: 3, Interval: interval(time.Second)}
	for i, c := range []struct {
		after time.Duration
		want  int
	}{{0, 3}, {500 * time.Millisecond, 0}, {500 * time.Millisecond, 1}, {2 * time.Second, 2}, {time.Hour, 3}, {-time.Hour, 0}} {
		now = now.Add(c.after)
		n := 0
		for range 10 {
			if g.allows(r) {
				n++
			}
		}
		if n != c.want {
			t.Errorf("%d: %d came in, want %d", i, n, c.want)
		}
	}
}

// FuzzParse: no text crashes it; what has users demands a password; files lie where they were named.
func FuzzParse(f *testing.F) {
	for _, c := range webcases.Cases() {
		f.Add(c.File)
	}
	f.Fuzz(func(t *testing.T, text string) {
		file, err := Parse([]byte(text), "/dir")
		if err != nil {
			return
		}
		var all struct {
			Users yaml.Node `yaml:"basic_auth_users"`
		}
		if err := yaml.Unmarshal([]byte(text), &all); err != nil {
			t.Fatalf("it is no YAML: %v", err)
		}
		users := &all.Users
		if users.Kind == yaml.AliasNode {
			users = users.Alias
		}
		if users.Kind == yaml.MappingNode && len(users.Content) > 0 && users.Content[0].ShortTag() != "!!merge" && !file.WantsPassword() {
			t.Error("it has users and demands no password")
		}
		for _, path := range []string{file.TLS.CertFile, file.TLS.KeyFile, file.TLS.CAFile} {
			if path != "" && !filepath.IsAbs(path) {
				t.Errorf("%q is relative", path)
			}
		}
		if _, ok := clientAuth[file.TLS.ClientAuth]; ok && file.WantsCertificate() && file.TLS.ClientAuth != verifyAll {
			t.Error("it wants a certificate that nobody verifies")
		}
	})
}
