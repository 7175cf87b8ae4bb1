package node

import (
	"os"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestCgroup: a cgroup keeps, also an empty one, with both drivers and versions.
func TestCgroup(t *testing.T) {
	uid, other := testkit.NewUID(), testkit.NewUID()
	dashed, flat := string(uid), strings.ReplaceAll(string(uid), "-", "_")
	for _, c := range []struct {
		path   string
		truth  judge.Truth
		detail string
	}{
		{"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + flat + ".slice", judge.Yes, "exists"},
		{"kubepods.slice/kubepods-pod" + flat + ".slice", judge.Yes, "exists"},
		{"kubepods/besteffort/pod" + dashed, judge.Yes, "exists"},
		{"memory/kubepods/pod" + dashed, judge.Yes, "exists"},
		{"system.slice/kubelet-kubepods.slice/kubelet-kubepods-pod" + flat + ".slice", judge.Yes, "exists"},
		{"kubepods/pod" + string(other) + "/kubepods/pod" + dashed, judge.No, ""}, // of a kubelet in a pod
		{"kubepods/pod" + string(other), judge.No, ""},
		{"system.slice/kubelet.service", judge.Unknown, "no kubepods hierarchy"},
		{"kubepods.slice" + strings.Repeat("/x", deepestCgroup+1), judge.Unknown, "too deep"},
	} {
		n := newNode(t)
		must(t, os.RemoveAll(n.cfg.Cgroups))
		n.mkdir("cgroup/"+c.path, "kubelet/pods/"+dashed)
		wantFact(t, n.fact(uid, judge.Cgroup), c.truth, c.truth == judge.Yes, c.detail)
	}
}

// TestCgroupOfUser: a user with a delegated cgroup may give those below it any name.
func TestCgroupOfUser(t *testing.T) {
	testkit.NeedUsers(t)
	n := newNode(t)
	uid := n.pod()
	at := "cgroup/user.slice/pod" + string(uid)
	n.mkdir(at)
	wantFact(t, n.fact(uid, judge.Cgroup), judge.Yes, true, "exists")
	must(t, os.Chown(n.dir+"/"+at, 1000, 1000))
	wantFact(t, n.fact(uid, judge.Cgroup), judge.No, false, "")
}

func TestCgroupsUnread(t *testing.T) {
	n := newNode(t)
	uid := n.pod()
	must(t, os.RemoveAll(n.cfg.Cgroups))
	wantFact(t, n.fact(uid, judge.Cgroup), judge.Unknown, false, "no such file")
	if s := n.scanner().Scan(t.Context(), []parsers.PodUID{uid}, nil); len(s.Problems) == 0 {
		t.Error("the snapshot has no problem")
	}
}
