package reaper

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// bubble is the clock of a synctest bubble.
type bubble struct{ began time.Time }

func (b bubble) Now() judge.Instant {
	return judge.Instant{Wall: time.Now(), BootID: "b", Boot: time.Hour + time.Since(b.began)}
}

// TestAsk asks for a pass while one runs, twice: the answer is the next pass, since the scan of the one that runs is older
// than the request, and that pass comes within seconds although nothing else asks for one.
func TestAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		d := w.daemon()
		d.Clock, d.Asks = bubble{time.Now()}, make(chan string, 1)
		var answers []uint64
		w.before = func(call string) {
			if strings.HasPrefix(call, "scan") && len(answers) < 2 {
				answers = append(answers, d.Ask(""), d.Ask(""))
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var last uint64
		d.Ended = func(pass uint64, _ Status, _ error) { last = pass }
		d.Run(ctx)
		if len(answers) != 2 || answers[0] != 2 || answers[1] != 2 || last != 2 {
			t.Errorf("answered with the passes %v, and %d passes ended; want 2 for each", answers, last)
		}
	})
}

// TestReportDuringClean sends the first report of a pod whose hold is over while a clean runs that takes minutes: the pod is
// moved within 1.5 s, each scan taking 0.1 s.
func TestReportDuringClean(t *testing.T) {
	for after := time.Duration(0); after < 2*time.Second; after += 150 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(one, two)
			w.clock, w.slow = bubble{time.Now()}.Now, true
			d := w.daemon()
			lines := make(chan parsers.Line, 16)
			d.Lines = lines
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			var cleans, moved time.Time
			begun := make(chan struct{})
			var all sync.WaitGroup
			w.before = func(call string) {
				switch {
				case strings.HasPrefix(call, "scan"):
					time.Sleep(100 * time.Millisecond)
				case strings.HasPrefix(call, "clean") && cleans.IsZero():
					cleans = time.Now()
					close(begun)
					all.Go(func() {
						time.Sleep(after)
						lines <- w.line(two)
					})
				case call == "quarantine "+string(two):
					moved = time.Now()
					cancel()
				}
			}
			all.Go(func() {
				for {
					lines <- w.line(one)
					select {
					case <-begun:
						return
					case <-ctx.Done():
						return
					case <-time.After(2 * time.Second):
					}
				}
			})
			d.Run(ctx)
			all.Wait()
			if took := moved.Sub(cleans.Add(after)); cleans.IsZero() || moved.IsZero() || took > 1500*time.Millisecond {
				t.Errorf("reported %s after the clean began: moved after %s", after, took)
			}
			if calls := strings.Join(w.calls, "; "); !strings.HasPrefix(calls, "write started; scan") || !strings.HasSuffix(calls, "; write stopped") {
				t.Errorf("started and stopped: %s", calls)
			}
		})
	}
}
