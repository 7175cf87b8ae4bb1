package cni

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/who"
)

// batchSize is how many files have one archive, and are synced together.
const batchSize = 2048

// batch is what was archived and written down, and is being removed.
type batch struct {
	archive string
	node    policy.Node
	outs    chan []Outcome
}

// begin archives a batch and writes it down, waits for the one before it, and begins to remove it:
// while one is removed the next is archived, since both wait for the disk.
func (w *sweep) begin(ctx context.Context, files []Content, n policy.Node) {
	permit := w.permit(n)
	if !permit.Removes() {
		return // judge has kept them already, unless the breaker opened since
	}
	w.Prober.StillCNI(ctx, files)
	keep := w.whole(files)
	if len(keep) == 0 {
		return
	}
	now := w.Clock.Now()
	if w.name == "" {
		w.name = w.batchName(now)
	}
	w.archives++
	name := BatchArchive(w.name, w.archives)
	if err := w.Archive.Archive(name, keep); err != nil {
		w.fail(ctx, keep, "cannot write the archive "+name, err)
		return
	}
	w.wait()
	if _, err := w.Ledger.Append(RemovingRecord(name, keep, n, now)); err != nil {
		w.fail(ctx, keep, "cannot write to the ledger", err)
		return
	}
	w.under = &batch{archive: name, node: n, outs: make(chan []Outcome, 1)}
	go func(outs chan<- []Outcome) { outs <- w.Remover.RemoveCNI(ctx, permit, keep) }(w.under.outs)
}

// whole returns the files of which everything was read, and that still are what was; the others stay.
func (w *sweep) whole(files []Content) []Content {
	keep := make([]Content, 0, len(files)) // its own: the chunk's other contents end with the look
	for _, c := range files {
		if c.Err != "" {
			w.ended([]Outcome{{File: c.File, Result: policy.Refused, Err: c.Err}})
			continue
		}
		keep = append(keep, c)
	}
	return keep
}

// wait waits until the batch under way has been removed, and writes down how it ended.
func (w *sweep) wait() {
	if w.under == nil {
		return
	}
	b := w.under
	outs := <-b.outs
	w.under = nil
	if _, err := w.Ledger.Append(RemovedRecord(b.archive, outs, b.node, w.Clock.Now())); err != nil {
		w.errorf("cannot write to the ledger what was removed; the archive "+b.archive+" has it", err)
	}
	if untouched(outs) {
		// All that is in it is where it was. Where a dead writer holds a lock for ever,
		// every sweep would leave another such archive.
		if err := w.Archive.DropArchive(b.archive); err != nil {
			w.errorf("cannot drop the archive "+b.archive+", of which nothing was removed", err)
		}
	}
	w.took(b.archive, outs)
	w.ended(outs)
}

// took takes in by which command comes back what was removed.
func (w *sweep) took(archive string, outs []Outcome) {
	removed := slices.ContainsFunc(outs, func(o Outcome) bool { return o.Result == policy.Done })
	if undo := Undo(archive); removed && !slices.Contains(w.rep.Undo, undo) {
		w.rep.Undo = append(w.rep.Undo, undo)
	}
}

// untouched says that nothing was changed of any of the files.
func untouched(outs []Outcome) bool {
	return !slices.ContainsFunc(outs, func(o Outcome) bool { return o.Result != policy.Refused })
}

func (w *sweep) errorf(what string, err error) {
	w.rep.Errors = append(w.rep.Errors, what+": "+err.Error())
}

// fail ends the taking where it cannot be undone or told: the files of the batch stay, and so
// does all that comes after it, since the next archive would fare no better and the disk that
// is full would be filled again and again.
func (w *sweep) fail(ctx context.Context, keep []Content, what string, err error) {
	w.over = true
	text := what + ", so nothing more of CNI is taken: " + err.Error()
	outs := make([]Outcome, len(keep))
	for i := range keep {
		outs[i] = Outcome{File: keep[i].File, Result: policy.Failed, Err: what}
	}
	w.ended(outs)
	w.rep.Errors = append(w.rep.Errors, text)
	w.Log.ErrorContext(ctx, "the sweep over the CNI directories was cut short", slog.String("error", text))
}

// finish ends what a crash cut short: the ledger has the intent and not the outcome. What
// is still what was archived goes now, since it was proved dead and its container's ID never
// comes back; the rest stays.
func (w *sweep) finish(ctx context.Context, permit policy.Permit) {
	for name, e := range w.Ledger.Entries() {
		if e.Phase != policy.PhaseCNIRemoving {
			continue
		}
		var outs []Outcome
		err := w.eachBatch(name, func(Content) bool { return true }, func(files []Content) {
			outs = append(outs, w.Remover.RemoveCNI(ctx, permit, files)...)
		})
		rec := RemovedRecord(name, outs, policy.Node{}, w.Clock.Now())
		rec.By = who.Known(e.By)
		if err != nil {
			rec.Err = err.Error()
			w.errorf("cannot finish what the archive "+name+" was made for", err)
		}
		if _, err := w.Ledger.Append(rec); err != nil {
			w.errorf("cannot write to the ledger what was removed; the archive "+name+" has it", err)
			return
		}
		w.took(name, outs)
		w.ended(outs)
	}
}

// batchName names the archives of a sweep by their time, and no two sweeps alike: they may come
// within one millisecond, and the clock may be set back.
func (s *Sweeper) batchName(now policy.Instant) string {
	at := now.Wall.Truncate(time.Millisecond)
	if !at.After(s.lastArchive) {
		at = s.lastArchive.Add(time.Millisecond)
	}
	s.lastArchive = at
	return ArchivePrefix + strings.ReplaceAll(at.UTC().Format("20060102-150405.000"), ".", "-")
}

// dropOld drops the archives that are older than the retention.
func (w *sweep) dropOld() {
	archives, err := w.Archive.Archives()
	if err != nil {
		w.errorf("cannot list the archives", err)
		return
	}
	now := w.Clock.Now()
	for _, a := range archives {
		if !a.Expired(w.opt.Rules, now) {
			continue
		}
		if err := w.Archive.DropArchive(a.Name); err != nil {
			w.errorf("cannot drop the archive "+a.Name, err)
		}
	}
}
