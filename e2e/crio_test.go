package e2e

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/orphan-reaper/orphan-reaper/e2e/image"
)

// engine is the runtime of the nodes; make e2e-crio sets E2E_RUNTIME.
var engine = cmp.Or(os.Getenv("E2E_RUNTIME"), "containerd")

const crio = "crio"

// besideCRIO are the scenarios that need nothing of containerd's own. CRI-O remains ready without its network's
// configuration.
var besideCRIO = map[string]bool{
	"returning": true, "restarts": true, "backlog": true, "hidden": true, "runtime": true, "alive": true,
}

// startCRIO starts a CRI-O whose files and namespaces are all in its own directory. Debian's crun is too old for its
// specifications, and Debian's runc fails without a hugetlb controller, so a script drops that limit.
func (n *node) startCRIO(t *testing.T, name, config string) *process {
	t.Helper()
	bin, err := filepath.Abs(filepath.Join("..", ".cache", "e2e", crio))
	if err != nil {
		t.Fatal(err)
	}
	dir := mkdir(t, filepath.Join(n.dir, name))
	driver := "overlay"
	if os.Getenv(snapshotter) == "native" {
		driver = "vfs"
	}
	runc := filepath.Join(dir, "runc.sh")
	if err := os.WriteFile(runc, []byte(`#!/bin/sh
for arg; do
	[ "$last" != --bundle ] || sed -i -z -E 's/,[[:space:]]*"hugepageLimits":[[:space:]]*\[[^]]*]//' "$arg/config.json"
	last=$arg
done
exec runc "$@"
`), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "policy.json"), `{"default":[{"type":"insecureAcceptAnything"}]}`)
	write(t, filepath.Join(dir, "registries.conf"), "")
	write(t, filepath.Join(dir, "storage.conf"), fmt.Sprintf("[storage]\ndriver = %q\nrunroot = %q\ngraphroot = %q\n", driver, dir+"/run", dir+"/root"))
	write(t, config, fmt.Sprintf(`[crio]
version_file = "%[1]s/version"
version_file_persist = "%[1]s/version.persist"
clean_shutdown_file = "%[1]s/clean.shutdown"
log_dir = "%[1]s/logs"
[crio.api]
listen = "%[2]s"
[crio.runtime]
default_runtime = "runc"
cgroup_manager = "cgroupfs"
conmon_cgroup = "pod"
pinns_path = "%[3]s/pinns"
namespaces_dir = "%[1]s"
container_exits_dir = "%[1]s/exits"
container_attach_socket_dir = "%[1]s/attach"
hooks_dir = []
[crio.runtime.runtimes.runc]
runtime_path = "%[1]s/runc.sh"
runtime_root = "%[1]s/runc"
monitor_path = "/usr/bin/conmon"
[crio.image]
pause_image = "%[4]s"
signature_policy = "%[1]s/policy.json"
signature_policy_dir = "%[1]s/policies"
[crio.network]
network_dir = "%[5]s/cni"
plugin_dirs = ["/usr/lib/cni"]
[crio.nri]
enable_nri = false
`, dir, n.socket(name), bin, image.Name, n.dir))
	return launch(t, name, filepath.Join(n.dir, name+".log"), "env", "CONTAINERS_STORAGE_CONF="+dir+"/storage.conf",
		"CONTAINERS_REGISTRIES_CONF="+dir+"/registries.conf", filepath.Join(bin, crio), "--config", config, "--config-dir", "")
}

func (n *node) importIntoCRIO(t *testing.T) {
	t.Helper()
	dir := filepath.Join(n.dir, crio)
	cmd := exec.Command("skopeo", "--policy", dir+"/policy.json", "copy", "oci-archive:"+filepath.Join(n.host.dir, "image.tar"),
		"containers-storage:"+image.Name)
	cmd.Env = append(os.Environ(), "CONTAINERS_STORAGE_CONF="+dir+"/storage.conf")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("cannot import the image: %v\n%s", err, out)
	}
}

// runsInCRIO returns the lines "sandbox ID" and "container ID" of everything ready or running.
func (n *node) runsInCRIO() (all []string) {
	conn, err := grpc.NewClient("unix://"+n.socket(crio), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	cri := runtimeapi.NewRuntimeServiceClient(conn)
	boxes, err := cri.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		return nil
	}
	for _, box := range boxes.GetItems() {
		if box.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY {
			all = append(all, "sandbox "+box.GetId())
		}
	}
	containers, err := cri.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
	if err != nil {
		return nil
	}
	for _, c := range containers.GetContainers() {
		if c.GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING {
			all = append(all, "container "+c.GetId())
		}
	}
	return all
}
