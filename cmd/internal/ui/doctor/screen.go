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

// Screen is what doctor shows.
type Screen struct {
	NeedsPerson bool             `json:"needs_person"`
	Looked      bool             `json:"looked"` // false where the pods directory could not be read
	Complaints  complaints       `json:"complaints"`
	Pods        []pod            `json:"pods"`
	Living      int              `json:"living"` // pod directories of pods that live
	Daemon      diagnosis.Daemon `json:"daemon"`
	Stops       *policy.Why      `json:"stops,omitempty"` // what keeps all that may go
	Todo        []Todo           `json:"todo"`
	Aging       *aging           `json:"aging,omitempty"` // nil where nothing goes from the quarantine by itself
	Missing     []string         `json:"missing"`
	Errors      []string         `json:"errors"`
	now         time.Time        // by the wall clock
	counts      counts
	root        bool
	podsDir     string
	elsewhere   string // what contradicts the kubelet that runs: these may not be its pods
	dataPods    int    // that have data in quarantine
	dataBytes   int64
	unattended  bool // the last thing to do is to have something take what may go
}

// complaints is what the logs say of all pods together.
type complaints struct {
	Lines    int                `json:"lines"`
	LastHour int                `json:"last_hour"`
	Untimed  int                `json:"untimed"`
	First    *time.Time         `json:"first"`
	Last     *time.Time         `json:"last"`
	Now      bool               `json:"now"`
	Message  string             `json:"message"`
	Pods     int                `json:"pods"`
	Sources  []diagnosis.Source `json:"sources"`
}

// pod is one pod that the kubelet complains of, or that is left.
type pod struct {
	UID        string          `json:"uid"`
	Namespace  string          `json:"namespace"`
	Name       string          `json:"name"`
	Lines      int             `json:"lines"`
	LastHour   int             `json:"last_hour"`
	First      *time.Time      `json:"first"`
	Last       *time.Time      `json:"last"`
	Bytes      int64           `json:"bytes"`
	Fate       diagnosis.Fate  `json:"fate"`
	Says       string          `json:"says"`
	Reasons    []policy.Reason `json:"reasons"`
	DueSeconds int             `json:"due_seconds,omitempty"`
	Command    string          `json:"command,omitempty"`

	unread bool
	parked bool // it lies in quarantine
	recent bool // the kubelet may have reported it just now
}

// Todo is one thing that a person has to do, with the commands for it.
type Todo struct {
	Text     string   `json:"text"`
	Commands []string `json:"commands"`
}

// counts are the sums of the pods by fate.
type counts struct {
	pods  map[diagnosis.Fate]int
	bytes map[diagnosis.Fate]int64
	due   time.Duration // until the first may go, of those that are not in use
	now   heap          // of those that go, what nothing keeps any more
	later heap          // what waits for a time to pass
	used  heap          // what something still uses
	ends  string        // what has to end first, of the last of these
	named heap          // what waits for the kubelet's report

	limited string // why some of them wait for others
	first   string // what they wait for where the daemon has yet to confirm its first pod
}

// heap is some pods and what they hold.
type heap struct {
	pods  int
	bytes int64
}

func (h *heap) add(p *pod) {
	h.pods++
	h.bytes += p.Bytes
}

// going counts a pod that goes by itself, by what it waits for.
func (c *counts) going(p *pod, v *policy.Verdict, due time.Duration) {
	ends := ui.InUse(v.Why)
	for _, w := range v.Why {
		if w.Reason == policy.ReasonLimit {
			c.limited = w.Detail
		}
	}
	switch {
	case ends != "":
		c.ends = ends
		c.used.add(p)
		return
	case v.For(policy.ReasonKubeletFile):
		c.named.add(p)
		return
	case due > 0:
		c.later.add(p)
	default:
		c.now.add(p)
	}
	if c.due < 0 || due < c.due {
		c.due = due
	}
}

// Read is what doctor could read, beside the case.
type Read struct {
	Errors []string // of the look
	Err    error    // why there was none
	Root   bool     // this process has root's rights
}

