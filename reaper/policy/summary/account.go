package summary

import (
	"cmp"
	"slices"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/reported"
)

// mostDays bounds the table: some 200 bytes a day.
const mostDays = 400

// Done counts what was done.
type Done struct {
	Parked   int64 `json:"parked"`  // pod directories moved to quarantine
	Removed  int64 `json:"removed"` // of which nothing is left
	PutBack  int64 `json:"put_back"`
	Cleared  int64 `json:"cleared"` // volume directories whose content was moved to quarantine
	CNIFiles int64 `json:"cni_files"`
	// Addresses are those of CNIFiles that reserved an address.
	Addresses int64 `json:"addresses"`
	CNIBack   int64 `json:"cni_put_back"` // files of CNI that an operator put back
	// Entries are directory entries that were removed for good, files of CNI too, and Bytes their allocated bytes. They are
	// below zero on a day on which more files of CNI came back.
	Entries int64 `json:"entries"`
	Bytes   int64 `json:"bytes"`
	Failed  int64 `json:"failed"`
}

// Day is what was done on one day of UTC.
type Day struct {
	Day string `json:"day"` // 2006-01-02
	Done
}

// Table has the days on which something was done, the oldest first. It is folded from the records.
type Table struct {
	Seq int64 `json:"seq"` // of the last record that was folded
	// Since is from when on the table is complete; zero without records.
	Since time.Time `json:"since,omitzero"`
	Days  []Day     `json:"days,omitempty"`
}

// Add folds one record, unless it was folded before. If records before it are missing, the table is complete from this one
// on.
func (t *Table) Add(r policy.Record) {
	if r.Seq <= t.Seq {
		return
	}
	if r.Seq != t.Seq+1 || t.Since.IsZero() {
		t.Since = r.At.Wall
	}
	t.Seq = r.Seq
	var s Done
	s.add(r)
	if s == (Done{}) {
		return
	}
	day := r.At.Wall.UTC().Format(time.DateOnly)
	i, found := slices.BinarySearchFunc(t.Days, day, func(d Day, day string) int { return cmp.Compare(d.Day, day) })
	if !found {
		t.Days = slices.Insert(t.Days, i, Day{Day: day})
	}
	t.Days[i].plus(s)
	if more := len(t.Days) - mostDays; more > 0 {
		t.Days = slices.Delete(t.Days, 0, more)
		if first, err := time.Parse(time.DateOnly, t.Days[0].Day); err == nil && first.After(t.Since) {
			t.Since = first
		}
	}
}

// add counts one record. Of some kinds only what they removed counts.
func (s *Done) add(r policy.Record) {
	var none int64
	count, ok := map[policy.Kind]*int64{
		policy.KindParked: &s.Parked, policy.KindRemoved: &s.Removed, policy.KindPutBack: &s.PutBack, policy.KindRestored: &s.PutBack,
		policy.KindCleared: &s.Cleared, policy.KindFailed: &s.Failed,
		policy.KindStripped: &none, policy.KindStripping: &none, policy.KindPurging: &none, policy.KindCNIRemoved: &none, policy.KindCNIRestored: &none,
	}[r.Kind]
	if !ok {
		return
	}
	if r.Kind != policy.KindRemoved || r.Leaf == "" { // of a leaf the pod's directory is not gone
		*count++
	}
	for class, t := range r.Taken {
		if r.Kind == policy.KindCNIRestored {
			s.CNIBack += t.Entries
			s.Entries -= t.Entries // it takes its place again
			s.Bytes -= t.Bytes
			continue
		}
		s.Entries += t.Entries
		s.Bytes += t.Bytes
		if r.Kind == policy.KindCNIRemoved {
			s.CNIFiles += t.Entries
		}
		if r.Kind == policy.KindCNIRemoved && class == "address" { // of host-local, as reaper/cni writes it
			s.Addresses += t.Entries
		}
	}
}

func (s *Done) plus(o Done) {
	s.Parked += o.Parked
	s.Removed += o.Removed
	s.PutBack += o.PutBack
	s.Cleared += o.Cleared
	s.CNIFiles += o.CNIFiles
	s.Addresses += o.Addresses
	s.CNIBack += o.CNIBack
	s.Entries += o.Entries
	s.Bytes += o.Bytes
	s.Failed += o.Failed
}

// Account is the report of one range of whole days of UTC.
type Account struct {
	From, Now time.Time
	// Since is when the records begin; zero where there are none.
	Since time.Time
	Done
	Days []Day // those in the range
	// Quiet sums up the kubelet's messages that stopped in the range; its First is when the first did.
	Quiet reported.Day
	// Going are the lines about pods that have a directory still, or had one until a moment ago, and
	// GoingPods how many these pods are.
	Going, GoingBytes int64
	GoingPods         int
	GoingLast         time.Time // of these lines
	// Estimate is how many more lines the kubelet would have written by now: one in each housekeeping run since the first
	// message stopped, less those that it has written. EstimateBytes is that at their mean length.
	Estimate, EstimateBytes int64
}

// AccountOf makes the account of the time from a day on.
func AccountOf(t Table, heard reported.Messages, from, now time.Time) Account {
	a := Account{From: from.UTC().Truncate(24 * time.Hour), Now: now, Since: t.Since}
	first := a.From.Format(time.DateOnly)
	for _, d := range t.Days {
		if d.Day >= first {
			a.Days = append(a.Days, d)
			a.plus(d.Done)
		}
	}
	a.Entries, a.Bytes = max(0, a.Entries), max(0, a.Bytes) // what came back may have gone before
	for _, d := range heard.Days {
		if d.Day < first {
			continue
		}
		if a.Quiet.First.IsZero() || d.First.Before(a.Quiet.First) {
			a.Quiet.First = d.First
		}
		a.Quiet.Pods += d.Pods
		a.Quiet.Lines += d.Lines
		a.Quiet.Bytes += d.Bytes
	}
	for _, s := range heard.Pods {
		a.GoingPods++
		if s.Last.Wall.After(a.GoingLast) {
			a.GoingLast = s.Last.Wall
		}
		a.Going += s.Lines
		a.GoingBytes += s.Bytes
	}
	if !a.Quiet.First.IsZero() {
		a.Estimate = max(0, int64(now.Sub(a.Quiet.First)/reported.Housekeeping)-a.Quiet.Lines-a.Going)
	}
	if lines := a.Quiet.Lines + a.Going; lines > 0 {
		a.EstimateBytes = a.Estimate * ((a.Quiet.Bytes + a.GoingBytes) / lines)
	}
	return a
}

// Short reports whether the range begins before the records do.
func (a *Account) Short() bool {
	return a.Since.IsZero() || a.From.Before(a.Since.UTC().Truncate(24*time.Hour))
}
