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
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
)

// explainer writes one pod for a person.
type explainer struct {
	*Printer
	Context
	remover Remover
}

const labelWidth = 14

func (x explainer) line(label, text string) { x.Item("", label, labelWidth, "", text) }

// pod writes all that the look says of one pod.
func (x explainer) pod(pod *podView, n *nodeView) {
	e := pod.evidence
	x.Printf("%s\n", x.Paint(Bold, "Pod "+pod.title()))
	if name := podName(e.Namespace, e.PodName); name != "" {
		x.line("name", name)
	}
	if e.RuntimeOnly {
		x.line("directory", "none: only the runtime has the pod")
	} else if pod.Parked {
		x.line("parked", clean.Text(x.QuarantineDir+"/"+e.Entry))
	} else {
		x.line("directory", clean.Text(x.PodsDir+"/"+e.Name))
	}
	if !e.Changed.IsZero() {
		x.line("changed", fmt.Sprintf("%s, %s ago", human.When(e.Changed), human.Age(x.Now.Wall.Sub(e.Changed))))
	}
	for _, s := range e.Sandboxes {
		x.line("sandbox", x.sandbox(s))
	}
	if sum := total(e.Residue); pod.UID != "" {
		x.line("holds", human.Size(sum.Bytes)+" in "+human.Count(sum.Entries, "entry"))
	}
	word := verdictOf(pod)
	c := colourOf(word, pod.outlook() == policy.OutlookPerson)
	x.Printf("\n%s\n", x.Paint(Bold, "Verdict: ")+x.Paint(c, word))
	x.Para("", x.summary(pod))
	x.reasons(pod)
	if pod.UID == "" {
		return // it is not looked into, and nothing is ever done to it
	}
	x.Heading("What was looked at")
	x.facts(pod, n)
	if e.Facts[policy.FactDirectory].Truth == policy.No && !e.RuntimeOnly && !pod.Parked {
		return // no directory: nothing is ever done to it either
	}
	lives := pod.outlook() == policy.OutlookAlive
	if len(e.Residue) > 0 && lives {
		x.Heading("What it holds")
		x.residue(e.Residue)
	} else if len(e.Residue) > 0 {
		x.Heading("What it left, and what would become of it")
		x.residue(e.Residue)
		x.fates(e.Residue)
	}
	if !lives {
		x.Heading("How to undo")
		x.undo(pod)
	}
}

// sandbox says what the runtime lists of one sandbox, with its age.
func (x explainer) sandbox(s policy.Sandbox) string {
	text := clean.Text(s.ID) + " NOTREADY"
	if s.Ready {
		text = clean.Text(s.ID) + " READY"
	}
	if !s.Created.IsZero() {
		text += ", " + human.Age(x.Now.Wall.Sub(s.Created)) + " old"
	}
	if s.Busy {
		text += ", with a container that has not exited"
	}
	return text
}

// summary says the verdict in a sentence.
func (x explainer) summary(pod *podView) string {
	wait, sweep := "", sweepCommand+" "+pod.UID
	if pod.DueSeconds > 0 {
		wait = fmt.Sprintf(" Look again in %s.", human.Age(time.Duration(pod.DueSeconds)*time.Second))
	}
	switch {
	case pod.ended():
		return "Nothing of this pod runs, and the runtime still has it, as it has a pod that has completed. It is left alone."
	case pod.outlook() == policy.OutlookAlive:
		return "This pod lives. It is left alone."
	case pod.Verdict == policy.Reap && pod.Parked:
		return "No sign of life came while it was in quarantine. What holds no data of a user is removed next."
	case pod.Verdict == policy.Reap:
		return "Dead, and nothing is mounted or in use. " + cmp.Or(x.remover.Now("it", sweep), "The next sweep moves it to quarantine.")
	case len(pod.Clear) > 0:
		return "Dead, but the kubelet cannot finish. The next sweep would quarantine what lies in " + clean.Text(strings.Join(pod.Clear, ", ")) +
			", and nothing else; then the kubelet removes the rest by itself."
	case pod.Verdict == policy.Wait && InUse(pod.Why) != "":
		return "Not yet. " + x.remover.After(InUse(pod.Why), sweep)
	case pod.Verdict == policy.Wait && slices.Contains(pod.Reasons, policy.ReasonKubeletFile):
		return "Not yet. " + x.remover.After("the kubelet has reported it as an orphan", sweep)
	case pod.Verdict == policy.Wait:
		return "Not yet. " + cmp.Or(x.remover.Later(sweep), "The reasons end by themselves."+wait)
	case pod.outlook() == policy.OutlookQuiet:
		return "Kept, as an operator asked."
	}
	return "Kept. Each reason by itself is enough:"
}

// reasons writes what keeps the pod, and with what a person looks and ends it, each command once. What is waived
// keeps nothing.
func (x explainer) reasons(pod *podView) {
	said, waived := map[string]bool{}, ""
	for _, w := range pod.Why {
		if w.Reason == policy.ReasonWaived {
			waived = clean.Text(w.Detail)
			continue
		}
		x.reason(w, pod.evidence)
		if pod.outlook() != policy.OutlookAlive {
			x.commands(pod.evidence, w.Reason, said)
		}
	}
	if waived != "" {
		x.Printf("\n")
		x.Para("", "How it was judged: "+waived+".")
	}
}

