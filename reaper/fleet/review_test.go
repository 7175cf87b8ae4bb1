package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/kube"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

const secret = "eyJ.s3cret.x"

// apiServer is a stand-in for the API server. Tests change its responses.
type apiServer struct {
	token, access string // the status of its responses
	known         string // part of each known token; "": all tokens are known
	tokens        atomic.Int64
	accesses      atomic.Int64
	saw           chan map[string]any // the received specs, if the test sets it
	http.HandlerFunc
}

const (
	knownToken = `{"authenticated":true,"audiences":["orphan-reaper"],"user":` +
		`{"username":"system:serviceaccount:a:b","uid":"7","groups":["g"],"extra":{"k":["v"]}}}`
	mayAccess = `{"allowed":true}`
)

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.HandlerFunc != nil {
		s.HandlerFunc(w, r)
		return
	}
	var q struct {
		Kind string         `json:"kind"`
		Spec map[string]any `json:"spec"`
	}
	_ = json.NewDecoder(r.Body).Decode(&q) // a body of another kind is not found
	status := s.token
	switch {
	case r.Method == http.MethodPost && r.URL.Path == "/apis/authentication.k8s.io/v1/tokenreviews" && q.Kind == "TokenReview":
		s.tokens.Add(1)
		if token, _ := q.Spec["token"].(string); !strings.Contains(token, s.known) {
			status = `{"authenticated":false}`
		}
	case r.Method == http.MethodPost && r.URL.Path == "/apis/authorization.k8s.io/v1/subjectaccessreviews" && q.Kind == "SubjectAccessReview":
		s.accesses.Add(1)
		status = s.access
	default:
		http.NotFound(w, r)
		return
	}
	if s.saw != nil {
		s.saw <- q.Spec
	}
	w.WriteHeader(http.StatusCreated)
	_, _ = fmt.Fprintf(w, `{"kind":%q,"spec":{},"status":%s}`, q.Kind, status)
}

// fixture is a Reviewer and the API server that it asks, at a time that the test sets.
type fixture struct {
	*Reviewer
	api *apiServer
	at  time.Time
	log bytes.Buffer
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{api: &apiServer{token: knownToken, access: mayAccess}, at: testkit.Noon}
	s := testkit.TLSServer(t, "", f.api.ServeHTTP)
	f.Reviewer = NewReviewer(func() (*kube.Server, error) { return serverOf(t, s), nil }, func() time.Time { return f.at }, slog.New(slog.NewTextHandler(&f.log, nil)))
	t.Cleanup(func() {
		if strings.Contains(f.log.String(), secret) {
			t.Errorf("the log has the token: %s", &f.log)
		}
	})
	return f
}

func serverOf(t *testing.T, s *httptest.Server) *kube.Server {
	t.Helper()
	server, err := kube.NewServer(testkit.ConfigOf(s, "ours"), "we")
	testkit.Must(t, err)
	return server
}

func always() bool { return true }

func (f *fixture) sweep(t *testing.T, token string) admission {
	t.Helper()
	v := f.review(t.Context(), token, "post", "/v1/sweep", always)
	if strings.Contains(v.Text, token) && token != "" || (v.Text == "") != (v.Code == http.StatusOK) {
		t.Errorf("%+v", v)
	}
	return v
}

// waiting waits until n reviews run at once.
func (f *fixture) waiting(t *testing.T, n int) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) {
		asked := len(f.known) + len(f.unknown)
		if asked == n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d reviews run, want %d", asked, n)
		}
	}
}

