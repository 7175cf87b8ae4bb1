package probe

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// TestMadeAgain checks that a new directory beside the pod's parked one counts as used by its contents and by who
// holds it open. Processes that hold the parked one do not count.
func TestMadeAgain(t *testing.T) {
	cases := map[string]struct {
		dirs []string // directories below pods/UID
		cwd  string   // working directory of a process, relative to the node's
		used policy.Truth
	}{
		"what a kubelet makes first":   {dirs: []string{"volumes", "plugins"}, used: policy.No},
		"an emptyDir":                  {dirs: []string{"volumes/kubernetes.io~empty-dir/cache", "plugins"}, used: policy.Yes},
		"a process works in it":        {dirs: []string{"volumes"}, cwd: "kubelet/pods/%s", used: policy.Yes},
		"a process works in the elder": {dirs: []string{"volumes"}, cwd: "kubelet/orphan-reaper/%s.1", used: policy.No},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			uid := newUID()
			entry := policy.EntryState{Entry: string(uid) + ".1", UID: uid, Phase: policy.PhaseParked}
			n.Mkdir("kubelet/orphan-reaper/" + entry.Entry)
			for _, d := range c.dirs {
				n.Mkdir(n.PodDir(uid) + "/" + d)
			}
			if c.cwd != "" {
				child(t, nil, n.Path(fmt.Sprintf(c.cwd, uid)), "")
			}
			e := n.look(entry).Parked[0]
			if f := e.Facts[policy.FactUsed]; e.Facts[policy.FactRemade].Truth != policy.Yes || f.Truth != c.used || f.Truth == policy.Yes && f.Detail == "" {
				t.Errorf("in a look of all pods: %+v", f)
			}
			if f := n.probe().Used(t.Context(), uid, fixedClock{}.Now()); f.Truth != c.used {
				t.Errorf("in a look of this pod: %+v", f)
			}
		})
	}
}

// TestMadeAgainMounted checks that a mount of the new directory is distinguished from one of the parked directory,
// also if both have one, and that a purge checks only the parked one.
func TestMadeAgainMounted(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	const volume = "/volumes/kubernetes.io~secret/token"
	for name, c := range map[string]struct {
		again, elder bool
	}{"none": {false, false}, "the new one": {true, false}, "the elder": {false, true}, "both": {true, true}} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			uid := newUID()
			entry := policy.EntryState{Entry: string(uid) + ".1", UID: uid, Phase: policy.PhaseParked}
			again, elder := n.PodDir(uid), "kubelet/orphan-reaper/"+entry.Entry
			n.Mkdir(again+"/volumes", elder+volume)
			mount := func(dir string, on bool) {
				if !on {
					return
				}
				n.Mkdir(dir + volume)
				if err := unix.Mount("tmpfs", n.Path(dir+volume), "tmpfs", 0, ""); err != nil {
					skipWithout(t, "mounts", err)
				}
				t.Cleanup(func() { _ = unix.Unmount(n.Path(dir+volume), unix.MNT_DETACH) })
			}
			mount(elder, c.elder)
			mount(again, c.again)
			truth := map[bool]policy.Truth{false: policy.No, true: policy.Yes}
			e := n.look(entry).Parked[0]
			if f := e.Facts[policy.FactUsed]; f.Truth != truth[c.again] {
				t.Errorf("in use: %+v", f)
			}
			if f := e.Facts[policy.FactMounted]; f.Truth != truth[c.again || c.elder] {
				t.Errorf("mounted: %+v", f)
			}
			if f := n.probe().MountsParked(t.Context(), []parsers.PodUID{uid})[uid]; f.Truth != truth[c.elder] {
				t.Errorf("the parked directory's mount: %+v", f)
			}
		})
	}
}

// TestResting checks that a resting entry's directory is not read, and that the signs of its pod's life are.
func TestResting(t *testing.T) {
	n := newNode(t)
	uid := newUID()
	entry := policy.EntryState{Entry: string(uid) + ".1", UID: uid, Phase: policy.PhaseConfirmed, Rests: true, Namespace: "shop", PodName: "web"}
	n.Write("kubelet/orphan-reaper/"+entry.Entry+"/volumes/kubernetes.io~empty-dir/cache/f", "x")
	n.Mkdir("cgroup/kubepods.slice/pod" + string(uid))
	look := n.look(entry)
	if len(look.Parked) != 0 || len(look.Resting) != 1 {
		t.Fatalf("%d parked, %d resting", len(look.Parked), len(look.Resting))
	}
	e := look.Resting[0]
	check(t, e, facts{policy.FactCgroup: policy.Yes, policy.FactRemade: policy.No, policy.FactDirectory: policy.Unknown})
	if e.Entry != entry.Entry || e.PodName != "web" || len(e.Residue) != 0 || e.Facts[policy.FactDirectory].Origin == "" {
		t.Errorf("%+v", e)
	}
	must(t, os.Mkdir(n.Path(n.PodDir(uid)), 0o755))
	check(t, n.look(entry).Resting[0], facts{policy.FactRemade: policy.Yes})
}
