// Package trace sends a trace of each look to an OpenTelemetry collector: OTLP over HTTP, in its JSON
// encoding (opentelemetry.io/docs/specs/otlp, stable since 1.0).
//
// It is off by default: without an endpoint there is no Tracer. The SDK of OpenTelemetry does the same
// for 1.8 MB of program and 1.2 MiB of memory in each daemon, on or off; docs/dependencies.md has the figures.
//
// # What it must not do
//
// It takes plain values and never makes a pass wait, fail or begin. One goroutine sends, and a few
// traces wait for it: what is more is dropped and counted. A collector that is away, slow or hostile
// costs one request of at most ten seconds for each look. It follows no redirect, asks through no
// proxy, keeps no connection open and reads a few KiB of an answer.
//
// A trace has counts and times. It names no pod.
//
// # Who asked
//
// A client that asks for a look may say to which trace the look belongs, by the header traceparent of
// W3C's Trace Context. A header that is not exactly so is as none.
package trace
