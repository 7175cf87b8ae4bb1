package trace

import (
	"bufio"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestAddress(t *testing.T) {
	for endpoint, want := range map[string]string{
		"http://127.0.0.1:4318":              "http://127.0.0.1:4318/v1/traces",
		"http://127.0.0.1:4318/":             "http://127.0.0.1:4318/v1/traces",
		"https://otlp.example.org/otlp":      "https://otlp.example.org/otlp/v1/traces",
		"https://otlp.example.org/v1/traces": "https://otlp.example.org/v1/traces",
	} {
		if got := address(endpoint); got != want {
			t.Errorf("%s: %s", endpoint, got)
		}
	}
}

// TestCollectors: each costs one bounded request, and says why where it has not taken the trace.
func TestCollectors(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(w http.ResponseWriter, r *http.Request)
		fails  string // "" where the trace counts as taken
	}{
		"takes it": {func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if string(body) != "{}" || r.Method != "POST" || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/json" {
				w.WriteHeader(http.StatusTeapot)
			}
		}, ""},
		"takes it, in JSON": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"partialSuccess":{}}`) }, ""},
		"refuses nothing": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"partialSuccess":{"rejectedSpans":"0"}}`)
		}, ""},
		"refuses some": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"partialSuccess":{"rejectedSpans":"3","errorMessage":"too \u001b[2Jmany"}}`)
		}, `refused spans of a trace: too \x1b[2Jmany`},
		"refuses some, as a number": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"partialSuccess":{"rejectedSpans":3,"errorMessage":"`+strings.Repeat("x", 1000)+`"}}`)
		}, strings.Repeat("x", 200)},
		"garbage": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "\x00\xff{{{") }, ""},
		"endless": {endless, ""},
		"busy":    {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) }, "answers 429 Too Many Requests"},
		"away":    {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }, "answers 503"},
		"elsewhere": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/v1/traces", http.StatusTemporaryRedirect)
		}, "answers 307"},
		"huge headers":  {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("x", 64<<10)) }, "header"},
		"never answers": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "does not answer"},
		"half an answer": {func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "{")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, ""},
	} {
		asked := 0
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked++
			body, _ := io.ReadAll(r.Body) // only then the server sees that the client goes
			r.Body = io.NopCloser(strings.NewReader(string(body)))
			c.answer(w, r)
		}))
		patience := 10 * time.Second
		if name == "never answers" || name == "half an answer" {
			patience = 100 * time.Millisecond
		}
		err := (&collector{url: address(s.URL), agent: "test", patience: patience}).send(t.Context(), []byte("{}"))
		s.Close()
		if (err != nil) != (c.fails != "") || err != nil && (!strings.Contains(err.Error(), c.fails) || len(err.Error()) > 400) || asked != 1 {
			t.Errorf("%s: asked %d times: %v", name, asked, err)
		}
	}
}

// endless answers until nobody listens.
func endless(w http.ResponseWriter, _ *http.Request) {
	for {
		if _, err := io.WriteString(w, strings.Repeat("x", 1000)); err != nil {
			return
		}
	}
}

// TestNoHTTP: what listens at the port speaks something else, or nobody does.
func TestNoHTTP(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &collector{url: "http://" + l.Addr().String(), agent: "test", patience: 10 * time.Second}
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		_, _ = bufio.NewReader(conn).ReadString('\n')
		_, _ = io.WriteString(conn, "220 mail.example.org ESMTP\r\n")
		_ = conn.Close()
	}()
	if err := c.send(t.Context(), []byte("{}")); err == nil {
		t.Error("a mail server has taken a trace")
	}
	_ = l.Close()
	if err := c.send(t.Context(), []byte("{}")); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Error(err)
	}
}

// TestCertificates: an https collector is known by the file, which may come later and change.
func TestCertificates(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	s.Config.ErrorLog = nil
	defer s.Close()
	file := filepath.Join(t.TempDir(), "ca.pem")
	c := &collector{url: s.URL, agent: "test", patience: 10 * time.Second}
	if err := c.send(t.Context(), nil); err == nil {
		t.Error("a collector that nobody knows has got a trace")
	}
	c.caFile = file
	for _, try := range []struct{ text, fails string }{
		{"", "no such file"},
		{"no certificate", "there is no certificate in " + file},
		{string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})), ""},
	} {
		if try.text != "" {
			if err := os.WriteFile(file, []byte(try.text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.send(t.Context(), nil); (err != nil) != (try.fails != "") || err != nil && !strings.Contains(err.Error(), try.fails) {
			t.Errorf("%q: %v", try.fails, err)
		}
	}
}
