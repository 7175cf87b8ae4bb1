package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// tracedSpan is a span as a collector gets it.
type tracedSpan struct {
	TraceID    string `json:"traceId"`
	SpanID     string `json:"spanId"`
	ParentID   string `json:"parentSpanId"`
	Name       string `json:"name"`
	Start      string `json:"startTimeUnixNano"`
	End        string `json:"endTimeUnixNano"`
	Attributes []struct {
		Key   string         `json:"key"`
		Value map[string]any `json:"value"`
	} `json:"attributes"`
}

func (s tracedSpan) attribute(key string) any {
	for _, a := range s.Attributes {
		if a.Key == key {
			for _, v := range a.Value {
				return v
			}
		}
	}
	return nil
}

// newCollector returns a collector's address and the traces that it gets, each with the look first.
func newCollector(t *testing.T) (url string, traces <-chan []tracedSpan) {
	t.Helper()
	got := make(chan []tracedSpan, 100)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			ResourceSpans []struct {
				ScopeSpans []struct{ Spans []tracedSpan }
			}
		}
		text, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(text, &body)
		}
		if err != nil || r.Method != http.MethodPost || r.URL.Path != "/v1/traces" {
			t.Errorf("%s %s: %v %s", r.Method, r.URL, err, text)
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		got <- body.ResourceSpans[0].ScopeSpans[0].Spans
	}))
	t.Cleanup(s.Close)
	return s.URL, got
}

// nextTrace waits for a trace.
func nextTrace(t *testing.T, traces <-chan []tracedSpan) []tracedSpan {
	t.Helper()
	select {
	case spans := <-traces:
		return spans
	case <-time.After(30 * time.Second):
		t.Fatal("no trace has come")
		return nil
	}
}

// TestWholeTracing: each look is a trace with its parts and batches, under the span of who asked for
// it; docs/tracing.md has every part, and no other.
func TestWholeTracing(t *testing.T) {
	n := newWholeNode(t)
	n.write("log", "")
	n.pod(1, false)
	url, traces := newCollector(t)
	address := freeAddress(t)
	cmd := n.command("run", "--log-source", "file", "--log-file", n.path("log"), "--tracing-endpoint", url, "--web-listen-address", address)
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v\n%s", err, said.String())
		}
	}()
	first := nextTrace(t, traces)
	look := first[0]
	if look.Name != "look" || look.ParentID != "" || look.attribute("orphan_reaper.look") != "1" || look.attribute("orphan_reaper.mode") != "enforce" ||
		look.attribute("orphan_reaper.pod_directories") != "1" {
		t.Errorf("%+v", look)
	}
	var names []string
	for _, s := range first[1:] {
		names = append(names, s.Name)
		if s.TraceID != look.TraceID || s.ParentID != look.SpanID || nanos(t, s.Start) < nanos(t, look.Start) || nanos(t, s.End) > nanos(t, look.End) {
			t.Errorf("%+v does not lie in %+v", s, look)
		}
		if s.Name == "batch park" && (s.attribute("orphan_reaper.actions") != "1" || s.attribute("orphan_reaper.outcomes.done") != "1") {
			t.Errorf("%+v", s)
		}
	}
	if !slices.Contains(names, "batch park") {
		t.Errorf("no batch in %v", names)
	}
	names = slices.DeleteFunc(names, func(s string) bool { return !strings.HasPrefix(s, "read ") })
	page, err := os.ReadFile("../../docs/tracing.md")
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, m := range regexp.MustCompile("(?m)^\\| `(read [a-z_]+)`").FindAllStringSubmatch(string(page), -1) {
		told = append(told, m[1])
	}
	slices.Sort(names)
	slices.Sort(told)
	if !slices.Equal(names, told) {
		t.Errorf("docs/tracing.md has\n%v, and a look\n%v", told, names)
	}

	const trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	askFor(t, "http://"+address+"/v1/sweep", "00-"+trace+"-"+parent+"-01")
	for deadline := time.Now().Add(30 * time.Second); ; {
		look := nextTrace(t, traces)[0]
		if look.TraceID == trace && look.ParentID == parent {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%+v is of no trace that was asked for", look)
		}
	}
}

func nanos(t *testing.T, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// askFor asks for a look, for somebody's trace.
func askFor(t *testing.T, url, traceparent string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("traceparent", traceparent)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusAccepted {
		t.Fatal(answer.Status)
	}
}

// TestWholeTracingHostile: a collector that never answers delays no look, no pod and no end.
func TestWholeTracingHostile(t *testing.T) {
	n := newWholeNode(t)
	n.write("log", "")
	n.pod(1, false)
	asked := make(chan struct{}, 100)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	defer s.Close()
	cmd := n.command("run", "--log-source", "file", "--log-file", n.path("log"), "--tracing-endpoint", s.URL)
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-asked
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if _, err := os.Stat(n.path("root/pods/" + wholeUID(1))); os.IsNotExist(err) {
			break
		}
		if time.Now().After(deadline) {
			t.Error("the pod is still there")
			break
		}
	}
	_ = cmd.Process.Signal(syscall.SIGTERM) // while the collector has not answered
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, said.String())
	}
}
