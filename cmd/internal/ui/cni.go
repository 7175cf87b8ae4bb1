package ui

import (
	"cmp"
	"fmt"
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
	Path        string                 `json:"path"`
	Kind        cni.Kind               `json:"kind"`
	UID         string                 `json:"uid"`
	ContainerID string                 `json:"container_id"`
	Namespace   string                 `json:"namespace"`
	Name        string                 `json:"name"`
	Network     string                 `json:"network"`
	Verdict     policy.Decision        `json:"verdict"`
	Outcome     string                 `json:"outcome,omitempty"`
	Reasons     []policy.Reason        `json:"reasons"`
	Why         []policy.Why           `json:"why"`
	Facts       map[string]policy.Fact `json:"facts"`
	Bytes       int64                  `json:"bytes"`
	Broken      bool                   `json:"broken,omitempty"`
	Runtime     string                 `json:"runtime,omitempty"` // whose teardown a broken file may hinder
	Error       string                 `json:"error,omitempty"`
}

func viewCNIFile(f *cni.File, d policy.Decision, why []policy.Why) cniView {
	v := cniView{
		Path: f.Path(), Kind: f.Kind, UID: string(f.UID), ContainerID: f.Container, Namespace: f.Namespace, Name: f.PodName,
		Network: f.Network, Verdict: d, Reasons: reasonsOf(why), Why: list(why), Facts: map[string]policy.Fact{}, Bytes: f.ID.Size,
		Broken: f.Broken, Runtime: f.Runtime,
	}
	for n := range cni.NumFacts {
		v.Facts[n.String()] = f.Facts[n]
	}
	return v
}

// viewCNI returns the files of a sweep over the CNI directories, sorted by path, with files that earlier sweeps removed.
func viewCNI(r *cni.Report, show Show) []cniView {
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
		case !show.Swept:
		case show.DryRun && v.Verdict == policy.Reap:
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

// cniTotalsView counts all files of CNI, also those that are not listed.
type cniTotalsView struct {
	Files     int64 `json:"files"`
	Reap      int64 `json:"reap"`
	Wait      int64 `json:"wait"`
	Keep      int64 `json:"keep"`
	Removed   int64 `json:"removed"`
	Failed    int64 `json:"failed"`
	ForPerson int64 `json:"for_person"`
	// More is how many of them are not listed.
	More int64    `json:"more"`
	Undo []string `json:"undo,omitempty"` // the commands that restore the removed files
	left int64    // of the files judged last, how many still exist
}

// totalCNI counts the files. The verdicts are those of the last look, without files that earlier looks of a sweep removed.
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

// cniSums returns the number of files with each verdict or, after a sweep, with each outcome, and how to undo that.
func (v *Report) cniSums() []string {
	t := v.CNITotals
	if t.Files == 0 {
		return nil
	}
	type part struct {
		n     int64
		words string
	}
	wait := min(t.Wait, t.left-t.Failed)
	kept := t.left - t.Failed - wait
	forPerson := min(t.ForPerson, kept)
	parts := []part{
		{t.Removed, outcomeRemoved},
		{t.Failed, outcomeFailed},
		{wait, human.Plural(wait, "waits", "wait")},
		{kept - forPerson, outcomeKept},
		{forPerson, human.Plural(forPerson, "needs you", "need you") + " (orphan-reaper scan --all)"},
	}
	if !v.show.Swept || v.show.DryRun {
		parts = []part{
			{t.Reap, "would be removed"},
			{t.Wait, human.Plural(t.Wait, "waits", "wait")},
			{t.Keep - t.ForPerson, "kept"},
			{t.ForPerson, human.Plural(t.ForPerson, "needs you", "need you")},
		}
	}
	var words []string
	for _, p := range parts {
		if p.n > 0 {
			words = append(words, human.Thousands(p.n)+" "+p.words)
		}
	}
	texts := []string{human.Count(t.Files, "CNI file") + ": " + strings.Join(words, ", ") + "."}
	for _, command := range t.Undo {
		texts = append(texts, "Undo: "+command)
	}
	return texts
}

var cniNouns = map[cni.Kind]string{
	cni.Cache: "cache file", cni.Multus: "Multus file", cni.Flannel: "flannel file", cni.Address: "address",
}

const mostRows = 40

// cniGroup is the files in one row. A node that leaks has thousands that differ only in their names.
type cniGroup struct {
	*cniView
	word  string
	files int
	bytes int64
}

// cniRows returns the rows of the CNI files, the largest groups first, or with --all a row for each file.
func (v *Report) cniRows() (rows []Row) {
	var groups []*cniGroup
	have := map[string]*cniGroup{}
	for i := range v.CNI {
		f := &v.CNI[i]
		if !v.listsWord(string(f.Verdict)) {
			continue
		}
		word := cmp.Or(f.Outcome, string(f.Verdict))
		if word == outcomeKept && f.Verdict == policy.Wait {
			word = wordWait
		}
		key := fmt.Sprint(word, f.Network, filepath.Dir(f.Path), f.Reasons, f.Kind, f.Broken, f.Runtime, f.Error)
		if v.show.All {
			key = f.Path
		}
		if have[key] == nil {
			have[key] = &cniGroup{cniView: f, word: word}
			groups = append(groups, have[key])
		}
		g := have[key]
		g.files, g.bytes = g.files+1, g.bytes+f.Bytes
	}
	slices.SortStableFunc(groups, func(a, b *cniGroup) int {
		return cmp.Or(cmp.Compare(orderOf(a.word), orderOf(b.word)), b.files-a.files)
	})
	for i, g := range groups {
		if i == mostRows && !v.show.All {
			rows[i-1].Notes = append(rows[i-1].Notes, "… and "+human.Count(len(groups)-i, "more group")+" (--all, or -o json)")
			break
		}
		rows = append(rows, g.row())
	}
	if v.CNITotals.More > 0 && len(rows) > 0 {
		last := &rows[len(rows)-1]
		last.Notes = append(last.Notes, human.Count(v.CNITotals.More, "more file")+" are counted, and not listed")
	}
	return rows
}

// row returns a group's row, with the path of one file, or the directory of several.
func (g *cniGroup) row() Row {
	person := cni.OutlookOf(g.Verdict, g.Why) == policy.OutlookPerson
	r := Row{Word: g.word, Colour: colourOf(g.word, person), Title: "cni", Name: clean.Text(g.Network), Bytes: g.bytes, Reasons: g.Reasons}
	where := g.Path
	if g.files > 1 {
		where = filepath.Dir(where)
	}
	r.Notes = append(r.Notes, human.Count(g.files, cmp.Or(cniNouns[g.Kind], "file")), clean.Text(where))
	if pod := podName(g.Namespace, g.cniView.Name); pod != "" && g.files == 1 {
		r.Notes = append(r.Notes, "pod "+pod)
	}
	if g.Broken {
		r.Notes = append(r.Notes, "empty or unreadable")
	}
	if g.Runtime != "" {
		r.Notes = append(r.Notes, "runtime: "+clean.Text(g.Runtime))
	}
	if g.Error != "" {
		r.Notes = append(r.Notes, clean.Text(g.Error))
	}
	return r
}
