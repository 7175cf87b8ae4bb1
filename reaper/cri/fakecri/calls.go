package fakecri

import (
	"context"
	"slices"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func (s *Server) version(ctx context.Context, _ *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	if err := s.enter(ctx, GetVersion, false); err != nil {
		return nil, err
	}
	return &runtimeapi.VersionResponse{Version: "0.1.0", RuntimeName: "fakecri", RuntimeVersion: "1.2.3", RuntimeApiVersion: "v1"}, nil
}

func (s *Server) listPodSandbox(ctx context.Context, r *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	if err := s.enter(ctx, ListPodSandbox, r.GetFilter() != nil); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return &runtimeapi.ListPodSandboxResponse{Items: s.sandboxes}, nil
}

func (s *Server) listContainers(ctx context.Context, r *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	if err := s.enter(ctx, ListContainers, r.GetFilter() != nil); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return &runtimeapi.ListContainersResponse{Containers: s.containers}, nil
}

// find returns the place of the one sandbox whose ID begins so, or -1.
func (s *Server) find(id string) int {
	return slices.IndexFunc(s.sandboxes, func(b *runtimeapi.PodSandbox) bool { return strings.HasPrefix(b.GetId(), id) })
}