// New shows a diagnosis.
func New(c diagnosis.Case, r Read, x ui.Context) Screen {
	d := diagnosis.Of(c)
	v := Screen{
		NeedsPerson: d.NeedsPerson, Looked: c.Looked, Living: d.Living, Daemon: c.Daemon, Pods: []pod{}, Todo: []Todo{},
		Missing: []string{}, Errors: append([]string{}, r.Errors...), now: x.Now.Wall, counts: counts{pods: d.Count, bytes: d.Bytes, due: -1}, root: r.Root,
		podsDir: x.PodsDir, dataPods: c.DataPods, dataBytes: c.DataBytes, Aging: newAging(c.Aging),
	}
	if r.Err != nil {
		v.Errors = append(v.Errors, r.Err.Error())
	}
	if d.Stopped {
		v.Stops = &d.Stops
	}
	all := diagnosis.Sum(c.Said)
	v.Complaints = complaints{
		Lines: all.Lines, LastHour: all.LastHour, Untimed: all.Untimed, First: timeOrNil(all.First), Last: timeOrNil(all.Last), Now: all.Now,
		Message: clean.Text(shortPath(all.Words, x.PodsDir, string(all.UID))), Pods: len(c.Said), Sources: append([]diagnosis.Source{}, c.Sources...),
	}
	pace := paceOf(&d, &c, x.Now.Wall)
	for i := range d.Pods {
		one := newPod(&d.Pods[i], x.Now.Wall)
		if c.Breaker && one.UID == string(c.Revived) && one.Fate == diagnosis.Stopped {
			one.Says = "It showed life in quarantine. Run explain before you resume."
		}
		if one.Fate == diagnosis.Goes {
			v.counts.going(&one, d.Pods[i].Verdict, pace.due(i))
		}
		v.Pods = append(v.Pods, one)
	}
	if c.Looked && c.Node.Agrees.Truth == policy.No {
		v.elsewhere = c.Node.Agrees.Detail
	}
	v.counts.first = pace.why()
	v.missing(c)
	v.todo(c, &d, ui.Place{PodsDir: x.PodsDir})
	return v
}

// shortPath leaves out of a message where the pod's directory is: its UID stands there already.
func shortPath(words, podsDir, uid string) string {
	return strings.ReplaceAll(words, podsDir+"/"+uid+"/", "…/")
}

func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func newPod(p *diagnosis.Pod, now time.Time) pod {
	v := pod{
		UID: string(p.UID), Lines: p.Said.Lines, LastHour: p.Said.LastHour, First: timeOrNil(p.Said.First), Last: timeOrNil(p.Said.Last),
		Fate: p.Fate, Reasons: []policy.Reason{}, parked: p.Parked,
	}
	if e := p.Evidence; e != nil {
		v.Namespace, v.Name, v.Bytes, v.unread = e.Namespace, e.PodName, p.Bytes, e.Unread
		if p.Fate == diagnosis.Person {
			v.Command = e.Umount
		}
		v.DueSeconds = int(p.Verdict.Due.Seconds())
		for _, w := range p.Verdict.Why {
			v.Reasons = append(v.Reasons, w.Reason)
		}
	}
	v.Says, v.recent = says(p, now), recent(p, now)
	return v
}

// recent reports whether the last line about a pod may be new: the kubelet's garbage collection of sandboxes
// runs each minute, and a line of klog has no certain time.
func recent(p *diagnosis.Pod, now time.Time) bool {
	return p.Said.Now || p.Said.Last.IsZero() || now.Sub(p.Said.Last) < quietFor
}

// says is what becomes of a pod in one sentence.
func says(p *diagnosis.Pod, now time.Time) string {
	switch p.Fate {
	case diagnosis.Lives:
		if recent(p, now) {
			return "Something of it is still listed. If the pod has ended, the kubelet cleans it up in some minutes."
		}
		return "It lives. The line about it is old, or not the kubelet's own."
	case diagnosis.Gone:
		if p.Parked {
			return "It lies in quarantine. The kubelet has nothing to complain of any more."
		}
		return "Its directory is gone. The kubelet has nothing to complain of any more."
	case diagnosis.Goes, diagnosis.Stopped:
		if p.Cleaned() {
			return "Ended, being cleaned up by the kubelet."
		}
		return saysGoing(p.Verdict, p.Evidence)
	case diagnosis.Person, diagnosis.Quiet:
	}
	return plainly(mainReason(p), p.Evidence)
}

