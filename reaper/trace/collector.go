package trace

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
)

// What one request may take.
const (
	requestTime = 10 * time.Second
	headerBytes = 8 << 10
	answerBytes = 4 << 10
	caBytes     = 1 << 20
)

var errBehind = errors.New("the collector has not answered for several looks")

// collector is where traces go.
type collector struct {
	url, caFile, agent string
	patience           time.Duration // for one request
}

// address is where a collector at an endpoint takes traces: the path is added as for
// OTEL_EXPORTER_OTLP_ENDPOINT, unless it stands there.
func address(endpoint string) string {
	const path = "/v1/traces"
	return strings.TrimSuffix(strings.TrimRight(endpoint, "/"), path) + path
}

// send posts one request. Nothing of the connection is kept: looks are minutes apart.
func (c *collector) send(ctx context.Context, body []byte) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.patience, errors.New("the collector does not answer"))
	defer cancel()
	transport := &http.Transport{DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: headerBytes, Protocols: new(http.Protocols)}
	transport.Protocols.SetHTTP1(true)
	if c.caFile != "" {
		roots, err := certificates(c.caFile)
		if err != nil {
			return err
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", c.agent)
	answer, err := transport.RoundTrip(r) // no client: it would follow redirects
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode/100 != 2 {
		// 429 and 503 too: by the next look this trace is old.
		return fmt.Errorf("the collector answers %d %s", answer.StatusCode, http.StatusText(answer.StatusCode))
	}
	text, _ := io.ReadAll(io.LimitReader(answer.Body, answerBytes)) // it has the trace, whatever else it says
	return rejected(text)
}

// rejected reads ExportTraceServiceResponse for what a collector took only in part.
func rejected(text []byte) error {
	var a struct {
		PartialSuccess struct {
			RejectedSpans json.RawMessage `json:"rejectedSpans"` // a number, or one as a string
			ErrorMessage  string          `json:"errorMessage"`
		} `json:"partialSuccess"`
	}
	if json.Unmarshal(text, &a) != nil {
		return nil //nolint:nilerr // it said 200: it has the trace, and need not say more
	}
	if n := strings.Trim(string(a.PartialSuccess.RejectedSpans), `"`); n != "" && n != "0" && n != "null" {
		message := []rune(clean.Text(a.PartialSuccess.ErrorMessage))
		return fmt.Errorf("the collector has refused spans of a trace: %s", string(message[:min(len(message), 200)]))
	}
	return nil
}

// certificates reads the file anew for each trace, since it may be replaced.
func certificates(file string) (*x509.CertPool, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, caBytes))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("there is no certificate in %s", file)
	}
	return pool, nil
}
