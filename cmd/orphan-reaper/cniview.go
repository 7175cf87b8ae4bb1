package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// cniView is one file that CNI wrote, in a cache or in host-local's store.
type cniView struct {
	Path        string          `json:"path"`
	Kind        policy.CNIKind  `json:"kind"`
	UID         string          `json:"uid"`
	ContainerID string          `json:"container_id"`
	Namespace   string          `json:"namespace"`
	Name        string          `json:"name"`
	Network     string          `json:"network"`
	Verdict     policy.Decision `json:"verdict"`
	Outcome     string          `json:"outcome,omitempty"`
	Reasons     []policy.Reason `json:"reasons"`
	Why         []policy.Why    `json:"why"`
	Facts       cniFactsView    `json:"facts"`
	Bytes       int64           `json:"bytes"`
	Broken      bool            `json:"broken,omitempty"`
	Runtime     string          `json:"runtime,omitempty"` // of a broken one: whose teardown it may hinder
	Error       string          `json:"error,omitempty"`
}

// cniFactsView is the facts on one file, by name; encoding/json sorts them.
type cniFactsView map[string]policy.Fact

func viewCNIFile(f policy.CNIFile, d policy.Decision, why []policy.Why) cniView {
	v := cniView{
		Path: f.Path(), Kind: f.Kind, UID: string(f.UID), ContainerID: f.Container, Namespace: f.Namespace, Name: f.PodName,
		Network: f.Network, Verdict: d, Reasons: []policy.Reason{}, Why: list(why), Facts: cniFactsView{}, Bytes: f.ID.Size, Broken: f.Broken, Runtime: f.Runtime,
	}
	for _, w := range why {
		v.Reasons = append(v.Reasons, w.Reason)
	}
	for n := range policy.NumCNIFacts {
		v.Facts[n.String()] = f.Facts[n]
	}
	return v
}

// viewCNI shows what a sweep over the CNI directories found, sorted by path. Outcomes are of
// earlier sweeps as well, whose files the last one no longer saw.
func viewCNI(r reaper.CNIReport, dryRun, acted bool) []cniView {
	ended := map[string]policy.CNIOutcome{}
	for _, o := range r.Outcomes {
		ended[o.File.Path()] = o
	}
	views := []cniView{}
	for i, f := range r.Files {
		v := viewCNIFile(f, r.Verdicts[i].Decision, r.Verdicts[i].Why)
		o, done := ended[v.Path]
		delete(ended, v.Path)
		switch {
		case done:
			v.end(o)
		case !acted:
		case dryRun && v.Verdict == policy.Reap:
			v.Outcome = outcomeWouldRemove
		default:
			v.Outcome = outcomeKept
		}
		views = append(views, v)
	}
	for _, o := range ended {
		v := viewCNIFile(o.File, policy.Reap, nil)
		v.end(o)
		views = append(views, v)
	}
	slices.SortFunc(views, func(a, b cniView) int { return strings.Compare(a.Path, b.Path) })
	return views
}

func (v *cniView) end(o policy.CNIOutcome) {
	switch o.Result {
	case policy.Done, policy.Gone:
		v.Outcome = outcomeRemoved
	case policy.Refused:
		v.Outcome, v.Error = outcomeKept, o.Err
	case policy.Failed, policy.Partly, policy.Conflict:
		v.Outcome, v.Error = outcomeFailed, o.Err
	}
}

// outlook says what the file asks of a person: one that waits or goes asks nothing.
func (v *cniView) outlook() policy.Outlook { return policy.OutlookOf(v.Verdict, v.Why) }

// title is the file's name, with the container's ID cut as crictl shows it.
func (v *cniView) title() string {
	name := filepath.Base(v.Path)
	if len(v.ContainerID) > 12 {
		name = strings.Replace(name, v.ContainerID, v.ContainerID[:12]+"…", 1)
	}
	return clean(name)
}

// under is what stands below the name: where it is, whose, and what went wrong.
func (v *cniView) under() []string {
	lines := []string{clean(filepath.Dir(v.Path))}
	if name := podName(v.Namespace, v.Name); name != "" {
		lines = append(lines, name)
	}
	if v.Broken {
		lines = append(lines, "empty or unreadable")
	}
	if v.Runtime != "" {
		lines = append(lines, wrap("runtime: "+clean(v.Runtime), nameWidth)...)
	}
	if v.Error != "" {
		lines = append(lines, wrap(clean(v.Error), nameWidth)...)
	}
	return lines
}

// cniTotals sums up all files, also those that were not kept for the table. What a sweep's
// earlier looks took is no longer among the verdicts of its last one.
func cniTotals(c *policy.CNICensus, acted, dryRun bool) string {
	type part struct {
		n    int64
		word string
	}
	wait, keep := part{c.Verdicts[policy.Wait], "wait"}, part{c.Verdicts[policy.Keep], "keep"}
	parts := []part{{c.Verdicts[policy.Reap], "reap"}, wait, keep}
	switch {
	case dryRun:
		parts = []part{{c.Verdicts[policy.Reap], outcomeWouldRemove}, {wait.n + keep.n, outcomeKept}}
	case acted:
		failed := min(c.Failed-c.Refused, c.Left)
		parts = []part{{c.Removed() + c.Vanished, outcomeRemoved}, {failed, outcomeFailed}, {c.Left - failed, outcomeKept}}
	}
	var all int64
	var words []string
	for _, k := range parts {
		all += k.n
		if k.n > 0 {
			words = append(words, fmt.Sprintf("%d %s", k.n, k.word))
		}
	}
	return fmt.Sprintf("%s: %s", count(int(all), "CNI file"), strings.Join(words, ", "))
}
