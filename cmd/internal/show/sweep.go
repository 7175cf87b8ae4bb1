package show

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/audit"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// Progress prints one line about a sweep under way: what was done so far, and what it waits for.
func Progress(w io.Writer, s reaper.Status, wait time.Duration) error {
	p := newPage(&s)
	waits, confirms, reported := 0, 0, 0
	for _, pod := range s.Pods {
		if pod.Decision == judge.Wait {
			waits++
		}
		if pod.Facts[judge.Reported].Truth == judge.Yes {
			reported++
		}
	}
	for _, e := range s.Quarantine {
		if e.Phase == judge.Quarantined {
			confirms++
		}
	}
	p.WriteString(fmt.Sprintf("%s  %s; %s, %d in confirm; next scan in %s\n", s.At.Wall.Format(time.TimeOnly), did(s.Events),
		count(waits, "waits", "wait"), confirms, span(wait)))
	if confirms > 0 && reported == 0 && waits == 0 {
		p.WriteString("          the kubelet reports nothing more; what is moved is cleaned after confirm, also by a later sweep\n")
	}
	return p.writeTo(w)
}

// did counts what was done.
func did(events []judge.Event) string {
	n := map[judge.EventKind]int{}
	for _, e := range events {
		n[e.Kind]++
	}
	var words []string
	for _, of := range [...]struct {
		kind judge.EventKind
		word string
	}{
		{judge.EventQuarantined, "moved"},
		{judge.EventCleaned, "cleaned"},
		{judge.EventRemoved, "removed"},
		{judge.EventRestored, "restored"},
		{judge.EventConflict, "in conflict"},
		{judge.EventFailed, "failed"},
		{judge.EventCNIRemoved, "CNI sweep"},
	} {
		if n[of.kind] > 0 {
			words = append(words, fmt.Sprintf("%d %s", n[of.kind], of.word))
		}
	}
	if len(words) == 0 {
		return "nothing done yet"
	}
	return strings.Join(words, ", ")
}

// events writes what was done, the sums first. The command that undoes it follows the last event of what it can still restore.
func (p *page) events(s *reaper.Status) {
	undo := map[string]string{} // by the event's text
	left := map[parsers.PodUID]bool{}
	for _, e := range s.Quarantine {
		left[e.UID] = true
	}
	var texts []string
	for _, e := range slices.Backward(s.Events) {
		text := audit.History(e)
		if text == "" {
			continue
		}
		texts = append(texts, text)
		if command := audit.Undo(e); left[e.UID] || e.UID == "" && (s.CNI == nil || s.CNI.Undo != command) { // else CNI's part has it
			undo[text] = command
		}
		delete(left, e.UID)
	}
	slices.Reverse(texts)
	if len(texts) == 0 && !p.dry {
		p.para("", "Nothing was done.")
	}
	if len(texts) > 1 {
		p.para("", "Done: %s.", did(s.Events))
	}
	for _, text := range texts[:min(len(texts), mostRows)] {
		p.item("- ", "%s", text)
		if command := undo[text]; command != "" {
			p.para("  ", "To undo it:")
			p.commands(command)
		}
	}
	if more := len(texts) - mostRows; more > 0 {
		p.para("", "… and %d more: the journal has all of them", more)
	}
}

// Sweep prints all that a sweep did, and what is left.
func Sweep(w io.Writer, s reaper.Status) error {
	p := newPage(&s)
	if p.dry {
		p.para("", "A dry run: nothing was changed.")
	}
	p.events(&s)
	p.WriteString("\n")
	p.para("", "%s", counts(&s))
	p.stopped(&s, "")
	p.podTable(&s)
	p.quarantined(&s)
	p.cni(&s)
	if p.dry {
		p.waiting(&s)
	}
	p.below(&s)
	return p.writeTo(w)
}
