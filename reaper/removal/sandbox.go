package removal

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// The times of the calls to a runtime. Stopping a sandbox runs the CNI plugins, which may ask
// a server somewhere; the kubelet gives each call two minutes (--runtime-request-timeout).
// All the sandboxes of a batch have those together, so that a runtime that hangs holds up a
// pass no longer, and one of them not all of it, so that one network that hangs does not hold
// up the others.
const (
	sandboxesTake = 2 * time.Minute
	sandboxTakes  = 30 * time.Second
)

// The label by which the kubelet marks a sandbox as its pod's, and the annotation that has
// the UID of a static pod.
const (
	labelUID       = "io.kubernetes.pod.uid"
	annotationHash = "kubernetes.io/config.hash"
)

// The services that answer. Runtimes before containerd 1.6 and CRI-O 1.20 have only the
// second, with the same fields on the wire for all that is used here.
var criServices = [...]string{"/runtime.v1.RuntimeService/", "/runtime.v1alpha2.RuntimeService/"}

var (
	errTurn    = errors.New("not begun: the runtime has taken too long for the others")
	errAnother = errors.New("not begun: another sandbox of the pod could not be removed")
)

// sandboxes asks the runtime to remove sandboxes, one after the other. After the first error
// of a pod its others are left.
func (r *Remover) sandboxes(ctx context.Context, actions []policy.Action) []policy.Outcome {
	ctx, cancel := context.WithTimeout(ctx, r.sandboxesTake)
	defer cancel()
	failed := map[parsers.PodUID]bool{}
	var out []policy.Outcome
	for _, a := range actions {
		o := policy.Outcome{Action: a, Result: policy.Done}
		switch {
		case a.Kind != policy.RemoveSandbox:
			o = refuse(a, policy.ReasonRemoval, fmt.Errorf("%s among sandboxes", a.Kind))
		case failed[a.UID]:
			o = refuse(a, policy.ReasonSandbox, errAnother)
		case ctx.Err() != nil:
			o = refuse(a, policy.ReasonLimit, errTurn)
		default:
			o.Result, o.Err = r.sandbox(ctx, a)
			if o.Err != "" {
				o.Why = []policy.Why{{Reason: policy.ReasonSandbox, Detail: o.Err}}
			}
		}
		failed[a.UID] = failed[a.UID] || o.Result == policy.Refused || o.Result == policy.Failed
		out = append(out, o)
	}
	return out
}

// sandbox asks whether the sandbox is still what the look has seen, and has it stopped and
// removed, as the kubelet's garbage collection does.
//
// Both calls are needed. StopPodSandbox is what runs CNI DEL, and CRI wants it before the
// other; RemovePodSandbox does so by itself in containerd since 1.7 only (before, it refuses
// while the network namespace is there), and in older CRI-O never. Both kill what runs, so
// nothing may run: a sandbox that has stopped never starts again, the kubelet makes another.
func (r *Remover) sandbox(ctx context.Context, a policy.Action) (policy.Result, string) {
	if !fullID(a.Sandbox.ID) {
		return policy.Refused, fmt.Sprintf("%q is no whole sandbox ID, and part of one may stand for another", a.Sandbox.ID)
	}
	c, err := dialRuntime(a.Sandbox.Socket, r.sandboxTakes)
	if err != nil {
		return policy.Failed, fmt.Sprintf("cannot ask the runtime at %s: %v", a.Sandbox.Socket, err)
	}
	defer func() { _ = c.conn.Close() }() // what was sent was answered, or is not known
	there, why, err := c.stillStopped(ctx, a)
	switch {
	case err != nil:
		return policy.Failed, fmt.Sprintf("cannot ask the runtime about sandbox %s: %v", a.Sandbox.ID, err)
	case !there:
		return policy.Gone, ""
	case why != "":
		return policy.Refused, fmt.Sprintf("sandbox %s was left: %s", a.Sandbox.ID, why)
	}
	if err := c.call(ctx, "StopPodSandbox", &runtimeapi.StopPodSandboxRequest{PodSandboxId: a.Sandbox.ID}, &runtimeapi.StopPodSandboxResponse{}); err != nil {
		return policy.Failed, fmt.Sprintf("the runtime cannot stop sandbox %s: %v", a.Sandbox.ID, err)
	}
	if err := c.call(ctx, "RemovePodSandbox", &runtimeapi.RemovePodSandboxRequest{PodSandboxId: a.Sandbox.ID}, &runtimeapi.RemovePodSandboxResponse{}); err != nil {
		return policy.Failed, fmt.Sprintf("the runtime cannot remove sandbox %s: %v", a.Sandbox.ID, err)
	}
	return policy.Done, ""
}

