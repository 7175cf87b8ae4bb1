package podlists

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
)

// biggestHead bounds the head of an answer, and what is read of a refusal.
const biggestHead = 64 << 10

// asker asks one server some questions during one look. It knows no proxy of the
// environment, follows no redirect and takes no compressed answer, whose size nobody could
// tell beforehand; and it keeps no connection beyond the look, so that idling costs nothing.
// Of HTTP it speaks version 1.1 only.
type asker struct {
	client *http.Client
	base   string // scheme, host and port, and what comes before every path
	token  string // a bearer token, "" for none
}

func newAsker(base, token string, conf *tls.Config) *asker {
	version := new(http.Protocols)
	version.SetHTTP1(true)
	return &asker{base: base, token: token, client: &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy: nil, TLSClientConfig: conf, Protocols: version, DisableCompression: true,
			MaxConnsPerHost: 1, MaxResponseHeaderBytes: biggestHead,
		},
	}}
}

func (a *asker) close() { a.client.CloseIdleConnections() }

// get asks for a path and hands the body of the answer to take, which has its own bounds.
// Time is bounded by ctx.
func (a *asker) get(ctx context.Context, path, accept string, take func(io.Reader) error) error {
	err := a.try(ctx, path, accept, take)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
	}
	return err
}

func (a *asker) try(ctx context.Context, path, accept string, take func(io.Reader) error) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.base+path, http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", accept)
	req.Header.Set("User-Agent", "orphan-reaper")
	if a.token != "" {
		req.Header.Set("Authorization", "Bearer "+a.token)
	}
	resp, err := a.client.Do(req)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err // who is asked stands in the fact's origin
		}
		return err
	}
	defer func() { _ = resp.Body.Close() }() // nothing was written
	if resp.StatusCode != http.StatusOK {
		return refusalOf(resp)
	}
	if err := take(resp.Body); err != nil {
		return err
	}
	// With its last bytes read, the connection can be asked again.
	_, _ = io.CopyN(io.Discard, resp.Body, 4<<10) // the answer is complete whatever comes
	return nil
}

// refusal is an answer that is not 200.
type refusal struct {
	code  int
	words string
}

// Error says what the server said.
func (r *refusal) Error() string {
	s := fmt.Sprintf("it answers %d %s", r.code, http.StatusText(r.code))
	if r.words != "" {
		s += ": " + r.words
	}
	return s
}

// refused says whether the error is a refusal of that code.
func refused(err error, code int) bool {
	r, ok := errors.AsType[*refusal](err)
	return ok && r.code == code
}

// refusalOf takes the words of Kubernetes' Status, or the beginning of a text.
func refusalOf(resp *http.Response) error {
	r := &refusal{code: resp.StatusCode}
	body, err := io.ReadAll(io.LimitReader(resp.Body, biggestHead))
	if err != nil && len(body) == 0 {
		return r
	}
	var status struct {
		Kind    string `json:"kind"`
		Message string `json:"message"`
	}
	r.words = string(body)
	if json.Unmarshal(body, &status) == nil {
		r.words = status.Message
	}
	r.words = briefly(r.words)
	return r
}

// mostWords bounds what is shown of another program's words.
const mostWords = 200

// briefly makes one short printable line of what another program says.
func briefly(s string) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "?")), " ")
	if len(s) > mostWords {
		s = s[:mostWords]
		for !utf8.ValidString(s) {
			s = s[:len(s)-1]
		}
		s += " …"
	}
	return clean.Name(s)
}
