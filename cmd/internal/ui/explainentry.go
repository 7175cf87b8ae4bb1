package ui

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
)

// entry explains a pod that is in quarantine, or was.
func (x explainer) entry(e *policy.EntryState) {
	v := viewEntry(*e, x.Context)
	x.Printf("%s\n", x.Paint(Bold, "Pod "+v.UID))
	if name := podName(e.Namespace, e.PodName); name != "" {
		x.line("name", name)
	}
	if e.Phase == policy.PhaseGone {
		x.Printf("\n")
		if e.Restored {
			x.Para("", "An operator put this pod back from quarantine, so it is kept. If it is not needed, have it judged again:")
			x.Printf("  orphan-reaper quarantine forget %s\n", v.UID)
		} else {
			x.Para("", "Nothing of this pod is left in quarantine.")
		}
	} else {
		x.line("quarantine", clean.Text(x.QuarantineDir+"/"+e.Entry))
		x.line("phase", fmt.Sprintf("%s, since %s (%s ago)", e.Phase, human.When(v.since), human.Age(x.Now.Wall.Sub(v.since))))
		x.line("goes", v.fate(x.Now.Wall))
		if e.Leaf != "" {
			x.line("moved from", clean.Text(e.Leaf)+" of the pod directory, and nothing else")
		}
		sum := total(e.Left)
		x.line("holds", fmt.Sprintf("%s in %s", human.Size(sum.Bytes), human.Count(sum.Entries, "entry")))
	}
	if len(e.Why) > 0 {
		x.Heading("Why it was moved to quarantine")
		for _, w := range e.Why {
			x.reason(w, &policy.Evidence{UID: e.UID})
		}
	}
	if len(e.Taken) > 0 {
		x.Heading("What is gone")
		for _, line := range takenLines(e.Taken) {
			x.Para("  ", line)
		}
	}
	if len(e.Left) > 0 && e.Phase != policy.PhaseGone {
		x.Heading("What is left, and what becomes of it")
		x.residue(e.Left)
		x.fates(e.Left)
	}
	x.volData(e.VolData)
	if e.Phase != policy.PhaseGone {
		x.entryUndo(e, v.UID)
	}
}

// entryUndo says how to bring back what is left, or, where the pod lives again and has another
// directory, how to merge the two.
func (x explainer) entryUndo(e *policy.EntryState, uid string) {
	if len(e.Merge) == 0 {
		x.Heading("How to undo")
		x.Para("  ", "This puts back what is left:")
		x.Printf("    orphan-reaper quarantine restore %s\n", uid)
		return
	}
	x.Heading("The pod lives again, in a directory of its own. How to merge the two")
	for _, cmd := range e.Merge {
		x.Printf("  %s\n", clean.Text(cmd))
	}
}

// takenLines say what was removed, by class.
func takenLines(taken map[string]policy.Tally) []string {
	var lines []string
	for _, class := range slices.Sorted(maps.Keys(taken)) {
		t := taken[class]
		lines = append(lines, fmt.Sprintf("%s: %s, %s", class, human.Count(t.Entries, "entry"), human.Size(t.Bytes)))
	}
	return lines
}

// volData shows what the record has kept of the vol_data.json files that are gone.
func (p *Printer) volData(files map[string]string) {
	if len(files) == 0 {
		return
	}
	p.Heading("What the record has kept of " + contents.VolData)
	for _, path := range slices.Sorted(maps.Keys(files)) {
		p.Printf("  %s\n", clean.Text(path))
		// Unbroken, so that it can be copied back into a file.
		p.Printf("    %s\n", clean.Text(strings.TrimSpace(files[path])))
	}
}
