package mounts

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/orphan-reaper/orphan-reaper/reaper/cri/fakecri"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// usualSpec is, in short, the specification that containerd returns of an unprivileged container. It has placeholders
// for the pod's UID, the container's ID and its sandbox's ID.
const usualSpec = `{"pid":7,"sandboxID":"%[3]s","runtimeSpec":{"hooks":{"prestart":[]},
	"process":{"capabilities":{"bounding":["CAP_CHOWN","CAP_SYS_CHROOT","CAP_MKNOD"]}},
	"linux":{"namespaces":[{"type":"pid"},{"type":"mount"}]},
	"mounts":[
		{"destination":"/proc","type":"proc","source":"proc","options":["nosuid"]},
		{"destination":"/dev","type":"tmpfs","source":"tmpfs"},
		{"destination":"/etc/hosts","type":"bind","source":"/var/lib/kubelet/pods/%[1]s/etc-hosts","options":["rbind","rprivate"]},
		{"destination":"/dev/shm","type":"bind","source":"/run/containerd/io.containerd.grpc.v1.cri/sandboxes/%[3]s/shm","options":["rbind"]},
		{"destination":"/data","type":"bind","source":"/var/lib/containerd/io.containerd.grpc.v1.cri/containers/%[2]s/volumes/v","options":["rbind"]}
	]}}`

// id returns a container ID for the name.
func id(name string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(name))) }

