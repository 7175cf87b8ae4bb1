// Command runtime stands in for a container runtime where a real one is too slow: in a machine without KVM that lives
// through thousands of pods. It speaks as much CRI as a kubelet needs. A container is one process, sleep(1), in a cgroup v2
// of its own below the pod's; the runtime writes what its application would at its start, into the directories that the
// kubelet has mounted for it. There is no image, no namespace, no network and no process for the sandbox.
//
//	runtime SOCKET STATE CNI
//
// STATE is a directory: a runtime that was killed finds its pods there again. The network is ready while the directory
// CNI has a configuration.
package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

type runtime struct {
	cri.UnimplementedRuntimeServiceServer
	cri.UnimplementedImageServiceServer

	state, network string

	mu         sync.Mutex
	sandboxes  map[string]*sandbox
	containers map[string]*container
	made       int
}

type sandbox struct {
	*cri.PodSandboxStatus
	Cgroup string // of the pod, below the mount of cgroup v2
}

type container struct {
	*cri.ContainerStatus
	Sandbox string
	Cgroup  string
	Dirs    []string // of the application, on the node
}

func main() {
	if err := serve(os.Args[1], &runtime{
		state: os.Args[2], network: os.Args[3], sandboxes: map[string]*sandbox{}, containers: map[string]*container{},
	}); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "runtime:", err)
		os.Exit(1)
	}
}

func serve(socket string, r *runtime) error {
	if err := errors.Join(load(r.state, "sandbox-*", r.sandboxes), load(r.state, "container-*", r.containers)); err != nil {
		return err
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	s := grpc.NewServer()
	cri.RegisterRuntimeServiceServer(s, r)
	cri.RegisterImageServiceServer(s, r)
	return s.Serve(l)
}

// load reads what an earlier runtime has saved.
func load[T any](dir, pattern string, into map[string]*T) error {
	names, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		return err
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		one := new(T)
		if err := json.Unmarshal(b, one); err != nil {
			return err
		}
		_, id, _ := strings.Cut(filepath.Base(name), "-")
		into[id] = one
	}
	return nil
}

func (r *runtime) save(kind, id string, what any) error {
	b, err := json.Marshal(what)
	if err != nil {
		return err
	}
	path := filepath.Join(r.state, kind+"-"+id)
	if err := os.WriteFile(filepath.Join(r.state, "new"), b, 0o600); err != nil {
		return err
	}
	return os.Rename(filepath.Join(r.state, "new"), path)
}

