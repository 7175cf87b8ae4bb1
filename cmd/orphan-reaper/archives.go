package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/app"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/ui"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

func isArchive(args []string) bool {
	return len(args) == 1 && strings.HasPrefix(args[0], cni.ArchivePrefix) && !strings.Contains(args[0], "/") // the name of a namespace may begin like one
}

// archive returns the configuration, and an error if there is no archive with this name, or of this batch.
func (a *cli) archive(ctx context.Context, name string, batch bool) (config.Config, error) {
	cfg, err := a.nodeConfig(ctx)
	if err != nil {
		return cfg, err
	}
	q, err := app.ReadQuarantine(cfg)
	if err := cmp.Or(err, q.Unread); err != nil {
		return cfg, err
	}
	is := func(s cni.ArchiveState) bool {
		return s.Name == name || batch && cni.BatchOf(s.Name) == cni.BatchOf(name)
	}
	if what := map[bool]string{false: "archive", true: "batch"}[batch]; !slices.ContainsFunc(q.Archives, is) {
		return cfg, exit.Failf(seeQuarantine, "there is no %s %s", what, clean.Text(name))
	}
	return cfg, nil
}

// restoreArchive puts the files of one archive back, or those of all archives of its sweep. What could be read of a
// damaged archive is put back and shown, too.
func (a *cli) restoreArchive(ctx context.Context, name string, batch bool) error {
	cfg, err := a.archive(ctx, name, batch)
	if err != nil {
		return err
	}
	restore := a.person.RestoreCNI
	if batch {
		name, restore = cni.BatchOf(name), a.person.RestoreBatch
	}
	done, err := restore(ctx, cfg, name)
	if err != nil && done.All() == 0 {
		return fmt.Errorf("cannot restore %s: %w", name, err)
	}
	if err != nil {
		err = fmt.Errorf("cannot restore all of %s: %w", name, err)
	}
	shown := a.write(ui.NewArchiveRestored(done), func(p *ui.Printer) { p.CNIRestored(done) })
	return errors.Join(shown, cniErrors(done), err)
}

func cniErrors(done cni.Restored) error {
	var errs []error
	for _, o := range done.Outcomes {
		if len(errs) < 10 && o.Result != policy.Done && o.Result != policy.Gone { // Gone: the same file is there
			errs = append(errs, fmt.Errorf("cannot put back %s: %s", clean.Text(o.Path()), o.Err))
		}
	}
	if more := done.Failed - len(errs); more > 0 {
		errs = append(errs, fmt.Errorf("and %d more", more))
	}
	return errors.Join(errs...)
}
