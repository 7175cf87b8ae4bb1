package cri

import (
	"context"
	"errors"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Lists is what one runtime lists: every sandbox and every container, in every state.
type Lists struct {
	Path       string // of the socket
	Sandboxes  []*runtimeapi.PodSandbox
	Containers []*runtimeapi.Container
	// NoCRI says that a gRPC server answered which knows neither version of CRI.
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
