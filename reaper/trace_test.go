package reaper

import (
	"context"
	"slices"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/span"
)

// spans has the path of each span that was started, with the traceparent of its trace.
type spans struct{ started []string }

type at struct{}

func (s *spans) Start(ctx context.Context, name string, _ ...string) (context.Context, func(error)) {
	path := s.Traceparent(ctx) + ">" + name
	s.started = append(s.started, path)
	return s.Parent(ctx, path), func(error) {}
}

func (*spans) Parent(ctx context.Context, traceparent string) context.Context {
	return context.WithValue(ctx, at{}, traceparent)
}

func (*spans) Traceparent(ctx context.Context) string {
	path, _ := ctx.Value(at{}).(string)
	return path
}

// TestTrace has the spans of two passes: the first belongs to the trace of the request that asked for it, the second to none.
func TestTrace(t *testing.T) {
	w := newWorld(one)
	d := w.daemon()
	s := &spans{}
	ctx := span.With(t.Context(), s)
	d.Asks = make(chan string, 1)
	d.Ask("sweep")
	d.parent = <-d.Asks
	for range 2 {
		if err := d.Turn(ctx); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"sweep>pass", "sweep>pass>judge", ">pass", ">pass>judge"}
	if !slices.Equal(s.started, want) {
		t.Errorf("%v\nwant %v", s.started, want)
	}
}
