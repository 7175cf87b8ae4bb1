package kube

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
)

// biggestHead limits the head of an answer, and the body of a refusal.
const biggestHead = 64 << 10

const userAgent = "orphan-reaper"

// Asker sends requests to one server, by one connection. It follows no redirect, which would send the credentials
// elsewhere, and accepts no compressed answer, whose size is unknown. It uses HTTP 1.1 only. Close it after the last
// request, so that it costs nothing while idle.
type Asker struct {
	Base string // https://HOST:PORT and a prefix for every path, without a slash at its end

	client        *http.Client
	transport     *http.Transport // without the credentials that the client adds
	authorization string          // a header, or "" if there is none or the client adds it
}

// NewAsker returns an Asker for one server, without a proxy. It connects at the first request.
func NewAsker(base, token string, conf *tls.Config) *Asker {
	version := new(http.Protocols)
	version.SetHTTP1(true)
	t := &http.Transport{
		TLSClientConfig: conf, Protocols: version, DisableCompression: true, MaxConnsPerHost: 1, MaxResponseHeaderBytes: biggestHead,
	}
	a := &Asker{Base: base, transport: t, client: &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, Transport: t,
	}}
	if token != "" {
		a.authorization = "Bearer " + token
	}
	return a
}

// SetBasicAuth sets a user and a password for requests, instead of a token.
func (a *Asker) SetBasicAuth(user, password string) {
	a.authorization = "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

// Close closes its connection.
func (a *Asker) Close() { a.transport.CloseIdleConnections() }

// Get requests a path and passes the body of the answer to read, which must limit its size. ctx limits the time. Any
// code except 200 is an error: see Refused.
func (a *Asker) Get(ctx context.Context, path, accept string, read func(io.Reader) error) error {
	return a.ask(ctx, http.MethodGet, path, http.Header{"Accept": {accept}}, http.NoBody, read)
}

// Send sends JSON, and passes the body of a successful answer (2xx) to read. contentType is the type of the JSON: PATCH
// has several.
func (a *Asker) Send(ctx context.Context, method, path, contentType string, body []byte, read func(io.Reader) error) error {
	head := http.Header{"Accept": {"application/json"}, "Content-Type": {contentType}}
	return a.ask(ctx, method, path, head, bytes.NewReader(body), read)
}

func (a *Asker) ask(ctx context.Context, method, path string, head http.Header, body io.Reader, read func(io.Reader) error) (err error) {
	defer func() {
		if cause := context.Cause(ctx); err != nil && cause != nil {
			err = cause
		}
	}()
	req, err := http.NewRequestWithContext(ctx, method, a.Base+path, body)
	if err != nil {
		return err
	}
	req.Header = head
	req.Header.Set("User-Agent", userAgent)
	if a.authorization != "" {
		req.Header.Set("Authorization", a.authorization)
	}
	resp, err := a.client.Do(req)
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err // the caller adds the server's name
	}
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // the request was answered
	if resp.StatusCode/100 != 2 || method == http.MethodGet && resp.StatusCode != http.StatusOK {
		return refusalOf(resp)
	}
	if err := read(resp.Body); err != nil {
		return err
	}
	// The connection can be reused only after the last bytes were read.
	_, _ = io.CopyN(io.Discard, resp.Body, 4<<10) // the answer is complete, so an error does not matter
	return nil
}

// refusal is an answer with another code than 2xx.
type refusal struct {
	code int
	text string
}

// Error returns the server's message.
func (r *refusal) Error() string {
	s := fmt.Sprintf("it answers %d %s", r.code, http.StatusText(r.code))
	if r.text != "" {
		s += ": " + r.text
	}
	return s
}

// Refused reports whether the error is a refusal with that code.
func Refused(err error, code int) bool {
	r, ok := errors.AsType[*refusal](err)
	return ok && r.code == code
}

// refusalOf returns a refusal with the message of Kubernetes' Status, or with the beginning of the body.
func refusalOf(resp *http.Response) error {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, biggestHead)) // a partial text is shown too
	text := string(body)
	var status struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(body, &status) == nil {
		text = status.Message
	}
	return &refusal{code: resp.StatusCode, text: clean.Brief(text)}
}
