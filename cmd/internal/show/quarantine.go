package show

import (
	"cmp"
	"io"
	"slices"

	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/audit"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// QuarantineList prints what lies in quarantine, what becomes of it, and what the operator does.
func QuarantineList(w io.Writer, s reaper.Status) error {
	p := newPage(&s)
	if s.Breaker != nil {
		p.para("", "%s: %s", p.ago(s.Breaker.At.Wall), audit.History(*s.Breaker))
	}
	entries := slices.Clone(s.Quarantine)
	slices.SortStableFunc(entries, func(a, b judge.JudgedEntry) int { return cmp.Compare(order(a.Verdict), order(b.Verdict)) })
	p.entryTable(&s, entries)
	var all steps
	if s.Breaker != nil {
		all.add(judge.BreakerOpen.Advice(s.Node, ""))
	}
	for i := range entries {
		all.add(entries[i].Advice)
	}
	if len(all.all) > 0 {
		p.WriteString("\n")
		all.write(p)
	}
	p.unread(&s)
	return p.writeTo(w)
}

// entryTable writes a row for each entry, and where they lie.
func (p *page) entryTable(s *reaper.Status, entries []judge.JudgedEntry) {
	if len(entries) == 0 {
		p.para("", "Nothing is in quarantine.")
		return
	}
	uids := shortUIDs(s)
	rows := [][]string{{"UID", "POD", "PHASE", "AGE", "LEFT", "WHY"}}
	for i := range entries[:min(len(entries), mostRows)] {
		e := &entries[i]
		rows = append(rows, []string{
			uids[e.UID], short(name(e.Namespace, e.PodName), 14), string(e.Phase), span(p.now.Sub(e.MovedAt.Wall)), leftSize(e), p.whyEntry(e),
		})
	}
	p.table(rows)
	if s.QuarantineDir != "" {
		p.para("  ", "The directories are %s/UID.NUMBER: copy what you need from there.", safe(s.QuarantineDir))
	}
	if more := len(entries) - mostRows; more > 0 {
		p.para("  ", "… and %d more: -o json has all of them", more)
	}
}

// whyEntry returns the reasons of an entry, and when its time ends.
func (p *page) whyEntry(e *judge.JudgedEntry) string {
	text := reasonNames(e.Reasons)
	if !e.Next.IsZero() && e.Decision == judge.Wait {
		text += ", " + span(e.Next.Sub(p.now)) + " left"
	}
	if e.Operator {
		text += " *"
	}
	return text
}

// restores reports whether the next scan that may change something restores the entry.
func restores(e *judge.JudgedEntry) bool { return e.Decision == judge.IsAlive && !e.Operator }

// leftSize returns the size of what is left of an entry, "-" before the first clean has counted it.
func leftSize(e *judge.JudgedEntry) string {
	if e.ConfirmedAt == (judge.Instant{}) {
		return "-"
	}
	bytes, partial := sumOf(e)
	if partial {
		return ">" + size(bytes)
	}
	return size(bytes)
}

// left describes what is left of an entry.
func left(e *judge.JudgedEntry) string {
	if e.ConfirmedAt == (judge.Instant{}) {
		return "everything, not counted yet"
	}
	return leftSize(e)
}

func sumOf(e *judge.JudgedEntry) (bytes int64, partial bool) {
	for _, r := range e.Left {
		bytes, partial = bytes+r.Bytes, partial || r.Partial
	}
	return bytes, partial
}

// Done prints what an operator's order has done: restore, purge.
func Done(w io.Writer, events []judge.Event) error {
	p := &page{}
	for _, e := range events {
		if text := audit.Text(e); text != "" {
			p.para("", "%s", text)
		}
	}
	return p.writeTo(w)
}

// Resume prints what `quarantine resume` has done.
func Resume(w io.Writer, was bool) error {
	p := &page{}
	if was {
		p.para("", "The circuit breaker is closed. Dead pods are moved and removed again.")
	} else {
		p.para("", "The circuit breaker was not open. Nothing was changed.")
	}
	return p.writeTo(w)
}

// Unmount prints the mounts that `unmount` has found in a dead pod, and what it has done with them.
func Unmount(w io.Writer, u reaper.Unmounting) error {
	p := &page{}
	tried := slices.ContainsFunc(u.Mounts, func(m reaper.Mount) bool { return m.Result != "" })
	if !tried {
		p.WriteString("Pod " + string(u.Pod.UID) + "  " + name(u.Pod.Namespace, u.Pod.PodName) + "\n")
		p.para("", "It is dead. Mounted in it, in the order in which it is unmounted:")
	}
	for _, m := range u.Mounts {
		what := safe(m.Path) + " (" + safe(m.Type) + ", " + safe(m.Source) + ")"
		if !tried && (m.Type == "tmpfs" || m.Type == "ramfs") {
			what += ": in memory, its files are lost"
		}
		switch {
		case m.Keeps != "":
			p.item("  - ", "%s stays: %s", what, safe(m.Keeps))
		case m.Result == "" && tried:
			p.item("  - ", "%s was not tried", what)
		case m.Result == "":
			p.item("  - ", "%s", what)
		case m.Result == judge.Done:
			p.item("  - ", "unmounted %s", what)
		case m.Err != "":
			p.item("  - ", "%s", safe(m.Err))
		default:
			p.item("  - ", "%s: %s", what, m.Result)
		}
	}
	if u.Stopped != "" {
		p.para("", "The rest was not tried: %s", safe(u.Stopped))
	}
	return p.writeTo(w)
}
