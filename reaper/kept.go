package reaper

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// The journal gets one event for each pod or entry that needs an operator, and one more when its reasons change. What was
// announced is in memory only, so each start of the daemon announces it again: an operator who reads the journal since the last start
// misses nothing, and the ledger has no state more.

// announced is what the journal has about a pod or an entry.
type announced struct {
	reasons string // their names
	at      judge.Instant
}

// forgetAnnounced is how long after it needed an operator last a pod is announced anew: a report may pause for minutes.
const forgetAnnounced = time.Hour

// announce records what needs an operator and was not announced yet.
func (p *pass) announce() {
	if p.announced == nil {
		p.announced = map[string]announced{}
	}
	now := p.Clock.Now()
	var events []judge.Event
	again := map[string]announced{}
	add := func(name string, v judge.Verdict, e judge.Event) {
		if e.Reasons = needsOperator(v); len(e.Reasons) == 0 {
			return
		}
		t := announced{namesOf(e.Reasons), now}
		if again[name] = t; p.announced[name].reasons != t.reasons {
			events = append(events, e)
		}
	}
	for _, j := range p.decided.Pods {
		add(j.Name, j.Verdict, judge.Event{
			Kind: judge.EventKept, At: now, UID: j.UID, Namespace: j.Namespace, PodName: j.PodName, Static: j.Static, ID: j.ID, Kubelet: p.node.Kubelet.PID,
		})
	}
	for _, j := range p.decided.Entries {
		add(j.Entry.Name, j.Verdict, judge.Event{
			Kind: judge.EventKept, At: now, UID: j.UID, Namespace: j.Namespace, PodName: j.PodName, Static: j.Static, ID: j.ID, Entry: j.Entry.Name,
		})
	}
	if p.write(events...) {
		maps.Copy(p.announced, again)
	}
	// At the end: the last scan may have been an hour ago.
	maps.DeleteFunc(p.announced, func(_ string, t announced) bool { return now.Age(t.at) > forgetAnnounced })
}

// needsOperator returns the reasons that need an operator, without those that an event of their own has announced.
func needsOperator(v judge.Verdict) []judge.Reason {
	return slices.DeleteFunc(slices.Clone(v.Reasons), func(r judge.Reason) bool {
		return !r.Operator || r.Reason == judge.StepFailed || r.Reason == judge.InUse || r.Reason == judge.CannotMove
	})
}

func namesOf(reasons []judge.Reason) string {
	var names []string
	for _, r := range reasons {
		names = append(names, string(r.Reason))
	}
	return strings.Join(names, " ")
}
