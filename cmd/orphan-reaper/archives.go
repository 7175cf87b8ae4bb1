package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// archiveView is one archive of CNI files.
type archiveView struct {
	Archive string    `json:"archive"`
	At      time.Time `json:"at"`
	Files   int64     `json:"files"`
	Bytes   int64     `json:"bytes"`
	// PurgeAt is when it is dropped by itself.
	PurgeAt time.Time `json:"purge_at"`
	Error   string    `json:"error,omitempty"`
}

func (q quarantineRules) viewArchives(archives []policy.ArchiveState) []archiveView {
	views := []archiveView{}
	for _, a := range archives {
		views = append(views, archiveView{a.Name, a.At.UTC(), a.Files, a.Bytes, a.At.Add(q.retention).UTC(), a.Err})
	}
	return views
}

// archiveTable writes one row for each archive.
func (p *printer) archiveTable(views []archiveView, now time.Time) {
	if len(views) == 0 {
		return
	}
	p.f("\n%s\n", p.paint(bold, pad("ARCHIVE OF CNI FILES", 38)+fmt.Sprintf("%9s %8s  GOES", "FILES", "HOLDS")))
	for _, v := range views {
		if v.Error != "" {
			p.f("%s%s\n", pad(clean(v.Archive), 38), short(clean(v.Error), p.width-38))
			continue
		}
		goes := "now"
		if wait := v.PurgeAt.Sub(now); wait > 0 {
			goes = "in " + age(wait)
		}
		p.f("%s%9d %8s  %s\n", pad(clean(v.Archive), 38), v.Files, size(v.Bytes), goes)
	}
	p.item("  ", "restore", 9, green, "orphan-reaper quarantine restore ARCHIVE puts the files back; tar tf shows them.")
}

func isArchive(args []string) bool {
	return len(args) == 1 && strings.HasPrefix(args[0], policy.ArchivePrefix)
}

// archiveThere is an error where there is no archive of this name.
func (a *app) archiveThere(ctx context.Context, cfg Config, name string) error {
	all, err := a.deps.archives(ctx, cfg)
	if err != nil {
		return fmt.Errorf("cannot list the archives: %w", err)
	}
	if !slices.ContainsFunc(all, func(s policy.ArchiveState) bool { return s.Name == name }) {
		return failf(seeQuarantine, "there is no archive %s", clean(name))
	}
	return nil
}

// restoreArchive puts the files of one archive back.
func (a *app) restoreArchive(ctx context.Context, name string) error {
	cfg, err := a.config(ctx)
	if err != nil {
		return err
	}
	if err := a.archiveThere(ctx, cfg, name); err != nil {
		return err
	}
	outs, err := a.deps.restoreCNI(ctx, cfg, name)
	if err != nil {
		return fmt.Errorf("cannot restore %s: %w", name, err)
	}
	if a.json() {
		return errors.Join(a.writeJSON(map[string]any{"outcomes": cniOutcomes(outs)}), cniErrors(outs))
	}
	p := a.printer(a.stdout)
	p.cniRestored(outs)
	return errors.Join(p.flush(), cniErrors(outs))
}

// cniOutcomeView is what became of one file by a person's word.
type cniOutcomeView struct {
	Path   string        `json:"path"`
	Result policy.Result `json:"result"`
	Error  string        `json:"error,omitempty"`
}

func cniOutcomes(outs []policy.CNIOutcome) []cniOutcomeView {
	views := []cniOutcomeView{}
	for _, o := range outs {
		views = append(views, cniOutcomeView{o.File.Path(), o.Result, o.Err})
	}
	return views
}

func (p *printer) cniRestored(outs []policy.CNIOutcome) {
	done := map[policy.Result]int{}
	for _, o := range outs {
		done[o.Result]++
	}
	if n := done[policy.Done]; n > 0 {
		p.f("put back: %s\n", count(n, "CNI file"))
	}
	if n := done[policy.Gone]; n > 0 {
		p.f("already there: %s\n", count(n, "CNI file"))
	}
}

func cniErrors(outs []policy.CNIOutcome) error {
	var errs []error
	for _, o := range outs {
		if o.Result != policy.Done && o.Result != policy.Gone { // the same file is there
			errs = append(errs, fmt.Errorf("cannot put back %s: %s", clean(o.File.Path()), o.Err))
		}
	}
	if len(errs) > 10 {
		errs = append(errs[:10], fmt.Errorf("and %d more", len(errs)-10))
	}
	return errors.Join(errs...)
}

// purgeArchive drops one archive for ever, by a person's word.
func (a *app) purgeArchive(ctx context.Context, name string, yes bool) error {
	cfg, err := a.config(ctx)
	if err != nil {
		return err
	}
	if err := a.archiveThere(ctx, cfg, name); err != nil {
		return err
	}
	if !yes {
		if err := a.confirm("Drop the archive " + name + " of CNI files for ever?"); err != nil {
			return err
		}
	}
	if err := a.deps.dropArchive(ctx, cfg, name); err != nil {
		return fmt.Errorf("cannot purge %s: %w", name, err)
	}
	if a.json() {
		return a.writeJSON(outcomeViews([]policy.Outcome{{Action: policy.Action{Entry: name}, Result: policy.Done}}))
	}
	return a.say("purged: " + name)
}
