package loop

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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
		d.Clock, d.Asks = bubble{time.Now()}, make(chan struct{}, 1)
		var answers []uint64
		w.before = func(call string) {
			if strings.HasPrefix(call, "scan") && len(answers) < 2 {
				answers = append(answers, d.Ask(), d.Ask())
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
