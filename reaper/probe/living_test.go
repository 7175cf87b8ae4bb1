package probe

import (
	"testing"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// TestLivingIsNotWalked: what a process runs in is passed over, and a dead or doubtful pod is not.
func TestLivingIsNotWalked(t *testing.T) {
	n := newNode(t)
	v2, v1, idle, plain, dead := newUID(), newUID(), newUID(), newUID(), newUID()
	for _, uid := range []parsers.PodUID{v2, v1, idle, plain, dead} {
		n.Write(n.PodDir(uid)+"/volumes/kubernetes.io~empty-dir/tmp/file", "x")
	}
	const cgroup = "cgroup/kubepods.slice/pod"
	n.Write(cgroup+string(v2)+"/cgroup.events", "populated 1\nfrozen 0\n")
	n.Write(cgroup+string(v1)+"/container/cgroup.procs", "12\n")
	n.Write(cgroup+string(v1)+"/cgroup.procs", "")
	n.Write(cgroup+string(idle)+"/cgroup.events", "populated 0\nfrozen 0\n")
	n.Mkdir(cgroup + string(plain)) // a directory that is no cgroup shows nothing
	look := n.look()
	for _, uid := range []parsers.PodUID{v2, v1} {
		e := find(t, look, uid)
		check(t, e, facts{
			policy.FactCgroup: policy.Yes, policy.FactContent: policy.Unknown, policy.FactStaged: policy.Unknown,
			policy.FactMounted: policy.No, policy.FactDirectory: policy.Yes,
		})
		wantDetail(t, e.Facts[policy.FactContent], "not read: the pod lives")
		if !e.Unread || len(e.Residue) > 0 || e.ID == (policy.DirID{}) || e.Changed.IsZero() {
			t.Errorf("a living pod: %+v", e)
		}
	}
	for _, uid := range []parsers.PodUID{idle, plain, dead} {
		e := find(t, look, uid)
		check(t, e, facts{policy.FactContent: policy.Yes, policy.FactStaged: policy.No})
		if e.Unread || len(e.Residue) != 2 {
			t.Errorf("a pod without a process: %+v", e)
		}
	}
	for _, err := range look.Errors {
		t.Errorf("passing over is told as an error: %s", err)
	}
	// Whoever asks for one pod gets all of it.
	one, err := n.probe().Look(t.Context(), nil, []parsers.PodUID{v2})
	must(t, err)
	if e := find(t, one, v2); e.Unread || len(e.Residue) != 2 {
		t.Errorf("the pod that was asked for: %+v", e)
	}
}
