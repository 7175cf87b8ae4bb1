// Command standin stands in for a kubelet and for a container runtime, where a test is about a package and its unit.
//
// By the name kubelet it does what a kubelet does at default verbosity: every second it reports the first directory of a pod
// that it does not know, with the number of all. It knows the pods with a file in /run/known. By any other name it is a
// runtime, whose argument is its socket: it runs the pods with a file in /run/running.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func main() {
	var err error
	if filepath.Base(os.Args[0]) == "kubelet" {
		err = kubelet()
	} else {
		err = runtime(os.Args[1])
	}
	_, _ = fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

const pods = "/var/lib/kubelet/pods"

func kubelet() error {
	klog('I', `server.go:487] "Kubelet version" kubeletVersion="v1.30.14"`)
	for {
		time.Sleep(time.Second)
		there, err := names(pods)
		if err != nil {
			return err
		}
		known, err := names("/run/known")
		if err != nil {
			return err
		}
		orphans := slices.DeleteFunc(there, func(uid string) bool { return slices.Contains(known, uid) })
		if len(orphans) > 0 {
			klog('E', fmt.Sprintf(`kubelet_volumes.go:263] "There were many similar errors. Turn up verbosity to see them." `+
				`err="orphaned pod \"%s\" found, but error occurred when trying to remove the volumes dir: not a directory" numErrs=%d`,
				orphans[0], len(orphans)))
		}
	}
}

// klog writes one line as k8s.io/klog does.
func klog(severity rune, text string) {
	_, _ = fmt.Fprintf(os.Stderr, "%c%s %7d %s\n", severity, time.Now().Format("0102 15:04:05.000000"), os.Getpid(), text)
}

// names returns the names in a directory in their order, none if there is no directory.
func names(dir string) (all []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all, nil
}

type server struct {
	cri.UnimplementedRuntimeServiceServer
}

func runtime(socket string) error {
	if err := os.MkdirAll(filepath.Dir(socket), 0o711); err != nil {
		return err
	}
	_ = os.Remove(socket) // of an earlier run
	listener, err := new(net.ListenConfig).Listen(context.Background(), "unix", socket)
	if err != nil {
		return err
	}
	s := grpc.NewServer()
	cri.RegisterRuntimeServiceServer(s, server{})
	return s.Serve(listener)
}

func (server) Version(context.Context, *cri.VersionRequest) (*cri.VersionResponse, error) {
	return &cri.VersionResponse{Version: "0.1.0", RuntimeName: "standin", RuntimeVersion: "1.0.0", RuntimeApiVersion: "v1"}, nil
}

func (server) ListPodSandbox(context.Context, *cri.ListPodSandboxRequest) (*cri.ListPodSandboxResponse, error) {
	r := &cri.ListPodSandboxResponse{}
	running, err := names("/run/running")
	for _, uid := range running {
		r.Items = append(r.Items, &cri.PodSandbox{
			Id: idOf(uid), Metadata: &cri.PodSandboxMetadata{Name: "living", Namespace: "e2e", Uid: uid}, State: cri.PodSandboxState_SANDBOX_READY,
			CreatedAt: time.Now().UnixNano(), Labels: labels(uid),
		})
	}
	return r, err
}

func (server) ListContainers(context.Context, *cri.ListContainersRequest) (*cri.ListContainersResponse, error) {
	r := &cri.ListContainersResponse{}
	running, err := names("/run/running")
	for _, uid := range running {
		r.Containers = append(r.Containers, &cri.Container{
			Id: idOf(uid), PodSandboxId: idOf(uid), Metadata: &cri.ContainerMetadata{Name: "main"}, State: cri.ContainerState_CONTAINER_RUNNING,
			CreatedAt: time.Now().UnixNano(), Labels: labels(uid),
		})
	}
	return r, err
}

func (server) Status(context.Context, *cri.StatusRequest) (*cri.StatusResponse, error) {
	return &cri.StatusResponse{Status: &cri.RuntimeStatus{Conditions: []*cri.RuntimeCondition{{Type: cri.RuntimeReady, Status: true}}}}, nil
}

// idOf returns 64 hexadecimal digits, as IDs of sandboxes and containers have.
func idOf(uid string) string { return strings.Repeat(strings.ReplaceAll(uid, "-", ""), 2) }

func labels(uid string) map[string]string {
	return map[string]string{
		"io.kubernetes.pod.uid": uid, "io.kubernetes.pod.name": "living", "io.kubernetes.pod.namespace": "e2e", "io.kubernetes.container.name": "main",
	}
}
