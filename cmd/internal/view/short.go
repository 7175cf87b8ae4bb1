package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/view/advice"
	"github.com/orphan-reaper/orphan-reaper/reaper/audit"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// What explain --short shows at the most. A line is not broken, so that a command can be pasted.
const (
	shortLines    = 10
	shortReasons  = 3
	shortCommands = 2
	shortDetail   = 400 // columns
)

// Short writes one pod in at most shortLines lines, for a ticket.
func (p *Printer) Short(e Explanation) {
	var lines []string
	switch {
	case len(e.pods) > 0:
		lines = e.context.shortPod(e.pods[0], e.report.taker)
	case len(e.entries) > 0:
		lines = e.context.shortEntry(&e.entries[0])
	case len(e.done) > 0:
		lines = e.context.shortPast(e.done)
	}
	for _, line := range lines[:min(len(lines), shortLines)] {
		p.Printf("%s\n", line)
	}
}

// shortTitle names the pod and the node.
func (x Context) shortTitle(uid, name string) string {
	title := strings.TrimSuffix("Pod "+uid+" "+name, " ")
	if x.Node != "" {
		title += " on " + clean.Text(x.Node)
	}
	return title
}

func (x Context) shortPod(pod *podView, t advice.Taker) []string {
	e := pod.evidence
	where := "only the runtime has it"
	switch {
	case pod.Parked:
		where = "parked in " + clean.Text(x.QuarantineDir+"/"+e.Entry)
	case !e.RuntimeOnly:
		where = clean.Text(x.PodsDir + "/" + e.Name)
	}
	if sum := total(e.Residue); sum.Entries > 0 {
		where += ", " + human.Size(sum.Bytes) + " in " + human.Count(sum.Entries, "entry")
	}
	if !e.Changed.IsZero() {
		where += ", changed " + human.Age(x.Now.Wall.Sub(e.Changed)) + " ago"
	}
	verdict := "Verdict: " + verdictOf(pod)
	due := time.Duration(pod.DueSeconds) * time.Second
	switch {
	case due > 0 && t.Later("") == "":
		verdict += ", look again at " + human.Clock(x.Now.Wall.Add(due), x.Now.Wall)
	case pod.Verdict != policy.Keep, pod.outlook() == policy.OutlookAlive, due > 0:
		verdict += ". " + strings.TrimPrefix(explainer{Context: x, taker: t}.summary(pod), "Kept. ")
	}
	lines := []string{x.shortTitle(pod.title(), podName(e.Namespace, e.PodName)), where, verdict}
	var look, then []string
	why := slices.DeleteFunc(slices.Clone(pod.Why), func(w policy.Why) bool { return w.Reason == policy.ReasonWaived }) // it keeps nothing
	for i, w := range why {
		if pod.outlook() != policy.OutlookAlive {
			c := x.place().Commands(e, w.Reason)
			look, then = append(look, c.Look...), append(then, c.Then...)
		}
		switch detail := shorten(cmp.Or(seen(w, e), advice.For(w.Reason).Means)); {
		case i < shortReasons-1 || i == len(why)-1 && i < shortReasons:
			lines = append(lines, fmt.Sprintf("  %s: %s", w.Reason, strings.TrimPrefix(detail, string(w.Reason)+" ")))
		case i == shortReasons-1:
			lines = append(lines, fmt.Sprintf("  and %d more reasons", len(why)-i))
		}
	}
	look = slices.Compact(look)
	for _, command := range look[:min(len(look), shortCommands)] {
		lines = append(lines, "Look: "+command)
	}
	if len(then) > 0 {
		lines = append(lines, "If the pod is gone: "+then[0])
	}
	if pod.UID != "" {
		lines = append(lines, "More: orphan-reaper explain "+pod.UID)
	}
	return lines
}

// shorten cuts what is longer than a ticket needs, between words.
func shorten(text string) string {
	if human.Columns(text) <= shortDetail {
		return text
	}
	return human.Wrap(text, shortDetail-2)[0] + " …"
}

func (x Context) shortEntry(e *policy.EntryState) []string {
	v := viewEntry(*e, x)
	sum := total(e.Left)
	lines := []string{
		x.shortTitle(v.UID, podName(e.Namespace, e.PodName)),
		"In quarantine: " + clean.Text(x.QuarantineDir+"/"+e.Entry) + ", " + human.Size(sum.Bytes) + " in " + human.Count(sum.Entries, "entry"),
		"Goes: " + v.fate(x.Now.Wall),
	}
	if e.Leaf != "" {
		lines = append(lines, "Taken from: "+clean.Text(e.Leaf)+", and nothing else")
	}
	undo := "orphan-reaper quarantine restore " + v.UID
	if len(e.Merge) > 0 {
		undo = "the pod lives again: orphan-reaper explain " + v.UID + " shows how to merge the two"
	}
	return append(lines, "Undo: "+undo)
}

// shortPast tells of a pod of which nothing is left, by the last of its records.
func (x Context) shortPast(done []policy.Record) []string {
	last := done[len(done)-1]
	return []string{
		x.shortTitle(string(last.UID), podName(last.Namespace, last.PodName)), "Nothing of it is in the pods directory or in quarantine.",
		human.When(last.At.Wall) + " " + string(last.Kind) + ": " + shorten(clean.Text(audit.What(last))),
	}
}
