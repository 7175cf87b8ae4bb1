package show

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// Doctor prints what the kubelet reports, what lies on the node, what goes by itself, and what only the operator does.
func Doctor(w io.Writer, s reaper.Status) error {
	p := newPage(&s)
	p.reported(&s)
	p.hidden(&s)
	p.WriteString("\n")
	p.para("", "%s", counts(&s))
	p.quarantined(&s)
	p.cni(&s)
	p.automatic(&s)
	p.operator(&s)
	p.unread(&s)
	return p.writeTo(w)
}

// mostReported is how many reported pods the beginning of the screen has.
const mostReported = 2

// reported writes which pods the kubelet reports, and why each of them is still there.
func (p *page) reported(s *reaper.Status) {
	if s.Node.KubeletKnown.Truth != judge.Yes {
		p.para("", "It is not known which kubelet runs: %s.", safe(s.Node.KubeletKnown.Detail))
		return
	}
	var now, earlier []reaper.PodStatus
	for _, pod := range s.Pods {
		switch {
		case pod.Facts[judge.Reported].Truth == judge.Yes:
			now = append(now, pod)
		case pod.Words != "":
			earlier = append(earlier, pod)
		}
	}
	slices.SortStableFunc(now, func(a, b reaper.PodStatus) int { return order(a.Verdict) - order(b.Verdict) })
	for i := range now[:min(len(now), mostReported)] {
		if i > 0 {
			p.WriteString("\n")
		}
		p.reportedPod(s, &now[i])
	}
	switch more := len(now) - mostReported; {
	case len(now) == 0:
		p.para("", "No line of the last 30 seconds was read in which the kubelet (PID %d) reports one of these pods.", s.Node.Kubelet.PID)
	case more > 0:
		p.para("", "It reports %s: `orphan-reaper scan`", count(more, "more pod", "more pods"))
	}
	if len(earlier) > 0 {
		last := slices.MaxFunc(earlier, func(a, b reaper.PodStatus) int { return a.LastReport.Compare(b.LastReport) })
		p.para("", "It has also logged about %s, last %s about %s: %s", count(len(earlier), "pod", "pods"),
			p.ago(last.LastReport), last.UID, safe(last.Words))
	}
}

func (p *page) reportedPod(s *reaper.Status, pod *reaper.PodStatus) {
	p.para("", "The kubelet (PID %d) reports this pod, first %s, last %s%s:", s.Node.Kubelet.PID,
		p.ago(pod.FirstReport), p.ago(pod.LastReport), counted(pod.Count))
	p.WriteString("  " + string(pod.UID) + "  " + name(pod.Namespace, pod.PodName) + "\n")
	p.item("  logged:  ", "%s", safe(pod.Words))
	p.item("  verdict: ", "%s", pod.Decision)
	for _, r := range pod.Reasons {
		p.item("  "+string(r.Reason)+": ", "%s", safe(r.Detail))
	}
	if !pod.Operator { // else it is among what only the operator does
		p.advice("  ", pod.Advice)
	}
}

