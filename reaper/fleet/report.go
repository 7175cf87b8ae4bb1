package fleet

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// Head is what a node answers, without the lists.
type Head struct {
	Node    string `json:"node"`
	Version string `json:"version,omitempty"`
	// Start is when the daemon started, and Pass the number of its last pass that has ended: 0 if none has.
	Start time.Time `json:"start,omitzero"`
	Pass  uint64    `json:"pass,omitempty"`
	// Scan is the pass that answers a POST /scan.
	Scan uint64 `json:"scan,omitempty"`
	Mode string `json:"mode,omitempty"`
	// Failed is why the last pass failed; all that follows is then of the pass before.
	Failed  string `json:"failed,omitempty"`
	Breaker bool   `json:"breaker,omitempty"` // the circuit breaker is open
	// Stopped is why nothing may be moved or removed, "" if something may.
	Stopped  judge.ReasonName `json:"stopped,omitempty"`
	Operator bool             `json:"operator,omitempty"` // something on the node needs an operator
	Summary  Summary          `json:"summary"`
}

// Summary counts what one node, or many, have. All of its numbers can be added up.
type Summary struct {
	Remove      int64 `json:"remove"` // pods, by their verdict; also what only mode observe keeps
	Wait        int64 `json:"wait"`
	Keep        int64 `json:"keep"`
	Alive       int64 `json:"alive"`
	Hidden      int64 `json:"hidden"`      // pods that the kubelet does not report while it reports one that is kept
	Operator    int64 `json:"operator"`    // what needs an operator: pods, entries, the circuit breaker, CNI, the log
	Quarantined int64 `json:"quarantined"` // entries of the quarantine
	Bytes       int64 `json:"bytes"`       // what was counted in them after the last clean
	CNIFiles    int64 `json:"cni_files"`
	CNIStale    int64 `json:"cni_stale"`
	CNIWaiting  int64 `json:"cni_waiting"`
	CNIUnknown  int64 `json:"cni_unknown"`
	FullRanges  int64 `json:"full_ranges"` // networks in which no new pod gets an address
	Problems    int64 `json:"problems"`    // what could not be read or written
	// Reasons counts the reasons of pods that wait or are kept, and of entries that need an operator.
	Reasons map[judge.ReasonName]int64 `json:"reasons,omitempty"`
}

// Report is the answer to GET /report: Status without facts, without pods that are alive, and with as many of the others
// as fit, those first that need an operator. Summary counts all.
type Report struct {
	Head
	Status reaper.Status `json:"status"`
}

// mostReport is the size of the largest answer that a daemon gives, and that a client reads.
const mostReport = 64 << 10

// fill takes over what the status of a pass has.
func (h *Head) fill(s *reaper.Status) {
	h.Node, h.Mode, h.Breaker, h.Operator, h.Stopped = cmp.Or(s.Node.Name, h.Node), s.Mode, s.Breaker != nil, s.Operator, ""
	if s.Stopped != nil {
		h.Stopped = s.Stopped.Reason
	}
	h.Summary = summarize(s)
}

// summarize counts what is in a status.
func summarize(s *reaper.Status) Summary {
	sum := Summary{
		Hidden: int64(s.Hidden), Quarantined: int64(len(s.Quarantine)), Problems: int64(len(s.Problems)),
		Reasons: map[judge.ReasonName]int64{},
	}
	for i := range s.Pods {
		p := &s.Pods[i]
		switch p.Decision {
		case judge.Remove:
			sum.Remove++
		case judge.Keep:
			if only(p.Reasons, judge.ModeObserve) {
				sum.Remove++
			} else {
				sum.Keep++
			}
		case judge.Wait:
			sum.Wait++
		case judge.IsAlive:
			sum.Alive++
		}
		sum.add(p.Verdict, p.Decision != judge.IsAlive)
	}
	for i := range s.Quarantine {
		e := &s.Quarantine[i]
		for _, left := range e.Left {
			sum.Bytes += left.Bytes
		}
		sum.add(e.Verdict, e.Operator)
	}
	if c := s.CNI; c != nil {
		sum.CNIFiles, sum.CNIStale = int64(c.Files), int64(c.Stale)
		sum.CNIWaiting, sum.CNIUnknown = int64(c.Waiting), int64(c.Unknown)
		for _, n := range c.Networks {
			if n.Full {
				sum.FullRanges++
			}
		}
		sum.Operator += int64(one(c.Operator))
	}
	sum.Operator += int64(one(s.Stopped != nil && s.Stopped.Operator || s.Breaker != nil))
	sum.Operator = max(sum.Operator, int64(one(s.Operator)))
	return sum
}

// only reports whether this is the one reason.
func only(reasons []judge.Reason, name judge.ReasonName) bool {
	return len(reasons) == 1 && reasons[0].Reason == name
}

// add counts a verdict, with its reasons if they are asked for.
func (s *Summary) add(v judge.Verdict, reasons bool) {
	if v.Operator {
		s.Operator++
	}
	if !reasons {
		return
	}
	for _, r := range v.Reasons {
		s.Reasons[r.Reason]++
	}
}

// encode returns the report in JSON, with lists so short that it is not longer than mostReport.
func (r Report) encode() ([]byte, error) {
	full := r.Status
	full.Pods = slices.DeleteFunc(slices.Clone(full.Pods), func(p reaper.PodStatus) bool { return p.Decision == judge.IsAlive })
	slices.SortStableFunc(full.Pods, func(a, b reaper.PodStatus) int { return first(a.Operator, b.Operator) })
	full.Quarantine = slices.Clone(full.Quarantine)
	slices.SortStableFunc(full.Quarantine, func(a, b judge.JudgedEntry) int { return first(a.Operator, b.Operator) })
	for n := 128; ; n /= 2 {
		r.Status = shorten(full, n)
		text, err := json.Marshal(r)
		if err != nil || len(text) <= mostReport || n == 0 {
			return text, err
		}
	}
}

// first orders what is true before what is not.
func first(a, b bool) int {
	value := map[bool]int{true: 0, false: 1}
	return cmp.Compare(value[a], value[b])
}

// shorten returns the status with at most n elements in each list, and without facts.
func shorten(s reaper.Status, n int) reaper.Status {
	s.Pods = slices.Clone(upTo(s.Pods, n))
	for i := range s.Pods {
		s.Pods[i].Facts = judge.Facts{}
	}
	s.Quarantine, s.Events, s.Problems = upTo(s.Quarantine, n), upTo(s.Events, n), upTo(s.Problems, n)
	if s.CNI != nil {
		c := *s.CNI
		c.Networks, c.Kept, c.Problems = upTo(c.Networks, n), upTo(c.Kept, n), upTo(c.Problems, n)
		s.CNI = &c
	}
	return s
}

func upTo[T any](list []T, n int) []T { return list[:min(n, len(list))] }
