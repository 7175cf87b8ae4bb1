package cluster

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/orphan-reaper/orphan-reaper/reaper/fleet/report"
	"github.com/orphan-reaper/orphan-reaper/reaper/kube"
)

// answerBytes limits an answer: a report has at most some 200 KiB.
const answerBytes = 1 << 20

// ParseTarget parses URL or NODE=URL.
func ParseTarget(text string) (report.Target, error) {
	node, address, named := strings.Cut(text, "=")
	if !named {
		node, address = "", text
	}
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return report.Target{}, fmt.Errorf("%q is not the address of a daemon: write http://HOST:PORT, https://HOST:PORT, or NODE=ADDRESS", text)
	case u.User != nil:
		return report.Target{}, fmt.Errorf("%q has a password in it, which others could read: use --user and --password-file", u.Redacted())
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "":
		return report.Target{}, fmt.Errorf("%q has a path: give the address only", text)
	}
	t := report.Target{Node: node, URL: u.Scheme + "://" + u.Host, Named: node != ""}
	if !t.Named {
		t.Node = u.Hostname()
	}
	return t, nil
}

// Client asks the daemons of many nodes.
type Client struct {
	Parallel       int           // how many are asked at once
	Patience       time.Duration // time limit of a request
	TLS            *tls.Config   // nil: the system's authorities
	User, Password string        // "" for none
}

// List asks each target for its report. It calls each with one report at a time, in no order. With an error the report
// is empty.
func (c *Client) List(ctx context.Context, targets []report.Target, each func(t report.Target, r *report.Report, err error)) {
	all(ctx, c.Parallel, targets, c.report, each)
}

// report asks one node for its report.
func (c *Client) report(ctx context.Context, t report.Target) (r report.Report, err error) {
	if err = c.ask(ctx, t, http.MethodGet, "/v1/orphans", &r); err != nil {
		return report.Report{}, err
	}
	if err = r.Bound(); err != nil {
		return report.Report{}, foreign(err)
	}
	return r, nil
}

// Sweep asks each target for a look, in random order, and with wait > 0 waits for the end of each. Once more than
// mostBreakers nodes have an open breaker, it asks no more: breakers on many nodes have a common cause. The first group
// has mostBreakers+1 nodes, and each later group twice as many. A group waits for the one before it; if not, all
// requests of a small fleet would be sent before any is answered.
func (c *Client) Sweep(
	ctx context.Context, targets []report.Target, mostBreakers int, wait time.Duration, each func(t report.Target, s *report.Swept, err error),
) (breakers int) {
	targets = slices.Clone(targets)
	rand.Shuffle(len(targets), func(i, j int) { targets[i], targets[j] = targets[j], targets[i] })
	var open atomic.Int64
	ask := func(ctx context.Context, t report.Target) (s report.Swept, err error) {
		if int(open.Load()) > mostBreakers {
			return s, report.ErrNotAsked
		}
		if err = c.ask(ctx, t, http.MethodPost, "/v1/sweep", &s.Answer); err != nil {
			return s, err
		}
		if err = s.Bound(); err != nil {
			err = foreign(err)
		} else if wait > 0 {
			s.Ended, err = c.ended(ctx, t, s.Look, wait)
		}
		if s.BreakerOpen = s.BreakerOpen || s.Ended != nil && s.Ended.BreakerOpen; s.BreakerOpen {
			open.Add(1)
		}
		return s, err
	}
	for size := max(1, min(mostBreakers, len(targets))+1); len(targets) > 0; size *= 2 {
		n := min(size, len(targets))
		all(ctx, c.Parallel, targets[:n], ask, each)
		targets = targets[n:]
	}
	return int(open.Load())
}

// pollEvery is how often a node is asked whether its look has ended. A daemon answers two requests a second.
const pollEvery = 2 * time.Second

// ended asks a node for its report until that has the look, or a later one.
func (c *Client) ended(ctx context.Context, t report.Target, look uint64, wait time.Duration) (*report.Report, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, wait, fmt.Errorf("its look has not ended after %s", wait))
	defer cancel()
	var started time.Time
	for {
		r, err := c.report(ctx, t)
		switch {
		case err != nil: // ask again
		case !started.IsZero() && !r.Started.Equal(started):
			return nil, errors.New("its daemon was started again during the look")
		case r.Look >= look:
			return &r, nil
		default:
			started = r.Started
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), err)
		case <-time.After(pollEvery):
		}
	}
}

// foreign returns the error of an answer that no daemon gives.
func foreign(err error) error {
	return fmt.Errorf("its answer is not from orphan-reaper: %w", shape(err))
}

// shape replaces the error of a JSON value of the wrong type, which names a Go type.
func shape(err error) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("a JSON %s is at byte %d, where another type is expected", wrong.Value, wrong.Offset)
	}
	return err
}

// all asks each target, at most places at once, and calls each with one result at a time.
func all[T any](
	ctx context.Context, places int, targets []report.Target, ask func(context.Context, report.Target) (T, error), each func(report.Target, *T, error),
) {
	var asking errgroup.Group
	asking.SetLimit(max(1, places))
	var mu sync.Mutex
	for _, t := range targets {
		asking.Go(func() error {
			v, err := ask(ctx, t)
			mu.Lock()
			defer mu.Unlock()
			each(t, &v, err)
			return nil
		})
	}
	_ = asking.Wait() // each has the errors
}

// errNoAnswer is the error of a node that does not answer within Client.Patience.
var errNoAnswer = errors.New("no answer in time")

// ask makes one request by its own connection, and parses the answer.
func (c *Client) ask(ctx context.Context, t report.Target, method, path string, answer any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.Patience, errNoAnswer)
	defer cancel()
	a := kube.NewAsker(t.URL, "", c.TLS)
	defer a.Close()
	if c.User != "" {
		a.SetBasicAuth(c.User, c.Password)
	}
	return a.Send(ctx, method, path, "", nil, func(r io.Reader) error {
		body := &io.LimitedReader{R: r, N: answerBytes}
		err := json.NewDecoder(body).Decode(answer)
		switch {
		case err == nil:
			return nil
		case body.N <= 0:
			return fmt.Errorf("its answer is longer than %d bytes", answerBytes)
		}
		return foreign(err)
	})
}