// reason writes one reason: what was seen, what it means, what to do.
func (x explainer) reason(w policy.Why, e *policy.Evidence) {
	x.Printf("\n  %s\n", x.Paint(Bold, string(w.Reason)))
	a := AdviceOf(w.Reason, e.UID)
	if w.Detail != "" {
		x.Item("    ", "seen", 7, "", seen(w, e))
	}
	x.Item("    ", "means", 7, "", a.Means)
	x.Item("    ", "do", 7, "", a.Advice)
}

// seen is what was seen, without the command that stands by itself.
func seen(w policy.Why, e *policy.Evidence) string {
	return clean.Text(strings.TrimSuffix(w.Detail, policy.Unmounting(e.Umount)))
}

// commands writes what a person can paste for a reason, unbroken, but what was said.
func (x explainer) commands(e *policy.Evidence, r policy.Reason, said map[string]bool) {
	c := x.place().Commands(e, r)
	before := func(command string) bool {
		was := said[command]
		said[command] = true
		return was
	}
	for _, command := range slices.DeleteFunc(c.Look, before) {
		x.Printf("    %s%s\n", human.Pad("look", 7), command)
	}
	then := slices.DeleteFunc(c.Then, before)
	if len(then) > 0 {
		x.Printf("    then   if the pod is gone:\n")
	}
	for _, command := range then {
		x.Printf("    %7s%s\n", "", command)
	}
}

// facts writes each fact with its value, where it was read and what was found there.
func (x explainer) facts(pod *podView, n *nodeView) {
	write := func(name string, f policy.Fact) {
		c := Colour("")
		if f.Truth == policy.Unknown {
			c = Yellow
		}
		text := clean.Text(f.Origin)
		if f.Detail != "" {
			text = strings.TrimPrefix(text+": "+clean.Text(f.Detail), ": ")
		}
		if text == "" {
			text = "-"
		}
		lines := x.Wrap(text, x.Columns-31)
		x.Printf("  %s%s%s\n", human.Pad(name, 20), x.Paint(c, human.Pad(f.Truth.String(), 9)), lines[0])
		for _, line := range lines[1:] {
			x.Printf("%31s%s\n", "", line)
		}
	}
	for name := range policy.NumFacts {
		if (name == policy.FactRemade || name == policy.FactUsed) && !pod.Parked {
			continue
		}
		write(Facts[name], pod.evidence.Facts[name])
	}
	if n != nil {
		write("kubelet runs", n.Kubelet)
		write("runtime has pods", n.RuntimeLists)
		write("pod network ready", n.Network)
		write("whole node seen", n.MayEnforce)
		write("flags agree", n.Agrees)
		write("openat2", n.Openat2)
		write("Landlock", n.Landlock)
	}
}

// residue writes what each thing in the pod's directory is.
func (x explainer) residue(rs []policy.Residue) {
	for _, r := range rs {
		text := human.Size(r.Bytes)
		if r.Entries > 1 {
			text += " in " + human.Count(r.Entries, "entry")
		}
		if r.Partial {
			text = "at least " + text
		}
		path := clean.Text(r.Path)
		if path == "" {
			path = "."
		}
		x.Item("  ", r.Class.String(), 11, "", path+"  ("+text+")")
	}
}

// fates writes what would become of each class.
func (x explainer) fates(rs []policy.Residue) {
	used := map[contents.Class]bool{}
	for _, r := range rs {
		used[r.Class] = true
	}
	x.Printf("\n")
	for c := contents.ClassSkeleton; ; c-- {
		if used[c] {
			x.Item("  ", c.String(), 11, "", x.fate(c))
		}
		if c == contents.ClassData {
			return
		}
	}
}

// fate says what becomes of a class.
func (x explainer) fate(c contents.Class) string {
	switch c {
	case contents.ClassSkeleton:
		return fmt.Sprintf("empty directories and the kubelet's own files: removed after the confirm time of %s; vol_data.json's content stays in the "+
			"record", human.Span(x.Confirm))
	case contents.ClassProjected:
		return fmt.Sprintf("copies of what the API server holds: removed after the confirm time of %s", human.Span(x.Confirm))
	case contents.ClassEphemeral:
		return fmt.Sprintf("emptyDir, or an ephemeral CSI volume: purged after %s in quarantine", human.Span(x.Retention))
	case contents.ClassData:
	}
	return "may be a user's: stays in quarantine until an operator purges it"
}

// undo says how to take back what was done, or would be.
func (x explainer) undo(pod *podView) {
	if pod.evidence.RuntimeOnly {
		x.Para("  ", "There is no directory to put back. A sandbox that the runtime has removed is gone; it held nothing of a user's.")
		return
	}
	x.Para("  ", "While it is in quarantine, this puts it back:")
	x.Printf("    orphan-reaper quarantine restore %s\n", pod.UID)
	x.Para("  ", "What was removed by then (skeleton, projected) cannot be restored. What may be a user's data is never removed automatically.")
}
