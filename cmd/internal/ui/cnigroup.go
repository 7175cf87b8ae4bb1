package ui

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
)

// cniGroup is the files of which the same is to be said: a node that leaks has thousands of them.
type cniGroup struct {
	cniKey
	word   string
	colour Colour
	bytes  int64
	names  []string // in dir
}

// cniKey is what the files of a group have in common.
type cniKey struct {
	verdict, outcome, network, dir, reasons string
	kind                                    cni.Kind
	broken                                  bool
	runtime, err                            string
}

// mostNames is how many files of a group are named, and mostRows how many groups of one verdict there
// are: nobody reads more.
const (
	mostNames = 3
	mostRows  = 20
)

// cniGroups puts files together, in the table's order; in it the largest groups come first.
func cniGroups(views []cniView, word func(*cniView) (string, Colour)) []*cniGroup {
	var all []*cniGroup
	have := map[cniKey]*cniGroup{}
	for i := range views {
		v := &views[i]
		var reasons []string
		for _, r := range v.Reasons {
			reasons = append(reasons, string(r))
		}
		key := cniKey{
			string(v.Verdict), v.Outcome, v.Network, filepath.Dir(v.Path), strings.Join(reasons, ", "), v.Kind, v.Broken, v.Runtime, v.Error,
		}
		g := have[key]
		if g == nil {
			g = &cniGroup{cniKey: key}
			g.word, g.colour = word(v)
			have[key], all = g, append(all, g)
		}
		g.bytes += v.Bytes
		g.names = append(g.names, v.title())
	}
	slices.SortStableFunc(all, func(a, b *cniGroup) int {
		return cmp.Or(cmp.Compare(slices.Index(tableOrder, a.verdict), slices.Index(tableOrder, b.verdict)), cmp.Compare(len(b.names), len(a.names)))
	})
	return all
}

// cniNouns are the files' names for people.
var cniNouns = map[cni.Kind]string{
	cni.Cache: "cache file", cni.Multus: "Multus file", cni.Flannel: "flannel file", cni.Address: "address",
}

// title says how many of what, of which network.
func (g *cniGroup) title() string {
	text := human.Count(len(g.names), cmp.Or(cniNouns[g.kind], "file"))
	if g.network != "" {
		text += " of " + clean.Text(g.network)
	}
	return text
}

// under is where they are, the first of their names, and what went wrong.
func (g *cniGroup) under() []string {
	names := strings.Join(g.names[:min(len(g.names), mostNames)], ", ")
	if more := len(g.names) - mostNames; more > 0 {
		names += " and " + human.Thousands(more) + " more"
	}
	return append([]string{clean.Text(g.dir) + ": " + names}, cniNotes(g.broken, g.runtime, g.err)...)
}

// cniNotes is what is special about files of CNI.
func cniNotes(broken bool, runtime, err string) (notes []string) {
	if broken {
		notes = append(notes, "empty or unreadable")
	}
	if runtime != "" {
		notes = append(notes, "runtime: "+clean.Text(runtime))
	}
	if err != "" {
		notes = append(notes, clean.Text(err))
	}
	return notes
}

// cniRows are the rows of groups, with at most mostRows of each verdict, or with all one by one.
func cniRows(views []cniView, all bool, word func(*cniView) (string, Colour)) (rows []Row) {
	if all {
		return cniFileRows(views, word)
	}
	shown := map[string]int{}
	for _, g := range cniGroups(views, word) {
		if shown[g.verdict]++; shown[g.verdict] > mostRows {
			continue
		}
		rows = append(rows, Row{
			Word: g.word, Colour: g.colour, ID: "cni", Title: g.title(), Network: clean.Text(g.network), Notes: g.under(), Bytes: g.bytes,
			Reasons: strings.FieldsFunc(g.reasons, func(r rune) bool { return r == ',' || r == ' ' }),
		})
	}
	for _, n := range shown {
		if n > mostRows {
			last := &rows[len(rows)-1]
			last.Notes = append(last.Notes, "… and more of other kinds (--all, or -o json)")
			break
		}
	}
	return rows
}

// cniFileRows are the rows of files, in the table's order.
func cniFileRows(views []cniView, word func(*cniView) (string, Colour)) (rows []Row) {
	for _, group := range tableOrder {
		for i := range views {
			v := &views[i]
			if string(v.Verdict) != group {
				continue
			}
			r := Row{ID: clean.Text(v.Path), Title: v.title(), Name: podName(v.Namespace, v.Name), Bytes: v.Bytes}
			r.Notes = append([]string{clean.Text(filepath.Dir(v.Path))}, cniNotes(v.Broken, v.Runtime, v.Error)...)
			r.Word, r.Colour = word(v)
			for _, why := range v.Reasons {
				r.Reasons = append(r.Reasons, string(why))
			}
			rows = append(rows, r)
		}
	}
	return rows
}

// cniSums says what would become of the files, "" where there are none.
func (v *Report) cniSums() string {
	t := v.CNITotals
	if t.Files == 0 {
		return ""
	}
	var parts []string
	for _, part := range []struct {
		n    int64
		text string
	}{
		{t.Reap, human.Thousands(t.Reap) + " would be removed now"},
		{t.Wait, human.Verb(t.Wait, "waits", "wait")},
		{t.Keep - t.ForPerson, human.Verb(t.Keep-t.ForPerson, "is", "are") + " kept"},
		{t.ForPerson, human.Verb(t.ForPerson, "needs", "need") + " you"},
	} {
		if part.n > 0 {
			parts = append(parts, part.text)
		}
	}
	return human.Count(t.Files, "CNI file") + ": " + strings.Join(parts, "; ") + "."
}
