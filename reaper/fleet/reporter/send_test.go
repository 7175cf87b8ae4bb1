package reporter

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/fleet/report"
	"github.com/orphan-reaper/orphan-reaper/reaper/kube"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// token makes a service account's token with the claims of Kubernetes 1.30.
func token(node, uid string) string {
	claims := fmt.Sprintf(`{"aud":["x"],"kubernetes.io":{"namespace":"n","node":{"name":%q,"uid":%q},"pod":{"name":"p","uid":"q"}},"sub":"s"}`, node, uid)
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
}

// request is what the API server got.
type request struct {
	line, contentType, authorization string
	body                             []byte
}

// apiServer plays an API server whose answers a test sets.
type apiServer struct {
	*httptest.Server
	mu       sync.Mutex
	requests []request
	answer   func(w http.ResponseWriter, r *http.Request, body []byte)
}

// good answers as an API server that accepts everything.
func good(w http.ResponseWriter, _ *http.Request, body []byte) {
	w.WriteHeader(http.StatusCreated)
	_, _ = w.Write(body)
}

func newAPIServer(t *testing.T) *apiServer {
	t.Helper()
	s := &apiServer{answer: good}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		s.mu.Lock()
		s.requests = append(s.requests, request{r.Method + " " + r.RequestURI, r.Header.Get("Content-Type"), r.Header.Get("Authorization"), body})
		s.mu.Unlock()
		s.answer(w, r, body)
	}))
	t.Cleanup(s.Close)
	return s
}

// writer returns a writer to this server, its log and its clock.
func (s *apiServer) writer(tok string) (w *Writer, text *bytes.Buffer, now *time.Time) {
	text, now = new(bytes.Buffer), new(time.Unix(1_800_000_000, 0))
	return New(Config{
		Host: "host", Now: func() time.Time { return *now }, Log: slog.New(slog.NewTextHandler(text, nil)), Written: func(time.Time) {},
		Open: func() (*kube.Server, error) { return kube.NewServer(testkit.ConfigOf(s.Server, tok), "we") },
	}), text, now
}

// publish hands over a report and writes it at once.
func publish(t *testing.T, w *Writer, r *report.Report) {
	t.Helper()
	w.Publish(r, nil)
	w.events.note(r, w.cfg.Now())
	w.write(t.Context())
}

// TestOnTheWire: one request makes or changes the report of the node that the token names, and has it
// go with that node.
func TestOnTheWire(t *testing.T) {
	s := newAPIServer(t)
	for _, c := range []struct{ set, token, name, uid string }{
		{"", token("worker-1", "u-1"), "worker-1", "u-1"},
		{"worker-1", token("worker-1", "u-1"), "worker-1", "u-1"},
		{"worker-2", token("worker-1", "u-1"), "worker-2", ""}, // refused by the API server
		{"", "opaque", "host", ""},
		{"", "", "host", ""},
		{"", token("Not/a name", "u-1"), "host", ""},
		{"", token("worker-1", strings.Repeat("u", 300)), "host", ""},
		{"", "a.b.c", "host", ""},
	} {
		w, _, _ := s.writer(c.token)
		w.cfg.Node = c.set
		s.requests = nil
		publish(t, w, pass(1, 2))
		if len(s.requests) != 1 {
			t.Fatalf("%v: %d requests", c, len(s.requests))
		}
		r := s.requests[0]
		if want := "PATCH /apis/orphan-reaper.github.io/v1alpha1/orphanreports/" + c.name + "?fieldManager=orphan-reaper&force=true"; r.line != want {
			t.Errorf("%v: %s, want %s", c, r.line, want)
		}
		if r.contentType != "application/apply-patch+yaml" || c.token != "" && r.authorization != "Bearer "+c.token {
			t.Errorf("%v: %s, %s", c, r.contentType, r.authorization)
		}
		var res report.Resource
		testkit.Must(t, json.Unmarshal(r.body, &res))
		var owners []report.Owner
		if c.uid != "" {
			owners = []report.Owner{{APIVersion: "v1", Kind: "Node", Name: c.name, UID: c.uid}}
		}
		if fmt.Sprint(res.Metadata) != fmt.Sprint(report.Metadata{Name: c.name, Owners: owners}) || res.Report.Node != c.name || len(res.Report.Pods) != 2 {
			t.Errorf("%v: %s", c, r.body)
		}
	}
}

