package ui

import (
	"slices"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/audit"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// The columns before the text: the time of day, and the longest kind.
const (
	clockFormat = "15:04:05"
	clockWidth  = len(clockFormat) + 2
	kindWidth   = len(policy.KindNotCleared) + 2
)

// SweepScreen shows a sweep's records as they come.
type SweepScreen struct {
	// Printer returns one of the terminal's width now: the window may change while a sweep waits.
	Printer func() *Printer
	// Waiting shows each pod that waits by itself, too.
	Waiting bool

	last string // line on the pods that wait
}

// Show writes one record as a line, wrapped at the terminal's width. Nothing is written for a pod that waits:
// there may be hundreds, and there is nothing to do.
func (s *SweepScreen) Show(r policy.Record) error {
	if r.Kind == policy.KindKept && r.Decision == policy.Wait && !s.Waiting {
		return nil
	}
	p := s.Printer()
	head := r.At.Wall.UTC().Format(clockFormat) + "  " + p.Paint(recordColour(r), human.Pad(string(r.Kind), kindWidth))
	text := audit.What(r)
	if r.Kind.Means().Level <= policy.LevelWarning {
		text = audit.Text(r) // with what undoes it
	}
	for _, line := range p.Wrap(text, p.TextColumns()-clockWidth-kindWidth) {
		p.Printf("%s%s\n", head, line)
		head = strings.Repeat(" ", clockWidth+kindWidth)
	}
	return p.Flush()
}

// kindsRemoved are the kinds of records of removals.
var kindsRemoved = []policy.Kind{
	policy.KindParked, policy.KindCleared, policy.KindStripped, policy.KindRemoved, policy.KindRemovedSandbox, policy.KindCNIRemoved,
}

// recordColour is green for a removal, yellow for a pod that waits and red for one that needs an operator.
func recordColour(r policy.Record) Colour {
	switch {
	case slices.Contains(kindsRemoved, r.Kind):
		return Green
	case r.Kind == policy.KindKept && r.Decision == policy.Wait:
		return Yellow
	case r.NeedsPerson() || r.Kind.Means().Level <= policy.LevelErr:
		return Red
	}
	return ""
}

// Waits writes how many pods of a pass wait for nothing but time, and until when, in one line. A line
// that repeats the one before is not written.
func (s *SweepScreen) Waits(rep *reaper.Report) error {
	n, follow, last := 0, 0, time.Duration(0)
	for v := range policy.At(rep.Pods, policy.InPlace) {
		if v.Decision == policy.Wait && slices.ContainsFunc(v.Why, policy.Why.AfterFirst) {
			follow++
		}
		if v.Decision == policy.Wait && v.Due > 0 && (v.For(policy.ReasonHold) || v.For(policy.ReasonYoung)) {
			n++
			last = max(last, v.Due)
		}
	}
	clock := func(d time.Duration) string {
		return rep.Look.At.Wall.Add(d).UTC().Round(time.Second).Format(clockFormat) + " UTC"
	}
	var parts []string
	if n > 0 {
		parts = append(parts, human.Count(n, "pod")+" "+human.Plural(n, "waits for its hold", "wait for their hold")+", until "+clock(last))
	}
	if follow > 0 {
		parts = append(parts, human.Count(follow, "pod")+" "+human.Plural(follow, "follows", "follow")+
			" when the first one has been in quarantine without a sign of life; the next look is at "+clock(rep.Next))
	}
	line := strings.Join(parts, "; ")
	if line == "" || line == s.last {
		return nil
	}
	s.last = line
	p := s.Printer()
	p.Printf("%s\n", p.Paint(Yellow, line))
	return p.Flush()
}
