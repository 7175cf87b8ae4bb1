package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// entry explains a pod that is in quarantine, or was.
func (x explainer) entry(e *policy.EntryState) {
	v := viewEntry(*e, x.viewContext)
	x.f("%s\n", x.paint(bold, "Pod "+v.UID))
	if name := podName(e.Namespace, e.PodName); name != "" {
		x.line("name", name)
	}
	if e.Phase == policy.PhaseGone {
		x.f("\n")
		if e.Restored {
			x.para("", "A person put this pod back from quarantine. It is kept for ever.")
		} else {
			x.para("", "Nothing of this pod is left in quarantine.")
		}
	} else {
		x.line("quarantine", clean(x.QuarantineDir+"/"+e.Entry))
		x.line("phase", fmt.Sprintf("%s, since %s (%s ago)", e.Phase, when(v.since), age(x.Now.Wall.Sub(v.since))))
		x.line("goes", v.fate(x.Now.Wall))
		if e.Leaf != "" {
			x.line("taken from", clean(e.Leaf)+" of the pod directory, and nothing else")
		}
		sum := total(e.Left)
		x.line("holds", fmt.Sprintf("%s in %s", size(sum.Bytes), count(sum.Entries, "entry")))
	}
	if len(e.Why) > 0 {
		x.heading("Why it was taken")
		for _, w := range e.Why {
			x.reason(w)
		}
	}
	if len(e.Taken) > 0 {
		x.heading("What is gone")
		for _, line := range takenLines(e.Taken) {
			x.para("  ", line)
		}
	}
	if len(e.Left) > 0 && e.Phase != policy.PhaseGone {
		x.heading("What is left, and what becomes of it")
		x.residue(e.Left)
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
		x.heading("How to undo")
		x.para("  ", "orphan-reaper quarantine restore "+uid+" puts back what is left.")
		return
	}
	x.heading("The pod lives again, in a directory of its own. How to merge the two")
	for _, cmd := range e.Merge {
		x.f("  %s\n", clean(cmd))
	}
}

// takenLines say what was removed, by class.
func takenLines(taken map[string]policy.Tally) []string {
	var lines []string
	for _, class := range slices.Sorted(maps.Keys(taken)) {
		t := taken[class]
		lines = append(lines, fmt.Sprintf("%s: %s, %s", class, count(t.Entries, "entry"), size(t.Bytes)))
	}
	return lines
}

// volData shows what the record has kept of the vol_data.json files that are gone.
func (p *printer) volData(files map[string]string) {
	if len(files) == 0 {
		return
	}
	p.heading("What the record has kept of " + policy.VolData)
	for _, path := range slices.Sorted(maps.Keys(files)) {
		p.f("  %s\n", clean(path))
		// Unbroken, so that it can be copied back into a file.
		p.f("    %s\n", clean(strings.TrimSpace(files[path])))
	}
}
