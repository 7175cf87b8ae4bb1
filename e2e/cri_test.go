package e2e

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/orphan-reaper/orphan-reaper/e2e/image"
)

// cri connects to the runtime like the kubelet.
func (n *node) cri(t *testing.T) runtimeapi.RuntimeServiceClient {
	t.Helper()
	conn, err := grpc.NewClient("unix://"+n.socket(engine), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return runtimeapi.NewRuntimeServiceClient(conn)
}

// sandbox makes a pod's sandbox with a container, like a kubelet, and kills both without the runtime, so no CNI DEL
// is run for it.
func (n *node) sandbox(t *testing.T, cri runtimeapi.RuntimeServiceClient, uid string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	config := n.sandboxConfig(uid)
	box, err := cri.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: config})
	if err != nil {
		t.Fatal(err)
	}
	id := box.GetPodSandboxId()
	container, err := cri.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{
		PodSandboxId: id, SandboxConfig: config,
		Config: &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: "app"}, Image: &runtimeapi.ImageSpec{Image: image.Name},
			Command: []string{"/pause"}, Labels: config.GetLabels(), Linux: &runtimeapi.LinuxContainerConfig{},
		},
	})
	if err == nil {
		_, err = cri.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: container.GetContainerId()})
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range []string{container.GetContainerId(), id} {
		must(t, "ctr", "-a", n.socket(engine), "-n", "k8s.io", "tasks", "kill", "-s", "SIGKILL", task)
	}
	eventually(t, 30*time.Second, func() string {
		return missing(state(ctx, cri, id) == runtimeapi.PodSandboxState_SANDBOX_NOTREADY.String(), "the sandbox has not stopped")
	})
	return id
}

// sandboxConfig is what a kubelet asks for.
func (n *node) sandboxConfig(uid string) *runtimeapi.PodSandboxConfig {
	return &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: "forgotten", Namespace: "e2e", Uid: uid}, Labels: map[string]string{
			"io.kubernetes.pod.uid": uid, "io.kubernetes.pod.namespace": "e2e", "io.kubernetes.pod.name": "forgotten",
			"io.kubernetes.container.name": "app",
		},
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			CgroupParent: "/" + n.tag + "/forgotten",
			SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
				NamespaceOptions: &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER},
			},
		},
	}
}

func state(ctx context.Context, cri runtimeapi.RuntimeServiceClient, id string) string {
	boxes, err := cri.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{Id: id}})
	switch {
	case err != nil:
		return err.Error()
	case len(boxes.GetItems()) == 0:
		return "gone"
	}
	return boxes.GetItems()[0].GetState().String()
}

func (n *node) dropSandbox(t *testing.T, cri runtimeapi.RuntimeServiceClient, id string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := cri.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: id})
	if err == nil {
		_, err = cri.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: id})
	}
	if err != nil {
		t.Error(err)
	}
}
