package fleet

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// served is a server with TLS whose clients all have another host's address.
type served struct {
	*testing.T
	dir, address string
	pems         map[string]string
	later        atomic.Int64 // how far the server's clock is ahead
	log          *buffer
	server       *Server
}

const verifyClients = "tls_server_config: {cert_file: server.crt, key_file: server.key, client_auth_type: RequireAndVerifyClientCert, client_ca_file: ca.crt}\n"

// buffer is a bytes.Buffer for several goroutines.
type buffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

// errors returns the number of errors logged since its last call.
func (b *buffer) errors() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.Reset()
	return strings.Count(b.String(), "level=ERROR")
}

func serveTLS(t *testing.T, file string) *served {
	t.Helper()
	n := &served{T: t, dir: t.TempDir(), pems: map[string]string{}, log: &buffer{}}
	for _, name := range []string{"server", "second", "alice", "mallory"} {
		n.pems[name+".crt"], n.pems[name+".key"] = testkit.NewCert(t, name, testkit.Later)
	}
	n.use("server")
	n.write("ca.crt", n.pems["alice.crt"])
	n.write("web.yaml", file)
	s, _, _ := newTestServer(t, filepath.Join(n.dir, "web.yaml"))
	s.cfg.Log, s.cfg.Now = slog.New(slog.NewTextHandler(n.log, nil)), func() time.Time { return time.Now().Add(time.Duration(n.later.Load())) }
	n.server = s
	testkit.Must(t, s.Check())
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	n.address = l.Addr().String()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.serve(ctx, fromElsewhere{l}) }()
	t.Cleanup(func() { cancel(); testkit.Must(t, <-done) })
	return n
}

func (n *served) write(name, text string) {
	n.Helper()
	path := filepath.Join(n.dir, name)
	testkit.Must(n.T, os.WriteFile(path+".new", []byte(text), 0o600))
	testkit.Must(n.T, os.Rename(path+".new", path))
}

// use makes the server show another certificate.
func (n *served) use(name string) {
	n.write("server.crt", n.pems[name+".crt"])
	n.write("server.key", n.pems[name+".key"])
}

// post requests a look and returns the status and the name in the server's certificate; "" means no connection.
func (n *served) post(client string, c *tls.Config) string {
	n.Helper()
	c.InsecureSkipVerify = true
	if client != "" {
		pair, err := tls.X509KeyPair([]byte(n.pems[client+".crt"]), []byte(n.pems[client+".key"]))
		testkit.Must(n.T, err)
		c.Certificates = []tls.Certificate{pair}
	}
	r, err := http.NewRequestWithContext(n.Context(), http.MethodPost, "https://"+n.address+"/v1/sweep", http.NoBody)
	testkit.Must(n.T, err)
	a, err := (&http.Transport{TLSClientConfig: c, DisableKeepAlives: true}).RoundTrip(r)
	if err != nil {
		return ""
	}
	_ = a.Body.Close()
	return fmt.Sprint(a.StatusCode, " by ", a.TLS.PeerCertificates[0].Subject.CommonName)
}

// TestServesTLS checks that a client is admitted by the certificate of its connection and the present web
// configuration, and that a replaced certificate on disk is used at once.
func TestServesTLS(t *testing.T) {
	n := serveTLS(t, verifyClients)
	cache := tls.NewLRUClientSessionCache(1)
	for i, c := range []struct {
		before func()
		client string
		conf   *tls.Config
		want   string
	}{
		{nil, "alice", &tls.Config{}, "202 by server"},
		{nil, "mallory", &tls.Config{}, ""},
		{nil, "", &tls.Config{}, ""},
		{nil, "alice", &tls.Config{NextProtos: []string{"h2"}}, ""}, // one request per connection
		{nil, "alice", &tls.Config{MaxVersion: tls.VersionTLS12, ClientSessionCache: cache}, "202 by server"},
		{nil, "alice", &tls.Config{MaxVersion: tls.VersionTLS12, ClientSessionCache: cache}, "403 by server"}, // a resumed session without a certificate
		{func() { n.use("second") }, "alice", &tls.Config{}, "202 by second"},
		{func() { n.write("ca.crt", n.pems["mallory.crt"]) }, "alice", &tls.Config{}, ""},
		{nil, "mallory", &tls.Config{}, "202 by second"},
		{func() { n.write("web.yaml", "tls_server_config: {cert_file: server.crt, key_file: server.key}\n") }, "mallory", &tls.Config{}, "403 by second"},
	} {
		if c.before != nil {
			c.before()
		}
		if got := n.post(c.client, c.conf); got != c.want {
			t.Errorf("%d: %q, want %q", i, got, c.want)
		}
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+n.address+"/metrics", http.NoBody)
	testkit.Must(t, err)
	a, err := http.DefaultTransport.RoundTrip(r)
	testkit.Must(t, err)
	if _ = a.Body.Close(); a.StatusCode != http.StatusBadRequest {
		t.Errorf("without TLS: %d", a.StatusCode)
	}
}

// TestBecomesWrong checks that a web configuration that becomes invalid admits no client and is logged once for all
// clients.
func TestBecomesWrong(t *testing.T) {
	n := serveTLS(t, verifyClients)
	got, want := 0, 0
	for i, c := range []struct {
		name, text, want string
		errors           int
	}{
		{"web.yaml", verifyClients, "202 by server", 0},
		{"server.crt", "junk", "", 1},
		{"server.crt", n.pems["server.crt"], "202 by server", 0},
		{"web.yaml", "tls_server_config: [\n", "", 1},
		{"web.yaml", verifyClients, "202 by server", 0},
	} {
		n.write(c.name, c.text)
		n.later.Add(int64(checkAgain))
		for range 5 {
			if got := n.post("alice", &tls.Config{}); got != c.want {
				t.Errorf("%d: %q, want %q", i, got, c.want)
			}
			n.later.Add(int64(checkAgain))
		}
		want += c.errors
		n.server.recheck(t.Context()) // a server logs after its client has the response
	}
	if got += n.log.errors(); got != want {
		t.Errorf("%d errors were logged, want %d", got, want)
	}
}
