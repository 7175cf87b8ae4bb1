package show

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// order is the order of rows: what needs an operator first.
func order(v judge.Verdict) int {
	if v.Operator {
		return 0
	}
	return map[judge.Decision]int{judge.Remove: 1, judge.Wait: 2, judge.Keep: 3, judge.IsAlive: 4}[v.Decision]
}

// podTable writes the pods, those first that need an operator, and what their reasons mean.
func (p *page) podTable(s *reaper.Status) {
	pods := slices.Clone(s.Pods)
	slices.SortStableFunc(pods, func(a, b reaper.PodStatus) int { return cmp.Compare(order(a.Verdict), order(b.Verdict)) })
	uids := shortUIDs(s)
	rows := [][]string{{"VERDICT", "UID", "POD", "WHY"}}
	seen := map[judge.ReasonName]bool{}
	for _, pod := range pods[:min(len(pods), mostRows)] {
		rows = append(rows, []string{verdict(&pod), uids.of(pod.Pod), short(name(pod.Namespace, pod.PodName), 32), p.why(&pod)})
		for _, r := range pod.Reasons {
			seen[r.Reason] = true
		}
	}
	if len(pods) == 0 {
		return
	}
	p.podSums(pods)
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

// podSums writes how many pods have the same verdict for the same reasons, if there are more pods than a screen shows.
func (p *page) podSums(pods []reaper.PodStatus) {
	if len(pods) <= mostRows {
		return
	}
	type sum struct{ verdict, why string }
	n := map[sum]int{}
	var sums []sum // as the pods are sorted
	for _, pod := range pods {
		of := sum{verdict(&pod), reasonNames(pod.Reasons)}
		if n[of]++; n[of] == 1 {
			sums = append(sums, of)
		}
	}
	rows := [][]string{{"VERDICT", "PODS", "WHY"}}
	for _, of := range sums[:min(len(sums), mostRows)] {
		rows = append(rows, []string{of.verdict, strconv.Itoa(n[of]), of.why})
	}
	p.WriteString("\n")
	p.table(rows)
}

// verdict returns the verdict on a pod, with a mark if it needs an operator.
func verdict(pod *reaper.PodStatus) string {
	if pod.Operator {
		return pod.Decision.String() + " *"
	}
	return pod.Decision.String()
}

// reasonNames returns the names of reasons.
func reasonNames(reasons []judge.Reason) string {
	words := make([]string, 0, len(reasons))
	for _, r := range reasons {
		word := string(r.Reason)
		if r.Unknown {
			word += " unknown"
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}

// why returns the names of a pod's reasons, and when its hold ends: a command that runs once has no hold of its own.
func (p *page) why(pod *reaper.PodStatus) string {
	text := reasonNames(pod.Reasons)
	if last := len(pod.Reasons) - 1; last >= 0 && pod.Reasons[last].Reason == judge.OnHold && !p.dry && !pod.Next.IsZero() {
		text += " ends " + p.in(pod.Next)
	}
	return text
}

// shortest are the shortest prefixes of UIDs, of at least 8 digits, that name one pod.
type shortest map[parsers.PodUID]string

func shortUIDs(s *reaper.Status) shortest {
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
		return short(safe(p.Name), 12)
	}
	return u[p.UID]
}

// counts returns how many pods have each verdict.
func counts(s *reaper.Status) string {
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

const (
	mostCommands = 3 // pods with the same advice that have their commands on a screen
	mostSteps    = 8
)

// steps are what an operator does, the same advice once.
type steps struct {
	all []*step
	of  map[string]*step // by what to do
}

type step struct {
	do       string
	pods     int
	commands []string
}

func (s *steps) add(a *judge.Advice) {
	if a == nil {
		return
	}
	if s.of == nil {
		s.of = map[string]*step{}
	}
	of := s.of[a.Do]
	if of == nil {
		of = &step{do: a.Do}
		s.of[a.Do], s.all = of, append(s.all, of)
	}
	if of.pods++; of.pods <= mostCommands {
		of.commands = merge(of.commands, a.Commands)
	}
}

// merge adds commands. Those with which both begin or end, such as the switch of the kubelet's verbosity, are there once.
func merge(all, more []string) []string {
	begin := 0
	for begin < min(len(all), len(more)) && all[begin] == more[begin] {
		begin++
	}
	end := 0
	for end < min(len(all), len(more))-begin && all[len(all)-1-end] == more[len(more)-1-end] {
		end++
	}
	return slices.Insert(all, len(all)-end, more[begin:len(more)-end]...)
}

// write writes each step with its commands.
func (s *steps) write(p *page) {
	for _, of := range s.all[:min(len(s.all), mostSteps)] {
		text := of.do
		if of.pods > 1 {
			text = count(of.pods, "pod", "pods") + ". " + text
		}
		p.item("  - ", "%s", safe(text))
		p.commands(of.commands...)
		if of.pods > mostCommands {
			p.para("    ", "… and %d more: `orphan-reaper scan -o json`", of.pods-mostCommands)
		}
	}
	if more := len(s.all) - mostSteps; more > 0 {
		p.para("  ", "… and %d more: `orphan-reaper scan -o json`", more)
	}
}

// todo writes what only an operator does. It returns false if there is nothing.
func (p *page) todo(s *reaper.Status) bool {
	var all steps
	if s.Breaker != nil {
		all.add(judge.BreakerOpen.Advice(s.Node, ""))
	}
	if s.Stopped != nil && s.Stopped.Reason != judge.BreakerOpen {
		all.add(s.Stopped.Reason.Advice(s.Node, ""))
	}
	for i := range s.Pods {
		if s.Pods[i].Operator {
			all.add(s.Pods[i].Advice)
		}
	}
	for i := range s.Quarantine {
		if s.Quarantine[i].Operator {
			all.add(s.Quarantine[i].Advice)
		}
	}
	if s.CNI != nil && s.CNI.Operator {
		all.add(&judge.Advice{Do: "Stale CNI files could not be archived or removed. `orphan-reaper doctor` has the errors. Repair what they name."})
	}
	all.write(p)
	return len(all.all) > 0
}

// hidden writes what the kubelet does not report while it reports a pod that is kept, and how to see it.
func (p *page) hidden(s *reaper.Status) {
	if s.Hidden == 0 {
		return
	}
	p.WriteString("\n")
	p.para("", "As long as the kubelet reports a pod that is kept, it hides %s: every other fact about %s is good, and a kubelet reports one "+
		"orphan at a time. Have it report all for ten seconds:",
		count(s.Hidden, "other pod", "other pods"), map[bool]string{true: "it", false: "them"}[s.Hidden == 1])
	p.commands(judge.NotReported.Advice(s.Node, "").Commands...)
}

// stopped writes why nothing is moved or removed.
func (p *page) stopped(s *reaper.Status, indent string) {
	if s.Stopped != nil {
		p.para(indent, "Nothing is moved or removed: %s (%s).", safe(s.Stopped.Detail), s.Stopped.Reason)
	}
	if s.Breaker != nil {
		p.para(indent, "The circuit breaker opened %s, for this pod: `orphan-reaper explain %s`", p.ago(s.Breaker.At.Wall), s.Breaker.UID)
	}
}

// mostProblems is how many things that could not be read are on a screen.
const mostProblems = 5

// unread writes what could not be read or written.
func (p *page) unread(s *reaper.Status) {
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
