package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/term"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/view"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/diagnosis"
)

// This file writes for a person who has no time: one screen of 24 lines in the usual case.
// Nothing is shown that needs no action and answers none of the questions; -o json has all. A command
// stands in a line of its own and unbroken, so that it can be pasted.

// What doctor shows at the most, of each kind.
const (
	mostMessage  = 3 // lines of the kubelet's message
	mostPods     = 4 // pods
	mostCommands = 3 // of one thing to do
	mostMissing  = 4
)

// The widths of the pods' columns; a name has the room between.
const (
	uidWidth  = 36
	sizeWidth = 8
	mostName  = 60
)

// writer writes the screen for a person.
type writer struct{ *view.Printer }

// Write writes the screen.
func Write(p *view.Printer, v *Screen) {
	w := writer{p}
	w.complaints(v)
	w.pods(v)
	w.byItself(v)
	w.data(v)
	w.forPerson(v)
	w.missing(v)
}

// complaints says what the kubelet says, since when and how often.
func (p writer) complaints(v *Screen) {
	c := &v.Complaints
	switch {
	case c.Lines == 0 && v.deaf():
		p.Para("", p.Paint(term.Yellow, "What the kubelet complains of is not known: no log could be read."))
		return
	case c.Lines == 0 && !c.Now:
		p.Para("", "The kubelet complains of no orphaned pod: no such line in "+v.read()+".")
		return
	}
	verb := "complains"
	if v.stopped() {
		verb = "complained"
	}
	p.Printf("%s\n", p.Paint(term.Bold, "The kubelet "+verb+" of "+human.Count(c.Pods, "pod")+":"))
	lines := human.Wrap(c.Message, p.TextColumns()-2)
	for i, line := range lines[:min(len(lines), mostMessage)] {
		if i == mostMessage-1 && len(lines) > mostMessage {
			line = human.Short(line+" …", p.TextColumns()-2)
		}
		p.Printf("  %s\n", p.Paint(term.Red, line))
	}
	p.Para("", v.often())
}

// read names what was read, for a person.
func (v *Screen) read() string {
	var words []string
	for _, s := range v.Complaints.Sources {
		switch {
		case !s.Read:
		case s.Since.IsZero():
			words = append(words, clean.Text(s.Name))
		default:
			words = append(words, "the journal of the last "+v.readFor(s))
		}
	}
	return strings.Join(words, " and ")
}

// readFor is how far back a log was read.
func (v *Screen) readFor(s diagnosis.Source) string {
	d := v.now.Sub(s.Since)
	if d > time.Hour {
		return human.Span(d.Round(time.Hour))
	}
	return human.Span(d.Round(time.Minute))
}

// quietFor is how long a kubelet is silent that has nothing to complain of any more: one that has
// repeats itself every 2 s.
const quietFor = 5 * time.Minute

// stopped reports whether the complaints have ended: there are none any more, or nothing of what was
// named is left to complain of.
func (v *Screen) stopped() bool {
	last := v.Complaints.Last
	if v.Complaints.Now || last == nil {
		return false
	}
	left := slices.ContainsFunc(v.Pods, func(p pod) bool { return p.Lines > 0 && p.Fate != diagnosis.Gone && p.Fate != diagnosis.Lives })
	return v.now.Sub(*last) > quietFor || v.Looked && !left
}

// often says how often the kubelet complains, since when, and whether it still does.
func (v *Screen) often() string {
	c := &v.Complaints
	words := []string{human.Count(c.LastHour, "line") + " in the last hour"}
	if c.Untimed > c.Lines/2 || c.LastHour == 0 {
		words[0] = human.Count(c.Lines, "line") + " in " + v.read()
	}
	if c.First != nil {
		words = append(words, v.sinceWhen())
	}
	text := strings.Join(words, ", ")
	switch {
	case c.Now:
		return text + ", and it still does."
	case v.stopped():
		return text + ". It has stopped: the last line is " + human.Age(v.now.Sub(*c.Last)) + " old."
	case c.Last != nil:
		return text + ", the last " + human.Age(v.now.Sub(*c.Last)) + " ago."
	}
	return text + "."
}

// sinceWhen says when the complaints began, as far as was read.
func (v *Screen) sinceWhen() string {
	first := *v.Complaints.First
	for _, s := range v.Complaints.Sources {
		if s.Read && !s.Since.IsZero() && first.Before(s.Since.Add(5*time.Minute)) {
			return "for more than " + v.readFor(s)
		}
	}
	return "since " + human.Clock(first, v.now)
}

// pods shows the pods, two lines each.
func (p writer) pods(v *Screen) {
	if !v.Looked {
		return
	}
	if len(v.Pods) == 0 {
		p.Para("", human.Count(v.Living, "pod directory")+" in "+clean.Text(v.podsDir)+", no orphan among them.")
		return
	}
	p.Heading("What lies there")
	name := min(p.Columns-2-uidWidth-2-sizeWidth, mostName)
	here := slices.DeleteFunc(slices.Clone(v.Pods), func(pod pod) bool { return pod.Fate == diagnosis.Gone })
	for i, pod := range here {
		if i == mostPods {
			p.Printf("  … and %s: orphan-reaper scan\n", human.Count(len(here)-i, "more pod"))
			break
		}
		size := "-"
		if !pod.unread {
			size = human.Size(pod.Bytes)
		}
		p.Printf("  %s%s%*s\n", human.Pad(human.Short(pod.UID, uidWidth), uidWidth+2),
			human.Pad(human.Short(clean.Text(policy.FullName(pod.Namespace, pod.Name)), max(name-2, 1)), max(name, 2)), sizeWidth, size)
		p.Para("    ", pod.Says)
	}
	switch gone := v.counts.pods[diagnosis.Gone]; {
	case gone > 0 && len(here) == 0:
		p.Para("  ", "Nothing any more: what it named is gone, or lies in quarantine.")
	case gone > 0:
		p.Para("  ", human.Count(gone, "more pod")+" that it named "+human.Plural(gone, "is", "are")+" gone, or "+human.Plural(gone, "lies", "lie")+" in quarantine.")
	}
}

