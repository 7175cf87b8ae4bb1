package program

import (
	"context"
	"os"
	"path/filepath"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/orphan-reaper/orphan-reaper/reaper/cri/fakecri"
)

// The sockets of the two runtimes.
const (
	runtimeSocket = "/run/containerd/containerd.sock"
	secondSocket  = "/run/crio/crio.sock"
)

type runtimeMode uint8

const (
	runtimeRuns    runtimeMode = iota
	runtimeEmpty               // it has lost its state and lists nothing
	runtimeHung                // it accepts connections and does not answer
	runtimeStopped             // nothing listens
)

// hang makes each call of a server wait until the caller ends it.
func hang(s *fakecri.Server, on bool) {
	for _, call := range []fakecri.Call{
		fakecri.ListPodSandbox, fakecri.ListContainers, fakecri.GetVersion,
		fakecri.PodSandboxStatus, fakecri.GetStatus, fakecri.ContainerStatus,
	} {
		s.SetFault(call, fakecri.Fault{Hang: on})
	}
}

// serve starts a runtime at the socket.
func serve(socket string) (*fakecri.Server, error) {
	if err := os.MkdirAll(filepath.Dir(socket), 0o711); err != nil {
		return nil, err
	}
	_ = os.Remove(socket) // of an earlier one
	return fakecri.Start(context.Background(), socket, fakecri.Options{})
}

func (n *node) startRuntime() error {
	var err error
	if n.server, err = serve(runtimeSocket); err != nil {
		return err
	}
	n.setLists()
	return nil
}

// setRuntime changes what the runtime does.
func (n *node) setRuntime(mode runtimeMode) error {
	if mode == runtimeStopped && n.server != nil {
		n.server.Close()
		n.server = nil
	}
	if n.runtime = mode; mode == runtimeStopped {
		return nil
	}
	if n.server == nil {
		if err := n.startRuntime(); err != nil {
			return err
		}
	}
	n.setLists()
	hang(n.server, mode == runtimeHung)
	return nil
}

// setSecond starts another runtime, which has no pods.
func (n *node) setSecond(hung bool) error {
	if n.second == nil {
		var err error
		if n.second, err = serve(secondSocket); err != nil {
			return err
		}
	}
	n.secondHung = hung
	hang(n.second, hung)
	return nil
}

// setLists gives the runtime the pods of the node.
func (n *node) setLists() {
	if n.server == nil {
		return
	}
	var sandboxes []*runtimeapi.PodSandbox
	var containers []*runtimeapi.Container
	for _, p := range n.pods {
		if p.sandbox == noSandbox || n.runtime == runtimeEmpty {
			continue
		}
		sandboxes = append(sandboxes, p.cri())
		for i, state := range p.containers {
			containers = append(containers, p.container(i, state))
		}
	}
	n.server.SetSandboxes(sandboxes...)
	n.server.SetContainers(containers...)
}

func (p *pod) labels() map[string]string {
	return map[string]string{
		"io.kubernetes.pod.uid": p.UID, "io.kubernetes.pod.namespace": namespace, "io.kubernetes.pod.name": p.Name,
	}
}

// annotations are those with which a kubelet marks the source of a pod.
func (p *podSpec) annotations() map[string]string {
	if p.fromNode() {
		return map[string]string{"kubernetes.io/config.source": "file", "kubernetes.io/config.hash": p.UID}
	}
	return map[string]string{"kubernetes.io/config.source": "api"}
}

func (p *pod) cri() *runtimeapi.PodSandbox {
	state := runtimeapi.PodSandboxState_SANDBOX_READY
	if p.sandbox == sandboxNotReady {
		state = runtimeapi.PodSandboxState_SANDBOX_NOTREADY
	}
	return &runtimeapi.PodSandbox{
		Id: p.sandboxID, Metadata: &runtimeapi.PodSandboxMetadata{Name: p.Name, Uid: p.UID, Namespace: namespace},
		State: state, CreatedAt: p.created.UnixNano(), Labels: p.labels(), Annotations: p.annotations(),
	}
}

func (p *pod) container(i int, state containerState) *runtimeapi.Container {
	labels := p.labels()
	labels["io.kubernetes.container.name"] = "app"
	return &runtimeapi.Container{
		Id: hexID("container", p.UID, i), PodSandboxId: p.sandboxID, Metadata: &runtimeapi.ContainerMetadata{Name: "app"},
		State: [...]runtimeapi.ContainerState{
			containerCreated: runtimeapi.ContainerState_CONTAINER_CREATED, containerRunning: runtimeapi.ContainerState_CONTAINER_RUNNING,
			containerExited: runtimeapi.ContainerState_CONTAINER_EXITED, containerUnknown: runtimeapi.ContainerState_CONTAINER_UNKNOWN,
		}[state],
		CreatedAt: p.created.UnixNano(), Labels: labels,
	}
}

// running reports whether a kubelet counts the pod as running: by a ready sandbox or a running container.
func (p *pod) running() bool {
	if p.sandbox == sandboxReady {
		return true
	}
	for _, c := range p.containers {
		if p.sandbox != noSandbox && c == containerRunning {
			return true
		}
	}
	return false
}
