package reaper

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/cni"
)

// CNI is what a sweep over the CNI directories needs; with a nil Prober they are left
// alone.
//
// The same one way leads through it as through a pass over the pods: look, judge, write
// down, change, write down. A look is a chunk of the files, so that 300,000 of them need no
// more memory than a few thousand; and what is taken is archived first, since nothing can
// be moved aside where the directories are on another file system, or on tmpfs.
type CNI struct {
	Prober  CNIProber
	Remover CNIRemover // nil where nothing may change
	Archive CNIArchive
}

// CNIProber reads the CNI directories and changes nothing.
type CNIProber interface {
	// SweepCNI begins a sweep. Each Next lists some files and reads them, and only then asks
	// the runtime and the node: what is made in between is in the answer, and not among the
	// files. False when all have been read.
	SweepCNI() CNISweep
	// ReadCNI reads the files once more, whole, for the archive, up to what it can hold.
	ReadCNI(ctx context.Context, files []cni.File) []cni.Content
}

// CNISweep is one sweep under way.
type CNISweep interface {
	Next(ctx context.Context) (cni.Look, bool)
	Close()
}

// CNIRemover is the only thing that changes the CNI directories.
type CNIRemover interface {
	// TakeCNI unlinks those files that are still what was archived.
	TakeCNI(ctx context.Context, files []cni.Content) []cni.Outcome
	// RestoreCNI writes files back that are not there, an address only if it is free.
	RestoreCNI(ctx context.Context, files []cni.Content) []cni.Outcome
}

// CNIArchive keeps what was taken, each batch whole and synced before the first unlink.
type CNIArchive interface {
	Archive(name string, files []cni.Content) error
	Archives() ([]cni.ArchiveState, error)
	ReadArchive(name string, each func(cni.Content) error) error
	DropArchive(name string) error
}

// CNIReport is what one sweep over the CNI directories found and did.
type CNIReport struct {
	// Swept is false where no sweep was due, or none could be taken.
	Swept bool
	At    policy.Instant
	// Files and their verdicts, without those of living pods, and the outcomes of those that
	// were taken or would not go, as many of each as Options.CNIFiles says. The census has all.
	Files    []cni.File
	Verdicts []policy.Verdict
	Outcomes []cni.Outcome
	Census   cni.Census
	Errors   []string
	// Next is when time alone could take a file further, 0 where it cannot; Pending where
	// that is worth waiting for.
	Next    time.Duration
	Pending bool
	// How many files and outcomes are reported, by what became of them.
	going, staying, done, undone int
}

// cniEvery is how often the CNI directories are swept where nothing asks for it.
const cniEvery = time.Hour

// due says how long from now the next sweep is worth while.
func (rep *CNIReport) due() time.Duration {
	if rep.Pending {
		return max(rep.Next, time.Second)
	}
	return cniEvery
}

// merge adds a later sweep: newer verdicts win, outcomes add up.
func (rep *CNIReport) merge(later CNIReport) {
	if !later.Swept {
		return
	}
	later.Outcomes = append(rep.Outcomes, later.Outcomes...)
	later.Census = rep.Census.Merge(later.Census)
	later.Errors = append(rep.Errors, later.Errors...)
	*rep = later
}

// mostCNIErrors bounds what one sweep says of what could not be read: each network that a
// tenant has made may be such a word.
const mostCNIErrors = 100

// complain adds words about what could not be read.
func (rep *CNIReport) complain(errors ...string) {
	for _, e := range errors {
		switch n := len(rep.Errors); {
		case n > mostCNIErrors || slices.Contains(rep.Errors, e):
		case n == mostCNIErrors:
			rep.Errors = append(rep.Errors, "more of CNI's directories could not be read")
		default:
			rep.Errors = append(rep.Errors, e)
		}
	}
}

// Batches of files: what is read at once for the archive, and fsynced together.
const cniBatch = 2048

// sweepCNI takes one sweep over the CNI directories.
func (r *Reaper) sweepCNI(ctx context.Context, opt Options) CNIReport {
	rep := CNIReport{Swept: true, At: r.Clock.Now(), Census: cni.NewCensus()}
	if !opt.DryRun && !r.Rules.Observe && r.CNI.Remover != nil {
		r.finishCNI(ctx, &rep, opt)
	}
	reaped := r.reapedPods()
	sweep := r.CNI.Prober.SweepCNI()
	defer sweep.Close()
	taking := &taking{Reaper: r, rep: &rep, opt: opt}
	for ctx.Err() == nil {
		look, ok := sweep.Next(ctx)
		if !ok {
			break
		}
		rep.complain(look.Errors...)
		r.memory.CNI.Learn(look.Listed, look.Node.RuntimeLists.Truth, r.Rules.Hold, look.At)
		take := r.judgeCNI(&rep, look, reaped, opt)
		for batch := range slices.Chunk(take, cniBatch) {
			if opt.DryRun || r.CNI.Remover == nil || taking.over {
				break
			}
			taking.next(ctx, batch, look.Node)
		}
	}
	taking.wait()
	if !opt.DryRun && !r.Rules.Observe && r.CNI.Remover != nil {
		r.dropArchives(&rep, r.Clock.Now())
	}
	slices.Sort(rep.Errors)
	rep.Errors = slices.Compact(rep.Errors)
	return rep
}

