package cnisweep

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/cni"
)

// Drop drops one archive for ever, by a person's word.
func (s *Sweeper) Drop(name string) error { return s.Archive.DropArchive(name) }

// Restore writes back what an archive holds, by a person's word: all of one archive, or of
// every archive what belonged to one pod, the youngest first.
func (s *Sweeper) Restore(ctx context.Context, which string) ([]cni.Outcome, error) {
	uid, isPod := parsers.ParsePodUID(which)
	outs, err := s.restore(ctx, which, func(archive string) bool { return isPod || archive == which },
		func(c cni.Content) bool { return !isPod || c.File.UID == uid })
	if err == nil && len(outs) == 0 && !isPod {
		return nil, noArchive("archive", which)
	}
	return outs, err
}

// RestoreBatch writes back what all archives of one sweep hold, by a person's word. Any of
// them names it.
func (s *Sweeper) RestoreBatch(ctx context.Context, which string) ([]cni.Outcome, error) {
	batch := cni.BatchOf(which)
	outs, err := s.restore(ctx, batch, func(archive string) bool { return cni.BatchOf(archive) == batch },
		func(cni.Content) bool { return true })
	if err == nil && len(outs) == 0 {
		return nil, noArchive("batch", which)
	}
	return outs, err
}

func noArchive(what, name string) error {
	return fmt.Errorf("cannot find the %s %s: orphan-reaper quarantine list shows what is there", what, strings.TrimSpace(name))
}

// restore writes back what is meant of some archives. which stands in the record.
func (s *Sweeper) restore(
	ctx context.Context, which string, from func(archive string) bool, meant func(cni.Content) bool,
) ([]cni.Outcome, error) {
	archives, err := s.Archive.Archives()
	if err != nil {
		return nil, err
	}
	var outs []cni.Outcome
	for _, a := range slices.Backward(archives) {
		if !from(a.Name) {
			continue
		}
		// What a crash cut short is not finished any more: a person wants it back.
		if e := s.Ledger.Entries()[a.Name]; e != nil && e.Phase == policy.PhaseCNIRemoving {
			if _, err := s.Ledger.Append(cni.RemovedRecord(a.Name, nil, policy.Node{}, s.Clock.Now())); err != nil {
				return outs, fmt.Errorf("cannot write to the ledger: %w", err)
			}
		}
		err := s.eachBatch(a.Name, meant, func(files []cni.Content) {
			outs = append(outs, s.Remover.RestoreCNI(ctx, files)...)
		})
		if err != nil {
			return outs, err
		}
	}
	if !slices.ContainsFunc(outs, func(o cni.Outcome) bool { return o.Result != policy.Gone }) {
		return outs, nil // all of it is there already: nothing was done that a record could tell
	}
	if _, err := s.Ledger.Append(cni.RestoredRecord(which, outs, s.Clock.Now())); err != nil {
		return outs, fmt.Errorf("cannot write to the ledger what was put back: %w", err)
	}
	return outs, nil
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
