package ui

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/reaper/audit"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
)

type explainer struct {
	*Printer
	*Explanation
	c Context
}

// Explain writes one pod: what was found, what would happen, what to do.
func (p *Printer) Explain(e Explanation) {
	x := explainer{p, &e, e.context}
	for _, pod := range e.pods {
		x.pod(pod)
	}
	for i := range e.entries {
		if !slices.ContainsFunc(e.pods, func(pod *podView) bool { return pod.Entry == e.entries[i].Entry }) {
			x.entry(&e.entries[i])
		}
	}
	there := len(e.pods) > 0 || len(e.entries) > 0
	if len(e.done) > 0 && !there {
		x.head(string(e.uid), policy.FullName(e.done[0].Namespace, e.done[0].PodName))
		x.Gap()
		x.Para("", "Nothing of this pod is in the pods directory or in quarantine. The ledger has its history.")
	}
	x.history()
	if !there { // the content in the records is nowhere else
		all := map[string]string{}
		for _, r := range e.done {
			maps.Copy(all, r.VolData)
		}
		x.volData(all)
	}
	x.lookErrors(&e.Report)
}

func (x explainer) line(label, text string) { x.Item("", label, 14, "", text) }

func (x explainer) head(title, name string) {
	x.Printf("%s\n", x.Paint(Bold, "Pod "+title))
	if name != "" {
		x.line("name", clean.Text(name))
	}
}

func (x explainer) holds(rs []policy.Residue) {
	sum := total(rs)
	x.line("holds", size(sum.Bytes, partial(rs))+" in "+human.Count(sum.Entries, "entry"))
}

// pod writes what the look found about one pod.
func (x explainer) pod(pod *podView) {
	e := pod.evidence
	x.head(pod.title(), policy.FullName(e.Namespace, e.PodName))
	switch {
	case e.RuntimeOnly && slices.ContainsFunc(x.entries, func(s policy.EntryState) bool { return s.Phase.InQuarantine() }):
		x.line("directory", "in quarantine, as below")
	case e.RuntimeOnly:
		x.line("directory", "none: only the runtime has the pod")
	case pod.Parked:
		x.line("parked", clean.Text(x.c.QuarantineDir+"/"+e.Entry))
	default:
		x.line("directory", clean.Text(x.c.PodsDir+"/"+e.Name))
	}
	if !e.Changed.IsZero() {
		x.line("changed", fmt.Sprintf("%s, %s ago", human.When(e.Changed), human.Age(x.c.Now.Wall.Sub(e.Changed))))
	}
	for _, s := range e.Sandboxes {
		x.line("sandbox", x.sandbox(s))
	}
	if pod.UID != "" {
		x.holds(e.Residue)
	}
	word := verdictOf(pod)
	x.Gap()
	x.Printf("%s\n", x.Paint(Bold, "Verdict: ")+x.Paint(colourOf(word, pod.outlook() == policy.OutlookPerson), word))
	x.Para("", x.summary(pod))
	lives := pod.outlook() == policy.OutlookAlive
	x.reasons(pod.Why, e, !lives)
	if pod.UID == "" {
		return // nothing is ever done to it
	}
	x.facts(pod)
	if e.Facts[policy.FactDirectory].Truth == policy.No && !e.RuntimeOnly && !pod.Parked {
		return // no directory: nothing is ever done to it either
	}
	if lives {
		x.residue("What it holds", e.Residue, false)
		return
	}
	x.residue("What it left, and what would become of it", e.Residue, true)
	x.Heading("How to undo")
	if e.RuntimeOnly {
		x.Para("  ", "There is no directory to put back. A sandbox that the runtime has removed is gone; it held no data of a user.")
		return
	}
	x.Para("  ", "While it is in quarantine, this puts it back:")
	x.Printf("    orphan-reaper quarantine restore %s\n", pod.UID)
	x.Para("  ", "What was removed by then (skeleton, projected) cannot be restored. What may be a user's data is never removed automatically.")
}

// sandbox formats one sandbox of the runtime's list, with its age.
func (x explainer) sandbox(s policy.Sandbox) string {
	text := clean.Text(s.ID) + map[bool]string{true: " READY", false: " NOTREADY"}[s.Ready]
	if !s.Created.IsZero() {
		text += ", " + human.Age(x.c.Now.Wall.Sub(s.Created)) + " old"
	}
	return text
}