// judgeCNI judges the files of one look and returns those to take.
func (r *Reaper) judgeCNI(rep *CNIReport, look cni.Look, reaped map[parsers.PodUID]bool, opt Options) []cni.File {
	rep.Census.Add(look)
	gate := policy.Gate{Breaker: r.Ledger.BreakerOpen(), Proven: true}
	take := look.Files[:0] // a chunk is some megabytes, of which one copy is enough
	for _, f := range look.Files {
		if len(opt.Only) > 0 && !slices.Contains(opt.Only, f.UID) {
			continue
		}
		f.Reaped = f.UID != "" && reaped[f.UID]
		v := cni.Judge(f, look.Node, r.memory.CNI.Older, r.Rules, look.At)
		v.Gate(look.Node, gate, r.Rules)
		rep.Census.Judged(f, v)
		if v.Decision == policy.Wait && v.Due > 0 {
			waits := v.Due <= max(r.Rules.Hold, r.Rules.Settle)
			rep.Pending = rep.Pending || waits
			if rep.Next == 0 || v.Due < rep.Next {
				rep.Next = v.Due
			}
		}
		// What goes is alike; what stays has its own place, so that it is seen beside 300,000 that go.
		if rep.room(v.Decision != policy.Reap, opt) {
			rep.Files, rep.Verdicts = append(rep.Files, f), append(rep.Verdicts, v)
		}
		if v.Decision == policy.Reap {
			take = append(take, f)
		}
	}
	return take
}

// taking takes batches of files: while one is removed, the next is read and archived, since
// both wait for the disk. At most one batch is being removed.
type taking struct {
	*Reaper
	rep  *CNIReport
	opt  Options
	node policy.Node
	name string // the archive of the batch that is being removed
	// sweep names the archives of this sweep together, and archives counts them.
	sweep    string
	archives int
	over     bool // nothing more is taken
	outs     chan []cni.Outcome
}

// next takes one batch, in as many parts as its files are long.
func (t *taking) next(ctx context.Context, batch []cni.File, n policy.Node) {
	for len(batch) > 0 && !t.over {
		keep, later := t.read(ctx, batch)
		if len(keep) > 0 {
			t.take(ctx, keep, n)
		}
		if len(later) == len(batch) {
			return // no batch is large enough for any of them; they stay
		}
		batch = later
	}
}

// read reads the files of a batch for the archive, and returns those that have to wait for
// the next: one batch is held in memory as a whole.
func (t *taking) read(ctx context.Context, batch []cni.File) (keep []cni.Content, later []cni.File) {
	contents := t.CNI.Prober.ReadCNI(ctx, batch)
	keep = contents[:0]
	for _, c := range contents {
		switch {
		case c.Later:
			later = append(later, c.File)
		case c.Err != "":
			t.ended([]cni.Outcome{{File: c.File, Result: policy.Refused, Err: c.Err}})
		default:
			keep = append(keep, c)
		}
	}
	return keep, later
}

// take archives and writes down what was read, waits for the batch before it, and begins to
// remove it.
func (t *taking) take(ctx context.Context, keep []cni.Content, n policy.Node) {
	now := t.Clock.Now()
	if t.sweep == "" {
		t.sweep = t.batchName(now)
	}
	t.archives++
	name := cni.BatchArchive(t.sweep, t.archives)
	if err := t.CNI.Archive.Archive(name, keep); err != nil {
		t.fail(ctx, keep, "cannot write the archive "+name, err)
		return
	}
	t.wait()
	if _, err := t.Ledger.Append(cni.Sweeping(name, keep, n, now)); err != nil {
		t.fail(ctx, keep, "cannot write to the ledger", err)
		return
	}
	t.name, t.node, t.outs = name, n, make(chan []cni.Outcome, 1)
	go func(outs chan<- []cni.Outcome) { outs <- t.CNI.Remover.TakeCNI(ctx, keep) }(t.outs)
}

