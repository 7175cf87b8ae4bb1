package cni

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/progress"
)

// Restore writes back, for an operator, all files of one archive, or the files of one pod from every archive, newest
// first. The caller holds the ledger's lock.
func (s *Sweeper) Restore(ctx context.Context, which string) (Restored, error) {
	if uid, isPod := parsers.ParsePodUID(which); isPod {
		r := restoring{Sweeper: s, which: which, wanted: func(f *File) bool { return f.UID == uid }}
		err := r.restore(ctx, "looking for its CNI files in the archives", func(string) bool { return true })
		return r.done, err
	}
	return s.restoreAll(ctx, "archive", which, func(archive string) bool { return archive == which })
}

// RestoreBatch writes back, for an operator, the files of all archives of one sweep. which is the name of any of them.
func (s *Sweeper) RestoreBatch(ctx context.Context, which string) (Restored, error) {
	batch := BatchOf(which)
	return s.restoreAll(ctx, "batch", batch, func(archive string) bool { return BatchOf(archive) == batch })
}

// restoreAll writes back all files of some archives.
func (s *Sweeper) restoreAll(ctx context.Context, what, which string, from func(archive string) bool) (Restored, error) {
	r := restoring{Sweeper: s, wanted: func(*File) bool { return true }}
	err := r.restore(ctx, "putting CNI files back", from)
	if err == nil && r.done.All() == 0 {
		err = fmt.Errorf("cannot find the %s %s: orphan-reaper quarantine list shows what is there", what, strings.TrimSpace(which))
	}
	return r.done, err
}

// restoring is one running restore.
type restoring struct {
	*Sweeper

	which  string           // what the records name, or "" for each archive's name
	wanted func(*File) bool // reports which files to restore
	done   Restored
	// records could not be written yet because of the error unwritten.
	records   []policy.Record
	unwritten error
}

// restore writes back the wanted files, a batch at a time, and records each batch before the next. It
// skips an archive that cannot be read.
func (r *restoring) restore(ctx context.Context, doing string, from func(archive string) bool) error {
	archives, err := r.Archive.Archives()
	if err != nil {
		return err
	}
	archives = slices.DeleteFunc(archives, func(a ArchiveState) bool { return !from(a.Name) })
	work, files := progress.From(ctx), int64(0)
	for _, a := range archives {
		files += a.Files
	}
	work.Begin(doing, "file", files)
	var errs []error
	for i, a := range slices.Backward(archives) {
		if ctx.Err() != nil {
			errs = append(errs, fmt.Errorf("interrupted: %d of %d archives were not read; run the same command to continue", i+1, len(archives)))
			break
		}
		errs = append(errs, r.archive(ctx, a.Name))
	}
	return errors.Join(append(errs, r.unwritten)...)
}

// archive writes back the wanted files of one archive.
func (r *restoring) archive(ctx context.Context, name string) error {
	// A removal that a crash interrupted must not be finished after a restore.
	if e := r.Ledger.Entries()[name]; e != nil && e.Phase == policy.PhaseCNIRemoving {
		cut := RemovedRecord(name, nil, policy.Node{}, r.Clock.Now())
		cut.By = policy.KnownUser(e.By)
		if _, err := r.Ledger.Append(cut); err != nil {
			return fmt.Errorf("cannot write to the ledger, so nothing of the archive %s was put back: %w", name, err)
		}
	}
	work := progress.From(ctx)
	return r.eachBatch(name, func(f *File) bool {
		if !r.wanted(f) {
			work.Add(1)
			return false
		}
		return true
	}, func(files []File) {
		ended := r.Remover.RestoreCNI(ctx, policy.Standing{ByPerson: true}.Gate(), files)
		r.done.Add(ended)
		r.write(ended, cmp.Or(r.which, name))
		work.Add(int64(len(files)))
	})
}

// write records the results of a batch, and earlier ones that could not be recorded. Files that existed need no
// record.
func (r *restoring) write(ended []File, which string) {
	var batch Restored
	if batch.Add(ended); batch.Done+batch.Failed == 0 {
		return
	}
	r.records = append(r.records, batch.Record(which, r.Clock.Now()))
	if _, err := r.Ledger.Append(r.records...); err != nil {
		r.unwritten = fmt.Errorf("cannot write to the ledger what was put back: %w", err)
		return
	}
	r.records, r.unwritten = nil, nil
}

// eachBatch calls do with the wanted files of an archive, at most batchSize at a time.
func (s *Sweeper) eachBatch(name string, wanted func(*File) bool, do func([]File)) error {
	var files []File
	err := s.Archive.ReadArchive(name, func(f File) error {
		if !wanted(&f) {
			return nil
		}
		if files = append(files, f); len(files) == batchSize {
			do(files)
			files = files[:0]
		}
		return nil
	})
	if len(files) > 0 {
		do(files)
	}
	return err
}
