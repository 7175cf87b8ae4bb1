package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/ui"
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

	mostMissingLines = 3
)

// The widths of the pods' columns; a name has the room between.
const (
	uidWidth  = 36
	sizeWidth = 8
	mostName  = 60
)

// writer writes the screen for a person.
type writer struct{ *ui.Printer }

// Write writes the screen.
func Write(p *ui.Printer, v *Screen) {
	w := writer{p}
	if !v.Looked && v.root && len(v.Errors) > 0 {
		w.Para("", p.Paint(ui.Red, clean.Text(v.Errors[len(v.Errors)-1])+"."))
	}
	if v.elsewhere != "" {
		w.Para("", p.Paint(ui.Red, "A setting contradicts the running kubelet: "+clean.Text(v.elsewhere)))
	}
	w.complaints(v)
	w.pods(v)
	w.byItself(v)
	w.aging(v)
	w.data(v)
	w.forPerson(v)
	w.missing(v)
}

// complaints says what the kubelet says, since when and how often.
func (p writer) complaints(v *Screen) {
	c := &v.Complaints
	switch {
	case c.Lines == 0 && v.deaf():
		p.Para("", p.Paint(ui.Yellow, "What the kubelet complains of is not known: no log could be read."))
		return
	case c.Lines == 0 && !c.Now:
		p.Para("", "The kubelet complains of no orphaned pod: no such line in "+v.read()+".")
		return
	}
	verb := "complains"
	if v.stopped() {
		verb = "complained"
	}
	p.Printf("%s\n", p.Paint(ui.Bold, "The kubelet "+verb+" of "+human.Count(c.Pods, "pod")+":"))
	p.cut("  ", "  ", ui.Red, c.Message, mostMessage)
	p.Para("", v.often())
}

// cut writes text wrapped, in so many lines at the most, those after the first behind hang.
func (p writer) cut(indent, hang string, c ui.Colour, text string, most int) {
	lines := human.Wrap(text, p.TextColumns()-len(hang))
	for i, line := range lines[:min(len(lines), most)] {
		if i == most-1 && len(lines) > most {
			line = human.Short(line+" …", p.TextColumns()-len(hang))
		}
		p.Printf("%s%s\n", indent, p.Paint(c, line))
		indent = hang
	}
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
	if v.Complaints.Now || v.elsewhere != "" {
		return false
	}
	left := slices.ContainsFunc(v.Pods, func(p pod) bool {
		return p.Lines > 0 && p.Fate != diagnosis.Gone && (p.Fate != diagnosis.Lives || p.recent)
	})
	return last != nil && v.now.Sub(*last) > quietFor || v.Looked && !left
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
	case v.stopped() && c.Last == nil: // klog names no year and no zone
		return text + ". It has stopped: none that it named is left."
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
	if gone := v.gone(); v.elsewhere != "" {
		return // what is not here may lie where the kubelet has its pods
	} else if gone != "" && len(here) == 0 {
		p.Para("  ", "Nothing any more: "+gone)
	} else if gone != "" {
		p.Para("  ", "Besides, "+gone)
	}
}

// byItself says what goes without a person, and when.
func (p writer) byItself(v *Screen) {
	goes, stopped := v.counts.pods[diagnosis.Goes], v.counts.pods[diagnosis.Stopped]
	if goes+stopped == 0 {
		return
	}
	switch {
	case stopped > 0:
		why := v.Stops.Detail
		if v.Stops.Reason == policy.ReasonBreaker {
			why, _, _ = strings.Cut(why, ";") // what to do about it stands below, as commands
		}
		p.Heading("What could be removed")
		p.Para("  ", fmt.Sprintf("%s (%s) can be removed, and nothing is: %s.", human.Count(stopped, "pod"), human.Size(v.counts.bytes[diagnosis.Stopped]),
			clean.Text(why)))
		return
	case v.unattended || v.Daemon.Runs != policy.Yes: // what goes, the kubelet cleans up
		return
	}
	p.Heading("What is removed automatically")
	verb, when := "is quarantined", " now"
	if v.counts.due > 0 {
		when = " in " + human.Age(v.counts.due)
	}
	if v.counts.now.pods+v.counts.later.pods > 1 {
		verb, when = "are quarantined", ", the first"+when
	}
	parts := []string{}
	parts = v.counts.now.plus(v.counts.later).say(parts, verb+when)
	parts = v.counts.used.say(parts, human.Plural(v.counts.used.pods, "is", "are")+" quarantined"+v.counts.after())
	named := v.counts.named.pods
	parts = v.counts.named.say(parts, human.Plural(named, "is", "are")+" quarantined once the kubelet reports "+human.Plural(named, "it", "them"))
	for _, why := range []string{v.counts.limited, v.counts.first} {
		if why != "" {
			parts = append(parts, clean.Text(why))
		}
	}
	p.Para("  ", fmt.Sprintf("%s. The daemon has run since %s (mode %s).", strings.Join(parts, "; "),
		human.Clock(v.Daemon.Since, v.now), cmp.Or(v.Daemon.Mode, "unknown")))
}