// aside are the reasons that tell of the node, of the time or of our settings, and not of a dead pod.
var aside = map[policy.Reason]bool{
	policy.ReasonYoung: true, policy.ReasonHold: true, policy.ReasonKubeletStarting: true, policy.ReasonLimit: true, policy.ReasonWaived: true,
	policy.ReasonObserve: true, policy.ReasonBreaker: true, policy.ReasonNamespaces: true, policy.ReasonContradiction: true,
}

// saysGoing is the sentence of a pod that time alone keeps, or nothing.
func saysGoing(v *policy.Verdict, e *policy.Evidence) string {
	switch {
	case len(v.Leaves) > 0:
		return "Dead, but its volume's directory is not empty, and the kubelet cannot remove it."
	}
	for _, w := range v.Why {
		if !aside[w.Reason] {
			return plainly(w.Reason, e)
		}
	}
	return "Dead: nothing of it runs, is mounted or in use."
}

// mainReason is the reason that a person has to know first: the one that a command ends, else
// the first that is a person's matter and does not end by itself.
func mainReason(p *diagnosis.Pod) policy.Reason {
	first := policy.Reason("")
	for _, w := range p.Verdict.Why {
		if w.Reason == policy.ReasonMounted {
			return w.Reason
		}
		if w.Reason == policy.ReasonRestored { // it is kept, whatever else ends
			first = w.Reason
		}
		if first == policy.ReasonRestored {
			continue
		}
		o := w.Reason.Outlook()
		passes := first.Passing() && !w.Reason.Passing()
		if first == "" || passes || (o == policy.OutlookPerson || o == policy.OutlookStuck) && first.Outlook() != policy.OutlookPerson {
			first = w.Reason
		}
	}
	return first
}

// missing lists what keeps this node from being enforced on, and what could not be read.
func (v *Screen) missing(c diagnosis.Case) {
	for _, s := range c.Sources {
		if !s.Read && !s.Absent {
			v.Missing = append(v.Missing, clean.Text(s.Name+" could not be read: "+s.Problem))
		}
	}
	if v.deaf() && len(v.Missing) == 0 {
		for _, s := range c.Sources {
			v.Missing = append(v.Missing, clean.Text(s.Name+" does not exist")) // else it would be above
		}
		v.Missing = append(v.Missing, "no log was read: name the kubelet's by --log-file FILE or --journal-unit UNIT")
	}
	if c.Daemon.Runs == policy.Unknown {
		v.Missing = append(v.Missing, clean.Text("whether the daemon runs is not known: "+c.Daemon.Problem))
	}
	if !c.Looked {
		return
	}
	n := c.Node
	facts := []struct {
		what string
		fact policy.Fact
	}{{"kubelet", n.Kubelet}, {"container runtime", n.RuntimeLists}, {"pod network", n.Network}, {"this node", n.MayEnforce}, {"settings", n.Agrees}}
	for i, f := range facts {
		waived := c.Rules.Waive && i < 3
		if f.fact.Truth != policy.Yes && !waived {
			v.Missing = append(v.Missing, clean.Text(f.what+": "+f.fact.Detail))
		}
	}
}

// deaf reports whether no log was read at all.
func (v *Screen) deaf() bool {
	return !slices.ContainsFunc(v.Complaints.Sources, func(s diagnosis.Source) bool { return s.Read })
}

// mostTodo bounds what a person is told to do at once.
const mostTodo = 3