func newID() string {
	var b [32]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// path is where the cgroup is.
func path(cgroup string) string { return filepath.Join("/sys/fs/cgroup", cgroup) }

// populated reports whether a process is in the cgroup.
func populated(cgroup string) bool {
	b, err := os.ReadFile(filepath.Join(path(cgroup), "cgroup.events"))
	return err == nil && strings.Contains(string(b), "populated 1")
}

// Version names us; a kubelet asks for nothing else in it than the API's version.
func (r *runtime) Version(context.Context, *cri.VersionRequest) (*cri.VersionResponse, error) {
	return &cri.VersionResponse{Version: "0.1.0", RuntimeName: "stand-in", RuntimeVersion: "1.0.0", RuntimeApiVersion: "v1"}, nil
}

// Status has the two conditions.
func (r *runtime) Status(context.Context, *cri.StatusRequest) (*cri.StatusResponse, error) {
	configured, err := filepath.Glob(filepath.Join(r.network, "*.conflist"))
	if err != nil {
		return nil, err
	}
	return &cri.StatusResponse{Status: &cri.RuntimeStatus{Conditions: []*cri.RuntimeCondition{
		{Type: "RuntimeReady", Status: true}, {Type: "NetworkReady", Status: len(configured) > 0},
	}}}, nil
}

// RuntimeConfig names the driver of cgroups.
func (r *runtime) RuntimeConfig(context.Context, *cri.RuntimeConfigRequest) (*cri.RuntimeConfigResponse, error) {
	return &cri.RuntimeConfigResponse{Linux: &cri.LinuxRuntimeConfiguration{CgroupDriver: cri.CgroupDriver_CGROUPFS}}, nil
}

// UpdateRuntimeConfig has the pods' network, of which there is none.
func (r *runtime) UpdateRuntimeConfig(context.Context, *cri.UpdateRuntimeConfigRequest) (*cri.UpdateRuntimeConfigResponse, error) {
	return &cri.UpdateRuntimeConfigResponse{}, nil
}

// RunPodSandbox only writes the sandbox down: it has no process.
func (r *runtime) RunPodSandbox(_ context.Context, q *cri.RunPodSandboxRequest) (*cri.RunPodSandboxResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.made++
	c, id := q.GetConfig(), newID()
	s := &sandbox{Cgroup: c.GetLinux().GetCgroupParent(), PodSandboxStatus: &cri.PodSandboxStatus{
		Id: id, Metadata: c.GetMetadata(), State: cri.PodSandboxState_SANDBOX_READY, CreatedAt: time.Now().UnixNano(),
		Network: &cri.PodSandboxNetworkStatus{Ip: fmt.Sprintf("10.88.%d.%d", r.made/250%250, 2+r.made%250)},
		Linux:   &cri.LinuxPodSandboxStatus{Namespaces: &cri.Namespace{Options: c.GetLinux().GetSecurityContext().GetNamespaceOptions()}},
		Labels:  c.GetLabels(), Annotations: c.GetAnnotations(),
	}}
	r.sandboxes[id] = s
	return &cri.RunPodSandboxResponse{PodSandboxId: id}, r.save("sandbox", id, s)
}

// StopPodSandbox ends what runs in it.
func (r *runtime) StopPodSandbox(_ context.Context, q *cri.StopPodSandboxRequest) (*cri.StopPodSandboxResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sandboxes[q.GetPodSandboxId()]
	if s == nil {
		return &cri.StopPodSandboxResponse{}, nil
	}
	for _, c := range r.containers {
		if c.Sandbox == s.Id {
			r.stop(c, 0)
		}
	}
	s.State = cri.PodSandboxState_SANDBOX_NOTREADY
	return &cri.StopPodSandboxResponse{}, r.save("sandbox", s.Id, s)
}

// RemovePodSandbox forgets it with its containers.
func (r *runtime) RemovePodSandbox(_ context.Context, q *cri.RemovePodSandboxRequest) (*cri.RemovePodSandboxResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.containers {
		if c.Sandbox == q.GetPodSandboxId() {
			r.remove(c)
		}
	}
	delete(r.sandboxes, q.GetPodSandboxId())
	_ = os.Remove(filepath.Join(r.state, "sandbox-"+q.GetPodSandboxId()))
	return &cri.RemovePodSandboxResponse{}, nil
}

// PodSandboxStatus returns one.
func (r *runtime) PodSandboxStatus(_ context.Context, q *cri.PodSandboxStatusRequest) (*cri.PodSandboxStatusResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sandboxes[q.GetPodSandboxId()]
	if s == nil {
		return nil, status.Error(codes.NotFound, "no such sandbox")
	}
	return &cri.PodSandboxStatusResponse{Status: s.PodSandboxStatus}, nil
}

// ListPodSandbox returns those that the filter names.
func (r *runtime) ListPodSandbox(_ context.Context, q *cri.ListPodSandboxRequest) (*cri.ListPodSandboxResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, answer := q.GetFilter(), &cri.ListPodSandboxResponse{}
	for id, s := range r.sandboxes {
		if f.GetId() != "" && f.GetId() != id || f.GetState() != nil && f.GetState().GetState() != s.State || !labelled(s.Labels, f.GetLabelSelector()) {
			continue
		}
		answer.Items = append(answer.Items, &cri.PodSandbox{
			Id: id, Metadata: s.Metadata, State: s.State, CreatedAt: s.CreatedAt, Labels: s.Labels, Annotations: s.Annotations,
		})
	}
	return answer, nil
}

func labelled(labels, want map[string]string) bool {
	for k, v := range want {
		if labels[k] != v {
			return false
		}
	}
	return true
}

// CreateContainer makes the container's cgroup, and finds where its directories are on the node.
func (r *runtime) CreateContainer(_ context.Context, q *cri.CreateContainerRequest) (*cri.CreateContainerResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sandboxes[q.GetPodSandboxId()]
	if s == nil {
		return nil, status.Error(codes.NotFound, "no such sandbox")
	}
	config, id := q.GetConfig(), newID()
	c := &container{Sandbox: s.Id, Cgroup: filepath.Join(s.Cgroup, id), ContainerStatus: &cri.ContainerStatus{
		Id: id, Metadata: config.GetMetadata(), State: cri.ContainerState_CONTAINER_CREATED, CreatedAt: time.Now().UnixNano(),
		Image: config.GetImage(), ImageRef: imageID, ImageId: imageID, Labels: config.GetLabels(), Annotations: config.GetAnnotations(),
		Mounts: config.GetMounts(), LogPath: filepath.Join(q.GetSandboxConfig().GetLogDirectory(), config.GetLogPath()),
	}}
	for _, arg := range append(config.GetCommand(), config.GetArgs()...)[1:] {
		for _, m := range config.GetMounts() {
			if m.GetContainerPath() == arg {
				c.Dirs = append(c.Dirs, m.GetHostPath())
			}
		}
	}
	if err := os.Mkdir(path(c.Cgroup), 0o755); err != nil {
		return nil, err
	}
	r.containers[id] = c
	return &cri.CreateContainerResponse{ContainerId: id}, r.save("container", id, c)
}

// StartContainer starts the process in the container's cgroup, and writes what the application pause writes.
func (r *runtime) StartContainer(_ context.Context, q *cri.StartContainerRequest) (*cri.StartContainerResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.containers[q.GetContainerId()]
	if c == nil {
		return nil, status.Error(codes.NotFound, "no such container")
	}
	cgroup, err := os.OpenFile(path(c.Cgroup), os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = cgroup.Close() }()
	now := time.Now()
	for _, dir := range c.Dirs {
		for _, name := range []string{"born", "beat"} {
			if err := os.WriteFile(filepath.Join(dir, name), fmt.Append(nil, now.UnixNano()), 0o600); err != nil {
				return nil, err
			}
		}
	}
	p, err := os.StartProcess("/bin/sleep", []string{"sleep", "1000000"}, &os.ProcAttr{
		Sys: &unix.SysProcAttr{UseCgroupFD: true, CgroupFD: int(cgroup.Fd()), Setsid: true},
	})
	if err != nil {
		return nil, err
	}
	go r.wait(c, p)
	c.State, c.StartedAt = cri.ContainerState_CONTAINER_RUNNING, time.Now().UnixNano()
	return &cri.StartContainerResponse{}, r.save("container", c.Id, c)
}

// wait learns the exit code; a runtime that was killed meanwhile never does.
func (r *runtime) wait(c *container, p *os.Process) {
	st, err := p.Wait()
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended(c, int32(max(st.ExitCode(), 0)))
}

// ended notes the end of a container that ran.
func (r *runtime) ended(c *container, code int32) {
	if c.State == cri.ContainerState_CONTAINER_RUNNING {
		c.State, c.FinishedAt, c.ExitCode = cri.ContainerState_CONTAINER_EXITED, time.Now().UnixNano(), code
		_ = r.save("container", c.Id, c)
	}
}

// look is the container's state now, by its cgroup.
func (r *runtime) look(c *container) {
	if c.State == cri.ContainerState_CONTAINER_RUNNING && !populated(c.Cgroup) {
		r.ended(c, 137)
	}
}

// stop asks the container's process to end, and kills it after the time. It is called with the lock, which it gives
// away while it waits.
func (r *runtime) stop(c *container, within time.Duration) {
	if c.State != cri.ContainerState_CONTAINER_RUNNING {
		return
	}
	b, _ := os.ReadFile(filepath.Join(path(c.Cgroup), "cgroup.procs"))
	for word := range strings.FieldsSeq(string(b)) {
		var pid int
		if _, err := fmt.Sscan(word, &pid); err == nil && within > 0 {
			_ = unix.Kill(pid, unix.SIGTERM)
		}
	}
	r.mu.Unlock()
	for end := time.Now().Add(within); populated(c.Cgroup) && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
	}
	for populated(c.Cgroup) {
		_ = os.WriteFile(filepath.Join(path(c.Cgroup), "cgroup.kill"), []byte("1"), 0o600)
		time.Sleep(10 * time.Millisecond)
	}
	r.mu.Lock()
	r.ended(c, 0)
}