// summary returns the verdict as a sentence.
func (x explainer) summary(pod *podView) string {
	sweep := sweepCommand + " " + pod.UID
	switch {
	case pod.outlook() == policy.OutlookAlive:
		return "This pod lives. It is left alone."
	case pod.Verdict == policy.Reap && pod.Parked:
		return "No sign of life came while it was in quarantine. What holds no data of a user is removed next."
	case pod.Verdict == policy.Reap:
		return "Dead, and nothing is mounted or in use. " + cmp.Or(x.remover.Now("it", sweep), "The next sweep moves it to quarantine.")
	case len(pod.Clear) > 0:
		return "Dead, but the kubelet cannot finish. The next sweep would quarantine what lies in " + clean.Text(strings.Join(pod.Clear, ", ")) +
			", and nothing else; then the kubelet removes the rest by itself."
	case pod.Verdict == policy.Wait && Ends(pod.Why) != "":
		return "Not yet. " + x.remover.After(Ends(pod.Why), sweep)
	case pod.Verdict == policy.Wait:
		return "Not yet. " + cmp.Or(x.remover.Later(sweep), "The reasons end by themselves.")
	case pod.outlook() == policy.OutlookQuiet && slices.Contains(pod.Reasons, policy.ReasonNotReported):
		return "Kept until the kubelet reports it: only that releases a pod."
	case pod.outlook() == policy.OutlookQuiet:
		return "Kept, as an operator asked."
	}
	return "Kept. Each reason by itself is enough:"
}

// reasons writes each reason: the finding, its meaning, the action, and the commands for that, each command once.
// ReasonWaived keeps no pod: it describes how the pod was judged.
func (x explainer) reasons(why []policy.Why, e *policy.Evidence, commands bool) {
	shown, waived := map[string]bool{}, ""
	write := func(label, command string) {
		if !shown[command] {
			x.Printf("    %s%s\n", human.Pad(label, 7), command)
		}
		shown[command] = true
	}
	for _, w := range why {
		if w.Reason == policy.ReasonWaived {
			waived = clean.Text(w.Detail)
			continue
		}
		advice := AdviceOf(w.Reason, e)
		x.Gap()
		x.Printf("  %s\n", x.Paint(Bold, string(w.Reason)))
		if w.Detail != "" { // without the command, which has a line of its own
			x.Item("    ", "seen", 7, "", clean.Text(strings.TrimSuffix(w.Detail, policy.Unmounting(e.Unmount))))
		}
		x.Item("    ", "means", 7, "", advice.Means)
		x.Item("    ", "do", 7, "", advice.Advice)
		if !commands {
			continue
		}
		c := x.c.Commands(e, w.Reason)
		for _, command := range c.Look {
			write("look", command)
		}
		c.Then = slices.DeleteFunc(c.Then, func(command string) bool { return shown[command] })
		if len(c.Then) > 0 {
			x.Printf("    then   if the pod is gone:\n")
		}
		for _, command := range c.Then {
			write("", command)
		}
	}
	if waived != "" {
		x.Gap()
		x.Para("", "How it was judged: "+waived+".")
	}
}

// facts writes each fact with its value, its source and what was found there. Of the node it writes only the facts that are not
// Yes.
func (x explainer) facts(pod *podView) {
	x.Heading("Facts")
	var plain []string // facts that are No, without a detail
	write := func(name string, f policy.Fact) {
		c := Colour("")
		if f.Truth == policy.Unknown {
			c = Yellow
		}
		text := strings.Trim(clean.Text(f.Origin)+": "+clean.Text(f.Detail), ": ")
		first := human.Pad(name, 20) + x.Paint(c, human.Pad(f.Truth.String(), 9))
		for _, line := range x.Wrap(cmp.Or(text, "-"), x.Columns-31) {
			x.Printf("  %s%s\n", first, line)
			first = strings.Repeat(" ", 29)
		}
	}
	for name, f := range pod.evidence.Facts {
		switch name := policy.FactName(name); {
		case (name == policy.FactRemade || name == policy.FactUsed) && !pod.Parked:
		case f.Truth == policy.No && f.Detail == "":
			plain = append(plain, name.String())
		default:
			write(name.String(), f)
		}
	}
	if len(plain) > 0 {
		x.Item("  ", "no", 20, "", strings.Join(plain, ", "))
	}
	if n := x.Node; n != nil {
		for _, f := range []struct {
			name string
			policy.Fact
		}{
			{"kubelet", n.Kubelet},
			{"runtime_lists", n.RuntimeLists},
			{"may_enforce", n.MayEnforce},
			{"agrees", n.Agrees},
			{"openat2", n.Openat2},
			{"landlock", n.Landlock},
		} {
			if f.Truth != policy.Yes {
				write(f.name, f.Fact)
			}
		}
	}
}

