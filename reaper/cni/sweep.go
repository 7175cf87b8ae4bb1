package cni

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/progress"
)

// Sweeper takes sweeps over the CNI directories, one at a time.
type Sweeper struct {
	Prober  Prober
	Remover Remover // nil where nothing may change
	Archive Archive
	Ledger  Ledger
	Clock   Clock
	Log     *slog.Logger

	lastArchive time.Time
}

// Prober reads the CNI directories and changes nothing.
type Prober interface {
	// SweepCNI begins a sweep. Each Next lists some files and reads them, and only then asks
	// the runtime and the node: what is made in between is in the answer, and not among the
	// files. False when all have been read.
	// With contents the files come with what an archive needs, read before anything was asked.
	SweepCNI(contents bool) Looks
	// StillCNI looks at files once more before they are archived, and sets Err of those that are
	// gone, or others by now.
	StillCNI(ctx context.Context, files []Content)
}

// Looks are those of one sweep under way.
type Looks interface {
	Next(ctx context.Context) (Look, bool)
	Close()
}

// Remover is the only thing that changes the CNI directories.
type Remover interface {
	// RemoveCNI unlinks those files that are still what was archived.
	RemoveCNI(ctx context.Context, permit policy.Permit, files []Content) []Outcome
	// RestoreCNI writes files back that are not there, an address only if it is free.
	RestoreCNI(ctx context.Context, permit policy.Permit, files []Content) []Outcome
}

// Archive keeps what is removed, each batch whole and synced before the first unlink.
type Archive interface {
	Archive(name string, files []Content) error
	Archives() ([]ArchiveState, error)
	ReadArchive(name string, each func(Content) error) error
	DropArchive(name string) error
}

// Ledger is what a sweep needs of the durable record of every intent and outcome.
type Ledger interface {
	Append(records ...policy.Record) ([]policy.Record, error)
	Entries() map[string]*policy.EntryState
	BreakerOpen() bool
}

// Clock tells the time on both clocks.
type Clock interface {
	Now() policy.Instant
}

// Options say what one sweep is for.
type Options struct {
	Rules  policy.Rules
	Only   []parsers.PodUID // empty: the files of all pods
	DryRun bool             // the same way, without the last step and without a trace
	Node   policy.Node      // what the look before the sweep found out about the node
	// Stopped: the breaker is open, whatever the ledger says.
	Stopped bool
	// Files is how many files that are no living pod's are reported one by one, of those that
	// go and of those that stay; all are counted. Less than 0 is all.
	Files int
}

// Report is what one sweep found and did.
type Report struct {
	// Swept is false where no sweep was due, or none could be taken.
	Swept bool
	At    policy.Instant
	// Files and their verdicts, without those of living pods, and the outcomes of those that
	// were removed or could not be, as many of each as Options.Files says. The census has all.
	Files    []File
	Verdicts []policy.Verdict
	Outcomes []Outcome
	Census   Census
	// Undo are the commands that put back what was removed: one for each sweep that removed something.
	Undo   []string
	Errors []string
	// Next is when time alone could take a file further, 0 where it cannot; Pending where
	// that is worth waiting for.
	Next    time.Duration
	Pending bool
	// How many files and outcomes are reported, by what became of them.
	going, staying, done, undone int
}

// every is how often the CNI directories are swept where nothing asks for it.
const every = time.Hour

// Due says how long from now the next sweep is worth while.
func (rep *Report) Due() time.Duration {
	if rep.Pending {
		return max(rep.Next, time.Second)
	}
	return every
}

// Merge adds a later sweep: newer verdicts win, outcomes add up.
func (rep *Report) Merge(later Report) {
	if !later.Swept {
		return
	}
	later.Outcomes = append(rep.Outcomes, later.Outcomes...)
	later.Census = rep.Census.Merge(later.Census)
	later.Errors = append(rep.Errors, later.Errors...)
	later.Undo = append(rep.Undo, later.Undo...)
	*rep = later
}

// mostErrors bounds what one sweep says of what could not be read: each network that a
// tenant has made may be such a word.
const mostErrors = 100

