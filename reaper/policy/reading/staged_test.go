package reading

import (
	"errors"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// TestStaged checks that a staged volume keeps its dead pod unless a living pod has it mounted, and that an unknown
// keeps it, too.
func TestStaged(t *testing.T) {
	v, other := CSIVolume{Driver: "d", Handle: "h"}, CSIVolume{Driver: "d", Handle: "i"}
	mount := StagedMount{Path: "csi/p", Shown: "csi/p", Volume: v, What: "staged: at csi/p"}
	user := StagedUser{VolumeUser: VolumeUser{UID: "successor", Volume: v, Lives: true, Mounted: true}, Paths: []string{"csi/p"}}
	mapped := VolumeUser{UID: "successor", Volume: BlockVolume("pv"), Lives: true, Mounted: true}
	users := VolumeUsers{Files: []StagedUser{user}, Blocks: map[string][]VolumeUser{"pv": {mapped}}}
	block := BlockEntry{Name: "pv", Shown: "pv", Bare: true}
	const no, yes, unknown = policy.No, policy.Yes, policy.Unknown
	twice := []BlockEntry{block, block}
	type pod = PodVolumes
	for name, c := range map[string]struct {
		of    PodVolumes
		users VolumeUsers
		want  policy.Truth
		words string
	}{
		"nothing is known":                      {pod{}, VolumeUsers{}, unknown, "volumes are not known"},
		"nothing is staged":                     {pod{Listed: true}, VolumeUsers{}, no, ""},
		"left behind":                           {pod{Listed: true, Left: []string{"a", "b"}}, VolumeUsers{}, no, "nothing is mounted at a, b"},
		"staged for nobody":                     {pod{Listed: true, Mounts: []StagedMount{mount}}, VolumeUsers{}, yes, "staged: at csi/p"},
		"staged for the successor":              {pod{Listed: true, Mounts: []StagedMount{mount}}, users, no, "pod successor has the volume of plugins/csi/p"},
		"one for the successor, one for it":     {pod{Listed: true, Mounts: []StagedMount{mount, {Path: "q", Volume: v, What: "q"}}}, users, yes, "q"},
		"a path of another volume":              {pod{Listed: true, Mounts: []StagedMount{{Path: "csi/p", Volume: other, What: "p"}}}, users, yes, "p"},
		"a path of several volumes":             {pod{Listed: true, Mounts: []StagedMount{{Path: "csi/p", What: "p"}}}, users, yes, "p"},
		"mapped":                                {pod{Listed: true, Mapped: "m", Blocks: []BlockEntry{block}}, VolumeUsers{}, yes, "m"},
		"mapped by no CSI driver":               {pod{Listed: true, Mapped: "m"}, users, yes, "m"},
		"mapped for the successor":              {pod{Listed: true, Mapped: "m", Blocks: twice}, users, no, "pod successor has the block volume pv"},
		"more than a bare entry":                {pod{Listed: true, Mapped: "m", Blocks: []BlockEntry{{Name: "pv"}}}, users, yes, "m"},
		"mapped for it and for the successor":   {pod{Listed: true, Mapped: "m", Blocks: []BlockEntry{block, {Name: "pv-2", Bare: true}}}, users, yes, "m"},
		"of the kubelet's own tree":             {pod{Listed: true, InTree: "t"}, users, yes, "t"},
		"not all was found":                     {pod{Listed: true, Err: errors.New("x")}, users, unknown, "x"},
		"staged, and not all was found":         {pod{Mounts: []StagedMount{mount}, Err: errors.New("x")}, VolumeUsers{}, yes, "staged"},
		"in use, and not all was found":         {pod{Listed: true, Mounts: []StagedMount{mount}, Err: errors.New("x")}, users, unknown, "x"},
		"not all volumes are known":             {pod{Unlisted: "more than are read"}, users, unknown, "more than are read"},
		"in use, and not all volumes are known": {pod{Mounts: []StagedMount{mount}}, users, unknown, "not known"},
		"one does not tell, and CSI is in use":  {pod{Listed: true, Unclear: "u", AnyCSI: true}, users, unknown, "u, and CSI volumes are staged here"},
		"one does not tell, and nothing is":     {pod{Listed: true, Unclear: "u"}, users, no, ""},
	} {
		c.of.Pod = "orphan"
		f := c.of.Staged("/plugins", &c.users)
		if f.Truth != c.want || !strings.Contains(f.Detail, c.words) || f.Origin != "/plugins" || f.Truth != no && f.Detail == "" {
			t.Errorf("%s: %+v, want %s with %q", name, f, c.want, c.words)
		}
		// A further unknown releases nothing.
		for doubt, change := range map[string]func(o *PodVolumes, u *VolumeUsers){
			"err":      func(o *PodVolumes, _ *VolumeUsers) { o.Err = errors.New("y") },
			"unlisted": func(o *PodVolumes, _ *VolumeUsers) { o.Listed = false },
			"no users": func(_ *PodVolumes, u *VolumeUsers) { *u = VolumeUsers{} },
			"dead user": func(_ *PodVolumes, u *VolumeUsers) {
				*u = VolumeUsers{Files: []StagedUser{{VolumeUser: VolumeUser{UID: "s", Volume: v, Mounted: true}, Paths: user.Paths}}}
			},
		} {
			o, u := c.of, c.users
			change(&o, &u)
			if got := o.Staged("/plugins", &u); got.Truth == no && c.want != no {
				t.Errorf("%s with %s: %+v", name, doubt, got)
			}
		}
	}
}

// TestHolds checks that a staged volume belongs to a living pod only if that pod has it mounted. Otherwise it remains
// the dead pod's.
func TestHolds(t *testing.T) {
	v := CSIVolume{Driver: "d", Handle: "h"}
	user := VolumeUser{UID: "successor", Volume: v, Lives: true, Mounted: true}
	if !user.KeepsStaged("orphan", v) {
		t.Error("the successor does not keep its volume")
	}
	for name, change := range map[string]func(u *VolumeUser){
		"another handle":        func(u *VolumeUser) { u.Volume.Handle = "i" },
		"another driver":        func(u *VolumeUser) { u.Volume.Driver = "e" },
		"the orphan itself":     func(u *VolumeUser) { u.UID = "orphan" },
		"no pod":                func(u *VolumeUser) { u.UID = "" },
		"dead":                  func(u *VolumeUser) { u.Lives = false },
		"without its own mount": func(u *VolumeUser) { u.Mounted = false },
	} {
		u := user
		if change(&u); u.KeepsStaged("orphan", v) {
			t.Errorf("%s keeps the volume staged", name)
		}
	}
	for _, none := range []CSIVolume{{}, {Driver: "d"}, {Handle: "h"}} {
		if (VolumeUser{UID: "successor", Volume: none, Lives: true, Mounted: true}).KeepsStaged("orphan", none) {
			t.Errorf("%+v keeps the volume staged", none)
		}
	}
}
