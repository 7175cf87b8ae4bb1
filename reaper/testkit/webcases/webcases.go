// Package webcases is a table of Prometheus' web configurations and of requests, and what is answered to each. The tests of
// reaper/fleet/webconfig go through it, and those of packaging/checks/webconfig, which have Prometheus' exporter-toolkit answer
// beside. Only tests import it.
package webcases

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Server is what reads a web configuration.
type Server struct {
	// Check says what is wrong with the file at path.
	Check func(path string) error
	// Serve answers on l by h as the file at path says, until l is closed.
	Serve func(l net.Listener, h *http.Server, path string) error
}

// Case is a file, and requests one after the other.
type Case struct {
	Name     string
	File     string    // what web.yml has; PEM files are beside it (see write)
	Refused  bool      // at the start
	Requests []Request // at least one, where it is not refused
	// Theirs is what Prometheus' exporter-toolkit does where it is not the same, with the reason; "" where it is.
	Theirs string
}

// Request is one request on a connection of its own.
type Request struct {
	Before map[string]string // files that are written before; "=NAME" has what the PEM file NAME had at first, "-" removes it
	TLS    bool
	Cert   string // the client's: NAME of NAME.crt and NAME.key
	Max    uint16 // the client's newest version of TLS, 0 for all
	Suites []uint16
	Curves []tls.CurveID
	Protos []string
	User   string
	Pass   string
	Want   string // as Run writes it
}

// refused is the answer to a connection that is not let in.
const refused = "no connection"

// Run has a server go through all cases and compares.
func Run(t *testing.T, s Server, differs func(c *Case) bool) {
	t.Helper()
	texts := PEMs(t)
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range texts {
				put(t, dir, name, text)
			}
			put(t, dir, "web.yml", c.File)
			other := differs(&c)
			err := s.Check(filepath.Join(dir, "web.yml"))
			if (err != nil) != c.Refused && !other {
				t.Fatalf("refused: %v, want %t\n%s", err, c.Refused, c.File)
			}
			if err != nil {
				if other && c.Refused {
					t.Error("they do the same now: take Theirs out of the case")
				}
				return
			}
			same := !c.Refused
			for i, got := range answers(t, s, dir, texts, c.Requests) {
				same = same && got == c.Requests[i].Want
				if got != c.Requests[i].Want && !other {
					t.Errorf("request %d: %q, want %q\n%s", i+1, got, c.Requests[i].Want, c.File)
				}
			}
			if other && same {
				t.Error("they do the same now: take Theirs out of the case")
			}
		})
	}
}

// answers starts a server and asks it.
func answers(t *testing.T, s Server, dir string, texts map[string]string, requests []Request) (list []string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "in") }), ReadHeaderTimeout: 10 * time.Second,
		Protocols: new(http.Protocols), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	h.Protocols.SetHTTP1(true)
	h.SetKeepAlivesEnabled(false)
	done := make(chan error, 1)
	go func() { done <- s.Serve(l, h, filepath.Join(dir, "web.yml")) }()
	for _, r := range requests {
		for name, text := range r.Before {
			if from, ok := strings.CutPrefix(text, "="); ok {
				text = texts[from]
			}
			put(t, dir, name, text)
		}
		list = append(list, r.ask(t, l.Addr().String(), texts))
	}
	_ = h.Close()
	if err := <-done; err == nil {
		t.Error("the server ended without an error")
	}
	return list
}

// ask sends a request and writes the answer: the code, the headers that a web configuration can set or that ask for
// something, and by TLS its version and whose certificate the server has shown.
func (r *Request) ask(t *testing.T, address string, texts map[string]string) string {
	t.Helper()
	c := &tls.Config{
		InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: r.Max, CipherSuites: r.Suites, CurvePreferences: r.Curves, NextProtos: r.Protos,
	}
	if r.Cert != "" {
		pair, err := tls.X509KeyPair([]byte(texts[r.Cert+".crt"]), []byte(texts[r.Cert+".key"]))
		if err != nil {
			t.Fatal(err)
		}
		// Whatever authorities the server names: it is the server's part to refuse.
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	transport := &http.Transport{TLSClientConfig: c, DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	scheme := "http"
	if r.TLS {
		scheme = "https"
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+address+"/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if r.User != "" {
		q.SetBasicAuth(r.User, r.Pass)
	}
	a, err := transport.RoundTrip(q)
	if err != nil {
		if ctx.Err() != nil {
			t.Fatal(err)
		}
		return refused
	}
	_ = a.Body.Close()
	text := []string{fmt.Sprint(a.StatusCode)}
	for _, name := range []string{
		"WWW-Authenticate", "Strict-Transport-Security", "X-Content-Type-Options", "X-Frame-Options", "X-XSS-Protection", "Content-Security-Policy",
	} {
		if v := a.Header.Get(name); v != "" && (a.StatusCode < 400 || v != "nosniff") { // which http.Error sets
			text = append(text, name+": "+v)
		}
	}
	if a.TLS != nil {
		text = append(text, tls.VersionName(a.TLS.Version)+" by "+a.TLS.PeerCertificates[0].Subject.CommonName)
	}
	return strings.Join(text, ", ")
}

func put(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	var err error
	if text == "-" {
		err = os.Remove(path)
	} else {
		err = os.WriteFile(path, []byte(text), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// PEMs makes the files that lie beside web.yml: NAME.crt and NAME.key of the server (and second, which replaces it), of the
// clients alice and bob by the authority ca, of mallory by the authority otherca, and of eve, who signs herself.
func PEMs(tb testing.TB) map[string]string {
	tb.Helper()
	texts := map[string]string{"empty.crt": "", "junk.crt": "junk"}
	type pair struct {
		cert *x509.Certificate
		key  *ecdsa.PrivateKey
	}
	made := map[string]pair{}
	for i, of := range []struct{ name, by string }{
		{"server", "server"},
		{"second", "second"},
		{"ca", "ca"},
		{"otherca", "otherca"},
		{"alice", "ca"},
		{"bob", "ca"},
		{"mallory", "otherca"},
		{"eve", "eve"},
	} {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			tb.Fatal(err)
		}
		cert := &x509.Certificate{
			SerialNumber: big.NewInt(int64(i) + 1), Subject: pkix.Name{CommonName: of.name},
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), BasicConstraintsValid: true, IsCA: strings.HasSuffix(of.name, "ca"),
			KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
			DNSNames: []string{of.name + ".example"}, EmailAddresses: []string{of.name + "@example.com"}, IPAddresses: []net.IP{net.IPv4(192, 0, 2, byte(i))},
			URIs: []*url.URL{{Scheme: "spiffe", Host: "example", Path: "/" + of.name}},
		}
		by := made[of.by]
		if of.by == of.name {
			by = pair{cert, key}
		}
		der, err := x509.CreateCertificate(rand.Reader, cert, by.cert, key.Public(), by.key)
		if err != nil {
			tb.Fatal(err)
		}
		pk, err := x509.MarshalECPrivateKey(key)
		if err != nil {
			tb.Fatal(err)
		}
		made[of.name] = pair{cert, key}
		texts[of.name+".crt"] = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
		texts[of.name+".key"] = string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: pk}))
	}
	return texts
}
