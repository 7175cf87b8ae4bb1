package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/app"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/ui"
	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

const seeQuarantine = "orphan-reaper quarantine list shows what there is"

func newQuarantineCommand(a *cli) *cobra.Command {
	group := newGroup("quarantine", "Show, restore or purge what was removed",
		"What was removed lies in quarantine until it is purged. Data that may belong to\na user is purged only by this command.")
	group.AddCommand(
		&cobra.Command{
			Use: "list", Short: "Show what lies in quarantine, and when it is purged",
			Example: "  orphan-reaper quarantine list -o json", Args: noArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return a.quarantineList(cmd.Context()) },
		},
		a.withProgress(newRestoreCommand(a)),
		a.withProgress(newPurgeCommand(a)),
		newForgetCommand(a),
		&cobra.Command{
			Use: "resume", Short: "Resume enforcing after the breaker has stopped it",
			Long: `Resume enforcing. The breaker stops enforcing when a quarantined pod turns out
to be alive. Find out why that happened before you resume.`,
			Example: "  orphan-reaper quarantine resume", Args: noArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return a.resume(cmd.Context()) },
		},
	)
	return group
}

// inQuarantine leaves out entries that are gone.
func inQuarantine(all []policy.EntryState) []policy.EntryState {
	return slices.DeleteFunc(slices.Clone(all), func(e policy.EntryState) bool { return !e.Phase.InQuarantine() })
}

func (a *cli) quarantineList(ctx context.Context) error {
	cfg, err := a.nodeConfig(ctx)
	if err != nil {
		return err
	}
	q, err := app.ReadQuarantine(cfg)
	if err != nil {
		return fmt.Errorf("cannot list the quarantine: %w", err)
	}
	if q.Unread != nil {
		return q.Unread
	}
	shown := ui.NewQuarantine(inQuarantine(q.Entries), q.Archives, q.Breaker, a.viewContext(cfg))
	return a.write(shown, func(p *ui.Printer) { p.Quarantine(shown) })
}

// doneBefore is for a command on a pod that has nothing in quarantine. It returns the record of this kind with which the same
// command ended before, or an error if there is none.
func doneBefore(cfg config.Config, uid parsers.PodUID, kind policy.Kind) (policy.Record, ui.Outcomes, error) {
	last, err := app.LastOutcome(cfg, uid)
	if err == nil && last.Kind != kind {
		became := ""
		if words := last.Kind.Means().Became; words != "" {
			became = ": it was " + words + " at " + human.When(last.At.Wall)
		}
		err = exit.Failf(seeQuarantine, "there is no pod %s in quarantine%s", uid, became)
	}
	done := policy.Outcome{Action: policy.Action{UID: last.UID, Entry: last.Entry}, Result: policy.Gone}
	return last, ui.NewOutcomes([]policy.Outcome{done}), err
}

func outcomeError(verb string, o policy.Outcome) error {
	text := o.Err
	if text == "" {
		var words []string
		for _, w := range o.Why {
			words = append(words, strings.TrimSuffix(string(w.Reason)+": "+w.Detail, ": "))
		}
		text = strings.Join(words, "; ")
	}
	if text == "" {
		text = string(o.Result)
	}
	return fmt.Errorf("cannot %s %s: %s", verb, o.Action.UID, text)
}

func (a *cli) resume(ctx context.Context) error {
	cfg, err := a.nodeConfig(ctx)
	if err != nil {
		return err
	}
	q, err := app.ReadQuarantine(cfg)
	stopped := q.Breaker != nil
	if err == nil && stopped {
		err = a.person.Resume(ctx, cfg)
	}
	if err != nil {
		return fmt.Errorf("cannot resume: %w", err)
	}
	text := "Enforcing resumed."
	if !stopped {
		text = "Nothing to resume: the breaker has not stopped anything."
	}
	return a.write(map[string]bool{"resumed": stopped}, func(p *ui.Printer) { p.Para("", text) })
}
