package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/view"
	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// seeQuarantine is the hint for what is not there.
const seeQuarantine = "orphan-reaper quarantine list shows what there is"

func newQuarantineCommand(a *app) *cobra.Command {
	group := newGroup("quarantine", "Show, restore or purge what was taken",
		"What was taken lies in quarantine until it is purged. Data that may be a\nuser's is purged by a person only.")
	group.AddCommand(
		&cobra.Command{
			Use: "list", Short: "Show what lies in quarantine, and when it goes",
			Example: "  orphan-reaper quarantine list -o json", Args: noArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return a.quarantineList(cmd.Context()) },
		},
		newRestoreCommand(a),
		newPurgeCommand(a),
		&cobra.Command{
			Use: "resume", Short: "Let enforcing go on after the breaker has stopped it",
			Long: `Let enforcing go on. The breaker stops it when a pod that was taken turns out
to live; find out why before you let it go on.`,
			Example: "  orphan-reaper quarantine resume", Args: noArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return a.resume(cmd.Context()) },
		},
	)
	return group
}

func newPurgeCommand(a *app) *cobra.Command {
	var yes, all, force bool
	cmd := &cobra.Command{
		Use: "purge UID|ARCHIVE|--all", Short: "Remove for ever what lies in quarantine",
		Long: `Remove for ever what lies in quarantine of one pod, or with --all of all pods
that are confirmed dead. That includes data that may be a user's. It cannot be
undone, so it asks first; without a terminal it wants --yes. Of a pod that
lives again nothing is removed without --force: it may be what the pod misses.`,
		Example: "  orphan-reaper quarantine purge 1f0bbd5a-8ad4-4b8e-9d0a-4d6b6f4f0f11\n  orphan-reaper quarantine purge --all",
		Args: func(cmd *cobra.Command, args []string) error {
			// Without --all an argument that a shell left out, as an empty $UID, would mean every pod.
			switch {
			case all && len(args) > 0:
				return exit.Usagef("", "%s: --all and %s: which of them?", cmd.CommandPath(), strconv.Quote(args[0]))
			case !all && len(args) != 1:
				return exit.Usagef("orphan-reaper quarantine list shows them", "%s wants one pod UID, the name of an archive, or --all", cmd.CommandPath())
			}
			return nil
		},
		ValidArgsFunction: a.completeQuarantined,
		RunE:              func(cmd *cobra.Command, args []string) error { return a.purge(cmd.Context(), args, yes, force) },
	}
	cmd.Flags().BoolVar(&all, "all", false, "every pod that is confirmed dead, not one")
	cmd.Flags().BoolVar(&force, "force", false, "also of a pod that lives again")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}

// inQuarantine returns the entries that are there, of one pod or of all.
func (a *app) inQuarantine(ctx context.Context, cfg config.Config, uid parsers.PodUID) ([]policy.EntryState, error) {
	all, err := a.deps.list(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("cannot list the quarantine: %w", err)
	}
	var entries []policy.EntryState
	for _, e := range all {
		if e.Phase.InQuarantine() && (uid == "" || e.UID == uid) {
			entries = append(entries, e)
		}
	}
	return entries, nil
}

func (a *app) quarantineList(ctx context.Context) error {
	cfg, err := a.config(ctx)
	if err != nil {
		return err
	}
	entries, err := a.inQuarantine(ctx, cfg, "")
	if err != nil {
		return err
	}
	archives, err := a.deps.archives(ctx, cfg)
	if err != nil {
		return fmt.Errorf("cannot list the archives: %w", err)
	}
	stopped, err := a.deps.breaker(ctx, cfg)
	if err != nil {
		return fmt.Errorf("cannot tell whether enforcing goes on: %w", err)
	}
	shown := view.NewQuarantine(entries, archives, stopped, a.viewContext(cfg))
	if a.json() {
		return a.writeJSON(shown)
	}
	p := a.printer(a.stdout)
	p.Quarantine(shown)
	return p.Flush()
}

