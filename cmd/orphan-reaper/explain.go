package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/app"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/ui"
	"github.com/orphan-reaper/orphan-reaper/parsers"
)

func newExplainCommand(a *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "explain POD",
		Short: "Explain one pod: what was found, what would happen, what to do",
		Long: `Take one look at one pod and explain it. The command shows each fact with its
source, the verdict, what each reason means, and what you can do. It shows what
would happen to each thing that the pod left, and how you undo that. It also
shows what was done with the pod before, as far back as the ledger reaches.
It changes nothing.

You can paste the commands that it shows: the pod's UID, paths, sandboxes and
drivers are filled in.

` + podArgHelp + "\n\n" + attentionHelp,
		Example: "  orphan-reaper explain 1f0bbd5a-8ad4-4b8e-9d0a-4d6b6f4f0f11\n  orphan-reaper explain default/web-0",
		Args:    onePod,
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, uids, err := a.surveyed(cmd.Context(), args, anyName, true)
			if err != nil {
				return a.explainName(cmd.Context(), args[0], err)
			}
			none := exit.Failf(fmt.Sprintf("journalctl -t orphan-reaper ORPHAN_REAPER_POD_UID=%s shows what became of it", uids[0]),
				"there is no pod %s in %s, none in quarantine and nothing of it in the ledger", uids[0], cfg.PodsDir())
			return a.explain(cmd.Context(), cfg, uids, "", none)
		},
	}
}

// explainName explains an entry of the pods directory whose name is no UID. Without such an entry it returns none.
func (a *cli) explainName(ctx context.Context, name string, none error) error {
	cfg, err := a.nodeConfig(ctx)
	if err != nil {
		return none
	}
	name = strings.TrimPrefix(name, cfg.PodsDir()+"/")
	if plain, err := strconv.Unquote(name); err == nil {
		name = plain
	}
	if !app.NameThere(cfg, name) {
		return none
	}
	none = exit.Failf("nothing is to be done about it",
		"%s is no pod's: a file system has such a directory of its own, and orphan-reaper passes it over", strconv.Quote(name))
	return a.explain(ctx, cfg, nil, name, none)
}

// explain prints what a look and the ledger have of one pod, or of an entry whose name is no UID. If they have nothing, it
// returns none.
func (a *cli) explain(ctx context.Context, cfg config.Config, uids []parsers.PodUID, name string, none error) error {
	s, err := app.Look(ctx, cfg, uids)
	if err != nil {
		return err
	}
	x := ui.NewExplanation(s.Report, a.lookContext(cfg, &s), cmp.Or(uids...), name, s.History)
	if err := a.write(x, func(p *ui.Printer) { p.Explain(x) }); err != nil {
		return err
	}
	if x.Empty() {
		return none
	}
	return exit.Attention(x.NeedsPerson() || contradicted(s.Report))
}