// TestRefusals checks the responses of an API server, or of another server: the report is retried, the log has the
// error once with the action, and nothing else happens.
func TestRefusals(t *testing.T) {
	status := func(code int) func(http.ResponseWriter, *http.Request, []byte) {
		return func(w http.ResponseWriter, _ *http.Request, _ []byte) {
			w.Header().Set("Location", "https://example.invalid/")
			w.WriteHeader(code)
			_, _ = fmt.Fprintf(w, `{"kind":"Status","message":"no\u001b[2J, because of %d"}`, code)
		}
	}
	text := func(text string) func(http.ResponseWriter, *http.Request, []byte) {
		return func(w http.ResponseWriter, _ *http.Request, _ []byte) { _, _ = io.WriteString(w, text) }
	}
	for name, c := range map[string]struct {
		answer func(http.ResponseWriter, *http.Request, []byte)
		want   string
	}{
		"unknown":    {status(401), "does not know these credentials"},
		"forbidden":  {status(403), "needs create and patch on orphanreports"},
		"no kind":    {status(404), "apply their definition"},
		"conflict":   {status(409), "because of 409"},
		"too long":   {status(413), "refuses a request of this size"},
		"schema":     {status(422), "another version"},
		"too many":   {status(429), "may only be busy"},
		"broken":     {status(500), "because of 500"},
		"away":       {status(503), "may only be busy"},
		"elsewhere":  {status(307), "it answers 307"},
		"a web page": {text("<html>"), "its answer is no OrphanReport"},
		"empty":      {text(""), "its answer is no OrphanReport"},
		"other":      {text(`{"kind":"OrphanReport","metadata":{"name":"other"}}`), "is it an API server?"},
		"endless":    {text(strings.Repeat(" ", mostAnswer+1) + "{}"), "its answer is no OrphanReport"},
		"cut":        {func(http.ResponseWriter, *http.Request, []byte) { panic(http.ErrAbortHandler) }, "EOF"},
	} {
		s := newAPIServer(t)
		s.answer = c.answer
		w, log, _ := s.writer(token("n1", "u1"))
		p := pass(1, 1)
		p.BreakerOpen = true
		publish(t, w, pass(0, 1))
		publish(t, w, p)
		printed := log.String()
		if strings.Count(printed, "level=") != 1 || !strings.Contains(printed, c.want) || strings.Contains(printed, "\x1b") || strings.Contains(printed, "e30.") {
			t.Errorf("%s: the log has %s", name, printed)
		}
		if w.plan.due.IsZero() || len(s.requests) != 2 || w.wrote != 0 {
			t.Errorf("%s: %d requests, next %v", name, len(s.requests), w.plan.due)
		}
		s.answer = good
		if w.write(t.Context()); !w.plan.due.IsZero() || !strings.Contains(log.String(), "OrphanReport is written") {
			t.Errorf("%s: the report was not written afterwards: %s", name, log)
		}
	}
}

// TestSilence checks that an API server that does not respond, or does not end its response, costs bounded time.
func TestSilence(t *testing.T) {
	for name, begin := range map[string]string{"nothing": "", "half": `{"kind":"OrphanReport",`} {
		s := newAPIServer(t)
		free := make(chan struct{})
		s.answer = func(w http.ResponseWriter, _ *http.Request, _ []byte) {
			if begin != "" {
				_, _ = io.WriteString(w, begin)
				_ = http.NewResponseController(w).Flush()
			}
			<-free
		}
		w, log, _ := s.writer("")
		w.wait = 50 * time.Millisecond
		publish(t, w, pass(1, 1))
		close(free)
		if !strings.Contains(log.String(), "does not answer within 30s") || w.plan.due.IsZero() {
			t.Errorf("%s: %s", name, log)
		}
	}
}

// TestCredentials checks that credentials are read for each request, and that a missing one is logged.
func TestCredentials(t *testing.T) {
	s := newAPIServer(t)
	tok := token("n1", "u1")
	w, log, _ := s.writer(tok)
	w.cfg.Open = func() (*kube.Server, error) { return nil, fmt.Errorf("cannot read the token") }
	publish(t, w, pass(1, 1))
	if !strings.Contains(log.String(), "cannot read the token") {
		t.Errorf("the log: %s", log)
	}
	w.cfg.Open = func() (*kube.Server, error) { return kube.NewServer(testkit.ConfigOf(s.Server, tok+"x"), "we") }
	w.write(t.Context())
	if r := s.requests[0]; r.authorization != "Bearer "+tok+"x" {
		t.Errorf("request with %s", r.authorization)
	}
}
