package cni

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// batchSize is the number of files in one archive.
const batchSize = 2048

// batch is an archived and recorded set of files that is being removed.
type batch struct {
	archive string
	node    policy.Node
	ended   chan []File
}

// begin archives a batch, waits for the batch before it, records the intent, and begins to remove the files. The next
// batch is archived meanwhile, since both wait for the disk.
func (w *sweep) begin(ctx context.Context, files []File, n policy.Node) {
	permit := w.permit(n)
	if !permit.MayRemove() {
		return // judge has kept the files, unless the breaker opened since
	}
	w.Prober.StillCNI(ctx, files)
	keep := w.unchanged(files)
	if len(keep) == 0 {
		return
	}
	now := w.Clock.Now()
	if w.name == "" {
		w.name = w.batchName(now)
	}
	w.archives++
	name := batchArchive(w.name, w.archives)
	if err := w.Archive.Archive(name, now, keep); err != nil {
		w.fail(ctx, keep, "cannot write the archive "+name, err)
		return
	}
	w.wait()
	if _, err := w.Ledger.Append(RemovingRecord(name, keep, n, now)); err != nil {
		w.fail(ctx, keep, "cannot write to the ledger", err)
		return
	}
	w.running = &batch{archive: name, node: n, ended: make(chan []File, 1)}
	go func(ended chan<- []File) { ended <- w.Remover.RemoveCNI(ctx, permit, keep) }(w.running.ended)
}

// unchanged returns the files that were read completely and have not changed. It records the others as refused.
func (w *sweep) unchanged(files []File) []File {
	keep := make([]File, 0, len(files)) // a copy, so that the chunk can be freed
	for i := range files {
		if f := &files[i]; f.Err != "" {
			w.addResults(Ended(files[i:i+1], policy.Refused, errors.New(f.Err)))
		} else {
			keep = append(keep, *f)
		}
	}
	return keep
}

// wait waits for the running batch and records its results.
func (w *sweep) wait() {
	if w.running == nil {
		return
	}
	b := w.running
	files := <-b.ended
	w.running = nil
	if _, err := w.Ledger.Append(RemovedRecord(b.archive, files, b.node, w.Clock.Now())); err != nil {
		w.addError("cannot write to the ledger what was removed; the archive "+b.archive+" has it", err)
	}
	if !slices.ContainsFunc(files, func(f File) bool { return f.Result != policy.Refused }) {
		// Every file is still in place. If a process never releases a lock, every sweep would add such an archive.
		if err := w.Archive.DropArchive(b.archive); err != nil {
			w.addError("cannot drop the archive "+b.archive+", of which nothing was removed", err)
		}
	}
	w.addRemoved(b.archive, files)
}

// addRemoved adds the results of archived files, and the command that restores the removed ones.
func (w *sweep) addRemoved(archive string, files []File) {
	removed := slices.ContainsFunc(files, func(f File) bool { return f.Result == policy.Done })
	if undo := Undo(archive); removed && !slices.Contains(w.rep.Undo, undo) {
		w.rep.Undo = append(w.rep.Undo, undo)
	}
	w.addResults(files)
}

func (w *sweep) addError(what string, err error) {
	w.rep.Errors = append(w.rep.Errors, what+": "+err.Error())
}

// fail keeps the files of a batch that cannot be archived or recorded, and all later files: the next archive would
// fail too, and fill the disk again.
func (w *sweep) fail(ctx context.Context, keep []File, what string, err error) {
	w.aborted = true
	text := what + ", so nothing more of CNI is removed: " + err.Error()
	w.addResults(Ended(keep, policy.Failed, errors.New(what)))
	w.rep.Errors = append(w.rep.Errors, text)
	w.Log.ErrorContext(ctx, "the sweep over the CNI directories was cut short", slog.String("error", text))
}

// finish completes a removal that a crash interrupted: the ledger has the intent without an outcome. It removes
// files that still equal the archive, since their sandbox was proved gone and container IDs are never reused,
// and keeps the rest.
func (w *sweep) finish(ctx context.Context, permit policy.Permit) {
	for name, e := range w.Ledger.Entries() {
		if e.Phase != policy.PhaseCNIRemoving {
			continue
		}
		var ended []File
		err := w.eachBatch(name, func(*File) bool { return true }, func(files []File) {
			ended = append(ended, w.Remover.RemoveCNI(ctx, permit, files)...)
		})
		rec := RemovedRecord(name, ended, policy.Node{}, w.Clock.Now())
		rec.By = policy.KnownUser(e.By)
		if err != nil {
			rec.Err = err.Error()
			w.addError("cannot finish what the archive "+name+" was made for", err)
		}
		if _, err := w.Ledger.Append(rec); err != nil {
			w.addError("cannot write to the ledger what was removed; the archive "+name+" has it", err)
			return
		}
		w.addRemoved(name, ended)
	}
}

// batchName names the archives of a sweep by their time. The names of two sweeps differ, even within one millisecond
// or after the clock was set back.
func (s *Sweeper) batchName(now policy.Instant) string {
	at := now.Wall.Truncate(time.Millisecond)
	if !at.After(s.lastArchive) {
		at = s.lastArchive.Add(time.Millisecond)
	}
	s.lastArchive = at
	return ArchivePrefix + strings.ReplaceAll(at.UTC().Format("20060102-150405.000"), ".", "-")
}

// dropOld drops the archives that are older than the retention. An archive that cannot be read is kept, since its age
// is unknown, and so is one whose removal has no outcome yet, since finish needs it. No kind of record is about an
// archive alone, so the log has what was dropped.
func (w *sweep) dropOld(ctx context.Context) {
	archives, err := w.Archive.Archives()
	if err != nil {
		w.addError("cannot list the archives", err)
		return
	}
	now, entries := w.Clock.Now(), w.Ledger.Entries()
	for _, a := range archives {
		e := entries[a.Name]
		if left, known := a.DropIn(w.Rules.Retention, now); !known || left > 0 || e != nil && e.Phase == policy.PhaseCNIRemoving {
			continue
		}
		if err := w.Archive.DropArchive(a.Name); err != nil {
			w.addError("cannot drop the archive "+a.Name, err)
			continue
		}
		w.Log.InfoContext(ctx, "an archive of CNI files was removed after its retention", slog.String("archive", a.Name))
	}
}
