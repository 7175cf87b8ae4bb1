package cnisweep

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/who"
	"github.com/orphan-reaper/orphan-reaper/reaper/progress"
)

// Drop drops one archive for ever, by a person's word.
func (s *Sweeper) Drop(name string) error { return s.Archive.DropArchive(name) }

// Restore writes back what an archive holds, by a person's word: all of one archive, or of
// every archive what belonged to one pod, the youngest first.
func (s *Sweeper) Restore(ctx context.Context, which string) (cni.Restored, error) {
	if uid, isPod := parsers.ParsePodUID(which); isPod {
		return s.restore(ctx, wanted{
			which: which, doing: "looking for its CNI files in the archives",
			from: func(string) bool { return true }, meant: func(c cni.Content) bool { return c.File.UID == uid },
		})
	}
	return s.restoreAll(ctx, "archive", which, func(archive string) bool { return archive == which })
}

// RestoreBatch writes back what all archives of one sweep hold, by a person's word. Any of
// them names it.
func (s *Sweeper) RestoreBatch(ctx context.Context, which string) (cni.Restored, error) {
	batch := cni.BatchOf(which)
	return s.restoreAll(ctx, "batch", batch, func(archive string) bool { return cni.BatchOf(archive) == batch })
}

// restoreAll writes back all that some archives hold, which together are what.
func (s *Sweeper) restoreAll(ctx context.Context, what, which string, from func(archive string) bool) (cni.Restored, error) {
	done, err := s.restore(ctx, wanted{
		which: which, doing: "putting CNI files back", from: from, meant: func(cni.Content) bool { return true },
	})
	if err == nil && done.All() == 0 {
		return done, fmt.Errorf("cannot find the %s %s: orphan-reaper quarantine list shows what is there", what, strings.TrimSpace(which))
	}
	return done, err
}

// wanted is what a person wants back.
type wanted struct {
	which string // stands in the record
	doing string // for who waits
	from  func(archive string) bool
	meant func(cni.Content) bool
}

// restore writes back what is meant of some archives, a batch of files at a time, and writes down what came
// back, also where an archive cannot be read.
func (s *Sweeper) restore(ctx context.Context, want wanted) (cni.Restored, error) {
	var done cni.Restored
	archives, err := s.Archive.Archives()
	if err != nil {
		return done, err
	}
	archives = slices.DeleteFunc(archives, func(a cni.ArchiveState) bool { return !want.from(a.Name) })
	work, files := progress.From(ctx), int64(0)
	for _, a := range archives {
		files += a.Files
	}
	work.Begin(want.doing, "file", files)
	for _, a := range slices.Backward(archives) {
		// What a crash cut short is not finished any more: a person wants it back.
		if e := s.Ledger.Entries()[a.Name]; e != nil && e.Phase == policy.PhaseCNIRemoving {
			cut := cni.RemovedRecord(a.Name, nil, policy.Node{}, s.Clock.Now())
			cut.By = who.Known(e.By)
			if _, err = s.Ledger.Append(cut); err != nil {
				err = fmt.Errorf("cannot write to the ledger: %w", err)
				break
			}
		}
		err = s.eachBatch(a.Name, func(c cni.Content) bool {
			if !want.meant(c) {
				work.Add(1)
				return false
			}
			return true
		}, func(files []cni.Content) {
			done.Add(s.Remover.RestoreCNI(ctx, files))
			work.Add(int64(len(files)))
		})
		if err != nil {
			break
		}
	}
	if done.Done+done.Failed == 0 {
		return done, err // all of it is there already: nothing was done that a record could tell
	}
	if _, wrote := s.Ledger.Append(done.Record(want.which, s.Clock.Now())); wrote != nil {
		err = errors.Join(err, fmt.Errorf("cannot write to the ledger what was put back: %w", wrote))
	}
	return done, err
}

// eachBatch reads the files of an archive that are meant, some at a time.
func (s *Sweeper) eachBatch(name string, meant func(cni.Content) bool, do func([]cni.Content)) error {
	var files []cni.Content
	err := s.Archive.ReadArchive(name, func(c cni.Content) error {
		if !meant(c) {
			return nil
		}
		if files = append(files, c); len(files) == batchSize {
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
