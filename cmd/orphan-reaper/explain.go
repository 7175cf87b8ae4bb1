package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/show"
	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
)

func newExplainCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "explain UID", Short: "Explain one pod: what was read, what it means, what to do; changes nothing",
		Long: `Scan one pod, and show each fact with the place where it was read, the verdict,
what each reason means and what to do, the kubelet's last words about the pod,
and what was done with it.`,
		Args: needPods(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.explain(cmd, args[0]) },
	}
	a.addOutput(cmd)
	return cmd
}

func (a *app) explain(cmd *cobra.Command, arg string) error {
	n, err := a.open(cmd, reads)
	if err != nil {
		return err
	}
	defer n.Close()
	uid, ok := parsers.ParsePodUID(arg)
	history, err := n.store.History(uid)
	if err != nil {
		return err
	}
	if !ok || len(history) == 0 { // else it may be gone
		uids, err := n.pods(cmd.Context(), []string{arg})
		if err != nil {
			return err
		}
		if uid = uids[0]; len(history) == 0 {
			if history, err = n.store.History(uid); err != nil {
				return err
			}
		}
	}
	s, err := a.once(cmd.Context(), n, reaper.Options{Only: []parsers.PodUID{uid}})
	if err != nil {
		return err
	}
	e := s.Explain(uid, history)
	if err := a.print(e, func(w io.Writer) error { return show.Explain(w, s, e) }); err != nil {
		return err
	}
	return needs(e.NeedsOperator())
}
