package probe

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/cri"
	"github.com/orphan-reaper/orphan-reaper/reaper/cri/fakecri"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestRuntimePods: what the runtime lists of one pod, one by one, for policy to judge.
func TestRuntimePods(t *testing.T) {
	const ready, notReady = runtimeapi.PodSandboxState_SANDBOX_READY, runtimeapi.PodSandboxState_SANDBOX_NOTREADY
	box := func(id string, uid parsers.PodUID, state runtimeapi.PodSandboxState, annotations ...string) *runtimeapi.PodSandbox {
		b := &runtimeapi.PodSandbox{
			Id: id, State: state, CreatedAt: testkit.Noon.Add(-time.Hour).UnixNano(),
			Metadata: &runtimeapi.PodSandboxMetadata{Uid: string(uid)}, Labels: map[string]string{cri.LabelUID: string(uid)},
		}
		for _, hash := range annotations {
			b.Annotations = map[string]string{cri.AnnotationHash: hash}
		}
		return b
	}
	container := func(box string, uid parsers.PodUID, state runtimeapi.ContainerState) *runtimeapi.Container {
		return &runtimeapi.Container{Id: "k", PodSandboxId: box, State: state, Labels: map[string]string{cri.LabelUID: string(uid)}}
	}
	const exited, made = runtimeapi.ContainerState_CONTAINER_EXITED, runtimeapi.ContainerState_CONTAINER_CREATED
	for name, c := range map[string]struct {
		boxes      []*runtimeapi.PodSandbox
		containers []*runtimeapi.Container
		want       string // of uidDone: each sandbox with its marks, and the loose containers
		pods       int
	}{
		"stopped":             {[]*runtimeapi.PodSandbox{box("a", uidDone, notReady)}, []*runtimeapi.Container{container("a", uidDone, exited)}, "a 0", 1},
		"two":                 {[]*runtimeapi.PodSandbox{box("a", uidDone, notReady), box("b", uidDone, ready)}, nil, "a b:ready 0", 1},
		"static":              {[]*runtimeapi.PodSandbox{box("a", uidDone, notReady, string(uidDone))}, nil, "a 0", 1},
		"mirror":              {[]*runtimeapi.PodSandbox{box("a", uidDone, notReady, string(uidStatic))}, nil, "a:shared 0", 1},
		"twice":               {[]*runtimeapi.PodSandbox{box("a", uidDone, notReady), box("a", uidDone, notReady)}, nil, "a:shared 0", 1},
		"twice, ready once":   {[]*runtimeapi.PodSandbox{box("a", uidDone, notReady), box("a", uidDone, ready)}, nil, "a:ready:shared 0", 1},
		"a container to be":   {[]*runtimeapi.PodSandbox{box("a", uidDone, notReady)}, []*runtimeapi.Container{container("a", uidDone, made)}, "a:busy 0", 1},
		"a stranger runs":     {[]*runtimeapi.PodSandbox{box("a", uidDone, notReady)}, []*runtimeapi.Container{{Id: "k", PodSandboxId: "a", State: runtimeapi.ContainerState_CONTAINER_RUNNING}}, "a:busy 0", 1},
		"another's container": {[]*runtimeapi.PodSandbox{box("a", uidDone, notReady)}, []*runtimeapi.Container{container("a", uidLive, exited)}, "a:shared 0", 1},
		"its own elsewhere":   {[]*runtimeapi.PodSandbox{box("a", uidLive, notReady), box("b", uidDone, notReady)}, []*runtimeapi.Container{container("a", uidDone, exited)}, "b 1", 2},
		"no sandbox":          {[]*runtimeapi.PodSandbox{box("a", uidLive, notReady)}, []*runtimeapi.Container{container("gone", uidDone, exited)}, " 1", 2},
		"not by a UID":        {[]*runtimeapi.PodSandbox{box("a", uidLive, ready), box("b", "no-uid", ready)}, nil, " 0", 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := startCRI(t, fakecri.Options{})
			s.SetSandboxes(c.boxes...)
			s.SetContainers(c.containers...)
			a := runtimeProbe(t, s.Endpoint()).askRuntime(t.Context())
			e := toldOf(a, uidDone)
			var words []string
			for _, b := range e.Sandboxes {
				if b.Socket != socketOf(s) || !b.Created.Equal(testkit.Noon.Add(-time.Hour)) {
					t.Errorf("%+v", b)
				}
				word := []string{b.ID}
				if b.Ready {
					word = append(word, "ready")
				}
				if b.Busy {
					word = append(word, "busy")
				}
				if b.Shared {
					word = append(word, "shared")
				}
				words = append(words, strings.Join(word, ":"))
			}
			if got := fmt.Sprintf("%s %d", strings.Join(words, " "), e.LooseContainers); got != c.want || a.InRuntime != c.pods {
				t.Errorf("%q and %d pods, want %q and %d", got, a.InRuntime, c.want, c.pods)
			}
		})
	}
}

// TestRuntimePodsOfAPart: where one list failed nobody knows what else the pod has, and no
// sandbox is told one by one.
func TestRuntimePodsOfAPart(t *testing.T) {
	for _, call := range []fakecri.Call{fakecri.ListPodSandbox, fakecri.ListContainers} {
		whole, part := startCRI(t, fakecri.Options{}), startCRI(t, fakecri.Options{})
		part.SetFault(call, fakecri.Fault{Err: status.Error(codes.Internal, "x")})
		a := runtimeProbe(t, "auto").askRuntimeAt(t.Context(), []string{socketOf(whole), socketOf(part)})
		if e := toldOf(a, uidDone); e.Facts[policy.FactSandbox].Truth != policy.Yes || e.Sandboxes != nil {
			t.Errorf("%+v", e.Sandboxes)
		}
		a.SandboxErr, a.ContainerErr, a.Lists.Truth = nil, nil, policy.Yes // the guard off
		if e := toldOf(a, uidDone); len(e.Sandboxes) == 0 {
			t.Error("the test tries nothing")
		}
	}
}

// TestLookRuntimeOnly: a pod that only the runtime has is looked at like any other. Its facts
// are found though its name came from the runtime and not from the pods directory.
func TestLookRuntimeOnly(t *testing.T) {
	const forgotten, named, parked = parsers.PodUID("0badf00d-0001-4aaa-8bbb-cccc00000001"), parsers.PodUID("0badf00d-0002-4aaa-8bbb-cccc00000002"),
		parsers.PodUID("0badf00d-0003-4aaa-8bbb-cccc00000003")
	n := newNode(t)
	s := startCRI(t, fakecri.Options{})
	n.cfg.Waive, n.cfg.RuntimeEndpoint = false, s.Endpoint()
	s.SetPods(fakecri.Pod{UID: string(uidLive), Namespace: "shop", Name: "db-0", Running: 1},
		fakecri.Pod{UID: string(forgotten), Namespace: "shop", Name: "old", NotReady: true, Exited: 1},
		fakecri.Pod{UID: string(named), Namespace: "shop", Name: "pinned", NotReady: true},
		fakecri.Pod{UID: string(parked), Namespace: "shop", Name: "parked", NotReady: true})
	n.mkdir("kubelet/pods/" + string(uidLive))
	n.write("kubelet/cpu_manager_state", `{"policyName":"static","entries":{"`+string(named)+`":{"main":"0"}},"checksum":1}`)
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
		t.Errorf("%d pods counted from a list that failed", *look.InRuntime)
	}
}
