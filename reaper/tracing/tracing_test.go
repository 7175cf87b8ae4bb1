package tracing

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime/pprof"
	"strings"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/orphan-reaper/orphan-reaper/reaper/span"
)

// variables are all that switch tracing on or off.
var variables = []string{
	"OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
	"OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES",
}

func environment(t *testing.T, pairs ...string) {
	t.Helper()
	for _, name := range variables {
		t.Setenv(name, "")
	}
	for i := 0; i < len(pairs); i += 2 {
		t.Setenv(pairs[i], pairs[i+1])
	}
}

// TestTrace sends the spans of a pass that a fleet sweep has asked for to a collector: they have the parents and the error.
func TestTrace(t *testing.T) {
	got := make(chan *otlp.ResourceSpans, 10)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		request := new(collector.ExportTraceServiceRequest)
		if err = errors.Join(err, proto.Unmarshal(text, request)); err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", r.URL, err)
		}
		for _, spans := range request.GetResourceSpans() {
			got <- spans
		}
	}))
	defer s.Close()
	environment(t, "OTEL_EXPORTER_OTLP_ENDPOINT", s.URL, "OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
	ctx, stop, err := Start(t.Context(), "v1", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	sweep, endSweep := span.Start(ctx, "fleet sweep")
	pass, endPass := span.Start(span.Parent(ctx, span.Traceparent(sweep)), "pass")
	_, endMove := span.Start(pass, "quarantine", "pod", "0badf00d")
	endMove(errors.New("no space left on device"))
	endPass(nil)
	endSweep(nil)
	_, endOther := span.Start(ctx, "pass")
	endOther(nil)
	stop(t.Context())
	close(got)
	byName, resource := map[string][]*otlp.Span{}, ""
	for r := range got {
		resource = r.GetResource().String()
		for _, scope := range r.GetScopeSpans() {
			for _, one := range scope.GetSpans() {
				byName[one.GetName()] = append(byName[one.GetName()], one)
			}
		}
	}
	if len(byName["fleet sweep"]) != 1 || len(byName["pass"]) != 2 || len(byName["quarantine"]) != 1 {
		t.Fatalf("spans: %v", byName)
	}
	top, first, move, second := byName["fleet sweep"][0], byName["pass"][0], byName["quarantine"][0], byName["pass"][1]
	for child, parent := range map[*otlp.Span]*otlp.Span{first: top, move: first} {
		if !bytes.Equal(child.GetParentSpanId(), parent.GetSpanId()) || !bytes.Equal(child.GetTraceId(), parent.GetTraceId()) {
			t.Errorf("%v is not the parent of %v", parent, child)
		}
	}
	if len(second.GetParentSpanId()) > 0 || bytes.Equal(second.GetTraceId(), top.GetTraceId()) {
		t.Errorf("a pass that the clock asked for belongs to another trace: %v", second)
	}
	if move.GetStatus().GetCode() != otlp.Status_STATUS_CODE_ERROR || !strings.Contains(move.String(), "0badf00d") {
		t.Errorf("the move has no error or no pod: %v", move)
	}
	for _, want := range []string{"orphan-reaper", "v1", "deployment.environment"} {
		if !strings.Contains(resource, want) {
			t.Errorf("no %s in %s", want, resource)
		}
	}
}

// TestOff has the environments in which nothing is traced and no goroutine runs, and those in which that is an error.
func TestOff(t *testing.T) {
	for _, c := range []struct {
		env  []string
		want string
	}{
		{nil, ""},
		{[]string{"OTEL_SERVICE_NAME", "x"}, ""},
		{[]string{"OTEL_TRACES_EXPORTER", "none", "OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1"}, ""},
		{[]string{"OTEL_SDK_DISABLED", "true", "OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1"}, ""},
		{[]string{"OTEL_TRACES_EXPORTER", "jaeger"}, "OTEL_TRACES_EXPORTER"},
		{[]string{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"}, "http/protobuf"},
	} {
		environment(t, c.env...)
		ctx, _, err := Start(t.Context(), "v1", slog.New(slog.DiscardHandler))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v", c.env, err)
		}
		var stacks strings.Builder
		_ = pprof.Lookup("goroutine").WriteTo(&stacks, 2) // a strings.Builder never fails
		if span.Traceparent(ctx) != "" || strings.Contains(stacks.String(), "BatchSpanProcessor") || strings.Contains(stacks.String(), "batchSpanProcessor") {
			t.Errorf("%v: it traces: %s", c.env, stacks.String())
		}
	}
}

// TestCollectorHangs has a collector that accepts connections and answers nothing: no span waits for it, nor does the end.
func TestCollectorHangs(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	environment(t, "OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+l.Addr().String())
	ctx, stop, err := Start(t.Context(), "v1", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for range 10_000 { // more than the queue has places
		_, end := span.Start(ctx, "pass")
		end(nil)
	}
	over, cancel := context.WithCancel(context.Background())
	cancel()
	stop(over)
}
