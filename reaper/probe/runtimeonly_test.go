package probe

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/cri/fakecri"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

const (
	uidLive parsers.PodUID = "02538aa4-66dd-4864-8b99-0107e22f160c"
	uidDone parsers.PodUID = "1f0e8b6a-1111-4222-8333-944445555666"
)

// atNoon is a clock that does not advance.
type atNoon struct{}

func (atNoon) Now() policy.Instant { return policy.Instant{Wall: testkit.Noon} }

func startCRI(t *testing.T) *fakecri.Server {
	t.Helper()
	s, err := fakecri.Start(t.Context(), filepath.Join(t.TempDir(), "s"), fakecri.Options{})
	must(t, err)
	t.Cleanup(s.Close)
	s.SetPods(
		fakecri.Pod{UID: string(uidLive), Namespace: "shop", Name: "db-0", Running: 1, Exited: 1, Created: testkit.Noon.Add(-3 * time.Hour).UnixNano()},
		fakecri.Pod{UID: string(uidDone), Namespace: "shop", Name: "job", NotReady: true, Exited: 1},
	)
	return s
}

// TestLookRuntimeOnly checks that a pod that only the runtime has is read like any other, although its UID does not
// come from the pods directory.
func TestLookRuntimeOnly(t *testing.T) {
	const forgotten, named, parked = parsers.PodUID("0badf00d-0001-4aaa-8bbb-cccc00000001"), parsers.PodUID("0badf00d-0002-4aaa-8bbb-cccc00000002"),
		parsers.PodUID("0badf00d-0003-4aaa-8bbb-cccc00000003")
	n, s := runtimeNode(t)
	s.SetPods(fakecri.Pod{UID: string(uidLive), Namespace: "shop", Name: "db-0", Running: 1},
		fakecri.Pod{UID: string(forgotten), Namespace: "shop", Name: "old", NotReady: true, Exited: 1},
		fakecri.Pod{UID: string(named), Namespace: "shop", Name: "pinned", NotReady: true},
		fakecri.Pod{UID: string(parked), Namespace: "shop", Name: "parked", NotReady: true})
	n.Mkdir("kubelet/pods/" + string(uidLive))
	n.Write("kubelet/cpu_manager_state", `{"policyName":"static","entries":{"`+string(named)+`":{"main":"0"}},"checksum":1}`)
	look := n.look(policy.EntryState{UID: parked, Entry: string(parked) + ".1", Phase: policy.PhaseParked})
	var uids []parsers.PodUID
	for _, e := range look.RuntimeOnly {
		uids = append(uids, e.UID)
		file := policy.No
		if e.UID == named {
			file = policy.Yes
		}
		for name, want := range map[policy.FactName]policy.Truth{
			policy.FactDirectory: policy.No, policy.FactOwnMount: policy.No, policy.FactMounted: policy.No, policy.FactSandbox: policy.Yes,
			policy.FactKubeletFile: file, policy.FactStaged: policy.No, policy.FactInUse: policy.No,
		} {
			if f := e.Facts[name]; f.Truth != want {
				t.Errorf("%s: %s is %s (%s), want %s", e.PodName, name, f.Truth, f.Detail, want)
			}
		}
		if !e.RuntimeOnly || len(e.Sandboxes) != 1 || e.Namespace != "shop" {
			t.Errorf("%+v", e)
		}
	}
	if !slices.Equal(uids, []parsers.PodUID{forgotten, named}) || len(look.Pods) != 1 {
		t.Errorf("only in the runtime %v, %d pods", uids, len(look.Pods))
	}
	if look.InRuntime == nil || *look.InRuntime != 4 || look.KubeletLists != nil || look.Partial {
		t.Errorf("%v in the runtime, %v listed, partial %v", look.InRuntime, look.KubeletLists, look.Partial)
	}

	p := n.probe()
	some, err := p.Look(t.Context(), nil, []parsers.PodUID{forgotten})
	must(t, err)
	if len(some.RuntimeOnly) != 1 || some.RuntimeOnly[0].UID != forgotten || len(some.Pods) != 0 || !some.Partial {
		t.Errorf("%d only in the runtime, %d pods, partial %v", len(some.RuntimeOnly), len(some.Pods), some.Partial)
	}
	s.SetFault(fakecri.ListContainers, fakecri.Fault{Err: status.Error(codes.Internal, "x")})
	if look := n.look(); look.InRuntime != nil {
		t.Errorf("%d pods counted from a failed list", *look.InRuntime)
	}
}
