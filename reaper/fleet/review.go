package fleet

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/kube"
)

// Audience is the audience that a token must be made for: kubectl create token --audience orphan-reaper.
const Audience = "orphan-reaper"

// What bounds the reviews. A right that is withdrawn holds here for allowedFor longer.
const (
	allowedFor = time.Minute
	refusedFor = 10 * time.Second
	unknownFor = 2 * time.Second // the API server did not answer
	latelyFor  = time.Hour       // for so long what was allowed is asked anew apart from all that was not
	mostKept   = 256
	mostAsked  = 4 // at once, of each of the two
	reviewTime = 5 * time.Second
)

// admission is whether a request is served.
type admission struct {
	Code  int    // of HTTP: 200, 401, 403, 429 or 503
	Words string // for the client, unless Code is 200
}

// The results that always have the same text.
var (
	allowed      = admission{Code: http.StatusOK}
	unauthorized = admission{http.StatusUnauthorized, "the API server does not know the bearer token, or it is not for the audience " + Audience +
		" (kubectl create token --audience " + Audience + ")"}
	unavailable = admission{http.StatusServiceUnavailable, "cannot check the bearer token: the API server does not answer, or refuses the daemon's " +
		"question; see the daemon's log"}
	tooMany = admission{http.StatusTooManyRequests, "too many unknown bearer tokens; try again in a minute"}
)

// Reviewer asks one API server. It is safe for concurrent use.
type Reviewer struct {
	open func() (*kube.Server, error) // for each question anew: credentials are replaced while we run
	now  func() time.Time
	log  *slog.Logger

	patience time.Duration // reviewTime, but in tests

	mu     sync.Mutex
	kept   map[key]answer
	asked  map[key]*question
	logged string // the error of the last question, "" where it was answered
}

// key is a hash of a token and of what is asked for with it.
type key [sha256.Size]byte

// answer is a result and how long it holds.
type answer struct {
	admission
	until  time.Time
	lately time.Time // until when the token counts as allowed lately
}

// end returns when the answer may be dropped.
func (a *answer) end() time.Time {
	if a.lately.After(a.until) {
		return a.lately
	}
	return a.until
}

// question is being asked. Other requests with the same question wait for its result.
type question struct {
	lately time.Time     // as answer's
	renews bool          // it was allowed lately
	done   chan struct{} // closed when result is set
	result admission
}

// NewReviewer returns what asks the server that open returns.
func NewReviewer(open func() (*kube.Server, error), now func() time.Time, log *slog.Logger) *Reviewer {
	return &Reviewer{open: open, now: now, log: log, patience: reviewTime, kept: map[key]answer{}, asked: map[key]*question{}}
}

// review returns whether the token's user may use the verb on the path. Before the API server is
// asked, may reports whether another question is allowed. Its argument is whether the same was allowed
// lately: unknown clients must not use up the questions of known ones.
func (r *Reviewer) review(ctx context.Context, token, verb, path string, may func(lately bool) bool) admission {
	if token == "" || strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return unauthorized
	}
	k := key(sha256.Sum256([]byte(verb + " " + path + " " + token)))
	r.mu.Lock()
	a, now := r.kept[k], r.now()
	if now.Before(a.until) {
		r.mu.Unlock()
		return a.admission
	}
	q := r.asked[k]
	if q == nil {
		renews := now.Before(a.lately)
		if r.asking(renews) >= mostAsked || !may(renews) {
			r.mu.Unlock()
			return tooMany
		}
		q = &question{lately: a.lately, renews: renews, done: make(chan struct{})}
		r.asked[k] = q
		// A client that disconnects does not cancel the question for the others.
		go r.answer(context.WithoutCancel(ctx), q, k, token, attributes{path, verb})
	}
	r.mu.Unlock()
	select {
	case <-q.done:
		return q.result
	case <-ctx.Done():
		return unavailable
	}
}

// asking returns how many questions are being asked that renew what was allowed lately, or that do not.
func (r *Reviewer) asking(renews bool) (n int) {
	for _, q := range r.asked {
		if q.renews == renews {
			n++
		}
	}
	return n
}

// answer asks, and keeps what is answered.
func (r *Reviewer) answer(ctx context.Context, q *question, k key, token string, what attributes) {
	ctx, cancel := context.WithTimeoutCause(ctx, r.patience, errSlow)
	defer cancel()
	v, err := r.ask(ctx, token, what)
	now := r.now()
	a := answer{v, now.Add(refusedFor), time.Time{}}
	switch {
	case err != nil:
		a = answer{unavailable, now.Add(unknownFor), q.lately}
	case v == allowed:
		a.until, a.lately = now.Add(allowedFor), now.Add(latelyFor)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.warn(ctx, token, err)
	r.keep(k, a)
	delete(r.asked, k)
	q.result = a.admission
	close(q.done)
}

// warn logs once why the API server cannot be asked.
func (r *Reviewer) warn(ctx context.Context, token string, err error) {
	if err == nil {
		r.logged = ""
		return
	}
	// An API server may repeat what it was sent.
	text := strings.ReplaceAll(err.Error(), token, "…")
	if text == r.logged {
		return
	}
	r.logged = text
	r.log.WarnContext(ctx, "the API server cannot be asked about bearer tokens, so clients that use one are refused; the daemon works as before",
		slog.String("error", text))
}

// keep stores an answer, and drops those that have ended. Where there is no room, it drops the one that
// would end first: one that was refused before any that was allowed lately.
func (r *Reviewer) keep(k key, a answer) {
	now := r.now()
	delete(r.kept, k)
	var first key
	var end time.Time
	for k, kept := range r.kept {
		if e := kept.end(); !now.Before(e) {
			delete(r.kept, k)
		} else if end.IsZero() || e.Before(end) {
			first, end = k, e
		}
	}
	if len(r.kept) >= mostKept {
		delete(r.kept, first)
	}
	r.kept[k] = a
}
