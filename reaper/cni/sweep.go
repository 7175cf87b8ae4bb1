package cni

import (
	"context"
	"encoding/json"
	"iter"
	"log/slog"
	"slices"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/progress"
)

// Sweeper sweeps over the CNI directories, one sweep at a time.
type Sweeper struct {
	Prober  Prober
	Remover Remover // nil where nothing may change
	Archive Archive
	Ledger  Ledger
	Clock   reaper.Clock
	Meter   Meter
	Log     *slog.Logger
	// Files is how many files that are no living pod's are reported one by one, of those that go and of those that are kept; all are
	// counted. Less than 0 is all.
	Files int

	lastArchive time.Time
}

// Prober reads the CNI directories and changes nothing.
type Prober interface {
	// SweepCNI returns the looks of one sweep, until ctx ends. Each look lists some files and reads them, and only then asks the runtime
	// and the node: what is made in between is in the answer, and not among the files. With contents the files come with what an archive
	// needs.
	SweepCNI(ctx context.Context, contents bool) iter.Seq[Look]
	// StillCNI inspects files once more before they are archived, and sets Err of those that are gone, or others by now.
	StillCNI(ctx context.Context, files []File)
}

// Look is one chunk of a sweep: some files, and what was asked after they were read. A sweep has as many looks as the number of files
// requires, so 300,000 files need no more memory than a few thousand.
type Look struct {
	At   policy.Instant
	Node policy.Node
	// Listed are the full IDs of all sandboxes and containers that the runtime lists, if Node.RuntimeLists is Yes.
	Listed []string
	// Files are those that may be residue. Live counts, by kind, the files of sandboxes that the runtime lists, but those that hinder
	// its teardown.
	Files  []File
	Live   map[Kind]policy.Tally
	InUse  map[string]int64 // the addresses of sandboxes that the runtime lists, by network
	Errors []string         // what could not be read, for messages
}

// Remover is the only thing that changes the CNI directories. Both return the files with their results, in order.
type Remover interface {
	// RemoveCNI unlinks the files that still equal the archive.
	RemoveCNI(ctx context.Context, permit policy.Permit, files []File) []File
	// RestoreCNI writes files back that are not there, an address only if it is free.
	RestoreCNI(ctx context.Context, permit policy.Permit, files []File) []File
}

// Archive archives the files to remove, each batch whole and synced before the first unlink.
type Archive interface {
	Archive(name string, files []File) error
	Archives() ([]ArchiveState, error)
	ReadArchive(name string, each func(File) error) error
	DropArchive(name string) error
}

// Ledger is the durable record of every intent and outcome, as far as a sweep uses it.
type Ledger interface {
	Append(records ...policy.Record) ([]policy.Record, error)
	Entries() map[string]*policy.EntryState
	BreakerOpen() bool
}

// Meter counts for the metrics.
type Meter interface {
	CNI(c *Census)
}

// Report is the result of one sweep.
type Report struct {
	At policy.Instant
	// Files and their verdicts, without those of living pods, and the Outcomes, the files that were removed or could not be, as many of
	// each as Sweeper.Files allows. The census has all.
	Files    []File
	Verdicts []policy.Verdict
	Outcomes []File
	Census   Census
	// Undo lists the commands that restore the removed files: one for each sweep that removed any.
	Undo   []string
	Errors []string
	// Next is when time alone could change a verdict, 0 where it cannot; Pending where that is worth waiting for.
	Next    time.Duration
	Pending bool
	memory  json.RawMessage
	// How many files and outcomes are reported, by what became of them.
	reaped, kept, done, undone int
}

// every is how often the CNI directories are swept without a reason.
const every = time.Hour

// Due returns when the next sweep is due, and whether time can change a verdict until then.
func (rep *Report) Due() (in time.Duration, pending bool) {
	if rep.Pending {
		return max(rep.Next, time.Second), true
	}
	return every, false
}

// Problems returns the errors.
func (rep *Report) Problems() []string { return rep.Errors }

// Memory returns the state for the next sweep, or nil if there is none.
func (rep *Report) Memory() json.RawMessage { return rep.memory }

// After adds an earlier sweep: newer verdicts win, outcomes add up.
func (rep *Report) After(earlier reaper.Turned) reaper.Turned {
	was, ok := earlier.(*Report)
	if !ok {
		return rep
	}
	sum := *rep
	sum.Outcomes = slices.Concat(was.Outcomes, rep.Outcomes)
	sum.Census = was.Census.Merge(rep.Census)
	sum.Errors = slices.Concat(was.Errors, rep.Errors)
	sum.Undo = slices.Concat(was.Undo, rep.Undo)
	return &sum
}

// ReportOf returns the report of a turn, an empty one where there was none.
func ReportOf(t reaper.Turned) *Report {
	if rep, ok := t.(*Report); ok {
		return rep
	}
	return &Report{}
}

// mostErrors bounds the errors of one sweep: each network that a tenant has made may be one.
const mostErrors = 100

