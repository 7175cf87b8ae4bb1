package runtime

import (
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

// TestRuntimePods checks the runtime's sandboxes and containers of one pod, as policy judges them.
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
	const unknown = runtimeapi.ContainerState_CONTAINER_UNKNOWN
	for name, c := range map[string]struct {
		boxes      []*runtimeapi.PodSandbox
		containers []*runtimeapi.Container
		want       string // uidDone's sandboxes, and what shows that it lives
		pods       int
	}{
		"stopped":           {[]*runtimeapi.PodSandbox{box("a", uidDone, notReady)}, []*runtimeapi.Container{container("a", uidDone, exited)}, "a", 1},
		"two":               {[]*runtimeapi.PodSandbox{box("a", uidDone, notReady), box("b", uidDone, ready)}, nil, "a b:ready sandbox", 1},
		"mirror":            {[]*runtimeapi.PodSandbox{box("a", uidDone, ready, string(uidStatic))}, nil, "a:ready sandbox", 1},
		"twice, ready once": {[]*runtimeapi.PodSandbox{box("a", uidDone, notReady), box("a", uidDone, ready)}, nil, "a:ready sandbox", 1},
		"a container to be": {[]*runtimeapi.PodSandbox{box("a", uidDone, notReady)}, []*runtimeapi.Container{container("a", uidDone, made)}, "a container", 1},
		"not known":         {[]*runtimeapi.PodSandbox{box("a", uidDone, notReady)}, []*runtimeapi.Container{container("a", uidDone, unknown)}, "a container", 1},
		"without labels": {
			[]*runtimeapi.PodSandbox{box("a", uidDone, notReady)},
			[]*runtimeapi.Container{{Id: "k", PodSandboxId: "a", State: runtimeapi.ContainerState_CONTAINER_RUNNING}},
			"a container", 1,
		},
		"its own elsewhere": {
			[]*runtimeapi.PodSandbox{box("a", uidLive, notReady), box("b", uidDone, notReady)},
			[]*runtimeapi.Container{container("a", uidDone, made)},
			"b container", 2,
		},
		"no sandbox":   {[]*runtimeapi.PodSandbox{box("a", uidLive, notReady)}, []*runtimeapi.Container{container("gone", uidDone, made)}, "container", 2},
		"not by a UID": {[]*runtimeapi.PodSandbox{box("a", uidLive, ready), box("b", "no-uid", ready)}, nil, "", 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := startCRI(t, fakecri.Options{})
			s.SetSandboxes(c.boxes...)
			s.SetContainers(c.containers...)
			a := newReader(t, s.Endpoint()).Ask(t.Context())
			e := evidenceOf(a, uidDone)
			var words []string
			for _, b := range e.Sandboxes {
				if b.Socket != socketOf(s) || !b.Created.Equal(testkit.Noon.Add(-time.Hour)) {
					t.Errorf("%+v", b)
				}
				words = append(words, b.ID)
				if b.Ready {
					words[len(words)-1] += ":ready"
				}
			}
			for fact, word := range map[policy.FactName]string{policy.FactSandbox: "sandbox", policy.FactContainer: "container"} {
				if e.Facts[fact].Truth == policy.Yes {
					words = append(words, word)
				}
			}
			if got := strings.Join(words, " "); got != c.want || a.InRuntime != c.pods {
				t.Errorf("%q and %d pods, want %q and %d", got, a.InRuntime, c.want, c.pods)
			}
		})
	}
}

// TestRuntimePodsOfAPart checks that after one failed list no sandbox is listed, since the rest of the pod is
// unknown.
func TestRuntimePodsOfAPart(t *testing.T) {
	for _, call := range []fakecri.Call{fakecri.ListPodSandbox, fakecri.ListContainers} {
		whole, part := startCRI(t, fakecri.Options{}), startCRI(t, fakecri.Options{})
		part.SetFault(call, fakecri.Fault{Err: status.Error(codes.Internal, "x")})
		a := newReader(t, "auto").at(socketOf(whole), socketOf(part)).Ask(t.Context())
		if e := evidenceOf(a, uidDone); e.Sandboxes != nil {
			t.Errorf("%+v", e.Sandboxes)
		}
		a.SandboxErr, a.ContainerErr, a.Lists.Truth = nil, nil, policy.Yes // without the guard
		if e := evidenceOf(a, uidDone); len(e.Sandboxes) == 0 {
			t.Error("the guard has no effect, so the test proves nothing")
		}
	}
}