// remove ends the container and forgets it.
func (r *runtime) remove(c *container) {
	r.stop(c, 0)
	_ = unix.Rmdir(path(c.Cgroup)) // the kubelet may have removed the pod's
	delete(r.containers, c.Id)
	_ = os.Remove(filepath.Join(r.state, "container-"+c.Id))
}

// StopContainer ends its process.
func (r *runtime) StopContainer(_ context.Context, q *cri.StopContainerRequest) (*cri.StopContainerResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.containers[q.GetContainerId()]; c != nil {
		r.stop(c, time.Duration(q.GetTimeout())*time.Second)
	}
	return &cri.StopContainerResponse{}, nil
}

// RemoveContainer forgets it.
func (r *runtime) RemoveContainer(_ context.Context, q *cri.RemoveContainerRequest) (*cri.RemoveContainerResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.containers[q.GetContainerId()]; c != nil {
		r.remove(c)
	}
	return &cri.RemoveContainerResponse{}, nil
}

// ListContainers returns those that the filter names.
func (r *runtime) ListContainers(_ context.Context, q *cri.ListContainersRequest) (*cri.ListContainersResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, answer := q.GetFilter(), &cri.ListContainersResponse{}
	for id, c := range r.containers {
		r.look(c)
		if f.GetId() != "" && f.GetId() != id || f.GetPodSandboxId() != "" && f.GetPodSandboxId() != c.Sandbox ||
			f.GetState() != nil && f.GetState().GetState() != c.State || !labelled(c.Labels, f.GetLabelSelector()) {
			continue
		}
		answer.Containers = append(answer.Containers, &cri.Container{
			Id: id, PodSandboxId: c.Sandbox, Metadata: c.Metadata, Image: c.Image, ImageRef: c.ImageRef, ImageId: c.ImageId, State: c.State,
			CreatedAt: c.CreatedAt, Labels: c.Labels, Annotations: c.Annotations,
		})
	}
	return answer, nil
}

