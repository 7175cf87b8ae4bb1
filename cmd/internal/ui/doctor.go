package ui

import (
	"slices"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/summary"
)

// Doctor is the content of doctor's screen: why a kubelet complains, and what an operator has to do. Package summary decides
// that.
type Doctor struct {
	NeedsPerson bool                  `json:"needs_person"`
	Looked      bool                  `json:"looked"` // false if the pods directory could not be read
	Complaints  complaints            `json:"complaints"`
	Pods        []complainedPod       `json:"pods"`
	Living      int                   `json:"living"` // pod directories of pods that live
	Daemon      summary.Daemon        `json:"daemon"`
	Stops       *policy.Why           `json:"stops,omitempty"` // what stops all removal
	Todo        []Todo                `json:"todo"`
	Staged      []policy.StagedVolume `json:"staged,omitempty"`
	Aging       *aging                `json:"aging,omitempty"` // nil if nothing is purged automatically
	Missing     []string              `json:"missing"`
	Errors      []string              `json:"errors"`

	c             *summary.Case
	now           time.Time
	place         Place
	contradiction string // between a setting and the running kubelet: these may not be its pods
	unattended    bool   // the first thing to do is to start a daemon or a sweep
}

type complaints struct {
	Lines    int              `json:"lines"`
	LastHour int              `json:"last_hour"`
	Untimed  int              `json:"untimed"`
	First    *time.Time       `json:"first"`
	Last     *time.Time       `json:"last"`
	Now      bool             `json:"now"`
	Message  string           `json:"message"`
	Pods     int              `json:"pods"`
	Sources  []summary.Source `json:"sources"`
}

// complainedPod is a pod that the kubelet complains about, or an orphan.
type complainedPod struct {
	UID        string          `json:"uid"`
	Namespace  string          `json:"namespace"`
	Name       string          `json:"name"`
	Lines      int             `json:"lines"`
	LastHour   int             `json:"last_hour"`
	First      *time.Time      `json:"first"`
	Last       *time.Time      `json:"last"`
	Bytes      int64           `json:"bytes"`
	Fate       summary.Fate    `json:"fate"`
	Says       string          `json:"says"`
	Reasons    []policy.Reason `json:"reasons"`
	DueSeconds int             `json:"due_seconds,omitempty"`
	Command    string          `json:"command,omitempty"`

	unread bool
	recent bool   // the kubelet may have reported it just now
	ends   string // what has to end before it can be removed, "" if only time has to pass
}

// Todo is one thing that an operator has to do, with the commands for it.
type Todo struct {
	Text     string   `json:"text"`
	Commands []string `json:"commands"`
}

// aging is the emptyDir content that is purged from the quarantine automatically, with the commands that keep it.
type aging struct {
	UIDs       []parsers.PodUID `json:"uids"` // in the order in which they are purged
	Bytes      int64            `json:"bytes"`
	DueSeconds int              `json:"due_seconds"` // until the first is purged
	Commands   []string         `json:"commands"`
}

// NewDoctor makes the screen for a case.
func NewDoctor(c summary.Case, x Context) Doctor {
	d := summary.Diagnose(c)
	v := Doctor{
		NeedsPerson: d.NeedsPerson, Looked: c.Looked, Living: d.Living, Daemon: c.Daemon, Pods: []complainedPod{}, Todo: []Todo{},
		Missing: []string{}, Errors: append([]string{}, c.Look.Errors...), Staged: c.Staged, c: &c, now: x.Now.Wall, place: x.Place,
	}
	if c.Err != nil {
		v.Errors = append(v.Errors, c.Err.Error())
	}
	if d.Stopped {
		v.Stops = &d.Stops
	}
	if c.Looked && c.Node.Agrees.Truth == policy.No {
		v.contradiction = c.Node.Agrees.Detail
	}
	all := summary.Total(c.Said)
	message := strings.ReplaceAll(all.Words, x.PodsDir+"/"+string(all.UID)+"/", "…/") // the UID is in it already
	v.Complaints = complaints{
		Lines: all.Lines, LastHour: all.LastHour, Untimed: all.Untimed, First: timeOrNil(all.First), Last: timeOrNil(all.Last), Now: all.Now,
		Message: clean.Text(message), Pods: len(c.Said), Sources: append([]summary.Source{}, c.Sources...),
	}
	for i := range d.Pods {
		one := newPod(&d.Pods[i], x.Now.Wall)
		if c.Breaker && one.UID == string(c.Revived) && one.Fate == summary.Stopped {
			one.Says = "It showed life in quarantine. Run explain before you resume."
		}
		v.Pods = append(v.Pods, one)
	}
	if len(c.Aging.UIDs) > 0 {
		v.Aging = &aging{UIDs: c.Aging.UIDs, Bytes: c.Aging.Bytes, DueSeconds: max(0, int(c.Aging.In.Seconds()))}
		for _, uid := range c.Aging.UIDs {
			v.Aging.Commands = append(v.Aging.Commands, "orphan-reaper quarantine restore "+string(uid))
		}
	}
	v.missing()
	v.todo(&d)
	return v
}

