// Package report builds the report of one node and its orphans from the results of a pass, and checks reports that
// come over the network. The size of a report is limited, and its texts can be shown on a terminal.
//
// It opens nothing and decides nothing: the verdicts are policy's.
package report

import (
	"cmp"
	"slices"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// The limits of a report, so that none is larger than some 200 KiB.
const (
	mostPods    = 100
	mostReasons = 5
	mostErrors  = 10
	mostSums    = 40
	mostText    = 256 // bytes of one text
)

// Pass is the result of one pass of the loop.
type Pass struct {
	Number      uint64 // number of the look since the daemon's start
	Look        policy.Look
	Pods        []policy.Judged
	Entries     []policy.EntryState
	BreakerOpen bool
	Observe     bool
	// Done is what the daemon has done since its start.
	Done Done
}

// Report is the report of one node and its orphans, with the names of docs/json.md. It has no living pods.
type Report struct {
	Node    string    `json:"node"`
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	// Look and At are the number and the time of the last look that succeeded.
	Look uint64    `json:"look"`
	At   time.Time `json:"at"`
	Mode string    `json:"mode"` // Observe or enforce
	// Missing lists what keeps the daemon from enforcing in mode enforce.
	Missing     []string `json:"missing"`
	BreakerOpen bool     `json:"breaker_open"`
	Counts      Counts   `json:"counts"`
	Sums        []Sum    `json:"sums"`
	Done        Done     `json:"done"`
	Pods        []Pod    `json:"pods"`
	More        int      `json:"more"` // how many pods Pods leaves out
	Errors      []string `json:"errors"`
}

// Observe is the Mode of a daemon that removes nothing.
const Observe = "observe"

// Counts are the sums of a report.
type Counts struct {
	PodDirectories  int   `json:"pod_directories"`
	Reap            int   `json:"reap"` // in mode observe: those that mode enforce would remove
	Wait            int   `json:"wait"`
	Keep            int   `json:"keep"`
	NeedsPerson     int   `json:"needs_person"`
	Quarantine      int   `json:"quarantine"`
	QuarantineBytes int64 `json:"quarantine_bytes"` // allocated, as far as they were counted
	Bytes           int64 `json:"bytes"`            // the same for all pods that do not live and are not in quarantine
}

// Sum counts all pods that do not live and have a reason, driver or age. A pod with several reasons counts for each.
type Sum struct {
	By    string `json:"by"` // ByReason, ByDriver or ByAge
	Name  string `json:"name"`
	Pods  int    `json:"pods"`
	Bytes int64  `json:"bytes"`
}

// The values of Sum.By.
const (
	ByReason = "reason"
	ByDriver = "driver"
	ByAge    = "age"
)

// Done is what a daemon has done since its start.
type Done struct {
	Parked  int   `json:"parked"`
	PutBack int   `json:"put_back"`
	Removed int   `json:"removed"` // quarantine entries with removed content
	Bytes   int64 `json:"bytes"`   // allocated bytes that were removed
}

// Add adds the outcomes of a pass.
func (d *Done) Add(outs []policy.Outcome) {
	for _, o := range outs {
		switch ended := o.Ended() || o.Result == policy.Partly; {
		case o.Moved():
			d.Parked++
		case o.Action.Kind == policy.PutBack && ended:
			d.PutBack++
		case (o.Action.Kind == policy.Strip || o.Action.Kind == policy.Purge) && ended && len(o.Taken) > 0:
			d.Removed++
			for _, t := range o.Taken {
				d.Bytes += t.Bytes
			}
		}
	}
}

// Pod is one dead or doubtful pod in the pods directory, in quarantine or in the runtime.
type Pod struct {
	UID         string          `json:"uid"`
	Namespace   string          `json:"namespace"`
	Name        string          `json:"name"`
	Verdict     policy.Decision `json:"verdict"`
	Why         []policy.Why    `json:"why"`
	NeedsPerson bool            `json:"needs_person"`
	Parked      bool            `json:"parked"`
	DueSeconds  int             `json:"due_seconds"` // until time alone could change the verdict, or 0
	Bytes       int64           `json:"bytes"`       // allocated, as far as they were counted
	// Since is when the pod was parked, or when its directory changed last; zero if unknown.
	Since  time.Time `json:"since,omitzero"`
	Driver string    `json:"driver,omitempty"` // the CSI driver or volume plugin of its volume data
}

// Answer is the answer to a request for a look, with the names of docs/json.md.
type Answer struct {
	Node string `json:"node"`
	// Look is the Report.Look of the requested look.
	Look      uint64  `json:"look"`
	InSeconds float64 `json:"in_seconds"`
	// BreakerOpen means that the look changes nothing until an operator resumes.
	BreakerOpen bool `json:"breaker_open"`
	Done        Done `json:"done"` // what the daemon had done before the look
}

// New returns the report of a pass. who has the fields that do not depend on the pass.
func New(who Report, p *Pass) Report {
	r := who
	r.Look, r.At, r.Mode = p.Number, p.Look.At.Wall, "enforce"
	if p.Observe {
		r.Mode = Observe
	}
	r.Missing, r.BreakerOpen, r.Done = missing(p), p.BreakerOpen, p.Done
	r.Errors = []string{}
	for i, text := range p.Look.Errors {
		if i == mostErrors {
			break
		}
		r.Errors = append(r.Errors, Short(text))
	}
	for _, e := range p.Entries {
		if e.Phase.InQuarantine() {
			r.Counts.Quarantine++
			r.Counts.QuarantineBytes += bytesOf(e.Left)
		}
	}
	r.pods(p)
	return r
}

// pods counts the pods that are not alive, and adds the first mostPods of them: those that need an operator, then
// those that are kept, that wait, and that will be removed.
func (r *Report) pods(p *Pass) {
	entries, sums := map[string]policy.EntryState{}, sums{}
	for _, e := range p.Entries {
		entries[e.Entry] = e
	}
	r.Pods = []Pod{}
	for v := range policy.At(p.Pods, policy.InPlace, policy.InRuntime, policy.InQuarantine) {
		verdict := v.Verdict
		if v.Stage == policy.InPlace {
			r.Counts.PodDirectories++
		}
		if v.Stage == policy.InQuarantine && v.Decision != policy.Keep {
			verdict.Decision = policy.Wait
		}
		if verdict.Living() {
			continue
		}
		pod := podOf(&v.Evidence, verdict, entries)
		r.Counts.NeedsPerson += flag(pod.NeedsPerson)
		if pod.UID == "" {
			continue // the name is not a pod's
		}
		switch policy.CountedAs(verdict.Decision, verdict.Why) {
		case policy.Reap:
			r.Counts.Reap++
		case policy.Wait:
			r.Counts.Wait++
		case policy.Keep:
			r.Counts.Keep++
		case policy.Return: // of entries of the quarantine only
		}
		if !pod.Parked {
			r.Counts.Bytes += pod.Bytes
		}
		sums.add(&pod, verdict.Why, p.Look.At.Wall)
		r.Pods = append(r.Pods, pod)
	}
	r.Sums = sums.first()
	order := map[policy.Decision]int{policy.Keep: 0, policy.Wait: 1, policy.Reap: 2}
	slices.SortStableFunc(r.Pods, func(a, b Pod) int {
		return cmp.Or(flag(b.NeedsPerson)-flag(a.NeedsPerson), order[a.Verdict]-order[b.Verdict], cmp.Compare(a.UID, b.UID))
	})
	r.More = max(0, len(r.Pods)-mostPods)
	r.Pods = slices.Clone(r.Pods[:len(r.Pods)-r.More])
}

// podOf returns the report of a pod, with values of its quarantine entry if it is parked.
func podOf(e *policy.Evidence, v policy.Verdict, entries map[string]policy.EntryState) Pod {
	p := Pod{
		UID: string(e.UID), Namespace: Short(e.Namespace), Name: Short(e.PodName), Verdict: v.Decision, Why: []policy.Why{},
		NeedsPerson: policy.OutlookOf(v.Decision, v.Why) == policy.OutlookPerson, Parked: e.Entry != "",
		DueSeconds: int(min(v.Due.Seconds(), mostCount)),
	}
	if entry, ok := entries[e.Entry]; p.Parked && ok {
		p.Bytes, p.Since, p.Driver = bytesOf(entry.Left), entry.Parked.At.Wall, driverOf(entry.VolData, entry.Left, "")
	} else if !p.Parked {
		p.Bytes, p.Since, p.Driver = bytesOf(e.Residue), e.Changed, driverOf(e.VolData, e.Residue, nodeMount(e))
	}
	p.Since = p.Since.UTC().Truncate(time.Second)
	for _, w := range v.Why[:min(len(v.Why), mostReasons)] {
		p.Why = append(p.Why, policy.Why{Reason: w.Reason, Detail: Short(w.Detail)})
	}
	return p
}

// nodeMount returns the pod's mount in the node's own namespace, or "": in other namespaces a process chooses the path.
func nodeMount(e *policy.Evidence) string {
	if e.Unmount == "" {
		return ""
	}
	return e.Facts[policy.FactMounted].Detail
}

// missing lists what keeps a pass from removing any pod.
func missing(p *Pass) []string {
	n, list := &p.Look.Node, []string{}
	for _, f := range []struct {
		what string
		fact policy.Fact
	}{
		{"this process must see the node's own mounts and processes", n.MayEnforce},
		{"the settings must agree with the kubelet", n.Agrees},
	} {
		if f.fact.Truth != policy.Yes {
			list = append(list, Short(f.what+": "+cmp.Or(f.fact.Detail, "not known")))
		}
	}
	return list
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Short returns at most mostText bytes of text, without control characters.
func Short(text string) string { return clean.Cut(clean.Text(clean.Cut(text, mostText)), mostText) }
