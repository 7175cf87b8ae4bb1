package trace

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"time"
)

// Span is one piece of work, by the wall's clock.
type Span struct {
	Name       string
	Begin, End time.Time
	Attributes []Attribute
	Error      string // in words, "" where it went well
}

// Attribute is one figure or word of a span. Value is a string, a bool or an int.
type Attribute struct {
	Key   string
	Value any
}

// Look is one look: its own span, and those of what it did.
type Look struct {
	Number uint64
	Span
	Parts []Span
}

// mostParts bounds the spans below a look: a node that parks thousands of pods at once has many batches.
const mostParts = 64

// What follows is opentelemetry/proto/trace/v1/trace.proto in the JSON encoding of OTLP: IDs are in hex,
// enumerations are numbers, and 64-bit numbers are strings.
type (
	otlpRequest struct {
		ResourceSpans []otlpResourceSpans `json:"resourceSpans"`
	}
	otlpResourceSpans struct {
		Resource   otlpResource     `json:"resource"`
		ScopeSpans []otlpScopeSpans `json:"scopeSpans"`
	}
	otlpResource struct {
		Attributes []otlpAttribute `json:"attributes"`
	}
	otlpScopeSpans struct {
		Scope otlpScope  `json:"scope"`
		Spans []otlpSpan `json:"spans"`
	}
	otlpScope struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	}
	otlpSpan struct {
		TraceID    string          `json:"traceId"`
		SpanID     string          `json:"spanId"`
		ParentID   string          `json:"parentSpanId,omitempty"`
		Name       string          `json:"name"`
		Kind       int             `json:"kind"`
		Start      string          `json:"startTimeUnixNano"`
		End        string          `json:"endTimeUnixNano"`
		Attributes []otlpAttribute `json:"attributes,omitempty"`
		Links      []otlpLink      `json:"links,omitempty"`
		Status     *otlpStatus     `json:"status,omitempty"`
	}
	otlpAttribute struct {
		Key   string         `json:"key"`
		Value map[string]any `json:"value"`
	}
	otlpLink struct {
		TraceID string `json:"traceId"`
		SpanID  string `json:"spanId"`
	}
	otlpStatus struct {
		Code    int    `json:"code"`
		Message string `json:"message,omitempty"`
	}
)

const (
	kindInternal = 1
	statusError  = 2
	scopeName    = "github.com/orphan-reaper/orphan-reaper/reaper/trace"
)

// encode writes one look as a request to a collector. The first of those who asked for it is its parent,
// and it links to the others.
func (t *Tracer) encode(l *Look, asked []parent) ([]byte, error) {
	root := t.span(&l.Span, parent{traceID: t.id(16)})
	if len(asked) > 0 {
		root.TraceID, root.ParentID = asked[0].traceID, asked[0].spanID
		for _, p := range asked[1:] {
			root.Links = append(root.Links, otlpLink{p.traceID, p.spanID})
		}
	}
	if more := len(l.Parts) - mostParts; more > 0 {
		root.Attributes = append(root.Attributes, otlpAttributes([]Attribute{{"orphan_reaper.dropped_spans", more}})...)
	}
	spans := []otlpSpan{root}
	for i := range l.Parts[:min(len(l.Parts), mostParts)] {
		spans = append(spans, t.span(&l.Parts[i], parent{root.TraceID, root.SpanID}))
	}
	return json.Marshal(otlpRequest{[]otlpResourceSpans{{
		Resource:   otlpResource{otlpAttributes(t.resource)},
		ScopeSpans: []otlpScopeSpans{{Scope: otlpScope{scopeName, t.cfg.Version}, Spans: spans}},
	}}})
}

func (t *Tracer) span(s *Span, under parent) otlpSpan {
	o := otlpSpan{
		TraceID: under.traceID, SpanID: t.id(8), ParentID: under.spanID, Name: s.Name, Kind: kindInternal,
		Start: nanoseconds(s.Begin), End: nanoseconds(s.End), Attributes: otlpAttributes(s.Attributes),
	}
	if s.Error != "" {
		o.Status = &otlpStatus{statusError, s.Error}
	}
	return o
}

func otlpAttributes(list []Attribute) []otlpAttribute {
	var out []otlpAttribute
	for _, a := range list {
		value := map[string]any{}
		switch v := a.Value.(type) {
		case string:
			value["stringValue"] = v
		case bool:
			value["boolValue"] = v
		case int:
			value["intValue"] = strconv.Itoa(v)
		}
		out = append(out, otlpAttribute{a.Key, value})
	}
	return out
}

// nanoseconds writes a time as OTLP has it. The field is unsigned: a clock before 1970 is at its beginning.
func nanoseconds(t time.Time) string { return strconv.FormatInt(max(0, t.UnixNano()), 10) }

// randomID makes an ID of n bytes. rand.Read never fails.
func randomID(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return hex.EncodeToString(b)
}
