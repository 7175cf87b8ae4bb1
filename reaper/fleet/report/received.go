package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"slices"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// The largest counts of a report, so that the sums of all nodes fit their types.
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

// ErrNotAsked is the error of a node that was not asked because the sweep had stopped.
var ErrNotAsked = errors.New("not asked")

// Swept is a node's answer to the request for a look.
type Swept struct {
	Answer
	// Ended is the node's report after the look, or nil if the client did not wait.
	Ended *Report
}

// Name returns the name to show for a node whose report has the name own. A name that the caller gave has precedence;
// other is then own if it differs.
func (t Target) Name(own string) (name, other string) {
	if t.Named && own != t.Node {
		return t.Node, own
	}
	return cmp.Or(own, t.Node), ""
}

// errForeign is the error of impossible counts.
var errForeign = errors.New("it counts less than nothing, or more than a node has")

// Bound limits a report that came over the network to the size of one that New returns, and cleans its texts. It
// returns an error if its counts are impossible.
func (r *Report) Bound() error {
	c := &r.Counts
	numbers := []int{c.PodDirectories, c.Reap, c.Wait, c.Keep, c.NeedsPerson, c.Quarantine, r.More}
	bytes := []int64{c.QuarantineBytes, c.Bytes}
	r.Sums = r.Sums[:min(len(r.Sums), mostSums)]
	for i := range r.Sums {
		s := &r.Sums[i]
		s.By, s.Name = Short(s.By), Short(s.Name)
		numbers, bytes = append(numbers, s.Pods), append(bytes, s.Bytes)
	}
	for i := range r.Pods {
		bytes = append(bytes, r.Pods[i].Bytes)
	}
	if !plausible(numbers, bytes) || !r.Done.plausible() {
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
		p.UID, p.Namespace, p.Name, p.Driver = Short(p.UID), Short(p.Namespace), Short(p.Name), Short(p.Driver)
		p.Verdict = policy.Decision(Short(string(p.Verdict)))
		p.Why = p.Why[:min(len(p.Why), mostReasons)]
		for j := range p.Why {
			w := &p.Why[j]
			w.Reason, w.Detail = policy.Reason(Short(string(w.Reason))), Short(w.Detail)
		}
	}
	return nil
}

func plausible(numbers []int, bytes []int64) bool {
	return !slices.ContainsFunc(numbers, func(n int) bool { return n < 0 || n > mostCount }) &&
		!slices.ContainsFunc(bytes, func(n int64) bool { return n < 0 || n > mostBytes })
}

func (d *Done) plausible() bool {
	return plausible([]int{d.Parked, d.PutBack, d.Removed}, []int64{d.Bytes})
}

// mostPlain is the length of JSON in which no list can be too long.
const mostPlain = 32 << 10

// UnmarshalJSON parses a report, and of each list no more than a report has: an answer of 1 MiB may hold 340,000 empty
// pods.
func (r *Report) UnmarshalJSON(b []byte) (err error) {
	type plain Report
	if len(b) <= mostPlain {
		return json.Unmarshal(b, (*plain)(r))
	}
	type report struct {
		*plain
		Pods    json.RawMessage `json:"pods"`
		Sums    json.RawMessage `json:"sums"`
		Missing json.RawMessage `json:"missing"`
		Errors  json.RawMessage `json:"errors"`
	}
	raw := report{plain: (*plain)(r)}
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	var more int
	var wrong [5]error
	var pods []json.RawMessage
	pods, more, wrong[0] = first[json.RawMessage](raw.Pods, mostPods)
	r.Sums, _, wrong[1] = first[Sum](raw.Sums, mostSums)
	r.Missing, _, wrong[2] = first[string](raw.Missing, mostErrors)
	r.Errors, _, wrong[3] = first[string](raw.Errors, mostErrors)
	r.More += more
	for _, b := range pods {
		p, err := readPod(b)
		r.Pods, wrong[4] = append(r.Pods, p), cmp.Or(wrong[4], err)
	}
	return errors.Join(wrong[:]...)
}

// readPod parses a pod, and no more than mostReasons reasons.
func readPod(b []byte) (p Pod, err error) {
	raw := struct {
		*Pod
		Why json.RawMessage `json:"why"`
	}{Pod: &p}
	if err := json.Unmarshal(b, &raw); err != nil {
		return p, err
	}
	p.Why, _, err = first[policy.Why](raw.Why, mostReasons)
	return p, err
}

// mostMore limits how many items are counted beyond those that a report has.
const mostMore = 1000

// first parses the first items of a JSON list, and counts at most mostMore others.
func first[T any](list []byte, most int) (items []T, more int, err error) {
	if len(list) == 0 || string(list) == "null" {
		return nil, 0, nil
	}
	d := json.NewDecoder(bytes.NewReader(list))
	if t, err := d.Token(); err != nil || t != json.Delim('[') {
		return nil, 0, errors.Join(err, errors.New("a value that must be a list is not one"))
	}
	var skipped json.RawMessage
	for more < mostMore && d.More() {
		if len(items) == most {
			if err := d.Decode(&skipped); err != nil {
				return nil, 0, err
			}
			more++
			continue
		}
		var item T
		if err := d.Decode(&item); err != nil {
			return nil, 0, err
		}
		items = append(items, item)
	}
	return items, more, nil
}

// Bound cleans the texts of an answer that came over the network. It returns an error if no daemon can answer this.
func (a *Answer) Bound() error {
	if a.Look == 0 || a.InSeconds < 0 || !a.Done.plausible() {
		return errForeign
	}
	a.Node = Short(a.Node)
	return nil
}

// shortAll shortens a list of texts, and each text.
func shortAll(texts []string) []string {
	texts = texts[:min(len(texts), mostErrors)]
	for i := range texts {
		texts[i] = Short(texts[i])
	}
	return texts
}