// complain adds words about what could not be read.
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
	opt   Options
	rep   Report
	under *batch // being removed, nil where none is
	// name names the archives of this sweep together, and archives counts them.
	name     string
	archives int
	over     bool // nothing more is taken
}

// Sweep takes one sweep over the CNI directories. heard is what the runtime has listed in the
// sweeps before, and learns from this one.
func (s *Sweeper) Sweep(ctx context.Context, opt Options, heard *Listings) Report {
	w := &sweep{Sweeper: s, opt: opt, rep: Report{Swept: true, At: s.Clock.Now(), Census: NewCensus()}}
	enforces := !opt.DryRun && !opt.Rules.Observe && s.Remover != nil
	if permit := w.permit(opt.Node); permit.Removes() && s.Remover != nil {
		w.finish(ctx, permit)
	}
	reaped := Reaped(s.Ledger.Entries())
	takes := !opt.DryRun && s.Remover != nil
	looks := s.Prober.SweepCNI(takes)
	defer looks.Close()
	for ctx.Err() == nil {
		look, ok := looks.Next(ctx)
		if !ok {
			break
		}
		w.rep.complain(look.Errors...)
		heard.Add(look.Listed, look.Node.RuntimeLists.Truth, opt.Rules.Hold, look.At)
		dead := w.judge(look, reaped, heard.Older)
		work, rest := progress.From(ctx), len(look.Files)
		for files := range slices.Chunk(dead, batchSize) {
			if !takes || w.over {
				break
			}
			w.begin(ctx, files, look.Node)
			work.Add(int64(len(files)))
			rest -= len(files)
		}
		work.Add(int64(rest))
	}
	w.wait()
	if enforces {
		w.dropOld()
	}
	slices.Sort(w.rep.Errors)
	w.rep.Errors = slices.Compact(w.rep.Errors)
	return w.rep
}

// permit asks the gate by what is known of the node now.
func (w *sweep) permit(n policy.Node) policy.Permit {
	breaker := w.opt.Stopped || w.Ledger.BreakerOpen()
	return policy.Standing{Node: n, Breaker: breaker, Rules: w.opt.Rules, DryRun: w.opt.DryRun}.Gate()
}

// judge judges the files of one look and returns those to remove.
func (w *sweep) judge(look Look, reaped map[parsers.PodUID]bool, heard Listing) []Content {
	rep, rules := &w.rep, w.opt.Rules
	rep.Census.Add(look)
	breaker := w.opt.Stopped || w.Ledger.BreakerOpen()
	dead := look.Files[:0] // a chunk is some megabytes, of which one copy is enough
	for _, f := range look.Files {
		if len(w.opt.Only) > 0 && !slices.Contains(w.opt.Only, f.UID) {
			continue
		}
		f.Reaped = f.UID != "" && reaped[f.UID]
		v := Judge(f.File, look.Node, heard, rules, look.At)
		v.Gate(look.Node, breaker, rules)
		rep.Census.Judged(f.File, v)
		if v.Decision == policy.Wait && v.Due > 0 {
			waits := v.Due <= max(rules.Hold, rules.Settle)
			rep.Pending = rep.Pending || waits
			if rep.Next == 0 || v.Due < rep.Next {
				rep.Next = v.Due
			}
		}
		// What goes is alike; what stays has its own place, so that it is seen beside 300,000 that go.
		n := &rep.staying
		if v.Decision == policy.Reap {
			n, dead = &rep.going, append(dead, f)
		}
		if w.opt.room(n) {
			rep.Files, rep.Verdicts = append(rep.Files, f.File), append(rep.Verdicts, v)
		}
	}
	return dead
}

// room says whether another file of its kind may be reported, and counts it.
func (opt Options) room(n *int) bool {
	if opt.Files >= 0 && *n >= opt.Files {
		return false
	}
	*n++
	return true
}

// ended takes in what became of files.
func (w *sweep) ended(outs []Outcome) {
	for _, o := range outs {
		w.rep.Census.Ended(o)
		n := &w.rep.done
		if o.Result == policy.Failed || o.Result == policy.Refused {
			n = &w.rep.undone
		}
		if w.opt.room(n) {
			w.rep.Outcomes = append(w.rep.Outcomes, o)
		}
	}
}
