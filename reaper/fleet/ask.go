package fleet

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
	"github.com/orphan-reaper/orphan-reaper/reaper/span"
)

// Target is the daemon of one node.
type Target struct {
	Node string
	URL  string // https://HOST:PORT
}

// ParseTarget parses https://HOST:PORT.
func ParseTarget(text string) (Target, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return Target{}, fmt.Errorf("%q is not the address of a daemon: write https://HOST:PORT", text)
	case u.User != nil:
		return Target{}, fmt.Errorf("%q has a password in it, which others can read: use --user and --password-file", u.Redacted())
	case u.Scheme != "https":
		return Target{}, fmt.Errorf("%q is not encrypted: a daemon reports its pods over TLS only, so write https://%s", text, u.Host)
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "":
		return Target{}, fmt.Errorf("%q has a path: write https://%s", text, u.Host)
	}
	return Target{Node: u.Hostname(), URL: "https://" + u.Host}, nil
}

// Client asks the daemons of many nodes.
type Client struct {
	TLS            *tls.Config   // nil: the system's authorities, and the name in the URL
	User, Password string        // of basic_auth_users in the daemons' web configuration
	Parallel       int           // how many are asked at once
	Timeout        time.Duration // of one request

	transport *http.Transport
}

// open prepares the client. A connection carries one request: a daemon answers no second one.
func (c *Client) open() {
	c.transport = &http.Transport{
		TLSClientConfig: c.TLS, DisableKeepAlives: true, DisableCompression: true,
		MaxResponseHeaderBytes: headerBytes, ReadBufferSize: 4 << 10, WriteBufferSize: 1 << 10,
	}
}

var errNoAnswer = errors.New("no answer in time")

// ask makes one request and returns the head of the answer. RoundTrip follows no redirect.
func (c *Client) ask(ctx context.Context, t Target, method, path string) (Head, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout, errNoAnswer)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, t.URL+path, http.NoBody)
	if err != nil {
		return Head{}, err
	}
	r.SetBasicAuth(c.User, c.Password)
	if parent := span.Traceparent(ctx); parent != "" {
		r.Header.Set("traceparent", parent)
	}
	a, err := c.transport.RoundTrip(r)
	if err != nil {
		return Head{}, why(ctx, err)
	}
	defer a.Body.Close()
	if err := refused(a); err != nil {
		return Head{}, err
	}
	text, err := io.ReadAll(io.LimitReader(a.Body, mostReport+1))
	switch {
	case err != nil:
		return Head{}, why(ctx, err)
	case len(text) > mostReport:
		return Head{}, fmt.Errorf("the answer is longer than %d bytes, so it is not a daemon's", mostReport)
	}
	return parseHead(text)
}

// why returns the cause of a failed request.
func why(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return fmt.Errorf("%w: name the authority of the daemons' certificates by --ca", err)
	}
	return err
}

// refused returns the error of an answer without a report.
func refused(a *http.Response) error {
	switch a.StatusCode {
	case http.StatusOK, http.StatusAccepted:
		return nil
	case http.StatusUnauthorized:
		return errors.New("the user or the password is wrong: check --user and --password-file")
	case http.StatusNotFound:
		return errors.New("no daemon reports its pods here: its web_config_file needs tls_server_config and basic_auth_users, and the request a user (--user)")
	case http.StatusInternalServerError:
		return errors.New("the daemon cannot read its web_config_file")
	}
	return fmt.Errorf("the answer has the HTTP status %d", a.StatusCode)
}

// parseHead parses an answer, of which nothing is believed: it may be long, deep or absurd.
func parseHead(text []byte) (Head, error) {
	var h Head
	if err := json.Unmarshal(text, &h); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok { // its own text names a Go type
			err = fmt.Errorf("a JSON %s is at byte %d, where another type is expected", wrong.Value, wrong.Offset)
		}
		return Head{}, fmt.Errorf("the answer is not a daemon's: %w", err)
	}
	if h.Start.IsZero() {
		return Head{}, errors.New("the answer is not a daemon's: it has no start")
	}
	h.Node, h.Version, h.Mode, h.Failed = short(h.Node), short(h.Version), short(h.Mode), short(h.Failed)
	if h.Stopped != "" && h.Stopped.Text().Meaning == "" {
		h.Stopped = "unknown"
	}
	return h, h.Summary.check()
}

// mostText bounds a text of an answer.
const mostText = 300

func short(text string) string { return bounded.Cut(text, mostText) }

// most bounds a number of an answer: the sums of 32,000 nodes fit into 63 bits.
const most = 1 << 48

// check returns an error if a number is absurd, and drops the reasons that this program does not know.
func (s *Summary) check() error {
	for _, n := range s.numbers() {
		if *n < 0 || *n > most {
			return errors.New("the answer is not a daemon's: it has a number out of range")
		}
	}
	known := map[judge.ReasonName]int64{}
	for _, t := range judge.ReasonTexts {
		if n := s.Reasons[t.Name]; n > 0 {
			known[t.Name] = min(n, most)
		}
	}
	s.Reasons = known
	return nil
}

// numbers returns all numbers but those of the reasons.
func (s *Summary) numbers() []*int64 {
	return []*int64{
		&s.Remove, &s.Wait, &s.Keep, &s.Alive, &s.Hidden, &s.Operator, &s.Quarantined, &s.Bytes,
		&s.CNIFiles, &s.CNIStale, &s.CNIWaiting, &s.CNIUnknown, &s.FullRanges, &s.Problems,
	}
}
