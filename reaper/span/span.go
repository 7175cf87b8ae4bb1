// Package span marks the parts of a pass for tracing. It does nothing unless the context has a Tracer, which package
// tracing puts there if the OTEL_ variables ask for it.
package span

import "context"

// Tracer starts spans. Attributes are pairs of name and value.
type Tracer interface {
	Start(ctx context.Context, name string, attributes ...string) (inner context.Context, end func(error))
	// Parent returns a context whose spans belong to a trace of another process, and Traceparent the header for one
	// (W3C Trace Context).
	Parent(ctx context.Context, traceparent string) context.Context
	Traceparent(ctx context.Context) string
}

type key struct{}

// With returns a context whose spans t starts.
func With(ctx context.Context, t Tracer) context.Context { return context.WithValue(ctx, key{}, t) }

func of(ctx context.Context) Tracer {
	t, _ := ctx.Value(key{}).(Tracer)
	return t
}

// Start starts a span, which lasts until end is called.
func Start(ctx context.Context, name string, attributes ...string) (inner context.Context, end func(error)) {
	if t := of(ctx); t != nil {
		return t.Start(ctx, name, attributes...)
	}
	return ctx, func(error) {}
}

// Parent returns a context whose next span belongs to the trace of a request. "" changes nothing.
func Parent(ctx context.Context, traceparent string) context.Context {
	if t := of(ctx); t != nil && traceparent != "" {
		return t.Parent(ctx, traceparent)
	}
	return ctx
}

// Traceparent returns the header for a request to another process, "" if nothing is traced.
func Traceparent(ctx context.Context) string {
	if t := of(ctx); t != nil {
		return t.Traceparent(ctx)
	}
	return ""
}
