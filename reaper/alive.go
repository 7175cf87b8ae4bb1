package reaper

import (
	"maps"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// awake judges the entries that rest, and says whether one of their pods was judged wrongly.
func (r *Reaper) awake(rep *Report, states map[string]*policy.EntryState) (alive bool) {
	for i := range rep.Look.Resting {
		e := &rep.Look.Resting[i]
		v := policy.ParkedVerdict{Settle: policy.SettleWait}
		if state := states[e.Entry]; state != nil {
			r.heard.TellParked(e, rep.Look.Node, *state, rep.Look.At)
			v = policy.Lives(*e, rep.Look.Node, *state, r.Rules, rep.Look.At)
		}
		rep.Resting = append(rep.Resting, v)
		alive = alive || v.Alive
	}
	return alive
}

// eachSettled calls f for each entry of the look with what was judged of it.
func (rep *Report) eachSettled(f func(e *policy.Evidence, v policy.ParkedVerdict)) {
	for i := range rep.Parked {
		f(&rep.Look.Parked[i], rep.Parked[i])
	}
	for i := range rep.Resting {
		f(&rep.Look.Resting[i], rep.Resting[i])
	}
}

// freeze writes down which entries stay in quarantine, since their pods live again. It moves
// nothing, so mode observe and an open breaker do not forbid it.
func (r *Reaper) freeze(rep *Report) {
	states := r.Ledger.Entries()
	var records []policy.Record
	rep.eachSettled(func(e *policy.Evidence, v policy.ParkedVerdict) {
		if state := states[e.Entry]; v.Settle == policy.SettleConflict && state != nil {
			records = append(records, policy.Frozen(*e, *state, v, rep.Look.Node, rep.Look.At))
		}
	})
	if len(records) == 0 {
		return
	}
	if _, err := r.Ledger.Append(records...); err != nil {
		// Nothing of them is planned in this look, and the next one sees the same.
		r.fail(rep, "cannot write to the ledger which pods live again: "+err.Error())
	}
}

// openBreaker stops enforcing where a pod that was judged dead turned out to live.
func (r *Reaper) openBreaker(rep *Report) {
	var rec policy.Record
	rep.eachSettled(func(e *policy.Evidence, v policy.ParkedVerdict) {
		if !v.Alive || rec.UID != "" {
			return
		}
		rec = policy.Record{UID: e.UID, Namespace: e.Namespace, PodName: e.PodName, Why: v.Why}
		if r.Rules.Observe && v.Settle == policy.SettlePutBack {
			rec.Undo = "orphan-reaper quarantine restore " + string(e.UID) // it does not go back by itself
		}
	})
	if rec.UID != "" {
		r.stop(rep, rec)
	}
}

// stop opens the breaker, unless it is open.
func (r *Reaper) stop(rep *Report, rec policy.Record) {
	if r.Ledger.BreakerOpen() {
		return
	}
	rec.Kind, rec.At = policy.KindBreaker, r.Clock.Now()
	if _, err := r.Ledger.Append(rec); err != nil {
		r.fail(rep, "cannot write to the ledger that enforcing stopped: "+err.Error())
	}
}

// here returns the pods that the node has by this look or had by the last one, in the pods
// directory, in the runtime or in quarantine.
func (r *Reaper) here(look *policy.Look) map[parsers.PodUID]bool {
	now := maps.Clone(look.Listed)
	if now == nil {
		now = map[parsers.PodUID]bool{}
	}
	for _, pods := range [...][]policy.Evidence{look.Pods, look.RuntimeOnly} {
		for i := range pods {
			now[pods[i].UID] = true
		}
	}
	has := maps.Clone(now)
	maps.Copy(has, r.listed)
	for _, e := range r.Ledger.Entries() {
		if e.Phase.InQuarantine() {
			has[e.UID] = true
		}
	}
	r.listed = now
	return has
}
