package ui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/summary"
)

// The screen usually has at most 24 lines. What needs no action is only in JSON. Each command has its own unbroken line, so
// that it can be pasted.

// Limits of the screen.
const (
	mostMessage  = 3 // lines of the kubelet's message
	mostPods     = 4
	mostTodo     = 3
	mostCommands = 3 // of one thing to do
	mostMissing  = 4
)

// quietFor is the silence after which the kubelet's complaints have ended. It repeats them every 2 s.
const quietFor = 5 * time.Minute

// doctorPrinter writes the screen as text.
type doctorPrinter struct{ *Printer }

// Doctor writes the screen.
func (p *Printer) Doctor(v *Doctor) { doctorPrinter{p}.write(v) }

func (p doctorPrinter) write(v *Doctor) {
	if !v.Looked && v.c.Root && len(v.Errors) > 0 {
		p.Para("", p.Paint(Red, clean.Text(v.Errors[len(v.Errors)-1])+"."))
	}
	if v.contradiction != "" {
		p.Para("", p.Paint(Red, "A setting contradicts the running kubelet: "+clean.Text(v.contradiction)))
	}
	p.complaints(v)
	p.pods(v)
	p.removal(v)
	p.quarantine(v)
	p.staged(v.Staged)
	p.todo(v)
	p.missing(v)
}

func (p doctorPrinter) complaints(v *Doctor) {
	c := &v.Complaints
	switch {
	case c.Lines == 0 && v.noLogRead():
		p.Para("", p.Paint(Yellow, "What the kubelet complains of is not known: no log could be read."))
		return
	case c.Lines == 0 && !c.Now:
		p.Para("", "The kubelet complains of no orphaned pod: no such line in "+v.read()+".")
		return
	}
	verb := "complains"
	if v.stopped() {
		verb = "complained"
	}
	p.Printf("%s\n", p.Paint(Bold, "The kubelet "+verb+" of "+human.Count(c.Pods, "pod")+":"))
	p.cut("  ", "  ", Red, c.Message)
	p.Para("", v.frequency())
}

// cut writes at most mostMessage lines of a text. Lines after the first are indented by hang.
func (p doctorPrinter) cut(indent, hang string, c Colour, text string) {
	lines := human.Wrap(text, p.TextColumns()-len(hang))
	if len(lines) > mostMessage {
		lines = lines[:mostMessage]
		lines[mostMessage-1] = human.Short(lines[mostMessage-1]+" …", p.TextColumns()-len(hang))
	}
	for _, line := range lines {
		p.Printf("%s%s\n", indent, p.Paint(c, line))
		indent = hang
	}
}

// read returns the names of the logs that were read.
func (v *Doctor) read() string {
	var words []string
	for _, s := range v.Complaints.Sources {
		switch {
		case !s.Read:
		case s.Since.IsZero():
			words = append(words, clean.Text(s.Name))
		default:
			words = append(words, "the journal since "+human.Clock(s.Since, v.now))
		}
	}
	return strings.Join(words, " and ")
}

// stopped reports whether the complaints have ended: the last one is old, or none of the named pods is left.
func (v *Doctor) stopped() bool {
	last := v.Complaints.Last
	if v.Complaints.Now || v.contradiction != "" {
		return false
	}
	left := slices.ContainsFunc(v.Pods, func(p complainedPod) bool {
		return p.Lines > 0 && p.Fate != summary.Gone && (p.Fate != summary.Lives || p.recent)
	})
	return last != nil && v.now.Sub(*last) > quietFor || v.Looked && !left
}