// byItself says what goes without a person, and when.
func (p writer) byItself(v *Screen) {
	goes, stopped := v.counts.pods[diagnosis.Goes], v.counts.pods[diagnosis.Stopped]
	if goes+stopped == 0 {
		return
	}
	what := fmt.Sprintf("%s (%s)", human.Count(goes, "pod"), human.Size(v.counts.bytes[diagnosis.Goes]))
	switch {
	case stopped > 0:
		p.Heading("What goes by itself")
		p.Para("  ", fmt.Sprintf("%s (%s) may go, and nothing does: %s.", human.Count(stopped, "pod"), human.Size(v.counts.bytes[diagnosis.Stopped]),
			clean.Text(v.Stops.Detail)))
		return
	case v.unattended: // nothing goes by itself
		return
	}
	p.Heading("What goes by itself")
	verb, when := "goes", " now"
	if v.counts.due > 0 {
		when = " in " + human.Age(v.counts.due)
	}
	if goes > 1 {
		verb, when = "go", ", the first"+when
	}
	p.Para("  ", fmt.Sprintf("%s %s%s. The daemon has run since %s (mode %s).", what, verb, when,
		human.Clock(v.Daemon.Since, v.now), cmp.Or(v.Daemon.Mode, "unknown")))
}

// mayGo says how much waits for somebody to take it.
func (v *Screen) mayGo() string {
	when := " now"
	if v.counts.due > 0 {
		when = ", after a hold"
	}
	goes := v.counts.pods[diagnosis.Goes]
	return fmt.Sprintf("%s (%s) may go%s.", human.Count(goes, "pod"), human.Size(v.counts.bytes[diagnosis.Goes]), when)
}

// todo writes one thing that a person has to do.
func (p writer) todo(t Todo) {
	p.Para("  ", t.Text)
	for i, c := range t.Commands {
		if i == mostCommands {
			p.Printf("    # … and %s: orphan-reaper scan\n", human.Count(len(t.Commands)-i, "more pod"))
			return
		}
		p.Printf("    %s\n", clean.Text(c))
	}
}

// forPerson says what a person has to do besides.
func (p writer) forPerson(v *Screen) {
	todo := slices.Clone(v.Todo)
	if v.unattended { // the last: it is shown first, and never left out
		last := todo[len(todo)-1]
		last.Text = v.mayGo() + " " + last.Text
		todo = slices.Insert(todo[:len(todo)-1], 0, last)
	}
	switch {
	case len(todo) > 0:
		p.Heading("What you have to do")
	case v.Looked && !v.NeedsPerson && v.restored() > 0:
		p.Printf("\n")
		p.Para("", "A person put "+human.Count(v.restored(), "pod")+" back: never taken again. A complaint about it goes on until you remove the directory "+
			"yourself, with an eye on its mounts: docs/reasons.md#restored")
	case v.Looked && !v.NeedsPerson:
		p.Printf("\n%s\n", p.Paint(term.Green, "You have nothing to do."))
	}
	for i, t := range todo {
		if i == mostTodo {
			p.Printf("  … and %s: orphan-reaper scan\n", human.Count(len(todo)-i, "more thing"))
			return
		}
		p.todo(t)
	}
}

// restored counts what is kept since a person put it back.
func (v *Screen) restored() (n int) {
	for i := range v.Pods {
		if slices.Contains(v.Pods[i].Reasons, policy.ReasonRestored) {
			n++
		}
	}
	return n
}

// data says what waits in quarantine for a person's word, which nobody is in a hurry to give.
func (p writer) data(v *Screen) {
	if v.dataPods > 0 {
		p.Printf("\n")
		p.Para("", human.Count(v.dataPods, "pod")+"'s data ("+human.Size(v.dataBytes)+") "+human.Plural(v.dataPods, "waits", "wait")+
			" in quarantine for your word: orphan-reaper quarantine list")
	}
}

// missing says what is missing here, a line each, and what root would add.
func (p writer) missing(v *Screen) {
	if len(v.Missing) > 0 {
		p.Heading("What is missing here")
		for i, m := range v.Missing {
			if i == mostMissing {
				p.Printf("  … and %d more (-o json has all)\n", len(v.Missing)-i)
				break
			}
			p.Printf("  %s\n", human.Short(m, p.Columns-2))
		}
	}
	if !v.root {
		text := "Root sees more: run it with sudo."
		if !v.Looked {
			text = "What lies there, what goes and what to do only root can see: sudo orphan-reaper doctor"
		}
		p.Printf("\n")
		p.Para("", text)
	}
}
