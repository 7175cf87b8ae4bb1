// Package sandbox asks the container runtime to stop and remove sandboxes that have stopped
// already. It changes no file: the runtime runs CNI DEL, and no change of files can replace that.
//
// It does not decide. Immediately before, it asks the runtime about each sandbox by its whole ID,
// and leaves whatever is not as it was judged.
package sandbox

import (
	"context"
	"fmt"
	"strings"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/cri"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// The times of the calls to a runtime. Stopping a sandbox runs the CNI plugins, which may ask
// a server somewhere; the kubelet gives each call two minutes (--runtime-request-timeout). Here all
// the sandboxes of a batch have two minutes together: a runtime that hangs delays a pass no longer.
// One sandbox has a part of that: one network that hangs does not delay the others for all of it.
const (
	allTake  = 2 * time.Minute
	oneTakes = 30 * time.Second
)

// Remove asks the runtime to remove sandboxes, one after the other. After the first error
// of a pod its others are left. The actions are all of kind RemoveSandbox.
func Remove(ctx context.Context, actions []policy.Action) []policy.Outcome {
	return remove(ctx, actions, allTake, oneTakes)
}

func remove(ctx context.Context, actions []policy.Action, all, one time.Duration) []policy.Outcome {
	ctx, cancel := context.WithTimeout(ctx, all)
	defer cancel()
	failed := map[parsers.PodUID]bool{}
	var out []policy.Outcome
	for _, a := range actions {
		o, reason := policy.Outcome{Action: a, Result: policy.Refused}, policy.ReasonSandbox
		switch {
		case a.Kind != policy.RemoveSandbox:
			o.Err, reason = fmt.Sprintf("%s among sandboxes", a.Kind), policy.ReasonRemoval
		case failed[a.UID]:
			o.Err = "not begun: another sandbox of the pod could not be removed"
		case ctx.Err() != nil:
			o.Err, reason = "not begun: the runtime has taken too long for the others", policy.ReasonLimit
		default:
			o.Result, o.Err = removeOne(ctx, a, one)
		}
		if o.Err != "" {
			o.Why = []policy.Why{{Reason: reason, Detail: o.Err}}
		}
		failed[a.UID] = failed[a.UID] || o.Result == policy.Refused || o.Result == policy.Failed
		out = append(out, o)
	}
	return out
}

// removeOne asks whether the sandbox is still what the look has seen, and has it stopped and
// removed, as the kubelet's garbage collection does.
//
// Both calls are needed. StopPodSandbox is what runs CNI DEL, and CRI wants it before the
// other; RemovePodSandbox does so by itself in containerd since 1.7 only (before, it refuses
// while the network namespace is there), and in older CRI-O never. Both kill what runs, so
// nothing may run: a sandbox that has stopped never starts again, the kubelet makes another.
func removeOne(ctx context.Context, a policy.Action, takes time.Duration) (policy.Result, string) {
	if !fullID(a.Sandbox.ID) {
		return policy.Refused, fmt.Sprintf("%q is no whole sandbox ID, and part of one may stand for another", a.Sandbox.ID)
	}
	if !strings.HasPrefix(a.Sandbox.Socket, "/") {
		return policy.Failed, fmt.Sprintf("cannot ask the runtime at %s: %[1]q is no path of a socket", a.Sandbox.Socket)
	}
	c, err := cri.Dial(a.Sandbox.Socket, takes, cri.MaxAnswer)
	if err != nil {
		return policy.Failed, fmt.Sprintf("cannot ask the runtime at %s: %v", a.Sandbox.Socket, err)
	}
	defer c.Close()
	there, why, err := stillStopped(ctx, c, a)
	switch {
	case err != nil:
		return policy.Failed, fmt.Sprintf("cannot ask the runtime about sandbox %s: %v", a.Sandbox.ID, err)
	case !there:
		return policy.Gone, ""
	case why != "":
		return policy.Refused, fmt.Sprintf("sandbox %s was left: %s", a.Sandbox.ID, why)
	}
	stop := &runtimeapi.StopPodSandboxRequest{PodSandboxId: a.Sandbox.ID}
	if err := c.Call(ctx, "StopPodSandbox", stop, &runtimeapi.StopPodSandboxResponse{}); err != nil {
		return policy.Failed, fmt.Sprintf("the runtime cannot stop sandbox %s: %v", a.Sandbox.ID, err)
	}
	remove := &runtimeapi.RemovePodSandboxRequest{PodSandboxId: a.Sandbox.ID}
	if err := c.Call(ctx, "RemovePodSandbox", remove, &runtimeapi.RemovePodSandboxResponse{}); err != nil {
		return policy.Failed, fmt.Sprintf("the runtime cannot remove sandbox %s: %v", a.Sandbox.ID, err)
	}
	return policy.Done, ""
}

// fullID reports whether an ID is one that the runtimes make: 64 hexadecimal digits. They take
// the beginning of an ID for the whole (truncindex), which must not happen to another's.
func fullID(id string) bool {
	return len(id) == 64 && strings.Trim(id, "0123456789abcdef") == ""
}

// stillStopped asks for the sandbox and its containers by its ID once more. It says whether
// there is such a sandbox, and why it must not be removed, "" where it may.
func stillStopped(ctx context.Context, c *cri.Conn, a policy.Action) (there bool, why string, err error) {
	var boxes runtimeapi.ListPodSandboxResponse
	err = c.Call(ctx, "ListPodSandbox", &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{Id: a.Sandbox.ID}}, &boxes)
	if err != nil {
		return false, "", err
	}
	for _, s := range boxes.GetItems() {
		switch uid := s.GetLabels()[cri.LabelUID]; {
		case s.GetId() != a.Sandbox.ID:
			return true, "the runtime takes its ID for that of another", nil
		case s.GetState() != runtimeapi.PodSandboxState_SANDBOX_NOTREADY:
			return true, "it is ready", nil
		case uid != string(a.UID):
			return true, fmt.Sprintf("its label says that it is pod %q's", uid), nil
		case s.GetMetadata().GetUid() != "" && s.GetMetadata().GetUid() != uid:
			return true, fmt.Sprintf("its metadata say that it is pod %q's", s.GetMetadata().GetUid()), nil
		case s.GetAnnotations()[cri.AnnotationHash] != "" && s.GetAnnotations()[cri.AnnotationHash] != uid:
			return true, fmt.Sprintf("its annotation says that it is static pod %q's", s.GetAnnotations()[cri.AnnotationHash]), nil
		}
		there = true
	}
	if !there {
		return false, "", nil
	}
	var containers runtimeapi.ListContainersResponse
	err = c.Call(ctx, "ListContainers", &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{PodSandboxId: a.Sandbox.ID}}, &containers)
	if err != nil {
		return true, "", err
	}
	for _, k := range containers.GetContainers() {
		if k.GetState() != runtimeapi.ContainerState_CONTAINER_EXITED {
			return true, fmt.Sprintf("its container %s has not exited", k.GetId()), nil
		}
	}
	return true, "", nil
}
