package main

import (
	"cmp"

	"github.com/spf13/cobra"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/app"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/ui"
)

const doctorLong = `Show on one screen why the kubelet complains about orphaned pods, as in
"orphaned pod found, but volume paths are still present on disk". The screen
shows: what the kubelet reports, since when, and how often; what lies on the
disk; what is removed automatically, and when; what you have to do, with
commands to paste; and what is missing on this node.

The command reads the journal of the last 24 hours, or the log files, and takes
one look at the pods directory. It changes nothing and needs no set-up. Without
root it shows what it can read.

With -o bundle it writes one tar.gz for a bug report: this screen, scan, the
configuration, the version, the last 1,000 records and the metrics. It has names
of pods, namespaces and processes, and paths, but no credentials. The exit code
is then 0.

Exit code 0: you have nothing to do. There are no complaints, or what they are
about is removed automatically.
Exit code 3: you have something to do. A pod stays until you act, or a conflict
lies in quarantine, or a pod can be removed and no daemon is known to run here.
Exit code 1: the pods directory could not be read.`

func newDoctorCommand(a *cli) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:               "doctor",
		Short:             "Show why the kubelet complains, and what to do; changes nothing",
		Long:              doctorLong,
		Example:           "  sudo orphan-reaper doctor\n  orphan-reaper doctor -o json | jq -r '.todo[].commands[]'\n  sudo orphan-reaper doctor -o bundle",
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		PreRunE: func(*cobra.Command, []string) error {
			if file != "" && a.output != bundleFormat {
				return exit.Usagef("add -o bundle", "--bundle-file has no effect here")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.config(cmd.Context())
			if err != nil {
				return err
			}
			x, err := app.Examine(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			shown := ui.NewDoctor(x, a.viewContext(cfg))
			if a.output == bundleFormat {
				return a.bundle(cmd.Context(), cfg, &shown, file)
			}
			if err := a.write(shown, func(p *ui.Printer) { p.Doctor(&shown) }); err != nil {
				return err
			}
			return cmp.Or(x.Err, exit.Attention(shown.NeedsPerson))
		},
	}
	f := cmd.Flags()
	f.VarP(&choiceValue{&a.output, []string{"text", "json", bundleFormat}, "FORMAT"}, "output", "o", "text, json, or bundle: one file for a bug report")
	f.Lookup("output").DefValue = "text"
	f.StringVar(&file, "bundle-file", "", "the `FILE` of -o bundle, which is not there yet; - is stdout (default: one in this directory)")
	return cmd
}

const bundleFormat = "bundle"