// restore puts one pod back and says what that cannot bring back.
func (a *app) restore(ctx context.Context, args []string) error {
	if isArchive(args) {
		return a.restoreArchive(ctx, args[0])
	}
	uids, err := podUIDs(args)
	if err != nil {
		return err
	}
	cfg, err := a.config(ctx)
	if err != nil {
		return err
	}
	entries, err := a.inQuarantine(ctx, cfg, uids[0])
	if err != nil {
		return err
	}
	if len(entries) == 0 {
		return a.restoredBefore(ctx, cfg, uids[0])
	}
	outcome, err := a.deps.restore(ctx, cfg, uids[0])
	if err != nil {
		return fmt.Errorf("cannot restore %s: %w", uids[0], err)
	}
	entry := entries[0]
	if i := slices.IndexFunc(entries, func(e policy.EntryState) bool { return e.Entry == outcome.Action.Entry }); i >= 0 {
		entry = entries[i]
	}
	if outcome.Result != policy.Done && outcome.Result != policy.Conflict {
		return errors.Join(outcomeError("restore", outcome), mergeError(cfg, entry, outcome))
	}
	files, cniErr := a.deps.restoreCNI(ctx, cfg, string(uids[0]))
	cniErr = errors.Join(cniErr, cniErrors(files))
	if a.json() {
		return errors.Join(a.writeJSON(view.NewRestored(view.NewOutcomes([]policy.Outcome{outcome}), files)), cniErr)
	}
	p := a.printer(a.stdout)
	p.Restored(a.viewContext(cfg), entry, outcome, files)
	return errors.Join(p.Flush(), cniErr)
}

// restoredBefore ends a restore of a pod of which nothing is in quarantine. Where the ledger
// says that a person put it back, an earlier run of this command did, and may have been killed
// before it brought back what CNI had of the pod.
func (a *app) restoredBefore(ctx context.Context, cfg config.Config, uid parsers.PodUID) error {
	last, err := a.lastOutcome(ctx, cfg, uid)
	if err != nil {
		return err
	}
	if last.Kind != policy.KindRestored {
		return exit.Failf(seeQuarantine, "there is no pod %s in quarantine%s", uid, became(last))
	}
	files, cniErr := a.deps.restoreCNI(ctx, cfg, string(uid))
	cniErr = errors.Join(cniErr, cniErrors(files))
	if a.json() {
		return errors.Join(a.writeJSON(view.NewRestored(doneBefore(last, policy.PutBack), files)), cniErr)
	}
	p := a.printer(a.stdout)
	p.Printf("put back already, at %s: %s\n", human.When(last.At.Wall), clean.Text(cfg.PodsDir()+"/"+string(uid)))
	p.CNIRestored(files)
	return errors.Join(p.Flush(), cniErr)
}

// purgedBefore ends a purge of a pod of which nothing is in quarantine: the goal is reached
// where the ledger says that all of it was removed.
func (a *app) purgedBefore(ctx context.Context, cfg config.Config, uid parsers.PodUID) error {
	last, err := a.lastOutcome(ctx, cfg, uid)
	if err != nil {
		return err
	}
	if last.Kind != policy.KindRemoved {
		return exit.Failf(seeQuarantine, "there is no pod %s in quarantine%s", uid, became(last))
	}
	if a.json() {
		return a.writeJSON(doneBefore(last, policy.Purge))
	}
	return a.say("removed already, at " + human.When(last.At.Wall) + ": " + string(uid))
}

// lastOutcome returns the last record that says where the pod is; the zero value where the
// ledger has none.
func (a *app) lastOutcome(ctx context.Context, cfg config.Config, uid parsers.PodUID) (policy.Record, error) {
	all, err := a.deps.history(ctx, cfg, uid)
	if err != nil {
		return policy.Record{}, fmt.Errorf("cannot read what became of %s: %w", uid, err)
	}
	for _, r := range slices.Backward(all) {
		if r.Entry != "" {
			return r, nil
		}
	}
	return policy.Record{}, nil
}

// became says why a pod that was in quarantine is no longer there.
func became(last policy.Record) string {
	if words := last.Kind.Means().Became; words != "" {
		return ": it was " + words + " at " + human.When(last.At.Wall)
	}
	return ""
}

func doneBefore(last policy.Record, kind policy.ActionKind) view.Outcomes {
	return view.NewOutcomes([]policy.Outcome{{Action: policy.Action{Kind: kind, UID: last.UID, Entry: last.Entry}, Result: policy.Gone}})
}

// mergeError says what a person can do where the pod has another directory, which it uses.
func mergeError(cfg config.Config, entry policy.EntryState, o policy.Outcome) error {
	if o.Conflict != entry.Entry || entry.Leaf != "" {
		return nil
	}
	cmds := policy.Merge(cfg.QuarantineDir+"/"+entry.Entry, cfg.PodsDir()+"/"+string(entry.UID), entry.UID, entry.Left)
	return fmt.Errorf("both stay where they are; to merge them:\n  %s", strings.Join(cmds, "\n  "))
}

