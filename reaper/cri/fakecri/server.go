package fakecri

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Version is the CRI version of a server.
type Version uint8

// The versions.
const (
	V1       Version = iota // runtime.v1: containerd 1.6, CRI-O 1.20 and later
	V1Alpha2                // runtime.v1alpha2 only: containerd before 1.6, dockershim
	NoCRI                   // a gRPC server without CRI, such as containerd without its CRI plugin
)

// Call names one of the calls that the server answers.
type Call uint8

// The calls.
const (
	ListPodSandbox Call = iota
	ListContainers
	GetVersion
	PodSandboxStatus
	GetStatus
	ContainerStatus
	numCalls
)

// Fault is how a call fails. The zero value is no fault. The server applies the fields in their order.
type Fault struct {
	Delay time.Duration // wait first, at most until the caller ends the call
	Hang  bool          // do not answer until the caller ends the call
	Die   bool          // close every connection and the socket in the middle of the call
	Err   error         // return this; status.Error makes one with a code
}

// Options are the fixed options of a server.
type Options struct {
	Version Version
	// CutAfter closes each connection after the server has written so many bytes, as a runtime that dies in the middle of
	// an answer. 0 never does.
	CutAfter int
}

// Server is a fake runtime. Its methods are safe for concurrent use.
type Server struct {
	socket string
	grpc   *grpc.Server
	done   chan struct{}

	mu         sync.Mutex
	sandboxes  []*runtimeapi.PodSandbox
	containers []*runtimeapi.Container
	faults     [numCalls]Fault
	calls      [numCalls]int
	filtered   bool
	info       map[string]map[string]string
	ips        map[string][]string
}

// Start listens on the unix socket and serves until Close. The socket must be in a private directory.
func Start(ctx context.Context, socket string, o Options) (*Server, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "unix", socket)
	if err != nil {
		return nil, fmt.Errorf("cannot listen: %w", err)
	}
	if o.CutAfter > 0 {
		l = cutListener{Listener: l, after: o.CutAfter}
	}
	s := &Server{socket: socket, grpc: grpc.NewServer(), done: make(chan struct{}), info: map[string]map[string]string{}}
	if o.Version != NoCRI {
		s.grpc.RegisterService(service(o.Version), s)
	}
	go func() {
		defer close(s.done)
		_ = s.grpc.Serve(l) // it fails only after Close or Fault.Die
	}()
	return s, nil
}

// Endpoint returns the address for --runtime-endpoint.
func (s *Server) Endpoint() string { return "unix://" + s.socket }

// Close ends the server, its connections and its calls, and removes the socket.
func (s *Server) Close() {
	s.grpc.Stop()
	<-s.done
}

// SetSandboxes replaces the list of sandboxes. The caller must not change them afterwards.
func (s *Server) SetSandboxes(list ...*runtimeapi.PodSandbox) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sandboxes = list
}

// SetContainers replaces the list of containers. The caller must not change them afterwards.
func (s *Server) SetContainers(list ...*runtimeapi.Container) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.containers = list
}

// SetPods replaces both lists with those of the pods.
func (s *Server) SetPods(pods ...Pod) {
	var sandboxes []*runtimeapi.PodSandbox
	var containers []*runtimeapi.Container
	for _, p := range pods {
		sandboxes = append(sandboxes, p.Sandbox())
		containers = append(containers, p.Containers()...)
	}
	s.SetSandboxes(sandboxes...)
	s.SetContainers(containers...)
}

// SetFault sets how the call fails from now on; the zero Fault ends that.
func (s *Server) SetFault(c Call, f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults[c] = f
}

// Calls returns how often the call was received.
func (s *Server) Calls(c Call) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[c]
}

// SetIPs sets the addresses of the sandbox id in its status.
func (s *Server) SetIPs(id string, ips ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ips == nil {
		s.ips = map[string][]string{}
	}
	s.ips[id] = ips
}

// SetInfo sets the info of the verbose status of a sandbox or container. containerd and CRI-O have the OCI specification as
// JSON in "info", for a sandbox that of its first container.
func (s *Server) SetInfo(id string, info map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.info[id] = info
}

// Filtered reports whether any call had a filter, and so did not list all states.
func (s *Server) Filtered() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.filtered
}

// enter counts the call and applies the fault.
func (s *Server) enter(ctx context.Context, c Call) error {
	s.mu.Lock()
	s.calls[c]++
	f := s.faults[c]
	s.mu.Unlock()
	if f.Delay > 0 {
		t := time.NewTimer(f.Delay)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if f.Die {
		go s.grpc.Stop() // it waits for the connections, and this call uses one
		f.Hang = true
	}
	if f.Hang {
		<-ctx.Done()
		return ctx.Err()
	}
	return f.Err
}