// TestReview checks that only a known user with the right, and a token for this audience, is admitted.
func TestReview(t *testing.T) {
	for name, c := range map[string]struct {
		token, access string
		code          int
		words         string
	}{
		"allowed":              {knownToken, mayAccess, 200, ""},
		"one of two audiences": {strings.Replace(knownToken, `["`, `["x","`, 1), mayAccess, 200, ""},
		"not known":            {`{"authenticated":false,"error":"invalid bearer token eyJ.s3cret.x"}`, mayAccess, 401, "kubectl create token"},
		"nothing":              {`{}`, mayAccess, 401, "does not know"},
		"null":                 {`null`, mayAccess, 401, "does not know"},
		"named but not known":  {strings.Replace(knownToken, "true", "false", 1), mayAccess, 401, "does not know"},
		"no audience":          {strings.Replace(knownToken, `["orphan-reaper"]`, `[]`, 1), mayAccess, 401, "audience orphan-reaper"},
		"another audience":     {strings.Replace(knownToken, `["orphan-reaper"]`, `["orphan-reaper2","api"]`, 1), mayAccess, 401, "audience"},
		"no name":              {strings.Replace(knownToken, "system:serviceaccount:a:b", "", 1), mayAccess, 401, "does not know"},
		"no right":             {knownToken, `{"allowed":false,"reason":"no"}`, 403, "system:serviceaccount:a:b may not post /v1/sweep"},
		"denied":               {knownToken, `{"allowed":true,"denied":true}`, 403, "may not"},
		"nothing of rights":    {knownToken, `{}`, 403, "may not"},
		"garbage":              {`"x"`, mayAccess, 503, "cannot check the bearer token"},
		"garbage of rights":    {knownToken, `[7]`, 503, "cannot check the bearer token"},
		"a huge answer":        {strings.Replace(knownToken, `"g"`, `"`+strings.Repeat("g", answerBytes)+`"`, 1), mayAccess, 503, "cannot check the bearer token"},
	} {
		f := newFixture(t)
		f.api.token, f.api.access = c.token, c.access
		if v := f.sweep(t, secret); v.Code != c.code || !strings.Contains(v.Text, c.words) {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

// TestWhatIsAsked checks that the API server receives the audience and the whole user that it returned itself.
func TestWhatIsAsked(t *testing.T) {
	f := newFixture(t)
	f.api.saw = make(chan map[string]any, 2)
	f.sweep(t, secret)
	for _, want := range []string{
		`{"audiences":["orphan-reaper"],"token":"eyJ.s3cret.x"}`,
		`{"extra":{"k":["v"]},"groups":["g"],"nonResourceAttributes":{"path":"/v1/sweep","verb":"post"},"uid":"7","user":"system:serviceaccount:a:b"}`,
	} {
		got, err := json.Marshal(<-f.api.saw)
		if err != nil || string(got) != want {
			t.Errorf("%s, %v; want %s", got, err, want)
		}
	}
}

// TestNotAnswered checks that an API server that is away, refuses or is none admits no client, and that this is
// logged once.
func TestNotAnswered(t *testing.T) {
	for name, c := range map[string]struct {
		h    http.HandlerFunc
		want string
	}{
		"no right":   {testkit.Refuse(403, "tokenreviews is forbidden"), "needs the right to create tokenreviews"},
		"a stranger": {testkit.Refuse(401, "Unauthorized"), "401"},
		"echo":       {testkit.Refuse(400, "bad "+secret), "bad …"},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/else", http.StatusTemporaryRedirect)
		}, "307"},
		"another thing": {testkit.Answer(`{"kind":"SelfSubjectReview","status":` + knownToken + `}`), "SelfSubjectReview"},
		"no JSON":       {testkit.Answer("<html>"), "invalid character"},
		"nothing":       {testkit.Answer(""), "EOF"},
	} {
		f := newFixture(t)
		f.api.HandlerFunc = c.h
		for range 3 {
			if v := f.sweep(t, secret); v != unavailable {
				t.Errorf("%s: %+v", name, v)
			}
			f.at = f.at.Add(time.Minute)
		}
		if printed := f.log.String(); strings.Count(printed, "level=WARN") != 1 || !strings.Contains(printed, c.want) {
			t.Errorf("%s: %s", name, printed)
		}
	}
	f := newFixture(t)
	f.open = func() (*kube.Server, error) { return nil, errors.New("no credentials") }
	if v := f.sweep(t, secret); v != unavailable || !strings.Contains(f.log.String(), "no credentials") {
		t.Errorf("%+v %s", v, &f.log)
	}
}

// TestSlowAPIServer checks that an API server that hangs costs a client no more than the time limit.
func TestSlowAPIServer(t *testing.T) {
	f := newFixture(t)
	f.patience = 50 * time.Millisecond
	f.api.HandlerFunc = func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusCreated)
		for r.Context().Err() == nil {
			_, _ = w.Write([]byte(" "))
			_ = http.NewResponseController(w).Flush()
			time.Sleep(5 * time.Millisecond)
		}
	}
	if v := f.sweep(t, secret); v != unavailable || !strings.Contains(f.log.String(), "no answer in time") {
		t.Errorf("%+v %s", v, &f.log)
	}
}

// TestKept checks that a result is reused for some time, for one token and one request, and a refusal for less.
func TestKept(t *testing.T) {
	f := newFixture(t)
	asks := func(what string, want int64) {
		t.Helper()
		if n := f.api.tokens.Load(); n != want {
			t.Errorf("%s: asked %d times, want %d", what, n, want)
		}
	}
	f.sweep(t, secret)
	f.sweep(t, secret)
	f.at = f.at.Add(allowedFor - time.Second)
	f.sweep(t, secret)
	asks("the same", 1)
	if v := f.review(t.Context(), secret, "get", "/v1/orphans", always); v.Code != 200 {
		t.Errorf("%+v", v)
	}
	f.sweep(t, "another")
	asks("something else, and another token", 3)
	f.api.access = `{}`
	f.at = f.at.Add(time.Second)
	if v := f.sweep(t, secret); v.Code != 403 {
		t.Errorf("after the reuse time: %+v", v)
	}
	f.sweep(t, secret)
	asks("refused", 4)
	f.api.access = mayAccess
	f.at = f.at.Add(refusedFor + 1)
	if v := f.sweep(t, secret); v.Code != 200 {
		t.Errorf("admitted again: %+v", v)
	}
	asks("allowed again", 5)
	for i := range 2 * mostKept {
		f.sweep(t, fmt.Sprint("t", i))
	}
	if n := len(f.allowed.Keys()); n > mostKept {
		t.Errorf("%d results are kept", n)
	}
}

