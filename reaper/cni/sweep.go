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
	// Files limits the files of dead pods that are reported one by one: that many of those to remove and that many of
	// those kept. All are counted. A negative value reports all.
	Files int

	lastArchive time.Time
}

// Prober reads the CNI directories and changes nothing.
type Prober interface {
	// SweepCNI returns the looks of one sweep, until ctx ends. Each look reads some files, and only then asks the
	// runtime and the node: a sandbox that is created in between is in the answer, and its files are not in the look.
	// contents adds to the files what an archive needs.
	SweepCNI(ctx context.Context, contents bool) iter.Seq[Look]
	// StillCNI checks files again before they are archived, and sets Err of those that are missing or changed.
	StillCNI(ctx context.Context, files []File)
}

// Look is one chunk of a sweep: some files, and the answers that were obtained after they were read. A sweep of
// 300,000 files has more looks, but needs no more memory, than one of a few thousand.
type Look struct {
	At   policy.Instant
	Node policy.Node
	// Listed are the full IDs of all sandboxes and containers that the runtime lists, if Node.RuntimeLists is Yes.
	Listed []string
	// Files are those that may be residue. Live counts, by kind, the files of sandboxes that the runtime lists, except
	// broken cache files.
	Files  []File
	Live   map[Kind]policy.Tally
	InUse  map[string]int64 // counts addresses of sandboxes that the runtime lists, by network
	Errors []string         // for messages
}

// Remover is the only thing that changes the CNI directories. Both return the files with their results, in order.
type Remover interface {
	// RemoveCNI unlinks the files that still equal the archive.
	RemoveCNI(ctx context.Context, permit policy.Permit, files []File) []File
	// RestoreCNI writes missing files back, an address only if it is free.
	RestoreCNI(ctx context.Context, permit policy.Permit, files []File) []File
}

// Archive archives the files to remove. Each batch is complete and synced before the first unlink.
type Archive interface {
	Archive(name string, at policy.Instant, files []File) error
	Archives() ([]ArchiveState, error)
	ReadArchive(name string, each func(File) error) error
	DropArchive(name string) error
}

// Ledger is the part of the ledger that a sweep uses.
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
	// Files are the judged files, with their Verdicts, and Outcomes those that were removed or could not be, as many
	// as Sweeper.Files allows. The census counts all.
	Files    []File
	Verdicts []policy.Verdict
	Outcomes []File
	Census   Census
	// Undo has one command for each sweep that removed files: it restores them.
	Undo   []string
	Errors []string
	// Next is when time alone could change a verdict, or 0. Pending reports that the next sweep waits for that.
	Next    time.Duration
	Pending bool
	memory  json.RawMessage
	// The numbers of reported Files (reaped, kept) and Outcomes (done, undone).
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

// ReportOf returns the report of a turn, or an empty one.
func ReportOf(t reaper.Turned) *Report {
	if rep, ok := t.(*Report); ok {
		return rep
	}
	return &Report{}
}

// mostErrors limits the errors of one sweep: each network that a tenant has created may cause one.
const mostErrors = 100

func (rep *Report) addErrors(errors ...string) {
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

// sweep is one running sweep.
type sweep struct {
	*Sweeper
	reaper.Turn
	rep      Report
	listings Listings // the containers listed in earlier sweeps and in this one
	running  *batch   // being removed, or nil
	// name names the archives of this sweep together, and archives counts them.
	name     string
	archives int
	aborted  bool // nothing more is removed
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
		w.dropOld(ctx) // first, so that the archive of what finish removes is kept at least until the next sweep
		w.finish(ctx, permit)
	}
	dead := reaped(w.Ledger.Entries())
	for look := range w.Prober.SweepCNI(ctx, removes) {
		w.rep.addErrors(look.Errors...)
		w.listings.Add(look.Listed, look.Node.RuntimeLists.Truth, w.Rules.Hold, look.At)
		toRemove := w.judge(look, dead)
		work, rest := progress.From(ctx), len(look.Files)
		for files := range slices.Chunk(toRemove, batchSize) {
			if !removes || w.aborted {
				break
			}
			w.begin(ctx, files, look.Node)
			work.Add(int64(len(files)))
			rest -= len(files)
		}
		work.Add(int64(rest))
	}
	w.wait()
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
	toRemove := look.Files[:0] // a second copy would take some megabytes
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
			waits := v.Due <= rules.Hold
			rep.Pending = rep.Pending || waits
			if rep.Next == 0 || v.Due < rep.Next {
				rep.Next = v.Due
			}
		}
		// Kept files are counted separately, so that one is reported even beside 300,000 removed files.
		n := &rep.kept
		if v.Decision == policy.Reap {
			n = &rep.reaped
		}
		if w.mayReport(n) {
			rep.Files, rep.Verdicts = append(rep.Files, f.withoutData()), append(rep.Verdicts, v)
		}
		if v.Decision == policy.Reap {
			toRemove = append(toRemove, *f)
		}
	}
	return toRemove
}

// mayReport reports whether another file may be reported, and counts it in n.
func (s *Sweeper) mayReport(n *int) bool {
	if s.Files >= 0 && *n >= s.Files {
		return false
	}
	*n++
	return true
}

// addResults adds the results of files to the report.
func (w *sweep) addResults(files []File) {
	for i := range files {
		f := &files[i]
		w.rep.Census.Ended(f)
		n := &w.rep.done
		if f.Result == policy.Failed || f.Result == policy.Refused {
			n = &w.rep.undone
		}
		if w.mayReport(n) {
			w.rep.Outcomes = append(w.rep.Outcomes, f.withoutData())
		}
	}
}
