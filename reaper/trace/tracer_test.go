package trace

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// told is a log that a test reads.
type told struct{ strings.Builder }

func (b *told) logger() *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }

// header is a traceparent of the n-th client.
func header(n int) string { return fmt.Sprintf("00-%032x-%016x-01", n, n) }

func numbered(n uint64) Look { return Look{Number: n, Span: Span{Name: "look"}} }

// TestRequest compares a request with the one in testdata, which packaging/checks/manifests decodes by
// OpenTelemetry's own types.
func TestRequest(t *testing.T) {
	tr := New(Config{Version: "1.2.3", Host: "worker-1.example.org", Node: "worker-1"})
	var ids int
	tr.id = func(bytes int) string { ids++; return fmt.Sprintf("%0*x", 2*bytes, 0xa0+ids) }
	at := func(ms int) time.Time { return time.Unix(1_700_000_000, int64(ms)*1e6) }
	tr.Asked(7, header(1))
	tr.Asked(7, header(2))
	tr.Ended(Look{
		Number: 7,
		Span: Span{Name: "look", Begin: at(0), End: at(250), Attributes: []Attribute{
			{"orphan_reaper.look", 7},
			{"orphan_reaper.mode", "enforce"},
			{"orphan_reaper.breaker_open", false},
		}},
		Parts: []Span{
			{Name: "read mounts", Begin: at(1), End: at(90)},
			{Name: "batch park", Begin: at(91), End: at(240), Attributes: []Attribute{{"orphan_reaper.actions", 2}}, Error: "<no> \xff"},
		},
	})
	q := <-tr.queue
	body, err := tr.encode(&q.look, q.asked)
	if err != nil {
		t.Fatal(err)
	}
	body = append(body, '\n')
	testkit.Golden(t, "testdata/request.json", string(body))
}

func TestRandomID(t *testing.T) {
	if a, b := randomID(16), randomID(16); len(a) != 32 || a == b {
		t.Errorf("%s, %s", a, b)
	}
}

// TestAsked: the first who asked is the parent, eight more are linked to, and who asked for one look is
// nobody's for the next.
func TestAsked(t *testing.T) {
	tr := New(Config{})
	for n := range 1000 {
		tr.Asked(1, header(n+1))
		tr.Asked(2, "00-"+strings.Repeat("0", 32)+"-0123456789abcdef-01")
	}
	tr.Ended(numbered(1))
	tr.Ended(numbered(2))
	if first, second := <-tr.queue, <-tr.queue; len(first.asked) != mostAsked || first.asked[0].spanID != fmt.Sprintf("%016x", 1) || len(second.asked) != 0 {
		t.Errorf("%+v, %+v", first.asked, second.asked)
	}
	tr.Asked(3, header(3))
	tr.Ended(numbered(4)) // nobody will ever end the third
	if len(tr.asked) != 0 {
		t.Errorf("%v is kept", tr.asked)
	}
}

// TestManyParts: a look with a thousand batches is a bounded trace, and says how many are left out.
func TestManyParts(t *testing.T) {
	tr := New(Config{})
	l := numbered(1)
	l.Parts = make([]Span, 1000)
	body, err := tr.encode(&l, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(body), `"spanId"`); n != mostParts+1 || !strings.Contains(string(body), fmt.Sprintf(`"intValue":"%d"`, 1000-mostParts)) {
		t.Errorf("%d spans: %s", n, body)
	}
}

// TestCollectorAway: nobody waits for a collector, what it does not take is dropped and told once, and
// told again is only that it works.
func TestCollectorAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log told
		tr := New(Config{Log: log.logger()})
		var fails error
		answer, sent := make(chan error), 0
		tr.send = func(ctx context.Context, _ []byte) error {
			sent++
			select {
			case err := <-answer:
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { tr.Run(ctx); close(done) }()
		synctest.Wait()
		for n := range uint64(1000) { // none of these may wait: in this bubble that would be a deadlock
			tr.Ended(numbered(n))
			synctest.Wait()
		}
		if sent != 1 || tr.lost != 1000-1-mostQueued || strings.Count(log.String(), "\n") != 1 || !strings.Contains(log.String(), "dropped") {
			t.Errorf("%d sent, %d lost: %s", sent, tr.lost, log.String())
		}
		fails = errors.New("503")
		for range mostQueued {
			answer <- fails
			synctest.Wait()
		}
		if strings.Count(log.String(), "\n") != 1 {
			t.Error(log.String())
		}
		answer <- nil
		synctest.Wait()
		if !strings.Contains(log.String(), fmt.Sprintf("lost=%d", 1000-1)) || tr.lost != 0 {
			t.Errorf("%d: %s", tr.lost, log.String())
		}
		tr.Ended(numbered(2000))
		synctest.Wait()
		cancel()
		<-done // a request under way ends with the daemon
		if strings.Count(log.String(), "\n") != 2 {
			t.Errorf("the end was told as a failure: %s", log.String())
		}
	})
}

// TestPanic: a fault of this room is a lost trace.
func TestPanic(t *testing.T) {
	var log told
	tr := New(Config{Log: log.logger()})
	tr.send = func(context.Context, []byte) error { panic("a fault") }
	if err := tr.export(t.Context(), &queued{look: numbered(1)}); err == nil || !strings.Contains(err.Error(), "a fault") {
		t.Error(err)
	}
}

// TestOff: a tracer that is off costs no allocation.
func TestOff(t *testing.T) {
	var tr *Tracer
	if n := testing.AllocsPerRun(100, func() { tr.Asked(1, header0); tr.Ended(Look{}) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

var header0 = header(1)
