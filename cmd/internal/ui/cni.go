package ui

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// cniView is one file that CNI wrote, in a cache or in host-local's store.
type cniView struct {
	Path        string          `json:"path"`
	Kind        cni.Kind        `json:"kind"`
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

func viewCNIFile(f *cni.File, d policy.Decision, why []policy.Why) cniView {
	v := cniView{
		Path: f.Path(), Kind: f.Kind, UID: string(f.UID), ContainerID: f.Container, Namespace: f.Namespace, Name: f.PodName,
		Network: f.Network, Verdict: d, Reasons: []policy.Reason{}, Why: list(why), Facts: cniFactsView{}, Bytes: f.ID.Size, Broken: f.Broken, Runtime: f.Runtime,
	}
	for _, w := range why {
		v.Reasons = append(v.Reasons, w.Reason)
	}
	for n := range cni.NumFacts {
		v.Facts[n.String()] = f.Facts[n]
	}
	return v
}

// viewCNI shows what a sweep over the CNI directories found, sorted by path. Outcomes are of
// earlier sweeps as well, whose files the last one no longer saw.
func viewCNI(r *cni.Report, dryRun, acted bool) []cniView {
	ended := map[string]*cni.File{}
	for i := range r.Outcomes {
		ended[r.Outcomes[i].Path()] = &r.Outcomes[i]
	}
	views := []cniView{}
	for i := range r.Files {
		v := viewCNIFile(&r.Files[i], r.Verdicts[i].Decision, r.Verdicts[i].Why)
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
		v := viewCNIFile(o, policy.Reap, nil)
		v.end(o)
		views = append(views, v)
	}
	slices.SortFunc(views, func(a, b cniView) int { return strings.Compare(a.Path, b.Path) })
	return views
}

func (v *cniView) end(o *cni.File) {
	switch o.Result {
	case policy.Done, policy.Gone:
		v.Outcome = outcomeRemoved
	case policy.Refused:
		v.Outcome, v.Error = outcomeKept, o.Err
	case policy.Failed, policy.Partly, policy.Conflict:
		v.Outcome, v.Error = outcomeFailed, o.Err
	}
}

func (v *cniView) person() bool { return cni.OutlookOf(v.Verdict, v.Why) == policy.OutlookPerson }

// title is the file's name, with the container's ID cut as crictl shows it.
func (v *cniView) title() string {
	name := filepath.Base(v.Path)
	if len(v.ContainerID) > 12 {
		name = strings.Replace(name, v.ContainerID, v.ContainerID[:12]+"…", 1)
	}
	return clean.Text(name)
}

// cniTotalsView counts all files of CNI, also those that are not told one by one.
type cniTotalsView struct {
	Files     int64 `json:"files"`
	Reap      int64 `json:"reap"`
	Wait      int64 `json:"wait"`
	Keep      int64 `json:"keep"`
	Removed   int64 `json:"removed"`
	Failed    int64 `json:"failed"`
	ForPerson int64 `json:"for_person"`
	// More is how many of them are not among the files that are told one by one.
	More int64    `json:"more"`
	Undo []string `json:"undo,omitempty"` // the commands that put back what was removed
	left int64    // of those that were judged last, what is still there
}

// totalCNI counts. What a sweep's earlier looks took is no longer among the verdicts of its
// last one.
func totalCNI(r *cni.Report, listed int) cniTotalsView {
	c := &r.Census
	t := cniTotalsView{
		Reap: c.Verdicts[policy.Reap], Wait: c.Verdicts[policy.Wait], Keep: c.Verdicts[policy.Keep],
		Removed: c.Removed() + c.Vanished, Failed: min(c.Failed-c.Refused, c.Left), ForPerson: c.ForPerson, left: c.Left, Undo: r.Undo,
	}
	t.Files = t.Removed + t.left
	t.More = max(t.Files-int64(listed), 0)
	return t
}

// cniTotals says in words how a sweep ended for the files.
func cniTotals(t cniTotalsView) string {
	var words []string
	wait := min(t.Wait, t.left-t.Failed)
	for _, part := range []struct {
		n    int64
		word string
	}{{t.Removed, outcomeRemoved}, {t.Failed, outcomeFailed}, {wait, human.Plural(wait, "waits", "wait")}, {t.left - t.Failed - wait, outcomeKept}} {
		if part.n > 0 {
			words = append(words, human.Thousands(part.n)+" "+part.word)
		}
	}
	return human.Count(t.Files, "CNI file") + ": " + strings.Join(words, ", ") + strings.Join(append([]string{""}, t.Undo...), "\nUndo: ")
}
