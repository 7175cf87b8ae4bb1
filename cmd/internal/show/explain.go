package show

import (
	"io"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/audit"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// Explain prints all that is known about one pod. s is the status that has it.
func Explain(w io.Writer, s reaper.Status, e reaper.Explanation) error {
	p := newPage(&s)
	namespace, pod := e.Namespace, e.PodName
	for _, entry := range e.Entries {
		if pod == "" {
			namespace, pod = entry.Namespace, entry.PodName
		}
	}
	p.WriteString("Pod " + string(e.UID) + "  " + name(namespace, pod) + "\n")
	if e.Present == judge.No {
		p.para("", "It has no directory in the pods directory.")
	} else {
		p.verdict(e.Verdict, verdicts[e.Decision])
		s.Pods = []reaper.PodStatus{e.PodStatus}
		p.stopped(&s, "")
		p.waiting(&s)
		p.kubelet(&e.PodStatus)
		p.facts(&e.Facts)
	}
	for _, entry := range e.Entries {
		p.heading("In quarantine: " + entry.Name)
		p.para("  ", "%s, moved %s. Left: %s.", entry.Phase, p.ago(entry.MovedAt.Wall), left(&entry))
		for _, r := range entry.Left[:min(len(entry.Left), mostRows)] {
			p.item("  - ", "%s  %s  (%s)", size(r.Bytes), safe(r.Path), r.Class)
		}
		text := verdicts[entry.Decision]
		if entry.Decision == judge.IsAlive {
			text = "It is alive."
		}
		if restores(&entry) {
			text += " The next scan of the daemon, or a sweep, restores it."
		}
		p.verdict(entry.Verdict, text)
	}
	p.history(e.History)
	p.unread(&s)
	return p.writeTo(w)
}

// verdict writes the decision and what it means, each reason with its detail and meaning, and what to do.
func (p *page) verdict(v judge.Verdict, text string) {
	if v.Operator {
		text += " It needs you."
	}
	p.para("", "Verdict: %s. %s", v.Decision, text)
	for _, r := range v.Reasons {
		mark := "  " + string(r.Reason)
		if r.Unknown {
			mark += " unknown"
		}
		p.item(mark+": ", "%s", safe(r.Detail))
		p.para("      ", "%s", r.Reason.Text().Meaning)
	}
	if v.Advice != nil {
		p.heading("What to do now")
		p.advice("  ", v.Advice)
	}
}

var verdicts = map[judge.Decision]string{
	judge.Keep:    "It is kept until the node changes or you act.",
	judge.Wait:    "It waits for something that ends by itself.",
	judge.Remove:  "It is dead, and nothing keeps it.",
	judge.IsAlive: "It is alive, and is not touched.",
}

// kubelet writes the kubelet's last words about a pod.
func (p *page) kubelet(pod *reaper.PodStatus) {
	p.heading("What the kubelet logged")
	if pod.Words == "" {
		p.para("  ", "No line about this pod was read.")
		return
	}
	p.para("  ", "%s", safe(pod.Words))
	p.para("  ", "First %s, last %s%s.", p.ago(pod.FirstReport), p.ago(pod.LastReport), counted(pod.Count))
}

// counted returns the number of errors that the kubelet gave.
func counted(n int) string {
	if n == parsers.NoCount || n == 0 {
		return ""
	}
	return ". It counts " + count(n, "error", "errors") + " of this kind in one run (at most two a pod)"
}

// facts writes each fact, and where it was read.
func (p *page) facts(facts *judge.Facts) {
	p.heading("Facts")
	rows := [][]string{{"FACT", "ANSWER", "READ FROM, AND FOUND"}}
	for i, f := range facts {
		text := safe(f.Source)
		if f.Detail != "" && text != "" {
			text += ": "
		}
		rows = append(rows, []string{judge.FactName(i).String(), f.Truth.String(), text + safe(f.Detail)})
	}
	p.table(rows)
}

// history writes what was done with the pod.
func (p *page) history(events []judge.Event) {
	if len(events) == 0 {
		return
	}
	p.heading("What was done")
	for _, e := range events[max(0, len(events)-mostRows):] {
		if text := audit.History(e); text != "" {
			p.para("  ", "%s:", p.ago(e.At.Wall))
			p.para("      ", "%s", text)
		}
	}
}