// residue writes the class of each path in the pod's directory and, with fates, what becomes of each class.
func (x explainer) residue(heading string, rs []policy.Residue, fates bool) {
	if len(rs) == 0 {
		return
	}
	x.Heading(heading)
	used := map[contents.Class]bool{}
	for _, r := range rs {
		used[r.Class] = true
		text := human.Size(r.Bytes)
		if r.Entries > 1 {
			text += " in " + human.Count(r.Entries, "entry")
		}
		if r.Partial {
			text = "at least " + text
		}
		x.Item("  ", r.Class.String(), 11, "", cmp.Or(clean.Text(r.Path), ".")+"  ("+text+")")
	}
	if !fates {
		return
	}
	x.Gap()
	for _, c := range []struct {
		class contents.Class
		fate  string
	}{
		{contents.ClassSkeleton, "empty directories and the kubelet's own files: removed after the confirm time of " + human.Span(x.c.Confirm) +
			"; vol_data.json's content stays in the record"},
		{contents.ClassProjected, "copies of what the API server holds: removed after the confirm time of " + human.Span(x.c.Confirm)},
		{contents.ClassEphemeral, "emptyDir, or an ephemeral CSI volume: purged after " + human.Span(x.c.Retention) + " in quarantine"},
		{contents.ClassData, "may be a user's: stays in quarantine until an operator purges it"},
	} {
		if used[c.class] {
			x.Item("  ", c.class.String(), 11, "", c.fate)
		}
	}
}

func (x explainer) entry(e *policy.EntryState) {
	v := viewEntry(*e, x.c)
	x.head(v.UID, policy.FullName(e.Namespace, e.PodName))
	gone := e.Phase == policy.PhaseGone
	switch {
	case gone && e.Restored:
		x.Gap()
		x.Para("", "An operator put this pod back from quarantine, so it is kept. If it is not needed, have it judged again:")
		x.Printf("  orphan-reaper quarantine forget %s\n", v.UID)
	case gone:
		x.Gap()
		x.Para("", "Nothing of this pod is left in quarantine.")
	default:
		x.line("quarantine", clean.Text(x.c.QuarantineDir+"/"+e.Entry))
		x.line("phase", fmt.Sprintf("%s, since %s (%s ago)", e.Phase, human.When(v.since), human.Age(x.c.Now.Wall.Sub(v.since))))
		x.line("purge", v.fate(x.c.Now.Wall))
		if e.Leaf != "" {
			x.line("moved from", clean.Text(e.Leaf)+" of the pod directory, and nothing else")
		}
		x.holds(e.Left)
	}
	if len(e.Why) > 0 {
		x.Heading("Why it was moved to quarantine")
		x.reasons(e.Why, &policy.Evidence{UID: e.UID}, false)
	}
	x.removed("What is gone", e.Taken)
	if !gone {
		x.residue("What is left, and what becomes of it", e.Left, true)
	}
	x.volData(e.VolData)
	switch {
	case gone:
	case len(e.Merge) > 0:
		x.Heading("The pod lives again, in a directory of its own. How to merge the two")
		for _, command := range e.Merge {
			x.Printf("  %s\n", clean.Text(command))
		}
	default:
		x.Heading("How to undo")
		x.Para("  ", "This puts back what is left:")
		x.Printf("    orphan-reaper quarantine restore %s\n", v.UID)
	}
}

func (p *Printer) removed(heading string, taken map[string]policy.Tally) {
	if len(taken) == 0 {
		return
	}
	p.Heading(heading)
	for _, class := range slices.Sorted(maps.Keys(taken)) {
		p.Para("  ", fmt.Sprintf("%s: %s, %s", class, human.Count(taken[class].Entries, "entry"), human.Size(taken[class].Bytes)))
	}
}

// volData writes the recorded content of removed vol_data.json files, unbroken, so that it can be copied back
// into a file.
func (p *Printer) volData(files map[string]string) {
	if len(files) == 0 {
		return
	}
	p.Heading("What the record has kept of " + contents.VolData)
	for _, path := range slices.Sorted(maps.Keys(files)) {
		p.Printf("  %s\n    %s\n", clean.Text(path), clean.Text(strings.TrimSpace(files[path])))
	}
}

func (x explainer) history() {
	if len(x.done) == 0 {
		return
	}
	x.Heading("What was done")
	for _, r := range x.done {
		by := ""
		if person := r.By.String(); person != "" {
			by = ", asked for by " + person
		}
		x.Printf("  %s  %s%s\n", human.When(r.At.Wall), r.Kind, by)
		x.Para("    ", audit.What(r)) // the command that undoes it is above, if there is one
	}
}