// ContainerStatus returns one.
func (r *runtime) ContainerStatus(_ context.Context, q *cri.ContainerStatusRequest) (*cri.ContainerStatusResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.containers[q.GetContainerId()]
	if c == nil {
		return nil, status.Error(codes.NotFound, "no such container")
	}
	r.look(c)
	return &cri.ContainerStatusResponse{Status: c.ContainerStatus}, nil
}

// UpdateContainerResources changes nothing.
func (r *runtime) UpdateContainerResources(context.Context, *cri.UpdateContainerResourcesRequest) (*cri.UpdateContainerResourcesResponse, error) {
	return &cri.UpdateContainerResourcesResponse{}, nil
}

// ListContainerStats has none.
func (r *runtime) ListContainerStats(context.Context, *cri.ListContainerStatsRequest) (*cri.ListContainerStatsResponse, error) {
	return &cri.ListContainerStatsResponse{}, nil
}

// ReopenContainerLog does nothing: there is no log.
func (r *runtime) ReopenContainerLog(context.Context, *cri.ReopenContainerLogRequest) (*cri.ReopenContainerLogResponse, error) {
	return &cri.ReopenContainerLogResponse{}, nil
}

// imageID is of the only image: each has it.
const imageID = "sha256:0000000000000000000000000000000000000000000000000000000000000001"

// ImageStatus has whatever is asked for.
func (r *runtime) ImageStatus(_ context.Context, q *cri.ImageStatusRequest) (*cri.ImageStatusResponse, error) {
	return &cri.ImageStatusResponse{Image: &cri.Image{Id: imageID, RepoTags: []string{q.GetImage().GetImage()}, Size: 1, Spec: q.GetImage()}}, nil
}

// ListImages returns none, so that none is collected.
func (r *runtime) ListImages(context.Context, *cri.ListImagesRequest) (*cri.ListImagesResponse, error) {
	return &cri.ListImagesResponse{}, nil
}

// ImageFsInfo names the node's disk.
func (r *runtime) ImageFsInfo(context.Context, *cri.ImageFsInfoRequest) (*cri.ImageFsInfoResponse, error) {
	usage := []*cri.FilesystemUsage{{
		Timestamp: time.Now().UnixNano(), FsId: &cri.FilesystemIdentifier{Mountpoint: "/"}, UsedBytes: &cri.UInt64Value{}, InodesUsed: &cri.UInt64Value{},
	}}
	return &cri.ImageFsInfoResponse{ImageFilesystems: usage, ContainerFilesystems: usage}, nil
}
