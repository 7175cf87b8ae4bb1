package fakecri

import (
	"context"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// SetInfo says what the verbose status of a sandbox or container has besides: of containerd and
// CRI-O the OCI specification, of a sandbox that of its first container, as JSON below "info".
func (s *Server) SetInfo(id string, info map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.info == nil {
		s.info = map[string]map[string]string{}
	}
	s.info[id] = info
}

// podSandboxStatus, as a real runtime, takes the beginning of an ID for the whole.
func (s *Server) podSandboxStatus(ctx context.Context, r *runtimeapi.PodSandboxStatusRequest) (*runtimeapi.PodSandboxStatusResponse, error) {
	if err := s.enter(ctx, PodSandboxStatus, false); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.find(r.GetPodSandboxId())
	if i < 0 {
		return nil, status.Errorf(codes.NotFound, "an error occurred when try to find sandbox %q: not found", r.GetPodSandboxId())
	}
	box := s.sandboxes[i]
	a := &runtimeapi.PodSandboxStatusResponse{Status: &runtimeapi.PodSandboxStatus{
		Id: box.GetId(), Metadata: box.GetMetadata(), State: box.GetState(), CreatedAt: box.GetCreatedAt(),
		Labels: box.GetLabels(), Annotations: box.GetAnnotations(),
	}}
	if r.GetVerbose() {
		a.Info = s.info[box.GetId()]
	}
	return a, nil
}

// containerStatus, as a real runtime, takes the beginning of an ID for the whole.
func (s *Server) containerStatus(ctx context.Context, r *runtimeapi.ContainerStatusRequest) (*runtimeapi.ContainerStatusResponse, error) {
	if err := s.enter(ctx, ContainerStatus, false); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.containers {
		if !strings.HasPrefix(c.GetId(), r.GetContainerId()) {
			continue
		}
		a := &runtimeapi.ContainerStatusResponse{Status: &runtimeapi.ContainerStatus{
			Id: c.GetId(), Metadata: c.GetMetadata(), State: c.GetState(), CreatedAt: c.GetCreatedAt(), Labels: c.GetLabels(), Annotations: c.GetAnnotations(),
		}}
		if r.GetVerbose() {
			a.Info = s.info[c.GetId()]
		}
		return a, nil
	}
	return nil, status.Errorf(codes.NotFound, "an error occurred when try to find container %q: not found", r.GetContainerId())
}

// SetStatusInfo says what the verbose status of the runtime has besides.
func (s *Server) SetStatusInfo(info map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.statusInfo = info
}

func (s *Server) status(ctx context.Context, r *runtimeapi.StatusRequest) (*runtimeapi.StatusResponse, error) {
	if err := s.enter(ctx, GetStatus, false); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a := &runtimeapi.StatusResponse{Status: &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{
		{Type: runtimeapi.RuntimeReady, Status: true},
		{Type: runtimeapi.NetworkReady, Status: s.network == "", Reason: "NetworkPluginNotReady", Message: s.network},
	}}}
	if r.GetVerbose() {
		a.Info = s.statusInfo
	}
	return a, nil
}
