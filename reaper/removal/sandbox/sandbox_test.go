package sandbox

import (
	"path/filepath"
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
)

const (
	deadPod   = parsers.PodUID("0badf00d-0001-4aaa-8bbb-cccc00000001")
	otherPod  = parsers.PodUID("0badf00d-0002-4aaa-8bbb-cccc00000002")
	staticPod = parsers.PodUID("4d145df0c0ffee00decafbad4d145df0")
)

// boxID is a sandbox ID as the runtimes make them.
func boxID(digit string) string { return strings.Repeat(digit, 64) }

// runtimeWith serves the pods.
func runtimeWith(t *testing.T, o fakecri.Options, pods ...fakecri.Pod) *fakecri.Server {
	t.Helper()
	s, err := fakecri.Start(t.Context(), filepath.Join(t.TempDir(), "s"), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	s.SetPods(pods...)
	return s
}

func stoppedPod(uid parsers.PodUID, digit string) fakecri.Pod {
	return fakecri.Pod{ID: boxID(digit), UID: string(uid), Namespace: "shop", Name: "db-0", NotReady: true, Exited: 1}
}

func removeBox(s *fakecri.Server, uid parsers.PodUID, id string) policy.Action {
	return policy.Action{
		Kind: policy.RemoveSandbox, UID: uid,
		Sandbox: policy.Sandbox{ID: id, Socket: strings.TrimPrefix(s.Endpoint(), "unix://")},
	}
}

// asked says which calls that change something have come.
func asked(s *fakecri.Server) [2]int {
	return [2]int{s.Calls(fakecri.StopPodSandbox), s.Calls(fakecri.RemovePodSandbox)}
}

func TestRemoveSandbox(t *testing.T) {
	for _, v := range []fakecri.Version{fakecri.V1, fakecri.V1Alpha2} {
		s := runtimeWith(t, fakecri.Options{Version: v}, stoppedPod(deadPod, "a"), stoppedPod(otherPod, "b"),
			fakecri.Pod{ID: boxID("c"), UID: string(staticPod), Namespace: "kube-system", Name: "etcd", Static: true, NotReady: true})
		outs := Remove(t.Context(), []policy.Action{
			removeBox(s, deadPod, boxID("a")), removeBox(s, staticPod, boxID("c")), removeBox(s, otherPod, boxID("d")),
		})
		var got []policy.Result
		for _, o := range outs {
			got = append(got, o.Result)
		}
		if want := []policy.Result{policy.Done, policy.Done, policy.Gone}; !slices.Equal(got, want) {
			t.Errorf("%v, want %v: %+v", got, want, outs)
		}
		if left := s.Sandboxes(); !slices.Equal(left, []string{boxID("b")}) {
			t.Errorf("left %v", left)
		}
		if asked(s) != [2]int{2, 2} {
			t.Errorf("asked %v: StopPodSandbox is what runs CNI DEL", asked(s))
		}
	}
}

// TestRemoveSandboxAskedAnew: between look and call the sandbox has become another thing than
// was judged. Nothing is asked to stop or go.
func TestRemoveSandboxAskedAnew(t *testing.T) {
	box := func(change func(*runtimeapi.PodSandbox)) func(*fakecri.Server) {
		return func(s *fakecri.Server) {
			b := stoppedPod(deadPod, "a").Sandbox()
			change(b)
			s.SetSandboxes(b)
		}
	}
	container := func(state runtimeapi.ContainerState) func(*fakecri.Server) {
		return func(s *fakecri.Server) {
			k := stoppedPod(deadPod, "a").Containers()[0]
			k.State = state
			s.SetContainers(k)
		}
	}
	for name, c := range map[string]struct {
		id     string
		change func(*fakecri.Server)
		detail string
		result policy.Result
	}{
		"nothing": {boxID("a"), func(*fakecri.Server) {}, "", policy.Done},
		"ready again": {
			boxID("a"), box(func(b *runtimeapi.PodSandbox) { b.State = runtimeapi.PodSandboxState_SANDBOX_READY }),
			"it is ready", policy.Refused,
		},
		"another pod's label":    {boxID("a"), box(func(b *runtimeapi.PodSandbox) { b.Labels[cri.LabelUID] = string(otherPod) }), string(otherPod), policy.Refused},
		"no label":               {boxID("a"), box(func(b *runtimeapi.PodSandbox) { delete(b.Labels, cri.LabelUID) }), `pod ""`, policy.Refused},
		"another pod's metadata": {boxID("a"), box(func(b *runtimeapi.PodSandbox) { b.Metadata.Uid = string(otherPod) }), string(otherPod), policy.Refused},
		"a static pod's": {
			boxID("a"), box(func(b *runtimeapi.PodSandbox) { b.Annotations[cri.AnnotationHash] = string(staticPod) }),
			string(staticPod), policy.Refused,
		},
		"part of an ID":          {boxID("a")[:12], func(*fakecri.Server) {}, "no whole sandbox ID", policy.Refused},
		"its ID is part of one":  {boxID("a"), box(func(b *runtimeapi.PodSandbox) { b.Id += "b" }), "that of another", policy.Refused},
		"a container runs":       {boxID("a"), container(runtimeapi.ContainerState_CONTAINER_RUNNING), "has not exited", policy.Refused},
		"a container was made":   {boxID("a"), container(runtimeapi.ContainerState_CONTAINER_CREATED), "has not exited", policy.Refused},
		"a container is unknown": {boxID("a"), container(runtimeapi.ContainerState_CONTAINER_UNKNOWN), "has not exited", policy.Refused},
		"gone":                   {boxID("a"), func(s *fakecri.Server) { s.SetSandboxes() }, "", policy.Gone},
	} {
		t.Run(name, func(t *testing.T) {
			s := runtimeWith(t, fakecri.Options{}, stoppedPod(deadPod, "a"))
			c.change(s)
			before := s.Sandboxes()
			o := Remove(t.Context(), []policy.Action{removeBox(s, deadPod, c.id)})[0]
			if o.Result != c.result || !strings.Contains(o.Err, c.detail) {
				t.Errorf("%s %q, want %s with %q", o.Result, o.Err, c.result, c.detail)
			}
			if c.result == policy.Refused && (len(o.Why) != 1 || o.Why[0].Reason != policy.ReasonSandbox) {
				t.Errorf("why %v", o.Why)
			}
			if c.result != policy.Done && (asked(s) != [2]int{} || !slices.Equal(s.Sandboxes(), before)) {
				t.Errorf("asked %v, left %v", asked(s), s.Sandboxes())
			}
		})
	}
}

// TestRemoveSandboxWithoutWholeIDs shows the loss that fullID prevents: a runtime takes the
// beginning of an ID for the whole.
func TestRemoveSandboxWithoutWholeIDs(t *testing.T) {
	s := runtimeWith(t, fakecri.Options{}, stoppedPod(otherPod, "a"))
	c, err := cri.Dial(strings.TrimPrefix(s.Endpoint(), "unix://"), time.Minute, cri.MaxAnswer)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, call := range []struct {
		name    string
		in, out any
	}{
		{"StopPodSandbox", &runtimeapi.StopPodSandboxRequest{PodSandboxId: "aaaa"}, &runtimeapi.StopPodSandboxResponse{}},
		{"RemovePodSandbox", &runtimeapi.RemovePodSandboxRequest{PodSandboxId: "aaaa"}, &runtimeapi.RemovePodSandboxResponse{}},
	} {
		if err := c.Call(t.Context(), call.name, call.in, call.out); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.Sandboxes()) != 0 {
		t.Error("the fake is kinder than the runtimes")
	}
}

// TestRemoveSandboxErrors: what the runtime says ends the pod's plan, and nobody else's.
func TestRemoveSandboxErrors(t *testing.T) {
	for call, name := range map[fakecri.Call]string{
		fakecri.ListPodSandbox: "ListPodSandbox", fakecri.ListContainers: "ListContainers",
		fakecri.StopPodSandbox: "StopPodSandbox", fakecri.RemovePodSandbox: "RemovePodSandbox",
	} {
		t.Run(name, func(t *testing.T) {
			s := runtimeWith(t, fakecri.Options{}, stoppedPod(deadPod, "a"), stoppedPod(deadPod, "b"), stoppedPod(otherPod, "c"))
			s.SetFault(call, fakecri.Fault{Err: status.Error(codes.Unknown, "cni config uninitialized"), Once: true})
			outs := Remove(t.Context(), []policy.Action{
				removeBox(s, deadPod, boxID("a")), removeBox(s, deadPod, boxID("b")), removeBox(s, otherPod, boxID("c")),
			})
			if o := outs[0]; o.Result != policy.Failed || !strings.Contains(o.Err, name+": cni config uninitialized") || o.Why[0].Reason != policy.ReasonSandbox {
				t.Errorf("first: %s %q %v", o.Result, o.Err, o.Why)
			}
			if o := outs[1]; o.Result != policy.Refused || o.Why[0].Reason != policy.ReasonSandbox {
				t.Errorf("its other sandbox: %s %q", o.Result, o.Err)
			}
			if o := outs[2]; o.Result != policy.Done {
				t.Errorf("another pod's: %s %q", o.Result, o.Err)
			}
			if left := s.Sandboxes(); !slices.Equal(left, []string{boxID("a"), boxID("b")}) {
				t.Errorf("left %v", left)
			}
		})
	}
}

// TestRemoveSandboxHangs: one patience for the whole batch, whatever hangs. A busy machine takes longer for what does not
// hang, so that the patience grows until it is enough for that.
func TestRemoveSandboxHangs(t *testing.T) {
	for _, call := range []fakecri.Call{fakecri.ListPodSandbox, fakecri.ListContainers, fakecri.StopPodSandbox, fakecri.RemovePodSandbox} {
		s := runtimeWith(t, fakecri.Options{}, stoppedPod(deadPod, "a"), stoppedPod(otherPod, "b"))
		actions := []policy.Action{removeBox(s, deadPod, boxID("a")), removeBox(s, otherPod, boxID("b"))}
		s.SetFault(call, fakecri.Fault{Hang: true})
		outs := remove(t.Context(), actions, 50*time.Millisecond, time.Hour)
		if o := outs[0]; o.Result != policy.Failed || !strings.Contains(o.Err, "no answer in time") {
			t.Errorf("%d: %s %q", call, o.Result, o.Err)
		}
		// The server may see the time run out a moment before we do, and the next call then ends at once.
		if o := outs[1]; o.Why[0].Reason != policy.ReasonLimit && !strings.Contains(o.Err, "no answer in time") {
			t.Errorf("%d: the next one: %s %v", call, o.Result, o.Why)
		}
		if len(s.Sandboxes()) != 2 {
			t.Errorf("%d: left %v", call, s.Sandboxes())
		}

		// One that hangs does not take the others' time.
		for one := 50 * time.Millisecond; ; one *= 4 {
			s.SetFault(call, fakecri.Fault{Hang: true, Once: true})
			outs = remove(t.Context(), actions, time.Hour, one)
			if outs[0].Result == policy.Failed && outs[1].Result == policy.Done {
				break
			}
			if outs[0].Result != policy.Failed || one > time.Minute {
				t.Fatalf("%d: %s, then %s %q", call, outs[0].Result, outs[1].Result, outs[1].Err)
			}
			s = runtimeWith(t, fakecri.Options{}, stoppedPod(deadPod, "a"), stoppedPod(otherPod, "b"))
			actions = []policy.Action{removeBox(s, deadPod, boxID("a")), removeBox(s, otherPod, boxID("b"))}
		}
	}
}

func TestRemoveSandboxNobodyThere(t *testing.T) {
	s := runtimeWith(t, fakecri.Options{}, stoppedPod(deadPod, "a"))
	a := removeBox(s, deadPod, boxID("a"))
	s.Close()
	if o := Remove(t.Context(), []policy.Action{a})[0]; o.Result != policy.Failed {
		t.Errorf("%s %q", o.Result, o.Err)
	}
	a.Sandbox.Socket = "relative"
	if o := Remove(t.Context(), []policy.Action{a})[0]; o.Result != policy.Failed || !strings.Contains(o.Err, "no path") {
		t.Errorf("%s %q", o.Result, o.Err)
	}
	noCRI := runtimeWith(t, fakecri.Options{Version: fakecri.NoCRI})
	if o := Remove(t.Context(), []policy.Action{removeBox(noCRI, deadPod, boxID("a"))})[0]; o.Result != policy.Failed {
		t.Errorf("%s %q", o.Result, o.Err)
	}
	mixed := []policy.Action{a, {Kind: policy.Park, UID: deadPod, Entry: string(deadPod) + ".1"}}
	if o := Remove(t.Context(), mixed)[1]; o.Result != policy.Refused {
		t.Errorf("a park among sandboxes: %s", o.Result)
	}
}
