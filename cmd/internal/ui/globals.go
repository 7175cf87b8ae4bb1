package ui

import (
	"cmp"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/summary"
)

// GlobalMount is a volume that is staged on this node and that no living pod uses.
type GlobalMount struct {
	Path   string    `json:"path"`
	Driver string    `json:"driver"`
	Handle string    `json:"volume_handle"`
	Since  time.Time `json:"since,omitzero"`
	// Mounted, Wanted (by a pod directory here) and Attached (by a VolumeAttachment) are facts.
	Mounted  policy.Fact `json:"mounted"`
	Wanted   policy.Fact `json:"wanted"`
	Attached policy.Fact `json:"attached"`

	path string // Path before cleaning
}

// GlobalMounts converts the staged volumes of a look for display, mounted ones first.
func GlobalMounts(l *policy.Look, c Context) []GlobalMount {
	var all, rest []GlobalMount
	for _, g := range summary.GlobalMounts(l) {
		path := strings.TrimSuffix(c.PodsDir, "pods") + g.Path
		v := GlobalMount{
			Path: clean.Name(path), Driver: clean.Name(g.Driver), Handle: clean.Name(g.Handle),
			Since: g.Since.UTC(), Mounted: g.Mounted, Wanted: g.Wanted, Attached: g.Attached, path: path,
		}
		for _, f := range []*policy.Fact{&v.Mounted, &v.Wanted, &v.Attached} {
			f.Detail = clean.Text(f.Detail)
		}
		if g.Mounted.Truth == policy.Yes {
			all = append(all, v)
		} else {
			rest = append(rest, v)
		}
	}
	return append(all, rest...)
}

// Globals writes the staged volumes, at most most of them.
func (p *Printer) Globals(all []GlobalMount, most int, now time.Time) {
	if len(all) == 0 {
		return
	}
	p.Heading("Volumes that are staged here and that no living pod uses")
	for i := range all {
		v := &all[i]
		if i == most {
			p.Printf("  … and %s: -o json has all\n", human.Count(len(all)-i, "more volume"))
			break
		}
		p.Para("  ", cmp.Or(human.Short(v.Driver, 60), "?")+" "+cmp.Or(human.Short(v.Handle, 80), "?")+": "+v.words(now))
		if v.Path == v.path {
			p.Printf("    findmnt %s\n", clean.Shell(v.path))
		} else { // not to be pasted
			p.Printf("    # %s\n", v.Path)
		}
	}
	p.Para("  ", "Nothing unmounts them by itself. Another node may have such a volume, and two that write to it destroy it. "+
		"Before you unmount one, check what docs/faq.md lists.")
}

func (v *GlobalMount) words(now time.Time) string {
	text := map[policy.Truth]string{
		policy.Yes: "mounted", policy.No: "a directory, not mounted", policy.Unknown: "it is not known whether it is mounted",
	}[v.Mounted.Truth]
	if !v.Since.IsZero() {
		text += ", since " + human.Clock(v.Since, now)
	}
	text += map[policy.Truth]string{
		policy.Yes: "; of a pod that is not known to live: ", policy.No: "; ", policy.Unknown: "; it is not known whether a pod has it: ",
	}[v.Wanted.Truth] + v.Wanted.Detail
	if v.Attached.Truth == policy.Unknown {
		text += "; it is not known whether a VolumeAttachment has it"
	}
	return text + "; " + v.Attached.Detail + "."
}
