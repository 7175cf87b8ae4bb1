// Package tracing sends spans to an OpenTelemetry collector. Only the OTEL_ variables switch it on and set it; without them no
// goroutine of it starts.
//
// It speaks OTLP over http/protobuf. Traces are sent in the background: a collector that does not answer delays nothing, and
// its spans are dropped.
package tracing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/orphan-reaper/orphan-reaper/reaper/span"
)

// wanted reports whether the environment asks for traces. The error is for a value that is not supported.
func wanted() (bool, error) {
	exporter := os.Getenv("OTEL_TRACES_EXPORTER")
	switch {
	case os.Getenv("OTEL_SDK_DISABLED") == "true" || exporter == "none":
		return false, nil
	case exporter == "" && os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "":
		return false, nil
	case exporter != "" && exporter != "otlp":
		return false, fmt.Errorf("OTEL_TRACES_EXPORTER is %q: only otlp and none are supported", exporter)
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		if protocol := os.Getenv(name); protocol == "http/protobuf" {
			return true, nil // the first one wins
		} else if protocol != "" {
			return false, fmt.Errorf("%s is %q: only http/protobuf is supported", name, protocol)
		}
	}
	return true, nil
}

// Start returns a context whose spans are sent, if the environment asks for that, and stop, which sends the rest. It returns
// ctx itself if it does not.
func Start(ctx context.Context, version string, log *slog.Logger) (traced context.Context, stop func(context.Context), err error) {
	stop = func(context.Context) {}
	if on, err := wanted(); !on {
		return ctx, stop, err
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return ctx, stop, fmt.Errorf("cannot trace: %w", err)
	}
	host, _ := os.Hostname() // the resource has no host then
	about, err := resource.New(ctx, resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", "orphan-reaper"), attribute.String("service.version", version), attribute.String("host.name", host)),
		resource.WithFromEnv())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return ctx, stop, fmt.Errorf("cannot trace: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		log.DebugContext(ctx, "traces were not sent", slog.Any("error", err))
	}))
	provider := sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(about))
	stop = func(ctx context.Context) {
		if err := provider.Shutdown(ctx); err != nil {
			log.WarnContext(ctx, "the last traces were not sent", slog.Any("error", err))
		}
	}
	return span.With(ctx, tracer{provider.Tracer("orphan-reaper")}), stop, nil
}

// tracer starts spans for package span.
type tracer struct{ trace.Tracer }

func (t tracer) Start(ctx context.Context, name string, attributes ...string) (context.Context, func(error)) {
	pairs := make([]attribute.KeyValue, 0, len(attributes)/2)
	for i := 0; i+1 < len(attributes); i += 2 {
		pairs = append(pairs, attribute.String(attributes[i], attributes[i+1]))
	}
	ctx, s := t.Tracer.Start(ctx, name, trace.WithAttributes(pairs...))
	return ctx, func(err error) {
		if err != nil {
			s.SetStatus(codes.Error, err.Error())
		}
		s.End()
	}
}

func (tracer) Parent(ctx context.Context, traceparent string) context.Context {
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": traceparent})
}

func (tracer) Traceparent(ctx context.Context) string {
	header := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, header)
	return header["traceparent"]
}
