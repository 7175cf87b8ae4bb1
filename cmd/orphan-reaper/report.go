package main

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/app"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/ui"
)

const reportLong = `Show what was done on this node since a day: how many pods, bytes, CNI files and
addresses were removed; what lies in quarantine; what is kept, and why; and how
many lines the kubelet wrote about these pods until they were gone, with their
bytes. The command reads the state directory and nothing else. It changes
nothing and needs no daemon.

The records are summed up by day of UTC, so the range begins with a whole day.
The sums of 400 days are kept. If the range begins before the records, the
report states that. It estimates how many lines the kubelet would have written
by now, and states how.

What is kept is what the last look of the daemon or of a sweep recorded. To look
now, run scan.`

func newReportCommand(a *cli) *cobra.Command {
	var since string
	cmd := &cobra.Command{
		Use:               "report",
		Short:             "Show what was done on this node in the last days; changes nothing",
		Long:              reportLong,
		Example:           "  orphan-reaper report\n  orphan-reaper report --since 2026-11-01 -o json | jq .done",
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			now := app.Now().Wall
			from, err := sinceWhen(since, now)
			if err != nil {
				return exit.Usagef("30d, 12h and 2026-11-01 are good", "--since: %w", err)
			}
			cfg, err := a.nodeConfig(cmd.Context())
			if err != nil {
				return err
			}
			r, err := app.Report(cfg, from, now)
			if err != nil {
				return fmt.Errorf("cannot report: %w", err)
			}
			shown := ui.NewNodeReport(r.Account, r.Entries, r.Memory, a.viewContext(cfg))
			return a.write(shown, func(p *ui.Printer) { ui.WriteNodeReport(p, &shown) })
		},
	}
	cmd.Flags().StringVar(&since, "since", "30d", "begin a `TIME` ago (30d, 12h), or at a date (2026-11-01)")
	_ = cmd.RegisterFlagCompletionFunc("since", cobra.FixedCompletions([]string{"1d", "7d", "30d", "90d", "365d"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// sinceWhen parses a time before now, such as 30d or 12h, or a date of UTC.
func sinceWhen(text string, now time.Time) (time.Time, error) {
	if day, err := time.Parse(time.DateOnly, text); err == nil {
		if day.After(now) {
			return day, fmt.Errorf("%s has not come yet", text)
		}
		return day, nil
	}
	words := text
	if m := daysAgo.FindStringSubmatch(text); m != nil {
		days, _ := strconv.Atoi(m[1]) // a few digits
		words = strconv.Itoa(days*24) + "h" + m[2]
	}
	ago, err := time.ParseDuration(words)
	switch {
	case err != nil:
		return now, fmt.Errorf("%q is neither a time nor a date", text)
	case ago <= 0:
		return now, errors.New("it must be before now")
	}
	return now.Add(-ago), nil
}

// daysAgo matches a time with days, which time.ParseDuration does not accept.
var daysAgo = regexp.MustCompile(`^([0-9]{1,4})d(.*)$`)