func (rep *Report) complain(errors ...string) {
	for _, e := range errors {
		switch n := len(rep.Errors); {
		case n > mostErrors || slices.Contains(rep.Errors, e):
		case n == mostErrors:
			rep.Errors = append(rep.Errors, "more of CNI's directories could not be read")
		default:
			rep.Errors = append(rep.Errors, e)
		}
	}
}

// sweep is one sweep under way.
type sweep struct {
	*Sweeper
	reaper.Turn
	rep      Report
	listings Listings // the containers listed in earlier sweeps and in this one
	under    *batch   // being removed, nil where none is
	// name names the archives of this sweep together, and archives counts them.
	name     string
	archives int
	over     bool // nothing more is removed
}

// Turn sweeps over the CNI directories once.
func (s *Sweeper) Turn(ctx context.Context, t reaper.Turn) reaper.Turned {
	w := &sweep{Sweeper: s, Turn: t, rep: Report{At: s.Clock.Now(), Census: NewCensus()}}
	if json.Unmarshal(t.Memory, &w.listings) != nil {
		w.listings = Listings{} // the hold starts again
	}
	w.sweep(ctx)
	if !t.DryRun {
		s.Meter.CNI(&w.rep.Census)
	}
	if w.listings.Older.IDs != nil {
		if b, err := json.Marshal(w.listings); err == nil {
			w.rep.memory = b
		}
	}
	return &w.rep
}

func (w *sweep) sweep(ctx context.Context) {
	removes := !w.DryRun && w.Remover != nil
	if permit := w.permit(w.Node); permit.MayRemove() && removes {
		w.finish(ctx, permit)
	}
	dead := reaped(w.Ledger.Entries())
	for look := range w.Prober.SweepCNI(ctx, removes) {
		w.rep.complain(look.Errors...)
		w.listings.Add(look.Listed, look.Node.RuntimeLists.Truth, w.Rules.Hold, look.At)
		going := w.judge(look, dead)
		work, rest := progress.From(ctx), len(look.Files)
		for files := range slices.Chunk(going, batchSize) {
			if !removes || w.over {
				break
			}
			w.begin(ctx, files, look.Node)
			work.Add(int64(len(files)))
			rest -= len(files)
		}
		work.Add(int64(rest))
	}
	w.wait()
	if removes && !w.Rules.Observe {
		w.dropOld()
	}
	slices.Sort(w.rep.Errors)
	w.rep.Errors = slices.Compact(w.rep.Errors)
}

// permit asks the gate with the node's current facts.
func (w *sweep) permit(n policy.Node) policy.Permit {
	return policy.Standing{Node: n, Breaker: w.stopped(), Rules: w.Rules, DryRun: w.DryRun}.Gate()
}

func (w *sweep) stopped() bool { return w.Stopped || w.Ledger.BreakerOpen() }

// judge judges the files of one look and returns those to remove.
func (w *sweep) judge(look Look, dead map[parsers.PodUID]bool) []File {
	rep, rules := &w.rep, w.Rules
	rep.Census.Add(look)
	permit := policy.Standing{Node: look.Node, Breaker: w.stopped(), Rules: rules}.Gate()
	going := look.Files[:0] // a chunk is some megabytes, of which one copy is enough
	for i := range look.Files {
		f := &look.Files[i]
		if len(w.Only) > 0 && !slices.Contains(w.Only, f.UID) {
			continue
		}
		f.Reaped = f.UID != "" && dead[f.UID]
		v := Judge(f, look.Node, w.listings.Older, rules, look.At)
		v.Gate(permit)
		rep.Census.Judged(f, v)
		if v.Decision == policy.Wait && v.Due > 0 {
			waits := v.Due <= max(rules.Hold, rules.Settle)
			rep.Pending = rep.Pending || waits
			if rep.Next == 0 || v.Due < rep.Next {
				rep.Next = v.Due
			}
		}
		// Kept files are counted apart, so that it is shown beside 300,000 files that are removed.
		n := &rep.kept
		if v.Decision == policy.Reap {
			n = &rep.reaped
		}
		if w.room(n) {
			rep.Files, rep.Verdicts = append(rep.Files, f.bare()), append(rep.Verdicts, v)
		}
		if v.Decision == policy.Reap {
			going = append(going, *f)
		}
	}
	return going
}

// room reports whether another file of its kind may be reported, and counts it.
func (s *Sweeper) room(n *int) bool {
	if s.Files >= 0 && *n >= s.Files {
		return false
	}
	*n++
	return true
}

// ended adds the results of files.
func (w *sweep) ended(files []File) {
	for i := range files {
		f := &files[i]
		w.rep.Census.Ended(f)
		n := &w.rep.done
		if f.Result == policy.Failed || f.Result == policy.Refused {
			n = &w.rep.undone
		}
		if w.room(n) {
			w.rep.Outcomes = append(w.rep.Outcomes, f.bare())
		}
	}
}