// plus is two heaps together.
func (h heap) plus(o heap) heap { return heap{h.pods + o.pods, h.bytes + o.bytes} }

// say adds what becomes of a heap.
func (h heap) say(parts []string, what string) []string {
	if h.pods == 0 {
		return parts
	}
	return append(parts, fmt.Sprintf("%s (%s) %s", human.Count(h.pods, "pod"), human.Size(h.bytes), what))
}

// after says what has to end before that goes which is in use.
func (c *counts) after() string {
	if c.used.pods > 1 {
		return " when nothing uses them any more"
	}
	return " when " + c.ends
}

// mayGo says how much waits for somebody to take it. Where no daemon runs, no time passes for a hold: it
// begins with the sweep.
func (v *Screen) mayGo() string {
	parts := v.counts.now.say(nil, "can be removed now")
	parts = v.counts.later.say(parts, "can be removed after a hold")
	parts = v.counts.named.say(parts, "can be removed once the kubelet reports "+human.Plural(v.counts.named.pods, "it", "them"))
	return strings.Join(v.counts.used.say(parts, "can be removed"+v.counts.after()), "; ") + "."
}

// todo writes one thing that a person has to do.
func (p writer) todo(t Todo) {
	p.Para("  ", t.Text)
	p.commands(t.Commands, "scan")
}

// commands writes them, and names the command that has those that are too many.
func (p writer) commands(commands []string, rest string) {
	for i, c := range commands {
		if i == mostCommands {
			p.Printf("    # … and %s: orphan-reaper %s\n", human.Count(len(commands)-i, "more pod"), rest)
			return
		}
		p.command(c)
	}
}

// command writes one command on a line of its own, which no terminal's width breaks.
func (p writer) command(c string) { p.Printf("    %s\n", clean.Text(c)) }

// forPerson says what a person has to do besides.
func (p writer) forPerson(v *Screen) {
	todo := slices.Clone(v.Todo)
	if v.unattended { // the last: it is shown first, and never left out
		last := todo[len(todo)-1]
		last.Text = v.mayGo() + " " + last.Text
		todo = slices.Insert(todo[:len(todo)-1], 0, last)
	}
	back := v.restored()
	switch {
	case len(todo) > 0:
		p.Heading("What you have to do")
	case v.Looked && !v.NeedsPerson && len(back) == 0:
		p.Printf("\n%s\n", p.Paint(ui.Green, "You have nothing to do."))
	}
	for i, t := range todo {
		if i == mostTodo {
			p.Printf("  … and %s: orphan-reaper scan\n", human.Count(len(todo)-i, "more thing"))
			break
		}
		p.todo(t)
	}
	if len(back) > 0 {
		p.Printf("\n")
		p.Para("", "An operator put "+human.Count(len(back), "pod")+" back, so the kubelet keeps complaining. If the pod is not needed, have it judged again:")
		p.commands(back, "scan")
	}
}

// restored are the commands that have each pod judged again that a person put back, and that nothing else keeps.
func (v *Screen) restored() (commands []string) {
	for i := range v.Pods {
		if v.Pods[i].Fate != diagnosis.Person && slices.Contains(v.Pods[i].Reasons, policy.ReasonRestored) {
			commands = append(commands, "orphan-reaper quarantine forget "+v.Pods[i].UID)
		}
	}
	return commands
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
			p.cut("  ", "    ", "", m, mostMissingLines)
		}
	}
	if !v.root {
		p.Printf("\n")
		if v.Looked {
			p.Para("", "Root sees more: run it with sudo.")
			return
		}
		p.Para("", "Only root can see what lies there and what to do:")
		p.command("sudo orphan-reaper doctor")
	}
}
