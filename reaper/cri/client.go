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

// MaxAnswer bounds one list, in bytes. The list of a node with 2,000 pods and long annotations has a few MiB. The runtimes'
// own limits are 16 MiB (containerd's max_send_message_size) and 80 MiB (CRI-O's grpc_max_send_msg_size).
const MaxAnswer = 80 << 20

// MaxVerbose bounds the verbose status of a runtime, or of one sandbox or container with its whole OCI specification.
const MaxVerbose = 4 << 20

// services are the gRPC services of both versions. Runtimes before containerd 1.6 and CRI-O 1.20 have only the second. The
// messages of v1 serve for both, since the fields that are used have the same encoding.
var services = [...]string{"/runtime.v1.RuntimeService/", "/runtime.v1alpha2.RuntimeService/"}

var errNoCRI = errors.New("it answers, but does not speak CRI")

// Conn is a connection to one runtime.
type Conn struct {
	conn    *grpc.ClientConn
	timeout time.Duration // of each call
}

// Dial prepares a connection to the socket at path. timeout limits each call, and maxAnswer the bytes of its answer.
func Dial(path string, timeout time.Duration, maxAnswer int) (*Conn, error) {
	conn, err := Connect(path, maxAnswer)
	if err != nil {
		return nil, err
	}
	return &Conn{conn, timeout}, nil
}

// Connect is Dial for the socket of another service than CRI.
func Connect(path string, maxAnswer int, options ...grpc.DialOption) (*grpc.ClientConn, error) {
	// A unix: target would be parsed as a URL, and a path may contain any byte. The authority must be a host name.
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

// Close closes the connection.
func (c *Conn) Close() { _ = c.conn.Close() }

// Call calls a method of the first version that implements it. Any other error ends the call.
func (c *Conn) Call(ctx context.Context, method string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	for _, service := range services {
		err := c.conn.Invoke(ctx, service+method, in, out)
		if err == nil {
			err = ctx.Err() // an answer at the time limit may be old
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

// Reason returns the message of an error without gRPC's prefix.
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
	// NoCRI is true if a gRPC server answered that has neither version of CRI.
	NoCRI                    bool
	SandboxErr, ContainerErr error
	// Status has the runtime's conditions, nil with StatusErr.
	Status    *runtimeapi.RuntimeStatus
	StatusErr error
}

// List reads both lists and the status over a new connection. It lists the containers first: the sandbox of each container is
// then in the second list, unless it has just been removed.
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
		// No connection: two more calls would only wait for their time limits, too.
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