// quarantined writes what lies in quarantine.
func (p *page) quarantined(s *reaper.Status) {
	if len(s.Quarantine) == 0 {
		return
	}
	var bytes, data int64
	holdData, waits, operator, uncounted := 0, 0, 0, 0
	var first *judge.JudgedEntry
	for i := range s.Quarantine {
		e := &s.Quarantine[i]
		n, _ := sumOf(e)
		bytes += n
		if e.ConfirmedAt == (judge.Instant{}) {
			uncounted++
		}
		if e.Operator {
			operator++
		}
		for _, r := range e.Reasons {
			switch r.Reason {
			case judge.HoldsData:
				holdData, data = holdData+1, data+n
			case judge.Retention:
				waits++
				if first == nil || e.Next.Before(first.Next) {
					first = e
				}
			default:
			}
		}
	}
	p.heading("In quarantine")
	text := count(len(s.Quarantine), "pod", "pods")
	if counted := len(s.Quarantine) - uncounted; counted > 0 {
		text += ", " + size(bytes)
	}
	if uncounted > 0 {
		text += fmt.Sprintf(", %d not counted yet", uncounted)
	}
	if operator > 0 {
		text += ", " + count(operator, "needs you", "need you")
	}
	p.para("  ", "%s: `orphan-reaper quarantine list`", text)
	if first != nil {
		by := ""
		if s.Daemon == 0 {
			by = " by a sweep"
		}
		p.para("  ", "The emptyDirs and ephemeral volumes of %s are removed%s when their retention is over, the first %s. To keep that one:",
			count(waits, "pod", "pods"), by, p.in(first.Next))
		if first.Advice != nil {
			p.commands(first.Advice.Commands...)
		}
	}
	if holdData > 0 {
		p.para("  ", "What may be a user's data (%s of %s) stays until you restore or purge it.", size(data), count(holdData, "pod", "pods"))
	}
}

// cni writes what lies in CNI's directories, full networks first.
func (p *page) cni(s *reaper.Status) {
	p.heading("CNI")
	c := s.CNI
	if c == nil {
		p.para("  ", "CNI's files were not read.")
		return
	}
	rows := p.networks(c)
	if !c.Complete {
		p.para("  ", "Nothing can be judged now: no kubelet runs, or a runtime has not answered. Every file is kept.")
	}
	others := ""
	if c.Others > 0 {
		others = fmt.Sprintf(" %d of these are not the kubelet's, and are never touched.", c.Others)
	}
	p.para("  ", "%s of sandboxes, %s.%s", count(c.Files, "file", "files"), size(c.Bytes), others)
	if len(c.Networks) > 0 {
		p.table(rows)
	}
	if c.Removed > 0 {
		p.para("  ", "Removed %s. This restores them:", count(c.Removed, "file", "files"))
		p.commands(c.Undo)
	}
	if c.Stale > 0 {
		p.staleCNI(s)
	}
	if c.Waiting > 0 {
		p.para("  ", "%s of dead sandboxes wait: they are removed when they are old enough, or at the next boot.", count(c.Waiting, "file", "files"))
	}
	if c.Unknown > 0 {
		p.para("  ", "%s cannot be judged, and %s kept:", count(c.Unknown, "file", "files"), map[bool]string{true: "is", false: "are"}[c.Unknown == 1])
	}
	for _, f := range c.Kept[:min(len(c.Kept), mostCommands)] {
		p.item("  - ", "%s: %s", safe(f.Path), safe(f.Reason))
	}
	for _, problem := range c.Problems[:min(len(c.Problems), mostProblems)] {
		if !slices.Contains(s.Problems, problem) { // else the end of the screen has it
			p.item("  - ", "%s", safe(problem))
		}
	}
}

// networks prints which networks are full, and returns the rows of all.
func (p *page) networks(c *reaper.CNIStatus) [][]string {
	rows := [][]string{{"NETWORK", "ADDRESSES", "OF", "STALE", "WAITING", "IPAM"}}
	for _, n := range c.Networks {
		if n.Full {
			p.para("  ", "Network %s is full: no new pod of it gets an address on this node. %s used, of these %d by dead sandboxes (%d more wait).",
				safe(n.Name), count(n.Used, "address is", "addresses are"), n.Stale, n.Waiting)
		}
		size := "-"
		if n.Size > 0 {
			size = strconv.FormatInt(n.Size, 10)
		}
		ipam := "host-local"
		if n.Keeper != "" {
			ipam = short(safe(n.Keeper), 14) + ", not read"
		}
		if len(rows) < mostRows {
			rows = append(rows, []string{short(safe(n.Name), 24), strconv.Itoa(n.Used), size, strconv.Itoa(n.Stale), strconv.Itoa(n.Waiting), ipam})
		}
	}
	return rows
}