// wait waits until the batch under way has been removed, and writes down how it ended.
func (t *taking) wait() {
	if t.outs == nil {
		return
	}
	outs := <-t.outs
	t.outs = nil
	if _, err := t.Ledger.Append(cni.Swept(t.name, outs, t.node, t.Clock.Now())); err != nil {
		t.rep.Errors = append(t.rep.Errors, "cannot write to the ledger what was taken; the archive "+t.name+" has it: "+err.Error())
	}
	if untouched(outs) {
		// Nothing is in it that is not where it was: where a dead writer holds a lock for ever,
		// every sweep would leave another such archive.
		if err := t.CNI.Archive.DropArchive(t.name); err != nil {
			t.rep.Errors = append(t.rep.Errors, "cannot drop the archive "+t.name+", of which nothing was taken: "+err.Error())
		}
	}
	t.ended(outs)
}

// untouched says that nothing was changed of any of the files.
func untouched(outs []cni.Outcome) bool {
	return !slices.ContainsFunc(outs, func(o cni.Outcome) bool { return o.Result != policy.Refused })
}

// fail ends the taking where it cannot be undone or told: the files of the batch stay, and so
// does all that comes after it, since the next archive would fare no better and the disk that
// is full would be filled again and again.
func (t *taking) fail(ctx context.Context, keep []cni.Content, what string, err error) {
	t.over = true
	text := what + ", so nothing more of CNI is taken: " + err.Error()
	outs := make([]cni.Outcome, len(keep))
	for i := range keep {
		outs[i] = cni.Outcome{File: keep[i].File, Result: policy.Failed, Err: what}
	}
	t.ended(outs)
	t.rep.Errors = append(t.rep.Errors, text)
	t.Log.ErrorContext(ctx, "the sweep over the CNI directories was cut short", slog.String("error", text))
}

func (t *taking) ended(outs []cni.Outcome) {
	for _, o := range outs {
		t.rep.Census.Ended(o)
		if t.rep.roomFor(o, t.opt) {
			t.rep.Outcomes = append(t.rep.Outcomes, o)
		}
	}
}

// room says whether another file of its kind may be reported, and counts it.
func (rep *CNIReport) room(stays bool, opt Options) bool {
	n := &rep.going
	if stays {
		n = &rep.staying
	}
	if opt.CNIFiles >= 0 && *n >= opt.CNIFiles {
		return false
	}
	*n++
	return true
}

// roomFor says whether another outcome of its kind may be reported, and counts it.
func (rep *CNIReport) roomFor(o cni.Outcome, opt Options) bool {
	n := &rep.done
	if o.Result == policy.Failed || o.Result == policy.Refused {
		n = &rep.undone
	}
	if opt.CNIFiles >= 0 && *n >= opt.CNIFiles {
		return false
	}
	*n++
	return true
}

// finishCNI ends what a crash cut short: the ledger has the intent and not the outcome. What
// is still what was archived goes now, since it was proved dead and its container's ID never
// comes back; the rest stays.
func (r *Reaper) finishCNI(ctx context.Context, rep *CNIReport, opt Options) {
	for name, e := range r.Ledger.Entries() {
		if e.Phase != policy.PhaseSweeping {
			continue
		}
		var outs []cni.Outcome
		err := r.eachBatch(name, func(cni.Content) bool { return true }, func(batch []cni.Content) {
			outs = append(outs, r.CNI.Remover.TakeCNI(ctx, batch)...)
		})
		rec := cni.Swept(name, outs, policy.Node{}, r.Clock.Now())
		if err != nil {
			rec.Err = err.Error()
			rep.Errors = append(rep.Errors, "cannot finish what the archive "+name+" was made for: "+err.Error())
		}
		if _, err := r.Ledger.Append(rec); err != nil {
			rep.Errors = append(rep.Errors, "cannot write to the ledger what was taken; the archive "+name+" has it: "+err.Error())
			return
		}
		(&taking{rep: rep, opt: opt}).ended(outs)
	}
}

// eachBatch reads the files of an archive that are meant, some at a time.
func (r *Reaper) eachBatch(name string, meant func(cni.Content) bool, do func([]cni.Content)) error {
	var batch []cni.Content
	err := r.CNI.Archive.ReadArchive(name, func(c cni.Content) error {
		if !meant(c) {
			return nil
		}
		if batch = append(batch, c); len(batch) == cniBatch {
			do(batch)
			batch = batch[:0]
		}
		return nil
	})
	if len(batch) > 0 {
		do(batch)
	}
	return err
}