// TestConfined checks that on a kernel that cannot list a namespace by its file, an unprivileged container with a
// changed root does not make the node's mounts unknown. Anything unknown about the container does.
func TestConfined(t *testing.T) {
	uid, box, container := newUID(), id("a sandbox"), id("a container")
	slice := "/kubepods.slice/kubepods-pod" + strings.ReplaceAll(string(uid), "-", "_") + ".slice"
	const dev = `{"destination":"/dev",` // a mount is inserted before it
	bind := func(source, destination string) string {
		return fmt.Sprintf(`{"destination":%q,"type":"bind","source":%q,"options":["rbind"]},`, destination, source) + dev
	}
	for name, c := range map[string]struct {
		old, new string // replacement in the specification
		cgroup   string
		root     string
		fault    error
		later    bool // the namespace was made in the container
		state    runtimeapi.ContainerState
		want     policy.Truth
	}{
		"without privileges":                      {want: policy.No},
		"with systemd's cgroups":                  {cgroup: slice + "/cri-containerd-" + container + ".scope/x", want: policy.No},
		"in a user namespace":                     {later: true, want: policy.No},
		"the node at its root":                    {old: dev, new: bind("/", "/jail"), want: policy.No},
		"the node at another place":               {old: dev, new: bind("/", "/host"), want: policy.Unknown},
		"the node below its root":                 {old: dev, new: bind("/", "/jail/x"), want: policy.Unknown},
		"the node at its root, a later namespace": {old: dev, new: bind("/", "/jail"), later: true, want: policy.Unknown},
		"its root was removed":                    {old: dev, new: bind("/", "/jail"), root: "/jail (deleted)", want: policy.Unknown},
		"another pod's directory":                 {old: dev, new: bind("/var/lib/kubelet/pods/"+string(newUID())+"/volumes", "/x"), want: policy.Unknown},
		"a capability to mount":                   {old: `"CAP_MKNOD"`, new: `"CAP_SYS_ADMIN"`, want: policy.Unknown},
		"a capability that leads to all":          {old: `"CAP_MKNOD"`, new: `"CAP_SYS_MODULE"`, want: policy.Unknown},
		"without capabilities":                    {old: `"capabilities"`, new: `"x"`, want: policy.Unknown},
		"no capabilities":                         {old: `"bounding":["CAP_CHOWN","CAP_SYS_CHROOT","CAP_MKNOD"]`, want: policy.No},
		"a capability to mount, in another set":   {old: `"bounding":`, new: `"ambient":["CAP_SYS_ADMIN"],"bounding":`, want: policy.Unknown},
		"an overlay":                              {old: `"type":"tmpfs"`, new: `"type":"overlay"`, want: policy.Unknown},
		"a bind by its options":                   {old: `"type":"tmpfs"`, new: `"type":"tmpfs","options":["bind"]`, want: policy.Unknown},
		"a hook":                                  {old: `"prestart":[]`, new: `"prestart":[{"path":"/bin/true"}]`, want: policy.Unknown},
		"the namespace of another":                {old: `{"type":"mount"}`, new: `{"type":"mount","path":"/proc/1/ns/mnt"}`, want: policy.Unknown},
		"no specification":                        {old: `"runtimeSpec"`, new: `"x"`, want: policy.Unknown},
		"a process of no pod":                     {cgroup: "/system.slice/x.service", want: policy.Unknown},
		"in the pod's cgroup, and no container's": {cgroup: "/kubepods/pod" + string(uid) + "/x", want: policy.Unknown},
		"a container of another pod":              {cgroup: "/kubepods/pod" + string(newUID()) + "/" + container, want: policy.Unknown},
		"a container that the runtime has not":    {cgroup: "/kubepods/pod" + string(uid) + "/" + id("another"), want: policy.Unknown},
		"a container that has ended":              {state: runtimeapi.ContainerState_CONTAINER_EXITED, want: policy.Unknown},
		"a runtime that does not answer the call": {fault: status.Error(codes.Unimplemented, "x"), want: policy.Unknown},
		"a runtime that answers with an error":    {fault: status.Error(codes.Internal, "x"), want: policy.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			socket := filepath.Join(t.TempDir(), "s")
			server, err := fakecri.Start(t.Context(), socket, fakecri.Options{})
			testkit.Must(t, err)
			t.Cleanup(server.Close)
			k := fakecri.Pod{UID: string(uid), Namespace: "shop", Name: "web-0", Running: 1}.Containers()[0]
			k.Id, k.PodSandboxId = container, box
			if c.state != 0 {
				k.State = c.state
			}
			server.SetContainers(k)
			text := fmt.Sprintf(usualSpec, uid, container, box)
			if c.old != "" && !strings.Contains(text, c.old) {
				t.Fatalf("%q is not in the specification", c.old)
			}
			server.SetInfo(container, map[string]string{"info": strings.Replace(text, c.old, c.new, 1)})
			server.SetFault(fakecri.ContainerStatus, fakecri.Fault{Err: c.fault})
			r := reader(t, testkit.ProcMounts(t, map[string]string{"1": line(20, "/", "/"), "7": line(40, "/", "/x"), "8": line(60, "/", "/x")}))
			inNamespaceFixture(t, r.ProcDir, "1", "mnt:[1]", "/", "/init.scope")
			process, other := "7", "8"
			if c.later {
				process, other = other, process
			}
			cgroup := "0::" + c.cgroup
			if c.cgroup == "" {
				cgroup = "12:memory:/kubepods/besteffort/pod" + string(uid) + "/" + container
			}
			root := c.root
			if root == "" {
				root = "/jail"
			}
			inNamespaceFixture(t, r.ProcDir, process, "mnt:[5]", root, cgroup)
			if c.later {
				inNamespaceFixture(t, r.ProcDir, other, "mnt:[1]", "/", "0::/")
			} else {
				testkit.Must(t, os.RemoveAll(filepath.Join(r.ProcDir, other)))
			}
			r.noListing, r.noEntering = true, true
			m := r.Read(t.Context(), nil, []string{socket})
			f := m.Fact(newUID())
			if f.Truth != c.want {
				t.Errorf("mounted is %s (%s), want %s", f.Truth, f.Detail, c.want)
			}
			if own := m.Fact(uid); own.Truth != policy.Unknown {
				t.Errorf("the pod's own, hidden mounts are %s", own.Truth)
			}
			if shown := strings.Contains(f.Origin, "containers of 1 pod known by the runtime"); shown != (c.want == policy.No) {
				t.Errorf("the unread namespace is reported: %t, in %s", shown, f.Origin)
			}
		})
	}
}

// inNamespaceFixture puts a process into a mount namespace whose file can be opened and is not a namespace's.
func inNamespaceFixture(t *testing.T, procDir, pid, link, root, cgroup string) {
	t.Helper()
	dir := filepath.Join(procDir, pid)
	testkit.Must(t, os.MkdirAll(filepath.Join(dir, "ns"), 0o755))
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "ns", link), nil, 0o600))
	testkit.Must(t, os.Symlink(link, filepath.Join(dir, "ns", "mnt")))
	testkit.Must(t, os.Symlink(root, filepath.Join(dir, "root")))
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "cgroup"), []byte(cgroup+"\n"), 0o600))
}