// fullID says whether an ID is one that the runtimes make: 64 hexadecimal digits. They take
// the beginning of an ID for the whole (truncindex), which must not happen to another's.
func fullID(id string) bool {
	return len(id) == 64 && strings.Trim(id, "0123456789abcdef") == ""
}

// runtimeClient asks one socket.
type runtimeClient struct {
	conn    *grpc.ClientConn
	timeout time.Duration
}

func dialRuntime(path string, timeout time.Duration) (runtimeClient, error) {
	if !strings.HasPrefix(path, "/") {
		return runtimeClient{}, fmt.Errorf("%q is no path of a socket", path)
	}
	conn, err := grpc.NewClient("passthrough:///localhost",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}),
		grpc.WithDisableServiceConfig(), grpc.WithUserAgent("orphan-reaper"))
	return runtimeClient{conn, timeout}, err
}

// stillStopped asks for the sandbox and its containers by its ID once more. It says whether
// there is such a sandbox, and why it must not be removed, "" where it may.
func (c runtimeClient) stillStopped(ctx context.Context, a policy.Action) (there bool, why string, err error) {
	var boxes runtimeapi.ListPodSandboxResponse
	err = c.call(ctx, "ListPodSandbox", &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{Id: a.Sandbox.ID}}, &boxes)
	if err != nil {
		return false, "", err
	}
	for _, s := range boxes.GetItems() {
		switch uid := s.GetLabels()[labelUID]; {
		case s.GetId() != a.Sandbox.ID:
			return true, "the runtime takes its ID for that of another", nil
		case s.GetState() != runtimeapi.PodSandboxState_SANDBOX_NOTREADY:
			return true, "it is ready", nil
		case uid != string(a.UID):
			return true, fmt.Sprintf("its label says that it is pod %q's", uid), nil
		case s.GetMetadata().GetUid() != "" && s.GetMetadata().GetUid() != uid:
			return true, fmt.Sprintf("its metadata say that it is pod %q's", s.GetMetadata().GetUid()), nil
		case s.GetAnnotations()[annotationHash] != "" && s.GetAnnotations()[annotationHash] != uid:
			return true, fmt.Sprintf("its annotation says that it is static pod %q's", s.GetAnnotations()[annotationHash]), nil
		}
		there = true
	}
	if !there {
		return false, "", nil
	}
	var containers runtimeapi.ListContainersResponse
	err = c.call(ctx, "ListContainers", &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{PodSandboxId: a.Sandbox.ID}}, &containers)
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

// call tries both versions of CRI.
func (c runtimeClient) call(ctx context.Context, method string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	var err error
	for _, service := range criServices {
		if err = c.conn.Invoke(ctx, service+method, in, out); status.Code(err) != codes.Unimplemented {
			break
		}
	}
	switch s, ok := status.FromError(err); {
	case err == nil:
		return nil
	case !ok:
		return fmt.Errorf("%s: %w", method, err)
	case s.Code() == codes.DeadlineExceeded:
		return fmt.Errorf("%s: no answer in time", method)
	default:
		return fmt.Errorf("%s: %s (%s)", method, s.Message(), s.Code())
	}
}