// TestLately checks that only a client admitted within the hour is reviewed as a known one, and that neither an
// unreachable API server nor a flood of unknown tokens changes that.
func TestLately(t *testing.T) {
	f := newFixture(t)
	unknown := 0
	sweep := func(what, path string, code, want int) {
		t.Helper()
		v := f.review(t.Context(), secret, "post", path, func() bool { unknown++; return true })
		if v.Code != code || unknown != want {
			t.Errorf("%s: %+v, want %d; asked %d times as unknown, want %d", what, v, code, unknown, want)
		}
		unknown = 0
	}
	const path = "/v1/sweep"
	sweep("a new token", path, 200, 1)
	sweep("again", path, 200, 0)
	f.at = f.at.Add(allowedFor)
	sweep("after a minute", path, 200, 0)
	f.at = f.at.Add(latelyFor - time.Second)
	sweep("within an hour of the last time", path, 200, 0)
	f.at = f.at.Add(latelyFor + 1)
	sweep("after an hour", path, 200, 1)
	f.at = f.at.Add(allowedFor)
	known := f.api.token
	f.api.token = `7`
	sweep("the API server is away", path, 503, 0)
	f.at, f.api.token = f.at.Add(unknownFor+1), known
	sweep("the API server was away", path, 200, 0)
	sweep("something else", "/v1/orphans", 200, 1)
	f.api.token = `{}`
	for i := range 2 * mostKept {
		f.sweep(t, fmt.Sprint("garbage-", i))
	}
	f.at = f.at.Add(allowedFor)
	sweep("after a flood", path, 401, 0)
	f.at, f.api.token = f.at.Add(refusedFor+1), known
	sweep("it was refused", path, 200, 1)
}

// TestRoomForKnown checks that slow reviews of unknown tokens do not block the review of one that was admitted
// lately.
func TestRoomForKnown(t *testing.T) {
	f := newFixture(t)
	f.sweep(t, secret)
	f.at = f.at.Add(allowedFor)
	held := make(chan struct{})
	var all sync.WaitGroup
	f.api.HandlerFunc = func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		if strings.Contains(string(text), "garbage-") {
			<-held
		}
		kind, status := "TokenReview", knownToken
		if strings.Contains(r.URL.Path, "subject") {
			kind, status = "SubjectAccessReview", mayAccess
		}
		_, _ = fmt.Fprintf(w, `{"kind":%q,"status":%s}`, kind, status)
	}
	for i := range mostAsked {
		all.Go(func() { f.sweep(t, fmt.Sprint("garbage-", i)) })
	}
	f.waiting(t, mostAsked)
	if v := f.sweep(t, "garbage-more"); v != tooMany {
		t.Errorf("another unknown token: %+v", v)
	}
	if v := f.sweep(t, secret); v.Code != 200 {
		t.Errorf("admitted lately: %+v", v)
	}
	close(held)
	all.Wait()
}

// TestNoToken checks that text that cannot be a token is not reviewed.
func TestNoToken(t *testing.T) {
	f := newFixture(t)
	for _, token := range []string{"", " ", "a b", "a\x00", "ä", "a\r\nb"} {
		if v := f.review(t.Context(), token, "post", "/v1/sweep", always); v != unauthorized {
			t.Errorf("%q: %+v", token, v)
		}
	}
	if v := f.review(t.Context(), secret, "post", "/v1/sweep", func() bool { return false }); v != tooMany {
		t.Errorf("%+v", v)
	}
	if n := f.api.tokens.Load(); n != 0 {
		t.Errorf("asked %d times", n)
	}
}

// TestOnce checks that many requests with the same token cost one review, also if a client disconnects, and that only
// a few reviews run at once.
func TestOnce(t *testing.T) {
	f := newFixture(t)
	f.api.saw = make(chan map[string]any) // blocks each review until the test receives it
	gone, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() {
		if v := f.review(gone, secret, "post", "/v1/sweep", always); v != unavailable {
			t.Errorf("disconnected client: %+v", v)
		}
	})
	f.waiting(t, 1)
	for range 20 {
		all.Go(func() { f.sweep(t, secret) })
	}
	for i := range mostAsked - 1 {
		all.Go(func() { f.sweep(t, fmt.Sprint("t", i)) })
	}
	f.waiting(t, mostAsked)
	if v := f.sweep(t, "one-more"); v != tooMany {
		t.Errorf("%+v", v)
	}
	cancel()
	for range 2 * mostAsked {
		<-f.api.saw
	}
	all.Wait()
	if n := f.api.tokens.Load(); n != mostAsked {
		t.Errorf("asked %d times", n)
	}
	if v := f.sweep(t, secret); v.Code != 200 {
		t.Errorf("the result was lost: %+v", v)
	}
}