// frequency describes how often the kubelet complains, since when, and whether it still does.
func (v *Doctor) frequency() string {
	c := &v.Complaints
	text := human.Count(c.LastHour, "line") + " in the last hour"
	if c.Untimed > c.Lines/2 || c.LastHour == 0 {
		text = human.Count(c.Lines, "line") + " in " + v.read()
	}
	if c.First != nil {
		text += ", the first of " + human.Clock(*c.First, v.now)
	}
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

// pods writes two lines for each pod on disk, and the number of pods that are gone.
func (p doctorPrinter) pods(v *Doctor) {
	if !v.Looked {
		return
	}
	if len(v.Pods) == 0 {
		p.Para("", human.Count(v.Living, "pod directory")+" in "+clean.Text(v.place.PodsDir)+", no orphan among them.")
		return
	}
	const uidWidth, sizeWidth = 38, 8
	name := min(p.Columns-2-uidWidth-sizeWidth, 60)
	p.Heading("What lies there")
	here := slices.DeleteFunc(slices.Clone(v.Pods), func(pod complainedPod) bool { return pod.Fate == summary.Gone })
	for i, pod := range here {
		if i == mostPods {
			p.Printf("  … and %s: orphan-reaper scan\n", human.Count(len(here)-i, "more pod"))
			break
		}
		size := "-"
		if !pod.unread {
			size = human.Size(pod.Bytes)
		}
		full := human.Short(clean.Text(policy.FullName(pod.Namespace, pod.Name)), max(name-2, 1))
		p.Printf("  %s%s%*s\n", human.Pad(human.Short(pod.UID, uidWidth-2), uidWidth), human.Pad(full, max(name, 2)), sizeWidth, size)
		p.Para("    ", pod.Says)
	}
	if gone := len(v.Pods) - len(here); gone > 0 && v.contradiction == "" { // what is not here may be where the kubelet has its pods
		p.Para("  ", human.Count(gone, "pod")+" that it named "+human.Plural(gone, "is", "are")+" gone, or in quarantine.")
	}
}

// removal writes what is removed without an operator, and when, or what stops that.
func (p doctorPrinter) removal(v *Doctor) {
	if s := v.sumOf(func(p *complainedPod) bool { return p.Fate == summary.Stopped }); s.pods > 0 {
		why := v.Stops.Detail
		if v.Stops.Reason == policy.ReasonBreaker {
			why, _, _ = strings.Cut(why, ";") // what to do about it is below, as commands
		}
		p.Heading("What could be removed")
		p.Para("  ", s.String()+" can be removed, and nothing is: "+clean.Text(why)+".")
		return
	}
	eligible := v.eligible()
	if eligible == "" || v.unattended || v.Daemon.Runs != policy.Yes {
		return
	}
	p.Heading("What is removed automatically")
	p.Para("  ", fmt.Sprintf("%s. The daemon has run since %s (mode %s).", eligible, human.Clock(v.Daemon.Since, v.now), cmp.Or(v.Daemon.Mode, "unknown")))
}

// eligible returns how many pods can be removed without an operator, and when.
func (v *Doctor) eligible() string {
	var parts []string
	due := time.Duration(-1)
	byTime := v.sumOf(func(p *complainedPod) bool {
		if p.Fate != summary.Goes || p.ends != "" {
			return false
		}
		if d := time.Duration(p.DueSeconds) * time.Second; due < 0 || d < due {
			due = d
		}
		return true
	})
	when := " now"
	switch {
	case due > 0 && v.Daemon.Runs != policy.Yes: // a hold begins with the sweep
		when = " after a hold"
	case due > 0:
		when = " in " + human.Age(due)
	}
	if byTime.pods > 1 {
		when = ", the first" + when
	}
	if byTime.pods > 0 {
		parts = append(parts, byTime.String()+when)
	}
	ends := ""
	used := v.sumOf(func(p *complainedPod) bool {
		if p.Fate == summary.Goes {
			ends = cmp.Or(p.ends, ends)
		}
		return p.Fate == summary.Goes && p.ends != ""
	})
	if used.pods > 1 {
		ends = "nothing uses them any more, or the kubelet reports them"
	}
	if used.pods > 0 {
		parts = append(parts, used.String()+" when "+ends)
	}
	return strings.Join(parts, "; ")
}

// quarantine writes what is purged from the quarantine automatically, how to keep it, and what waits for a decision.
func (p doctorPrinter) quarantine(v *Doctor) {
	if a := v.Aging; a != nil {
		pods := len(a.UIDs)
		when, it := " now", "it"
		if a.DueSeconds > 0 {
			when = " in " + human.Age(time.Duration(a.DueSeconds)*time.Second)
		}
		if pods > 1 {
			when, it = ", the first"+when, "one"
		}
		if v.Stops != nil || v.Daemon.Runs != policy.Yes {
			when += ", if a daemon or a sweep enforces"
		}
		p.Gap()
		p.Para("", possessive(pods)+human.Plural(pods, " emptyDir", " emptyDirs")+" ("+human.Size(a.Bytes)+") "+human.Plural(pods, "is", "are")+
			" permanently removed"+when+". To keep "+it+":")
		p.commands(a.Commands, "quarantine list")
	}
	if v.c.DataPods > 0 {
		p.Gap()
		p.Para("", possessive(v.c.DataPods)+" data ("+human.Size(v.c.DataBytes)+") "+human.Plural(v.c.DataPods, "waits", "wait")+
			" in quarantine for your decision:")
		p.commands([]string{"orphan-reaper quarantine list"}, "")
	}
	if v.c.Unlisted > 0 {
		p.Gap()
		p.Para("", "In quarantine "+human.Plural(v.c.Unlisted, "is ", "are ")+human.Count(v.c.Unlisted, "directory")+
			" that the ledger does not have. Only you can restore or purge "+human.Plural(v.c.Unlisted, "it", "them")+":")
		p.commands([]string{"orphan-reaper quarantine list"}, "")
	}
}

func possessive(pods int) string { return human.Count(pods, "pod") + human.Plural(pods, "'s", "'") }

// commands writes each command on its own line. If there are too many, it names the command that shows the rest.
func (p doctorPrinter) commands(commands []string, rest string) {
	for i, c := range commands {
		if i == mostCommands {
			p.Printf("    # … and %s: orphan-reaper %s\n", human.Count(len(commands)-i, "more pod"), rest)
			return
		}
		p.Printf("    %s\n", clean.Text(c))
	}
}

// staged writes one line about the volumes that are staged here and that no pod directory names.
func (p doctorPrinter) staged(all []policy.StagedVolume) {
	if len(all) == 0 {
		return
	}
	var names []string
	for _, v := range all[:min(len(all), mostCommands)] {
		names = append(names, human.Short(clean.Name(v.Driver), 60)+" "+human.Short(clean.Name(v.Handle), 80))
	}
	if len(all) > mostCommands {
		names = append(names, "…")
	}
	p.Gap()
	p.Para("", human.Count(len(all), "volume")+" "+human.Plural(len(all), "is", "are")+" staged here that no pod directory names ("+
		strings.Join(names, ", ")+"). Nothing unmounts them by itself; docs/faq.md has what to check before you do.")
}

func (p doctorPrinter) todo(v *Doctor) {
	var back []string
	for i := range v.Pods { // put back, and kept by nothing else
		if v.Pods[i].Fate != summary.Person && slices.Contains(v.Pods[i].Reasons, policy.ReasonRestored) {
			back = append(back, "orphan-reaper quarantine forget "+v.Pods[i].UID)
		}
	}
	switch {
	case len(v.Todo) > 0:
		p.Heading("What you have to do")
	case v.Looked && !v.NeedsPerson && len(back) == 0 && len(v.Staged) == 0 && v.c.Unlisted == 0:
		p.Gap()
		p.Printf("%s\n", p.Paint(Green, "You have nothing to do."))
	}
	for i, t := range v.Todo {
		if i == mostTodo {
			p.Printf("  … and %s: orphan-reaper scan\n", human.Count(len(v.Todo)-i, "more thing"))
			break
		}
		if i == 0 && v.unattended {
			t.Text = "Can be removed: " + v.eligible() + ". " + t.Text
		}
		p.Para("  ", t.Text)
		p.commands(t.Commands, "scan")
	}
	if len(back) > 0 {
		p.Gap()
		p.Para("", "An operator put "+human.Count(len(back), "pod")+" back, so the kubelet keeps complaining. If the pod is not needed, have it judged again:")
		p.commands(back, "scan")
	}
}

func (p doctorPrinter) missing(v *Doctor) {
	if len(v.Missing) > 0 {
		p.Heading("What is missing here")
		for i, m := range v.Missing {
			if i == mostMissing {
				p.Printf("  … and %d more (-o json has all)\n", len(v.Missing)-i)
				break
			}
			p.cut("  ", "    ", "", m)
		}
	}
	if v.c.Root {
		return
	}
	p.Gap()
	if v.Looked {
		p.Para("", "Root sees more: run it with sudo.")
		return
	}
	p.Para("", "Only root can see what lies there and what to do:")
	p.commands([]string{"sudo orphan-reaper doctor"}, "")
}
