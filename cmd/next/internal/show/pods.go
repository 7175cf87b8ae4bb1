package show

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
	"github.com/orphan-reaper/orphan-reaper/reaper/loop"
)

// order is the order of rows: what needs an operator first.
func order(v judge.Verdict) int {
	if v.Operator {
		return 0
	}
	return map[judge.Decision]int{judge.Remove: 1, judge.Wait: 2, judge.Keep: 3, judge.IsAlive: 4}[v.Decision]
}

// podTable writes the pods, those first that need an operator, and what their reasons mean.
func (p *page) podTable(s *loop.Status) {
	pods := slices.Clone(s.Pods)
	slices.SortStableFunc(pods, func(a, b loop.PodStatus) int { return cmp.Compare(order(a.Verdict), order(b.Verdict)) })
	uids := shortUIDs(s)
	rows := [][]string{{"VERDICT", "UID", "POD", "WHY"}}
	seen := map[judge.ReasonName]bool{}
	for _, pod := range pods[:min(len(pods), mostRows)] {
		verdict := pod.Decision.String()
		if pod.Operator {
			verdict += " *"
		}
		rows = append(rows, []string{verdict, uids.of(pod.Pod), short(name(pod.Namespace, pod.PodName), 32), p.why(&pod)})
		for _, r := range pod.Reasons {
			seen[r.Reason] = true
		}
	}
	if len(pods) == 0 {
		return
	}
	p.WriteString("\n")
	p.table(rows)
	if more := len(pods) - mostRows; more > 0 {
		p.para("  ", "… and %d more: -o json has all of them", more)
	}
	p.WriteString("\n")
	for _, t := range judge.ReasonTexts {
		if seen[t.Name] {
			p.item("  "+string(t.Name)+": ", "%s", t.Meaning)
		}
	}
}

// why returns the names of a pod's reasons, and when its hold ends.
func (p *page) why(pod *loop.PodStatus) string {
	words := make([]string, 0, len(pod.Reasons))
	for _, r := range pod.Reasons {
		word := string(r.Reason)
		if r.Reason == judge.OnHold && !pod.Next.IsZero() {
			word += " ends " + p.ago(pod.Next)
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}

// shortest are the shortest prefixes of UIDs, of at least 8 digits, that name one pod.
type shortest map[parsers.PodUID]string

func shortUIDs(s *loop.Status) shortest {
	var uids []string
	for _, pod := range s.Pods {
		uids = append(uids, string(pod.UID))
	}
	for _, e := range s.Quarantine {
		uids = append(uids, string(e.UID))
	}
	slices.Sort(uids)
	uids = slices.Compact(uids)
	of := shortest{}
	for i, uid := range uids {
		n := 8
		for _, j := range [...]int{i - 1, i + 1} {
			for j >= 0 && j < len(uids) && n < len(uid) && strings.HasPrefix(uids[j], uid[:n]) {
				n++
			}
		}
		of[parsers.PodUID(uid)] = uid[:min(n, len(uid))]
	}
	return of
}

// of returns the short UID of a pod, or the name of an entry that has none.
func (u shortest) of(p judge.Pod) string {
	if p.UID == "" {
		return short(safe(p.Name), 20)
	}
	return u[p.UID]
}

// counts returns how many pods have each verdict.
func counts(s *loop.Status) string {
	var of [4]int
	operator := 0
	for _, p := range s.Pods {
		of[p.Decision]++
		if p.Operator {
			operator++
		}
	}
	var words []string
	for _, d := range [...]struct {
		decision judge.Decision
		word     string
	}{{judge.IsAlive, "alive"}, {judge.Keep, "kept"}, {judge.Wait, "waiting"}, {judge.Remove, "to be moved to quarantine"}} {
		if n := of[d.decision]; n > 0 {
			words = append(words, fmt.Sprintf("%d %s", n, d.word))
		}
	}
	text := count(len(s.Pods), "pod directory", "pod directories")
	if len(words) > 0 {
		text += ": " + strings.Join(words, ", ")
	}
	if operator > 0 {
		text += ". " + count(operator, "needs you", "need you")
	}
	return text + "."
}

// mostCommands is how many pods with the same advice have their commands on a screen.
const mostCommands = 3

// todo writes what only an operator does, the same advice once. It returns false if there is nothing.
func (p *page) todo(s *loop.Status) bool {
	type step struct {
		do       string
		pods     int
		commands []string
	}
	var steps []*step
	add := func(a *judge.Advice, who string) {
		if a == nil {
			a = &judge.Advice{Do: "Find out more:", Commands: []string{"orphan-reaper explain " + who}}
		}
		i := slices.IndexFunc(steps, func(s *step) bool { return s.do == a.Do })
		if i < 0 {
			i, steps = len(steps), append(steps, &step{do: a.Do})
		}
		if of := steps[i]; of.pods < mostCommands {
			of.commands = append(of.commands, a.Commands...)
		}
		steps[i].pods++
	}
	if s.Breaker != nil {
		add(judge.BreakerOpen.Advice(s.Node, s.Breaker.UID), "")
	}
	if s.Stopped != nil && s.Stopped.Reason != judge.BreakerOpen {
		if a := s.Stopped.Reason.Advice(s.Node, ""); a != nil {
			add(a, "")
		}
	}
	for _, pod := range s.Pods {
		if pod.Operator {
			add(pod.Advice, string(pod.UID))
		}
	}
	for _, e := range s.Quarantine {
		if e.Operator {
			add(e.Advice, string(e.UID))
		}
	}
	for _, s := range steps {
		text := s.do
		if s.pods > 1 {
			text = count(s.pods, "pod", "pods") + ": " + text
		}
		p.item("  - ", "%s", safe(text))
		p.commands(s.commands...)
		if s.pods > mostCommands {
			p.para("    ", "… and %d more: `orphan-reaper scan`", s.pods-mostCommands)
		}
	}
	return len(steps) > 0
}

// hidden writes what the kubelet does not report while it reports a pod that is kept, and how to see it.
func (p *page) hidden(s *loop.Status) {
	if s.Hidden == 0 {
		return
	}
	p.WriteString("\n")
	p.para("", "It hides %s: every other fact about %s is good, and a kubelet reports one orphan at a time. Have it report all for ten seconds:",
		count(s.Hidden, "other pod", "other pods"), map[bool]string{true: "it", false: "them"}[s.Hidden == 1])
	p.commands(judge.NotReported.Advice(s.Node, "").Commands...)
}

// stopped writes why nothing is moved or removed.
func (p *page) stopped(s *loop.Status) {
	if s.Stopped != nil {
		p.para("", "Nothing is moved or removed: %s (%s)", safe(s.Stopped.Detail), s.Stopped.Reason)
	}
}

// mostProblems is how many things that could not be read are on a screen.
const mostProblems = 5

// unread writes what could not be read or written.
func (p *page) unread(s *loop.Status) {
	if len(s.Problems) == 0 {
		return
	}
	p.heading("What could not be read or written")
	for _, problem := range s.Problems[:min(len(s.Problems), mostProblems)] {
		p.item("  - ", "%s", safe(problem))
	}
	if more := len(s.Problems) - mostProblems; more > 0 {
		p.para("  ", "… and %d more: -o json has all of them", more)
	}
}
