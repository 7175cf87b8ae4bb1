package reaper

import (
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// TestRecall: a command without a past reads a whole file at once, so one line that quotes makes all after it doubtful. Such
// a line has the kubelet's words and releases nothing, and displaces no line that is whole.
func TestRecall(t *testing.T) {
	w := newWorld(one)
	d := w.daemon()
	doubtful := w.line(one)
	doubtful.Whole = false
	s := d.Once(t.Context(), Options{}, func(Status) { d.Recall(doubtful) })
	p, ok := s.Pod(one)
	if !ok || !strings.Contains(p.Words, "orphaned pod") {
		t.Errorf("no words: %+v", p)
	}
	if f := p.Facts[judge.Reported]; f.Truth != judge.No || !strings.Contains(f.Detail, "part of another message") {
		t.Errorf("reported: %+v", f)
	}
	s = d.Once(t.Context(), Options{}, func(Status) {
		for _, line := range []parsers.Line{w.line(one), doubtful} {
			d.Recall(line)
		}
		w.now = w.now.Add(5 * time.Second) // it listens
	})
	if p, _ = s.Pod(one); p.Facts[judge.Reported].Truth != judge.Yes {
		t.Errorf("a doubtful line has displaced a whole one: %+v", p.Facts[judge.Reported])
	}
	if left := p.Next.Sub(s.At.Wall); left.Round(time.Second) != time.Minute {
		t.Errorf("%s are left of a hold of a minute that has not begun", left)
	}
}