// batchName names the archives of a sweep by their time, and no two sweeps alike: they may come
// within one millisecond, and the clock may be set back.
func (r *Reaper) batchName(now policy.Instant) string {
	at := now.Wall.Truncate(time.Millisecond)
	if !at.After(r.lastArchive) {
		at = r.lastArchive.Add(time.Millisecond)
	}
	r.lastArchive = at
	return cni.ArchivePrefix + strings.ReplaceAll(at.UTC().Format("20060102-150405.000"), ".", "-")
}

// reapedPods lists the pods whose directories were taken and confirmed dead. What CNI left
// of those needs no other age than a hold.
func (r *Reaper) reapedPods() map[parsers.PodUID]bool {
	reaped := map[parsers.PodUID]bool{}
	for _, e := range r.Ledger.Entries() {
		if e.Phase == policy.PhaseHeld || e.Phase == policy.PhasePurging || e.Phase == policy.PhaseGone && e.Taken != nil {
			reaped[e.UID] = true
		}
	}
	return reaped
}

// dropArchives drops the archives that are older than the retention: what they hold is
// caches of sandboxes long gone.
func (r *Reaper) dropArchives(rep *CNIReport, now policy.Instant) {
	archives, err := r.CNI.Archive.Archives()
	if err != nil {
		rep.Errors = append(rep.Errors, "cannot list the archives: "+err.Error())
		return
	}
	for _, a := range archives {
		if a.Err != "" || now.Wall.Sub(a.At) < r.Rules.Retention { // nobody knows the age of what cannot be read
			continue
		}
		if err := r.CNI.Archive.DropArchive(a.Name); err != nil {
			rep.Errors = append(rep.Errors, "cannot drop the archive "+a.Name+": "+err.Error())
		}
	}
}

// DropArchive drops one archive for ever, by a person's word.
func (r *Reaper) DropArchive(ctx context.Context, name string) error {
	leave, err := r.Ledger.Enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	return r.CNI.Archive.DropArchive(name)
}

// RestoreCNI writes back what an archive holds, by a person's word: all of one archive, or
// of every archive what belonged to one pod, the youngest first.
func (r *Reaper) RestoreCNI(ctx context.Context, which string) ([]cni.Outcome, error) {
	uid, isPod := parsers.ParsePodUID(which)
	outs, err := r.restoreCNI(ctx, which, func(archive string) bool { return isPod || archive == which },
		func(c cni.Content) bool { return !isPod || c.File.UID == uid })
	if err == nil && len(outs) == 0 && !isPod {
		return nil, noArchive("archive", which)
	}
	return outs, err
}

// RestoreBatch writes back what all archives of one sweep hold, by a person's word. Any of
// them names it.
func (r *Reaper) RestoreBatch(ctx context.Context, which string) ([]cni.Outcome, error) {
	batch := cni.BatchOf(which)
	outs, err := r.restoreCNI(ctx, batch, func(archive string) bool { return cni.BatchOf(archive) == batch },
		func(cni.Content) bool { return true })
	if err == nil && len(outs) == 0 {
		return nil, noArchive("batch", which)
	}
	return outs, err
}

func noArchive(what, name string) error {
	return fmt.Errorf("cannot find the %s %s: orphan-reaper quarantine list shows what is there", what, strings.TrimSpace(name))
}

// restoreCNI writes back what is meant of some archives. which stands in the record.
func (r *Reaper) restoreCNI(
	ctx context.Context, which string, from func(archive string) bool, meant func(cni.Content) bool,
) ([]cni.Outcome, error) {
	leave, err := r.Ledger.Enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	archives, err := r.CNI.Archive.Archives()
	if err != nil {
		return nil, err
	}
	var outs []cni.Outcome
	for _, a := range slices.Backward(archives) {
		if !from(a.Name) {
			continue
		}
		// What a crash cut short is not finished any more: a person wants it back.
		if e := r.Ledger.Entries()[a.Name]; e != nil && e.Phase == policy.PhaseSweeping {
			if _, err := r.Ledger.Append(cni.Swept(a.Name, nil, policy.Node{}, r.Clock.Now())); err != nil {
				return outs, fmt.Errorf("cannot write to the ledger: %w", err)
			}
		}
		err := r.eachBatch(a.Name, meant, func(batch []cni.Content) {
			outs = append(outs, r.CNI.Remover.RestoreCNI(ctx, batch)...)
		})
		if err != nil {
			return outs, err
		}
	}
	if len(outs) == 0 {
		return nil, nil
	}
	if _, err := r.Ledger.Append(cni.Unswept(which, outs, r.Clock.Now())); err != nil {
		return outs, fmt.Errorf("cannot write to the ledger what was put back: %w", err)
	}
	var rep Report
	r.tell(&rep, nil)
	return outs, nil
}
