package report

import (
	"cmp"
	"errors"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// What a report may count: all nodes' sums together fit their types then.
const (
	mostCount = 1 << 31
	mostBytes = 1 << 50
)

// Target is one daemon that is asked.
type Target struct {
	Node  string // its name, or the host of its address
	URL   string // scheme, host and port
	Named bool   // the caller gave the name Node
}

// Name returns the name under which a node is shown whose report has the name own. A name that the
// caller gave wins, and other is then own if it differs, else "".
func (t Target) Name(own string) (name, other string) {
	if t.Named && own != t.Node {
		return t.Node, own
	}
	return cmp.Or(own, t.Node), ""
}

// errForeign is for counts that no daemon has.
var errForeign = errors.New("it counts less than nothing, or more than a node has")

// Bound cuts a report that came over the network to the size of one that New makes, and makes it fit to be
// shown. It returns an error where no daemon can have these counts.
func (r *Report) Bound() error {
	c := &r.Counts
	for _, n := range []int{c.PodDirectories, c.Reap, c.Wait, c.Keep, c.NeedsPerson, c.Quarantine, r.More} {
		if n < 0 || n > mostCount {
			return errForeign
		}
	}
	if c.QuarantineBytes < 0 || c.QuarantineBytes > mostBytes {
		return errForeign
	}
	r.Node, r.Version, r.Mode = Short(r.Node), Short(r.Version), Short(r.Mode)
	r.Missing, r.Errors = shortAll(r.Missing), shortAll(r.Errors)
	if more := len(r.Pods) - mostPods; more > 0 {
		r.Pods = r.Pods[:mostPods:mostPods]
		r.More += more
	}
	for i := range r.Pods {
		p := &r.Pods[i]
		p.UID, p.Namespace, p.Name, p.Verdict = Short(p.UID), Short(p.Namespace), Short(p.Name), policy.Decision(Short(string(p.Verdict)))
		p.Why = p.Why[:min(len(p.Why), mostReasons)]
		for j := range p.Why {
			w := &p.Why[j]
			w.Reason, w.Detail = policy.Reason(Short(string(w.Reason))), Short(w.Detail)
		}
	}
	return nil
}

// Bound makes an answer that came over the network fit to be shown, or returns an error where no
// daemon answers so.
func (a *Answer) Bound() error {
	if a.Look == 0 || a.InSeconds < 0 {
		return errForeign
	}
	a.Node = Short(a.Node)
	return nil
}

// shortAll cuts a list of texts, and each of them.
func shortAll(texts []string) []string {
	texts = texts[:min(len(texts), mostErrors)]
	for i := range texts {
		texts[i] = Short(texts[i])
	}
	return texts
}