func (p *page) staleCNI(s *reaper.Status) {
	text := count(s.CNI.Stale, "file is", "files are") + " stale."
	switch {
	case s.Stopped != nil:
		p.para("  ", "%s None is removed: %s.", text, safe(s.Stopped.Detail))
		return
	case s.Daemon != 0:
		text += " The daemon removes them within the hour. To remove them now:"
	default:
		text += " No daemon runs. This removes them:"
	}
	p.para("  ", "%s", text)
	p.commands("orphan-reaper sweep --no-wait")
}

// automatic writes what goes without an operator.
func (p *page) automatic(s *reaper.Status) {
	p.heading("What goes by itself")
	if s.Stopped != nil {
		p.stopped(s, "  ")
		return
	}
	who := p.whoActs(s)
	var does []string
	if n, first := due(s.Pods, func(p reaper.PodStatus) (judge.Decision, time.Time) { return p.Decision, p.Next }); n > 0 {
		text := "moves " + count(n, "pod", "pods") + " to quarantine"
		if p.dry && !first.IsZero() { // the daemon has a hold of its own, which may have begun
			text += ", " + span(first.Sub(p.now)) + " after the first good scan"
		} else {
			text += p.first(first)
		}
		does = append(does, text)
	}
	confirmed := func(e judge.JudgedEntry) (judge.Decision, time.Time) {
		if e.Phase != judge.Quarantined {
			return judge.Keep, time.Time{}
		}
		return e.Decision, e.Next
	}
	if s.Behind > 0 && len(does) > 0 {
		does[0] += fmt.Sprintf(" (the kubelet reports one orphan at a time: up to %d more may follow)", s.Behind)
	}
	if n, first := due(s.Quarantine, confirmed); n > 0 {
		does = append(does, "confirms and cleans "+count(n, "pod", "pods")+" in quarantine"+p.first(first))
	}
	back := 0
	for i := range s.Quarantine {
		if restores(&s.Quarantine[i]) {
			back++
		}
	}
	if back > 0 {
		does = append(does, "restores "+count(back, "pod that is alive", "pods that are alive"))
	}
	if len(does) == 0 && s.Daemon != 0 {
		p.para("  ", "%s runs. Nothing waits for it now.", who)
	} else if len(does) > 0 && who != "" {
		p.para("  ", "%s %s.", who, strings.Join(does, ", and "))
	}
}

// whoActs returns who moves and cleans what waits. Without a daemon it writes that, and how to have one.
func (p *page) whoActs(s *reaper.Status) string {
	switch {
	case s.Daemon != 0:
		return fmt.Sprintf("The daemon (PID %d)", s.Daemon)
	case s.Sweep != 0:
		p.para("  ", "A sweep (PID %d) runs now. It ends when the kubelet reports nothing more that it can remove. No daemon runs.", s.Sweep)
		return ""
	case s.Unit != "":
		p.para("  ", "Nothing: no daemon runs. Start it, or sweep once:")
		p.commands("systemctl enable --now "+s.Unit, "orphan-reaper sweep")
	default:
		p.para("  ", "Nothing: no daemon runs, and none is installed as a systemd unit. Sweep once:")
		p.commands("orphan-reaper sweep")
	}
	return "Then it"
}

// due counts what waits or can be removed, and returns when the first one is due.
func due[T any](all []T, of func(T) (judge.Decision, time.Time)) (n int, first time.Time) {
	for _, one := range all {
		d, next := of(one)
		if d != judge.Wait && d != judge.Remove {
			continue
		}
		n++
		if !next.IsZero() && (first.IsZero() || next.Before(first)) {
			first = next
		}
	}
	return n, first
}

func (p *page) first(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return ", the first " + p.in(t)
}

// operator writes what only the operator does.
func (p *page) operator(s *reaper.Status) {
	p.heading("What only you do")
	if p.todo(s) {
		return
	}
	if len(s.Problems) > 0 {
		p.para("  ", "Nothing, as far as the node could be read.")
		return
	}
	p.para("  ", "Nothing.")
}
