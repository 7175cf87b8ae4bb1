package fleet

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/cache"

	"github.com/orphan-reaper/orphan-reaper/reaper/kube"
)

// Audience is the audience that a token must have: kubectl create token --audience orphan-reaper.
const Audience = "orphan-reaper"

// The limits of the reviews. A right that is withdrawn remains valid here for allowedFor.
const (
	allowedFor = time.Minute
	refusedFor = 10 * time.Second
	unknownFor = 2 * time.Second // the API server did not answer
	latelyFor  = time.Hour       // reviews of tokens that were allowed this recently have their own limit
	mostKept   = 256             // results of allowed tokens, and of refused tokens
	mostAsked  = 4               // concurrent reviews of recently allowed tokens, and of others
	reviewTime = 5 * time.Second
)

// admission is the decision whether a request is served.
type admission struct {
	Code int    // of HTTP: 200, 401, 403, 429 or 503
	Text string // for the client, unless Code is 200
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

// renewals limits the reviews of tokens that were allowed recently, of all clients together. Unknown clients cannot
// use it up.
var renewals = allowance{20, 2 * time.Second}

// Reviewer asks one API server. It is safe for concurrent use.
type Reviewer struct {
	open func() (*kube.Server, error) // for each question again: credentials are replaced while we run
	now  func() time.Time
	log  *slog.Logger

	patience time.Duration // reviewTime, but in tests

	asking  singleflight.Group    // merges concurrent requests for the same review
	allowed *cache.LRUExpireCache // until when a key is allowed; kept for latelyFor
	refused *cache.LRUExpireCache // the admission of a key; separate, so that unknown tokens displace no known one
	renewed *rate.Limiter
	// The pending reviews of recently allowed tokens, and of others.
	known, unknown chan struct{}

	mu     sync.Mutex
	logged string // the error of the last review, or ""
}

// key is a hash of a token and the request.
type key [sha256.Size]byte

// clock is the clock of the caches.
type clock func() time.Time

// Now returns the time.
func (c clock) Now() time.Time { return c() }

// NewReviewer returns a Reviewer that asks the server that open returns.
func NewReviewer(open func() (*kube.Server, error), now func() time.Time, log *slog.Logger) *Reviewer {
	r := &Reviewer{
		open: open, now: now, log: log, patience: reviewTime, renewed: renewals.limiter(),
		known: make(chan struct{}, mostAsked), unknown: make(chan struct{}, mostAsked),
	}
	at := clock(func() time.Time { return r.now() })
	r.allowed, r.refused = cache.NewLRUExpireCacheWithClock(mostKept, at), cache.NewLRUExpireCacheWithClock(mostKept, at)
	return r
}

// review returns whether the token's user may use the verb on the path. may reports whether the client may cause
// another review of a token that was not allowed recently.
func (r *Reviewer) review(ctx context.Context, token, verb, path string, may func() bool) admission {
	if token == "" || strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return unauthorized
	}
	k := key(sha256.Sum256([]byte(verb + " " + path + " " + token)))
	kept, _ := r.refused.Get(k)
	if a, ok := kept.(admission); ok {
		return a
	}
	kept, lately := r.allowed.Get(k)
	if until, _ := kept.(time.Time); r.now().Before(until) {
		return allowed
	}
	places := r.unknown
	if lately {
		places, may = r.known, func() bool { return r.renewed.AllowN(r.now(), 1) }
	}
	asked := r.asking.DoChan(string(k[:]), func() (any, error) {
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
		default:
			return tooMany, nil
		}
		if !may() {
			return tooMany, nil
		}
		// A client that disconnects does not cancel the review for others.
		return r.answer(context.WithoutCancel(ctx), k, token, attributes{path, verb}), nil
	})
	select {
	case a := <-asked:
		if v, ok := a.Val.(admission); ok {
			return v
		}
	case <-ctx.Done():
	}
	return unavailable
}

// answer asks the API server and keeps the result.
func (r *Reviewer) answer(ctx context.Context, k key, token string, what attributes) admission {
	ctx, cancel := context.WithTimeoutCause(ctx, r.patience, errSlow)
	defer cancel()
	v, err := r.ask(ctx, token, what)
	r.warn(ctx, token, err)
	switch {
	case err != nil:
		r.refused.Add(k, unavailable, unknownFor)
		return unavailable
	case v == allowed:
		r.allowed.Add(k, r.now().Add(allowedFor), latelyFor)
	default:
		r.allowed.Remove(k)
		r.refused.Add(k, v, refusedFor)
	}
	return v
}

// warn logs once why the API server cannot be asked.
func (r *Reviewer) warn(ctx context.Context, token string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.logged = ""
		return
	}
	// An API server may repeat the request in its error.
	text := strings.ReplaceAll(err.Error(), token, "…")
	if text == r.logged {
		return
	}
	r.logged = text
	r.log.WarnContext(ctx, "the API server cannot be asked about bearer tokens, so clients that use one are refused; the daemon works as before",
		slog.String("error", text))
}
