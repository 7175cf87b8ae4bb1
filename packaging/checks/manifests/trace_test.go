package manifests

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"testing"

	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
)

// TestTrace decodes the request that reaper/trace writes strictly into OpenTelemetry's own types. Their JSON
// differs from protobuf's in one thing: IDs are in hex.
func TestTrace(t *testing.T) {
	var tree any
	must(t, json.Unmarshal([]byte(read(t, root+"/reaper/trace/testdata/request.json")), &tree))
	ids := 0
	idsAsBytes(t, tree, &ids)
	text, err := json.Marshal(tree)
	must(t, err)
	var request tracev1.TracesData // ExportTraceServiceRequest has the same one field
	must(t, protojson.Unmarshal(text, &request))
	resource := request.ResourceSpans[0]
	spans := resource.ScopeSpans[0].Spans
	if len(spans) != 3 || ids != 11 {
		t.Fatalf("%d spans, %d IDs", len(spans), ids)
	}
	look, batch := spans[0], spans[2]
	got := fmt.Sprintf("%s %x %x %d ns, %s %v %x; %s %+q", look.Name, look.TraceId, look.ParentSpanId, look.EndTimeUnixNano-look.StartTimeUnixNano,
		look.Attributes[0].Key, look.Attributes[0].Value.GetIntValue(), look.Links[0].SpanId, batch.Name, batch.Status.Message)
	const want = `look 00000000000000000000000000000001 0000000000000001 250000000 ns, orphan_reaper.look 7 0000000000000002; batch park "<no> \ufffd"`
	if got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for _, s := range spans {
		if s.Kind != tracev1.Span_SPAN_KIND_INTERNAL || len(s.TraceId) != 16 || len(s.SpanId) != 8 || string(s.TraceId) != string(look.TraceId) ||
			s != look && string(s.ParentSpanId) != string(look.SpanId) {
			t.Errorf("%v", s)
		}
	}
	if batch.Status.Code != tracev1.Status_STATUS_CODE_ERROR || look.Status != nil {
		t.Errorf("%v, %v", look.Status, batch.Status)
	}
	names := map[string]string{}
	for _, a := range resource.Resource.Attributes {
		names[a.Key] = a.Value.GetStringValue()
	}
	if names["service.name"] != "orphan-reaper" || names["k8s.node.name"] != "worker-1" || len(names) != 4 {
		t.Errorf("%v", names)
	}
}

// idsAsBytes writes each ID as protobuf's JSON has bytes, and counts them.
func idsAsBytes(t *testing.T, tree any, n *int) {
	t.Helper()
	switch v := tree.(type) {
	case []any:
		for _, e := range v {
			idsAsBytes(t, e, n)
		}
	case map[string]any:
		for key, e := range v {
			if key == "traceId" || key == "spanId" || key == "parentSpanId" {
				text, _ := e.(string)
				id, err := hex.DecodeString(text)
				must(t, err)
				v[key] = base64.StdEncoding.EncodeToString(id)
				*n++
			}
			idsAsBytes(t, e, n)
		}
	}
}
