package probe

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

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// maxAnswer bounds one list. A node of 2,000 pods with long annotations answers with a
// few MiB; the runtimes themselves stop at 16 MiB (containerd's max_send_message_size,
// CRI-O's grpc_max_send_msg_size is 80 MiB). More is an error, and so Unknown.
const maxAnswer = 80 << 20

// The services that answer the two calls. Runtimes before containerd 1.6 and CRI-O 1.20
// have only the second. Its messages have the same fields on the wire for all that is
// read here, so those of v1 serve for both.
var criServices = [...]string{"/runtime.v1.RuntimeService/", "/runtime.v1alpha2.RuntimeService/"}

// criClient asks one socket.
type criClient struct {
	timeout   time.Duration // of each call
	maxAnswer int           // bytes
}

// criAnswer is what one socket said.
type criAnswer struct {
	path       string
	sandboxes  []*runtimeapi.PodSandbox
	containers []*runtimeapi.Container
	// noCRI says that a gRPC server answered which knows neither version of CRI.
	noCRI                    bool
	sandboxErr, containerErr error
	network                  policy.Fact // is the pods' network ready?
}

var errNoCRI = errors.New("it answers, but speaks no CRI")

// ask makes a connection, makes both calls and closes it. The containers come first: the
// sandbox of each one that is listed is then in the second answer, unless it has just
// been removed.
func (c criClient) ask(ctx context.Context, path string) criAnswer {
	a := criAnswer{path: path}
	conn, err := c.connect(path)
	if err != nil {
		a.sandboxErr, a.containerErr = err, err
		return a
	}
	defer func() { _ = conn.Close() }() // nothing was sent that could be lost

	var containers runtimeapi.ListContainersResponse
	a.containerErr = c.call(ctx, conn, "ListContainers", &runtimeapi.ListContainersRequest{}, &containers)
	var sandboxes runtimeapi.ListPodSandboxResponse
	a.sandboxErr = c.call(ctx, conn, "ListPodSandbox", &runtimeapi.ListPodSandboxRequest{}, &sandboxes)

	a.network = c.network(ctx, conn)

	a.noCRI = errors.Is(a.containerErr, errNoCRI) && errors.Is(a.sandboxErr, errNoCRI)
	if a.containerErr == nil {
		a.containers = containers.GetContainers()
	}
	if a.sandboxErr == nil {
		a.sandboxes = sandboxes.GetItems()
	}
	return a
}

// network asks for the condition NetworkReady, which every runtime must have (api.proto,
// RuntimeStatus). One that does not tell is not known to have a network.
func (c criClient) network(ctx context.Context, conn *grpc.ClientConn) policy.Fact {
	var status runtimeapi.StatusResponse
	if err := c.call(ctx, conn, "Status", &runtimeapi.StatusRequest{}, &status); err != nil {
		return policy.Fact{Detail: err.Error()}
	}
	for _, cond := range status.GetStatus().GetConditions() {
		switch {
		case cond.GetType() != runtimeapi.NetworkReady:
		case cond.GetStatus():
			return policy.Fact{Truth: policy.Yes}
		default:
			return policy.Fact{Truth: policy.No, Detail: strings.Trim(clean(cond.GetReason()+": "+cond.GetMessage()), ": ")}
		}
	}
	return policy.Fact{Detail: "the runtime has no condition " + runtimeapi.NetworkReady}
}

// version returns the runtime's name and version for people, in words where it does not tell.
func (c criClient) version(ctx context.Context, path string) string {
	conn, err := c.connect(path)
	if err == nil {
		defer func() { _ = conn.Close() }() // nothing was sent that could be lost
		var v runtimeapi.VersionResponse
		// The kubelet gives its own API's version so; no runtime looks at it.
		err = c.call(ctx, conn, "Version", &runtimeapi.VersionRequest{Version: "0.1.0"}, &v)
		if err == nil && v.GetRuntimeName() != "" {
			return strings.TrimSpace(clean(v.GetRuntimeName()) + " " + clean(v.GetRuntimeVersion()))
		}
	}
	if err == nil {
		err = errors.New("it gives no name")
	}
	return fmt.Sprintf("the runtime at %s (%s)", clean(path), clean(err.Error()))
}

func (c criClient) connect(path string) (*grpc.ClientConn, error) {
	// passthrough and a dialer of our own rather than a unix: target, since a target is
	// parsed as a URL and a path may hold any byte. The authority must be a host name.
	return grpc.NewClient("passthrough:///localhost",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}),
		grpc.WithDisableServiceConfig(),
		grpc.WithUserAgent("orphan-reaper"),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(c.maxAnswer)))
}

// call tries both versions. Unimplemented is the one error that says "not here": every
// other one, from whichever version, is a runtime that failed.
func (c criClient) call(ctx context.Context, conn *grpc.ClientConn, method string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	for _, service := range criServices {
		err := conn.Invoke(ctx, service+method, in, out)
		if err == nil {
			// An answer that came as the time ran out may be older than it looks.
			err = ctx.Err()
		}
		if status.Code(err) == codes.Unimplemented {
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %s", method, reason(err))
		}
		return nil
	}
	return fmt.Errorf("%s: %w", method, errNoCRI)
}

// reason takes gRPC's wrapping off an error: people read it in a table.
func reason(err error) string {
	s, ok := status.FromError(err)
	if !ok {
		return err.Error()
	}
	if s.Code() == codes.DeadlineExceeded {
		return "no answer in time"
	}
	return fmt.Sprintf("%s (%s)", s.Message(), s.Code())
}
