package fakecri

import (
	"context"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// service describes the calls without cri-api's RuntimeServiceServer, so that the same handlers also serve v1alpha2. The
// messages of the two versions have the same encoding, as in containerd 1.6 and 1.7. Any other call is Unimplemented.
func service(v Version) *grpc.ServiceDesc {
	name := "runtime.v1.RuntimeService"
	if v == V1Alpha2 {
		name = "runtime.v1alpha2.RuntimeService"
	}
	return &grpc.ServiceDesc{
		ServiceName: name,
		HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{
			method("Version", GetVersion, (*Server).version),
			method("ListPodSandbox", ListPodSandbox, (*Server).listPodSandbox),
			method("ListContainers", ListContainers, (*Server).listContainers),
			method("Status", GetStatus, (*Server).status),
			method("PodSandboxStatus", PodSandboxStatus, (*Server).podSandboxStatus),
			method("ContainerStatus", ContainerStatus, (*Server).containerStatus),
		},
	}
}

// method wraps a handler, which is called with the server's lock held, unless the call has a fault.
func method[Request, Response any](name string, c Call, handle func(*Server, *Request) (*Response, error)) grpc.MethodDesc {
	return grpc.MethodDesc{
		MethodName: name,
		Handler: func(srv any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			in := new(Request)
			if err := decode(in); err != nil {
				return nil, err
			}
			s := srv.(*Server) //nolint:forcetypeassert // Start registers nothing but a *Server
			if err := s.enter(ctx, c); err != nil {
				return nil, err
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			return handle(s, in)
		},
	}
}

func (*Server) version(*runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{Version: "0.1.0", RuntimeName: "fakecri", RuntimeVersion: "1.2.3", RuntimeApiVersion: "v1"}, nil
}

func (s *Server) listPodSandbox(r *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	s.filtered = s.filtered || r.GetFilter() != nil
	return &runtimeapi.ListPodSandboxResponse{Items: s.sandboxes}, nil
}

func (s *Server) listContainers(r *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	s.filtered = s.filtered || r.GetFilter() != nil
	return &runtimeapi.ListContainersResponse{Containers: s.containers}, nil
}

func (s *Server) status(*runtimeapi.StatusRequest) (*runtimeapi.StatusResponse, error) {
	return &runtimeapi.StatusResponse{Status: &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{
		{Type: runtimeapi.RuntimeReady, Status: true},
	}}}, nil
}

// podSandboxStatus accepts the beginning of an ID, as a real runtime does.
func (s *Server) podSandboxStatus(r *runtimeapi.PodSandboxStatusRequest) (*runtimeapi.PodSandboxStatusResponse, error) {
	i := slices.IndexFunc(s.sandboxes, func(b *runtimeapi.PodSandbox) bool { return strings.HasPrefix(b.GetId(), r.GetPodSandboxId()) })
	if i < 0 {
		return nil, status.Errorf(codes.NotFound, "an error occurred when try to find sandbox %q: not found", r.GetPodSandboxId())
	}
	box := s.sandboxes[i]
	a := &runtimeapi.PodSandboxStatusResponse{Status: &runtimeapi.PodSandboxStatus{
		Id: box.GetId(), Metadata: box.GetMetadata(), State: box.GetState(), CreatedAt: box.GetCreatedAt(),
		Labels: box.GetLabels(), Annotations: box.GetAnnotations(),
	}}
	for i, ip := range s.ips[box.GetId()] {
		if i == 0 {
			a.Status.Network = &runtimeapi.PodSandboxNetworkStatus{Ip: ip}
			continue
		}
		a.Status.Network.AdditionalIps = append(a.Status.Network.AdditionalIps, &runtimeapi.PodIP{Ip: ip})
	}
	if r.GetVerbose() {
		a.Info = s.info[box.GetId()]
	}
	return a, nil
}

// containerStatus accepts the beginning of an ID, as a real runtime does.
func (s *Server) containerStatus(r *runtimeapi.ContainerStatusRequest) (*runtimeapi.ContainerStatusResponse, error) {
	i := slices.IndexFunc(s.containers, func(c *runtimeapi.Container) bool { return strings.HasPrefix(c.GetId(), r.GetContainerId()) })
	if i < 0 {
		return nil, status.Errorf(codes.NotFound, "an error occurred when try to find container %q: not found", r.GetContainerId())
	}
	c := s.containers[i]
	a := &runtimeapi.ContainerStatusResponse{Status: &runtimeapi.ContainerStatus{
		Id: c.GetId(), Metadata: c.GetMetadata(), State: c.GetState(), CreatedAt: c.GetCreatedAt(), Labels: c.GetLabels(), Annotations: c.GetAnnotations(),
	}}
	if r.GetVerbose() {
		a.Info = s.info[c.GetId()]
	}
	return a, nil
}
