package reaper

import (
	"slices"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// Status is what one pass found and did. scan, sweep, explain, doctor, GET /report and fleet print this one model.
type Status struct {
	At   judge.Instant `json:"at"`
	Mode string        `json:"mode"` // "enforce", "observe", or "dry-run"
	Node judge.Node    `json:"node"`
	// Pods are the entries of the pods directory that were asked for, sorted by name.
	Pods []PodStatus `json:"pods"`
	// QuarantineDir is where the entries of the quarantine lie, if a command gives it.
	QuarantineDir string              `json:"quarantine_dir,omitempty"`
	Quarantine    []judge.JudgedEntry `json:"quarantine,omitempty"`
	// Events are what this pass, or all passes of a sweep, did.
	Events  []judge.Event `json:"events,omitempty"`
	Breaker *judge.Event  `json:"breaker,omitempty"` // what opened the circuit breaker; nil if it is closed
	// Stopped is why nothing may be moved or removed now, nil if something may. A dry run has what would stop the same run.
	Stopped *judge.Reason `json:"stopped,omitempty"`
	// Hidden counts the pods of which every fact but Reported is good, while the kubelet reports a pod that is kept.
	Hidden int `json:"hidden"`
	// Behind counts the pods of which every fact but Reported and the hold is good, while the kubelet reports one that can go: it
	// may report these next.
	Behind   int        `json:"behind,omitempty"`
	CNI      *CNIStatus `json:"cni,omitempty"`
	Problems []string   `json:"problems,omitempty"` // what could not be read or written
	Daemon   int        `json:"daemon,omitempty"`   // the PID of the daemon that runs, for a command beside it
	Sweep    int        `json:"sweep,omitempty"`    // the PID of a sweep that runs, for a command beside it
	// Unit is the systemd unit that starts the daemon, "" if the node has none.
	Unit string `json:"unit,omitempty"`
	// Operator is true if a pod, an entry, a CNI file or the breaker needs an operator.
	Operator bool `json:"operator"`
	// Next is after how long time alone may change something, 0 if nothing waits for that. Now is true if a clean gave way
	// and goes on at once.
	Next time.Duration `json:"-"`
	Now  bool          `json:"-"`
}

// PodStatus is one pod with its verdict, and what the kubelet logged about it.
type PodStatus struct {
	judge.Judged
	// Words are the kubelet's own words in its last report, and Count the number of errors that it gave.
	Words string `json:"words,omitempty"`
	Count int    `json:"count,omitempty"`
	// FirstReport and LastReport are when the kubelet wrote the first and the last report that this process has read.
	FirstReport time.Time `json:"first_report,omitzero"`
	LastReport  time.Time `json:"last_report,omitzero"`
	volumes     bool      // the kubelet reports that it has volumes of the pod
}

// Explanation is all that explain has about one pod.
type Explanation struct {
	PodStatus
	Entries []judge.JudgedEntry `json:"entries,omitempty"` // in quarantine
	History []judge.Event       `json:"history,omitempty"` // what the ledger has about the pod
	Daemon  int                 `json:"daemon,omitempty"`  // see Status
	At      judge.Instant       `json:"at"`
}

// NeedsOperator reports whether the pod or one of its entries needs an operator.
func (e *Explanation) NeedsOperator() bool {
	return e.Operator || slices.ContainsFunc(e.Entries, func(j judge.JudgedEntry) bool { return j.Operator })
}

// Explain returns what the status has about one pod.
func (s *Status) Explain(uid parsers.PodUID, history []judge.Event) Explanation {
	e := Explanation{History: history, Daemon: s.Daemon, At: s.At}
	var found bool
	if e.PodStatus, found = s.Pod(uid); !found {
		e.UID, e.Present = uid, judge.No
	}
	for _, entry := range s.Quarantine {
		if entry.UID == uid {
			e.Entries = append(e.Entries, entry)
		}
	}
	return e
}

// Pod returns the status of one pod, and false if it is not there.
func (s *Status) Pod(uid parsers.PodUID) (PodStatus, bool) {
	i := slices.IndexFunc(s.Pods, func(p PodStatus) bool { return p.UID == uid })
	if i < 0 {
		return PodStatus{}, false
	}
	return s.Pods[i], true
}

// waiting reports whether something is to be done that a pass has not done: what waits, and what could not be done now,
// since a disk was full or the daemon had to stop. The end of retention has its own time: Next.
func (s *Status) waiting() bool {
	waits := func(d judge.Decision) bool { return d == judge.Wait || d == judge.Remove }
	return slices.ContainsFunc(s.Pods, func(p PodStatus) bool { return waits(p.Decision) }) ||
		slices.ContainsFunc(s.Quarantine, func(e judge.JudgedEntry) bool { return waits(e.Decision) && e.Phase != judge.Retained || e.Due != nil })
}

// good reports whether every fact but the kubelet's report and the hold lets the pod pass.
func (p *PodStatus) good() bool {
	return p.UID != "" && !slices.ContainsFunc(p.Reasons, func(r judge.Reason) bool {
		return r.Reason != judge.NotReported && r.Reason != judge.OnHold
	})
}

// hides reports whether the kubelet reports something that is kept, and so hides all others.
func (s *Status) hides() bool {
	return s.Node.KubeletKnown.Truth == judge.Yes && slices.ContainsFunc(s.Pods, func(p PodStatus) bool { return p.Hides() })
}

// fill computes what follows from the parts.
func (s *Status) fill() {
	reported, silent := 0, 0
	for i := range s.Pods {
		switch p := &s.Pods[i]; {
		case p.Facts[judge.Reported].Truth == judge.Yes:
			reported++
		case p.good() && p.Decision != judge.Remove && !p.volumes:
			silent++
		}
	}
	switch {
	case reported > 1: // a kubelet that reports more than one reports all
	case s.hides():
		s.Hidden = silent
	case reported == 1:
		s.Behind = silent
	}
	s.Operator = s.Operator || s.Breaker != nil || s.Stopped != nil && s.Stopped.Operator || s.CNI != nil && s.CNI.Operator ||
		slices.ContainsFunc(s.Pods, func(p PodStatus) bool { return p.Operator }) ||
		slices.ContainsFunc(s.Quarantine, func(e judge.JudgedEntry) bool { return e.Operator })
}

// merge adds an earlier pass of the same sweep.
func (s *Status) merge(earlier Status) {
	s.Events = append(earlier.Events, s.Events...)
	problems := append(earlier.Problems, s.Problems...)
	slices.Sort(problems)
	s.Problems = slices.Compact(problems)
	if s.CNI == nil {
		s.CNI = earlier.CNI
	}
}