// todo lists what a person has to do, by reason.
func (v *Screen) todo(c diagnosis.Case, d *diagnosis.Diagnosis, x ui.Place) {
	at := map[policy.Reason]int{}
	for i := range d.Pods {
		p := &d.Pods[i]
		if p.Fate != diagnosis.Person {
			continue
		}
		reason := mainReason(p)
		text, command := plainTodo(reason), cmp.Or(commands[reason], "orphan-reaper explain "+string(p.UID))
		switch filled := x.Commands(p.Evidence, reason); {
		case len(filled.Then) > 0:
			command = filled.Then[0]
			if command == p.Evidence.Umount {
				text = "If the pod is gone, umount what is still mounted; the rest follows automatically:"
				if c.Daemon.Runs != policy.Yes {
					text = "If the pod is gone, umount what is still mounted; a sweep can then remove the rest:"
				}
			}
		case reason == policy.ReasonKubeletUnknown && c.Node.Kubelet.Truth != policy.Yes:
			command, text = "systemctl status kubelet", "Check that the kubelet runs. Without it, no pod is known to be released."
		}
		n, known := at[reason]
		if !known {
			n = len(v.Todo)
			at[reason] = n
			v.Todo = append(v.Todo, Todo{Text: text})
		}
		if !slices.Contains(v.Todo[n].Commands, command) {
			v.Todo[n].Commands = append(v.Todo[n].Commands, command)
		}
	}
	v.conflicts(&c)
	v.strays(d.Strays, x)
	if d.Deaf && c.Looked && !c.Rules.Waive {
		v.Todo = append(v.Todo, Todo{
			Text:     "Find out where the kubelet logs. Name that with --log-file or --journal-unit.",
			Commands: []string{"journalctl --no-pager --lines 3 --unit kubelet"},
		})
	}
	if d.Stopped && (d.Count[diagnosis.Stopped] > 0 || d.NeedsPerson && d.Stops.Reason != policy.ReasonObserve) {
		t := Todo{Text: plainTodo(d.Stops.Reason), Commands: []string{cmp.Or(commands[d.Stops.Reason], "orphan-reaper config check")}}
		if d.Stops.Reason == policy.ReasonBreaker && c.Revived != "" {
			t.Commands = append(t.Commands, "orphan-reaper explain "+string(c.Revived))
		}
		v.Todo = slices.Insert(v.Todo, 0, t) // nothing goes before that
	}
	if d.Unattended {
		v.Todo, v.unattended = append(v.Todo, unattended(c.Daemon)), true
	}
}

// conflicts names the pods whose elder directory waits in quarantine for a person.
func (v *Screen) conflicts(c *diagnosis.Case) {
	if len(c.Conflicts) == 0 {
		return
	}
	t := Todo{Text: "In conflict: another directory was made while one lay in quarantine. It stays until you merge or purge it; this shows how:"}
	for _, uid := range c.Conflicts {
		t.Commands = append(t.Commands, "orphan-reaper explain "+string(uid))
	}
	v.Todo = append(v.Todo, t)
}

// strays names what lies among the pods and is no pod's.
func (v *Screen) strays(names []string, x ui.Place) {
	if len(names) == 0 {
		return
	}
	t := Todo{Text: human.Count(len(names), "name") + " in the pods directory " + human.Plural(len(names), "is no pod's", "are no pods'") +
		". orphan-reaper never touches such a thing. See whose it is, and move it elsewhere:"}
	for _, name := range names[:min(len(names), mostTodo)] {
		t.Commands = append(t.Commands, x.Commands(&policy.Evidence{Name: name}, policy.ReasonInvalidUID).Look...)
	}
	if len(t.Commands) == 0 {
		t.Commands = []string{"orphan-reaper scan --verdict=keep"}
	}
	v.Todo = append(v.Todo, t)
}

// unattended says how what may go does go.
func unattended(d diagnosis.Daemon) Todo {
	if d.Runs == policy.No && d.PID > 0 { // nothing else than a sweep takes the daemon's lock
		return Todo{
			Text:     fmt.Sprintf("No daemon runs here. A sweep (PID %d) is at work; run this again when it has ended:", d.PID),
			Commands: []string{"orphan-reaper doctor"},
		}
	}
	says, takes := "No daemon runs here.", "This moves"
	t := Todo{Commands: []string{"orphan-reaper sweep"}}
	if d.Runs == policy.Unknown {
		says = "Whether a daemon runs here is not known: check that one does."
	}
	if d.Installed {
		takes = "Either of these moves"
		t.Commands = append(t.Commands, "systemctl enable --now orphan-reaper")
	}
	t.Text = says + " " + takes + " them to quarantine and removes what holds no data:"
	return t
}
