package main

import (
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
	return len(args) == 1 && strings.HasPrefix(args[0], cni.ArchivePrefix) && !strings.Contains(args[0], "/") // a namespace may begin so
}

// archiveThere is an error where there is no archive of this name.
func (a *cli) archiveThere(ctx context.Context, cfg config.Config, name string) error {
	all, err := app.ListArchives(ctx, cfg)
	if err != nil {
		return fmt.Errorf("cannot list the archives: %w", err)
	}
	if !slices.ContainsFunc(all, func(s cni.ArchiveState) bool { return s.Name == name }) {
		return exit.Failf(seeQuarantine, "there is no archive %s", clean.Text(name))
	}
	return nil
}

// restoreArchive puts the files of one archive back.
func (a *cli) restoreArchive(ctx context.Context, name string) error {
	cfg, err := a.nodeConfig(ctx)
	if err != nil {
		return err
	}
	if err := a.archiveThere(ctx, cfg, name); err != nil {
		return err
	}
	return a.archiveRestored(ctx, cfg, name, a.person.RestoreCNI)
}

// restoreBatch puts the files of all archives of one sweep back.
func (a *cli) restoreBatch(ctx context.Context, name string) error {
	cfg, err := a.nodeConfig(ctx)
	if err != nil {
		return err
	}
	batch := cni.BatchOf(name)
	all, err := app.ListArchives(ctx, cfg)
	if err != nil {
		return fmt.Errorf("cannot list the archives: %w", err)
	}
	if !slices.ContainsFunc(all, func(s cni.ArchiveState) bool { return cni.BatchOf(s.Name) == batch }) {
		return exit.Failf(seeQuarantine, "there is no batch %s", clean.Text(name))
	}
	return a.archiveRestored(ctx, cfg, batch, a.person.RestoreBatch)
}

// archiveRestored puts files back and says so, also where not all that it was to read could be read.
func (a *cli) archiveRestored(
	ctx context.Context, cfg config.Config, name string, restore func(context.Context, config.Config, string) (cni.Restored, error),
) error {
	done, err := restore(ctx, cfg, name)
	if err != nil && done.All() == 0 {
		return fmt.Errorf("cannot restore %s: %w", name, err)
	}
	if err != nil {
		err = fmt.Errorf("cannot restore all of %s: %w", name, err)
	}
	if a.json() {
		return errors.Join(a.writeJSON(ui.NewArchiveRestored(done)), cniErrors(done), err)
	}
	p := a.printer(a.stdout)
	p.CNIRestored(done)
	return errors.Join(p.Flush(), cniErrors(done), err)
}

// cniErrors are the first errors of a restore.
func cniErrors(done cni.Restored) error {
	var errs []error
	for _, o := range done.Outcomes {
		if len(errs) < 10 && o.Result != policy.Done && o.Result != policy.Gone { // the same file is there
			errs = append(errs, fmt.Errorf("cannot put back %s: %s", clean.Text(o.Path()), o.Err))
		}
	}
	if more := done.Failed - len(errs); more > 0 {
		errs = append(errs, fmt.Errorf("and %d more", more))
	}
	return errors.Join(errs...)
}
