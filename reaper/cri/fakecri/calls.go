package fakecri

import (
	"context"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
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
	if id := r.GetFilter().GetId(); id != "" {
		var found []*runtimeapi.PodSandbox
		if i := s.find(id); i >= 0 {
			found = s.sandboxes[i : i+1]
		}
		return &runtimeapi.ListPodSandboxResponse{Items: found}, nil
	}
	return &runtimeapi.ListPodSandboxResponse{Items: s.sandboxes}, nil
}

func (s *Server) listContainers(ctx context.Context, r *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	if err := s.enter(ctx, ListContainers, r.GetFilter() != nil); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if id := r.GetFilter().GetPodSandboxId(); id != "" {
		var found []*runtimeapi.Container
		for _, c := range s.containers {
			if strings.HasPrefix(c.GetPodSandboxId(), id) {
				found = append(found, c)
			}
		}
		return &runtimeapi.ListContainersResponse{Containers: found}, nil
	}
	return &runtimeapi.ListContainersResponse{Containers: s.containers}, nil
}

// stopPodSandbox, as a real runtime, takes the beginning of an ID for the whole, and an ID
// that it does not know for one that is gone.
func (s *Server) stopPodSandbox(ctx context.Context, r *runtimeapi.StopPodSandboxRequest) (*runtimeapi.StopPodSandboxResponse, error) {
	if err := s.enter(ctx, StopPodSandbox, false); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := s.find(r.GetPodSandboxId()); i >= 0 {
		if s.stopped == nil {
			s.stopped = map[string]bool{}
		}
		s.stopped[s.sandboxes[i].GetId()] = true
	}
	return &runtimeapi.StopPodSandboxResponse{}, nil
}

// removePodSandbox refuses one that was not stopped, as containerd before 1.7 does while its
// network namespace is there.
func (s *Server) removePodSandbox(ctx context.Context, r *runtimeapi.RemovePodSandboxRequest) (*runtimeapi.RemovePodSandboxResponse, error) {
	if err := s.enter(ctx, RemovePodSandbox, false); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.find(r.GetPodSandboxId())
	if i < 0 {
		return &runtimeapi.RemovePodSandboxResponse{}, nil
	}
	id := s.sandboxes[i].GetId()
	if !s.stopped[id] {
		return nil, status.Errorf(codes.Unknown, "sandbox network namespace of %q is not fully closed", id)
	}
	s.sandboxes = slices.Delete(slices.Clone(s.sandboxes), i, i+1)
	s.containers = slices.DeleteFunc(slices.Clone(s.containers), func(c *runtimeapi.Container) bool { return c.GetPodSandboxId() == id })
	return &runtimeapi.RemovePodSandboxResponse{}, nil
}

// find returns the place of the one sandbox whose ID begins so, or -1.
func (s *Server) find(id string) int {
	return slices.IndexFunc(s.sandboxes, func(b *runtimeapi.PodSandbox) bool { return strings.HasPrefix(b.GetId(), id) })
}
