package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

func newExplainCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "explain UID",
		Short: "Explain one pod: what was found, what would happen, what to do",
		Long: `Take one look at one pod and explain it: each fact with its source, the verdict
with what each reason means and what to do about it, what would become of each
thing that the pod left, how to undo it, and what was done with it before, as
far back as the ledger goes. Changes nothing.

` + attentionHelp,
		Example: "  orphan-reaper explain 1f0bbd5a-8ad4-4b8e-9d0a-4d6b6f4f0f11",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("orphan-reaper scan lists all pods", "name one pod UID")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			uids, err := podUIDs(args)
			if err != nil {
				return err
			}
			cfg, err := a.config(cmd.Context())
			if err != nil {
				return err
			}
			report, err := a.deps.survey(cmd.Context(), cfg, uids)
			if err != nil {
				return err
			}
			done, err := a.deps.history(cmd.Context(), cfg, uids[0])
			if err != nil {
				return fmt.Errorf("cannot read what was done with %s: %w", uids[0], err)
			}
			return a.explain(cfg, report, uids[0], done...)
		},
	}
}

// explain shows what a report says of one pod, and what the ledger does.
func (a *app) explain(cfg Config, report reaper.Report, uid parsers.PodUID, done ...policy.Record) error {
	view := viewReport(report, a.quarantineRules(cfg))
	pods := append(sameUID(view.Pods, uid), sameUID(view.RuntimeOnly, uid)...)
	var entries []policy.EntryState
	for _, e := range report.Entries {
		if e.UID == uid && e.Phase != policy.PhaseNone {
			entries = append(entries, e)
		}
	}
	var err error
	if a.json() {
		err = a.writeJSON(explainView(view, pods, uid, done))
	} else {
		p := a.printer(a.stdout)
		x := explainer{printer: p, cfg: cfg, now: a.deps.now().Wall}
		for _, pod := range pods {
			x.pod(pod, view.Node)
		}
		for i := range entries {
			if !shown(pods, entries[i].Entry) {
				x.entry(&entries[i], a.quarantineRules(cfg))
			}
		}
		if len(done) > 0 && len(pods) == 0 && len(entries) == 0 {
			x.gone(uid, done)
		}
		x.history(done)
		if len(pods) == 0 && len(entries) == 0 {
			x.volData(volDataOf(done))
		}
		p.looked(&view)
		if len(pods) > 0 && view.Node != nil {
			p.ending(view.Node)
		}
		err = p.flush()
	}
	if err != nil {
		return err
	}
	if len(pods) == 0 && len(entries) == 0 && len(done) == 0 {
		return failf(fmt.Sprintf("journalctl -t orphan-reaper ORPHAN_REAPER_POD_UID=%s tells what became of it", uid),
			"there is no pod %s in %s, none in quarantine and nothing of it in the ledger", uid, cfg.PodsDir())
	}
	for _, pod := range pods {
		if pod.outlook() == policy.OutlookLook {
			return attention(true)
		}
	}
	return nil
}

// shown says whether a quarantine entry has been explained as a parked pod.
func shown(pods []*podView, entry string) bool {
	for _, pod := range pods {
		if pod.Entry == entry {
			return true
		}
	}
	return false
}

// adviceView explains one reason in JSON.
type adviceView struct {
	Reason policy.Reason `json:"reason"`
	Means  string        `json:"means"`
	Advice string        `json:"advice"`
}

// explainView is the report of one pod with the words for each of its reasons.
func explainView(v reportView, pods []*podView, uid parsers.PodUID, done []policy.Record) any {
	one := struct {
		reportView
		Advice  []adviceView  `json:"advice"`
		History []historyView `json:"history"`
	}{v, []adviceView{}, viewHistory(done)}
	one.Pods, one.RuntimeOnly = []podView{}, []podView{}
	for _, pod := range pods {
		if pod.evidence.RuntimeOnly {
			one.RuntimeOnly = append(one.RuntimeOnly, *pod)
		} else {
			one.Pods = append(one.Pods, *pod)
		}
		for _, r := range pod.Reasons {
			a := adviceFor(r)
			one.Advice = append(one.Advice, adviceView{r, a.means, a.todo})
		}
	}
	one.Quarantine = []entryView{}
	for _, e := range v.Quarantine {
		if e.UID == string(uid) {
			one.Quarantine = append(one.Quarantine, e)
		}
	}
	return one
}
