package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/view"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/cni"
)

func isArchive(args []string) bool {
	return len(args) == 1 && strings.HasPrefix(args[0], cni.ArchivePrefix) && !strings.Contains(args[0], "/") // a namespace may begin so
}

// archiveThere is an error where there is no archive of this name.
func (a *app) archiveThere(ctx context.Context, cfg config.Config, name string) error {
	all, err := a.deps.archives(ctx, cfg)
	if err != nil {
		return fmt.Errorf("cannot list the archives: %w", err)
	}
	if !slices.ContainsFunc(all, func(s cni.ArchiveState) bool { return s.Name == name }) {
		return exit.Failf(seeQuarantine, "there is no archive %s", clean.Text(name))
	}
	return nil
}

// restoreArchive puts the files of one archive back.
func (a *app) restoreArchive(ctx context.Context, name string) error {
	cfg, err := a.nodeConfig(ctx)
	if err != nil {
		return err
	}
	if err := a.archiveThere(ctx, cfg, name); err != nil {
		return err
	}
	return a.archiveRestored(ctx, cfg, name, a.deps.restoreCNI)
}

// restoreBatch puts the files of all archives of one sweep back.
func (a *app) restoreBatch(ctx context.Context, name string) error {
	cfg, err := a.nodeConfig(ctx)
	if err != nil {
		return err
	}
	batch := cni.BatchOf(name)
	all, err := a.deps.archives(ctx, cfg)
	if err != nil {
		return fmt.Errorf("cannot list the archives: %w", err)
	}
	if !slices.ContainsFunc(all, func(s cni.ArchiveState) bool { return cni.BatchOf(s.Name) == batch }) {
		return exit.Failf(seeQuarantine, "there is no batch %s", clean.Text(name))
	}
	return a.archiveRestored(ctx, cfg, batch, a.deps.restoreBatch)
}

// archiveRestored puts files back and says so.
func (a *app) archiveRestored(
	ctx context.Context, cfg config.Config, name string, restore func(context.Context, config.Config, string) ([]cni.Outcome, error),
) error {
	outs, err := restore(ctx, cfg, name)
	if err != nil {
		return fmt.Errorf("cannot restore %s: %w", name, err)
	}
	if a.json() {
		return errors.Join(a.writeJSON(view.NewArchiveRestored(outs)), cniErrors(outs))
	}
	p := a.printer(a.stdout)
	p.CNIRestored(outs)
	return errors.Join(p.Flush(), cniErrors(outs))
}

func cniErrors(outs []cni.Outcome) error {
	var errs []error
	for _, o := range outs {
		if o.Result != policy.Done && o.Result != policy.Gone { // the same file is there
			errs = append(errs, fmt.Errorf("cannot put back %s: %s", clean.Text(o.File.Path()), o.Err))
		}
	}
	if len(errs) > 10 {
		errs = append(errs[:10], fmt.Errorf("and %d more", len(errs)-10))
	}
	return errors.Join(errs...)
}
