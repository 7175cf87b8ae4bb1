package cri

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// MaxAnswer bounds one list. A node of 2,000 pods with long annotations answers with a
// few MiB; the runtimes themselves stop at 16 MiB (containerd's max_send_message_size,
// CRI-O's grpc_max_send_msg_size is 80 MiB). More is an error, and so Unknown.
const MaxAnswer = 80 << 20

// MaxVerbose is more than a runtime returns of itself, or of one sandbox or container with its whole OCI specification,
// environment and mounts.
const MaxVerbose = 4 << 20

// The services that answer the calls. Runtimes before containerd 1.6 and CRI-O 1.20 have
// only the second. Its messages have the same fields on the wire for all that is used here,
// so those of v1 serve for both.
var services = [...]string{"/runtime.v1.RuntimeService/", "/runtime.v1alpha2.RuntimeService/"}

var errNoCRI = errors.New("it answers, but speaks no CRI")

// Conn is a connection to one runtime.
type Conn struct {
	conn    *grpc.ClientConn
	timeout time.Duration // of each call
}

// Dial prepares a connection to the socket at path. Each call may take timeout, and its
// answer may have maxAnswer bytes.
func Dial(path string, timeout time.Duration, maxAnswer int) (*Conn, error) {
	conn, err := Connect(path, maxAnswer)
	if err != nil {
		return nil, err
	}
	return &Conn{conn, timeout}, nil
}

// Connect is Dial for a socket at which another service than CRI is asked. The options come last.
func Connect(path string, maxAnswer int, options ...grpc.DialOption) (*grpc.ClientConn, error) {
	// passthrough and a dialer of our own rather than a unix: target, since a target is
	// parsed as a URL and a path may hold any byte. The authority must be a host name.
	return grpc.NewClient("passthrough:///localhost", append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}),
		grpc.WithDisableServiceConfig(),
		grpc.WithUserAgent("orphan-reaper"),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)),
	}, options...)...)
}

// Close ends the connection. What was sent was answered, or it is not known what became of it.
func (c *Conn) Close() { _ = c.conn.Close() }

// Call tries both versions. Every error but Unimplemented, from whichever version, is a runtime that failed.
func (c *Conn) Call(ctx context.Context, method string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	for _, service := range services {
		err := c.conn.Invoke(ctx, service+method, in, out)
		if err == nil {
			// An answer that came as the time ran out may be older than it looks.
			err = ctx.Err()
		}
		if status.Code(err) == codes.Unimplemented {
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %s", method, Reason(err))
		}
		return nil
	}
	return fmt.Errorf("%s: %w", method, errNoCRI)
}

// Reason removes gRPC's wrapping from an error, for messages.
func Reason(err error) string {
	s, ok := status.FromError(err)
	if !ok {
		return err.Error()
	}
	if s.Code() == codes.DeadlineExceeded {
		return "no answer in time"
	}
	return fmt.Sprintf("%s (%s)", s.Message(), s.Code())
}

// Lists is what one runtime lists: every sandbox and every container, in every state.
type Lists struct {
	Path       string // of the socket
	Sandboxes  []*runtimeapi.PodSandbox
	Containers []*runtimeapi.Container
	// NoCRI: a gRPC server answered that has neither version of CRI.
	NoCRI                    bool
	SandboxErr, ContainerErr error
	// Status has the runtime's conditions, StatusErr why there are none.
	Status    *runtimeapi.RuntimeStatus
	StatusErr error
}

// List makes a connection, asks for both lists and the status, one call each, and closes it.
// The containers come first: the sandbox of each one that is listed is then in the second
// answer, unless it has just been removed.
func List(ctx context.Context, path string, timeout time.Duration, maxAnswer int) Lists {
	l := Lists{Path: path}
	conn, err := Dial(path, timeout, maxAnswer)
	if err != nil {
		l.SandboxErr, l.ContainerErr, l.StatusErr = err, err, err
		return l
	}
	defer conn.Close()

	var containers runtimeapi.ListContainersResponse
	l.ContainerErr = conn.Call(ctx, "ListContainers", &runtimeapi.ListContainersRequest{}, &containers)
	if l.ContainerErr != nil && conn.conn.GetState() != connectivity.Ready {
		// It does not even greet, as a runtime that has been stopped: three questions would wait three times as long.
		l.SandboxErr, l.StatusErr = l.ContainerErr, l.ContainerErr
		return l
	}
	var sandboxes runtimeapi.ListPodSandboxResponse
	l.SandboxErr = conn.Call(ctx, "ListPodSandbox", &runtimeapi.ListPodSandboxRequest{}, &sandboxes)
	var status runtimeapi.StatusResponse
	l.StatusErr = conn.Call(ctx, "Status", &runtimeapi.StatusRequest{}, &status)

	l.NoCRI = errors.Is(l.ContainerErr, errNoCRI) && errors.Is(l.SandboxErr, errNoCRI)
	if l.ContainerErr == nil {
		l.Containers = containers.GetContainers()
	}
	if l.SandboxErr == nil {
		l.Sandboxes = sandboxes.GetItems()
	}
	if l.StatusErr == nil {
		l.Status = status.GetStatus()
	}
	return l
}