func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func newPod(p *summary.Pod, now time.Time) complainedPod {
	v := complainedPod{
		UID: string(p.UID), Lines: p.Said.Lines, LastHour: p.Said.LastHour, First: timeOrNil(p.Said.First), Last: timeOrNil(p.Said.Last),
		Fate: p.Fate, Reasons: []policy.Reason{},
	}
	v.recent = p.Said.Now || p.Said.Last.IsZero() || now.Sub(p.Said.Last) < quietFor
	if e := p.Evidence; e != nil {
		v.Namespace, v.Name, v.Bytes, v.unread = e.Namespace, e.PodName, p.Bytes, e.Unread
		if p.Fate == summary.Person {
			v.Command = e.Unmount
		}
		v.DueSeconds = int(p.Verdict.Due.Seconds())
		for _, w := range p.Verdict.Why {
			v.Reasons = append(v.Reasons, w.Reason)
		}
		v.ends = Ends(p.Verdict.Why)
	}
	v.Says = sentence(p, v.recent)
	return v
}

// sentence describes the state of a pod in one sentence.
func sentence(p *summary.Pod, recent bool) string {
	switch {
	case p.Fate == summary.Lives && recent:
		return "Something of it is still listed. If the pod has ended, the kubelet cleans it up in some minutes."
	case p.Fate == summary.Lives:
		return "It lives. The line about it is old, or not the kubelet's own."
	case p.Fate == summary.Gone && p.Parked:
		return "It lies in quarantine. The kubelet has nothing to complain of any more."
	case p.Fate == summary.Gone:
		return "Its directory is gone. The kubelet has nothing to complain of any more."
	case p.Fate != summary.Goes && p.Fate != summary.Stopped:
		return BriefOf(mainReason(p)).Means
	case len(p.Verdict.Leaves) > 0:
		return "Dead, but its volume's directory is not empty, and the kubelet cannot remove it."
	}
	for _, w := range p.Verdict.Why {
		if !slices.Contains(ofNode, w.Reason) {
			return BriefOf(w.Reason).Means
		}
	}
	return "Dead: nothing of it runs, is mounted or in use."
}

// ofNode are the reasons about the node, the time or the settings, and not about a dead pod.
var ofNode = []policy.Reason{
	policy.ReasonYoung, policy.ReasonHold, policy.ReasonKubeletStarting, policy.ReasonLimit, policy.ReasonWaived,
	policy.ReasonObserve, policy.ReasonBreaker, policy.ReasonNamespaces, policy.ReasonContradiction,
}

// mainReason returns the most important reason for an operator: mounted, then restored, then one that needs an operator, then
// another one that does not end by itself.
func mainReason(p *summary.Pod) policy.Reason {
	rank := func(r policy.Reason) int {
		o := r.Outlook()
		switch {
		case r == policy.ReasonMounted:
			return 0
		case r == policy.ReasonRestored:
			return 1
		case !r.Passing() && (o == policy.OutlookPerson || o == policy.OutlookStuck):
			return 2
		case !r.Passing():
			return 3
		}
		return 4
	}
	first := policy.Reason("")
	for _, w := range p.Verdict.Why {
		if first == "" || rank(w.Reason) < rank(first) {
			first = w.Reason
		}
	}
	return first
}

func (v *Doctor) missing() {
	add := func(text string) { v.Missing = append(v.Missing, clean.Text(text)) }
	for _, s := range v.c.Sources {
		if !s.Read && !s.Absent {
			add(s.Name + " could not be read: " + s.Problem)
		}
	}
	if v.noLogRead() && len(v.Missing) == 0 {
		for _, s := range v.c.Sources {
			add(s.Name + " does not exist")
		}
		add("no log was read: name the kubelet's by --log-file FILE or --journal-unit UNIT")
	}
	if v.c.Refused != "" {
		add(v.c.Refused)
	}
	if v.Daemon.Runs == policy.Unknown {
		add("whether the daemon runs is not known: " + v.Daemon.Problem)
	}
	n := v.c.Node
	for i, f := range []struct {
		what string
		fact policy.Fact
	}{{"kubelet", n.Kubelet}, {"container runtime", n.RuntimeLists}, {"this node", n.MayEnforce}, {"settings", n.Agrees}} {
		waived := v.c.Rules.Waive && i < 2
		if v.Looked && f.fact.Truth != policy.Yes && !waived {
			add(f.what + ": " + f.fact.Detail)
		}
	}
}

func (v *Doctor) noLogRead() bool {
	return !slices.ContainsFunc(v.c.Sources, func(s summary.Source) bool { return s.Read })
}

type podSum struct {
	pods  int
	bytes int64
}

// String returns the number of pods and their size.
func (s podSum) String() string { return human.Count(s.pods, "pod") + " (" + human.Size(s.bytes) + ")" }

func (v *Doctor) sumOf(one func(*complainedPod) bool) (s podSum) {
	for i := range v.Pods {
		if one(&v.Pods[i]) {
			s.pods++
			s.bytes += v.Pods[i].Bytes
		}
	}
	return s
}