// outcomeError turns an action that did not end as planned into an error.
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

// purge removes for ever, after a person said so.
func (a *app) purge(ctx context.Context, args []string, yes, force bool) error {
	if isArchive(args) {
		return a.purgeArchive(ctx, args[0], yes)
	}
	uids, err := podUIDs(args)
	if err != nil {
		return err
	}
	cfg, err := a.config(ctx)
	if err != nil {
		return err
	}
	var one parsers.PodUID
	if len(uids) == 1 {
		one = uids[0]
	}
	entries, err := a.inQuarantine(ctx, cfg, one)
	if err != nil {
		return err
	}
	if one != "" && len(entries) == 0 {
		return a.purgedBefore(ctx, cfg, one)
	}
	if one == "" {
		uids, entries = confirmed(entries)
	}
	if len(entries) == 0 {
		return a.say("Nothing to purge: no pod in quarantine is confirmed dead.")
	}
	if !yes {
		if err := a.confirm(view.PurgeQuestion(entries)); err != nil {
			return err
		}
	}
	outcomes, err := a.deps.purge(ctx, cfg, uids, force)
	return a.purged(outcomes, err)
}

// purged shows what a purge did; whatever did not go is an error.
func (a *app) purged(outcomes []policy.Outcome, err error) error {
	var errs []error
	if err != nil {
		errs = append(errs, fmt.Errorf("cannot purge: %w", err))
	}
	for _, o := range outcomes {
		if o.Result != policy.Done && o.Result != policy.Gone {
			errs = append(errs, outcomeError("purge", o))
		}
	}
	if a.json() {
		return errors.Join(append(errs, a.writeJSON(view.NewOutcomes(outcomes)))...)
	}
	p := a.printer(a.stdout)
	p.Purged(outcomes)
	return errors.Join(append(errs, p.Flush())...)
}

// say writes one line, or with -o json an empty list of outcomes.
func (a *app) say(text string) error {
	if a.json() {
		return a.writeJSON(view.NewOutcomes(nil))
	}
	p := a.printer(a.stdout)
	p.Para("", text)
	return p.Flush()
}

// confirmed leaves out every pod that has an entry which is not confirmed dead, a conflict
// among them: those are purged by name only.
func confirmed(entries []policy.EntryState) ([]parsers.PodUID, []policy.EntryState) {
	open := map[parsers.PodUID]bool{}
	for _, e := range entries {
		if e.Phase != policy.PhaseConfirmed {
			open[e.UID] = true
		}
	}
	var uids []parsers.PodUID
	var held []policy.EntryState
	for _, e := range entries {
		if open[e.UID] {
			continue
		}
		held = append(held, e)
		if !slices.Contains(uids, e.UID) {
			uids = append(uids, e.UID)
		}
	}
	return uids, held
}

// errNotConfirmed: the person said no.
var errNotConfirmed = errors.New("not confirmed; nothing was removed")

// confirm asks on the terminal. Only "yes" is yes.
func (a *app) confirm(question string) error {
	f, ok := a.stdin.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return exit.Usagef("--yes purges without asking", "there is no terminal to ask on: %s", question)
	}
	return ask(f, a.stderr, question)
}

func ask(in io.Reader, out io.Writer, question string) error {
	if _, err := fmt.Fprintf(out, "%s\nType yes: ", question); err != nil {
		return fmt.Errorf("cannot ask: %w", err)
	}
	answer, err := bufio.NewReader(in).ReadString('\n')
	if strings.TrimSpace(answer) == "yes" {
		return nil
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("cannot read the answer: %w", err)
	}
	return errNotConfirmed
}

func (a *app) resume(ctx context.Context) error {
	cfg, err := a.config(ctx)
	if err != nil {
		return err
	}
	stopped, err := a.deps.breaker(ctx, cfg)
	if err == nil && stopped != nil {
		err = a.deps.resume(ctx, cfg)
	}
	if err != nil {
		return fmt.Errorf("cannot resume: %w", err)
	}
	if a.json() {
		return a.writeJSON(map[string]bool{"resumed": stopped != nil})
	}
	if stopped == nil {
		return a.say("Nothing to resume: the breaker has not stopped anything.")
	}
	return a.say("Enforcing goes on.")
}
