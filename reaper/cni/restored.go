package cni

import (
	"fmt"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// MostRestored bounds the outcomes of a restore that are told one by one, of the files that are there now and of
// those that are not. All of them are counted: an archive's files may be 300,000, and 150 MB.
const MostRestored = 1000

// Restored is what became of files that a person wants back.
type Restored struct {
	// Done counts the files that came back, Gone those that were there already, and Failed those that are not there.
	Done, Gone, Failed int
	Outcomes           []Outcome

	there  int // of Outcomes
	record policy.Record
}

// Add takes in what became of some of the files.
func (r *Restored) Add(outs []Outcome) {
	for i := range outs {
		o := &outs[i]
		switch o.Result {
		case policy.Done:
			r.Done++
			count(&r.record, &o.File)
		case policy.Gone:
			r.Gone++
		case policy.Refused, policy.Failed, policy.Partly, policy.Conflict:
			if r.Failed++; r.Failed == 1 {
				r.record.Err = fmt.Sprintf("%s: %s", o.File.Path(), o.Err)
			}
			if r.Failed <= MostRestored {
				r.Outcomes = append(r.Outcomes, *o)
			}
			continue
		}
		if r.there++; r.there <= MostRestored {
			r.Outcomes = append(r.Outcomes, *o)
		}
	}
}

// All is how many files there were.
func (r *Restored) All() int { return r.Done + r.Gone + r.Failed }

// More is how many of them are not among the outcomes.
func (r *Restored) More() int { return r.All() - len(r.Outcomes) }

// Record tells what was put back by a person's word, from which archive or of which pod.
func (r *Restored) Record(which string, now policy.Instant) policy.Record {
	rec := r.record
	rec.Kind, rec.At, rec.Archive = policy.KindCNIRestored, now, which
	if r.Failed > 1 {
		rec.Err += fmt.Sprintf(" (and %d more)", r.Failed-1)
	}
	return rec
}
