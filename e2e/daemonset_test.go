package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/e2e/kit"
)

// daemonImage is the name of orphan-reaper's image in a pod, and daemonTag its tag.
const (
	daemonTag   = "e2e"
	daemonImage = "orphan-reaper:" + daemonTag
)

// writeDaemonImage makes the daemon's image like make image, for this architecture only.
func writeDaemonImage(dir string) error {
	tree := filepath.Join(dir, "daemon")
	if err := os.MkdirAll(tree, 0o700); err != nil {
		return err
	}
	if err := os.Link(filepath.Join(dir, "orphan-reaper"), filepath.Join(tree, "orphan-reaper")); err != nil {
		return err
	}
	out, err := os.Create(filepath.Join(dir, "daemon.tar"))
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }() // a truncated image fails its import
	cmd := exec.Command("sh", "../packaging/image.sh", daemonTag, "0", "", "", runtime.GOARCH+"="+tree)
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	return cmd.Run()
}

// share makes the directory a shared mount, like every mount below systemd.
func (n *node) share(t *testing.T, dir string) string {
	t.Helper()
	mkdir(t, dir)
	for _, flags := range []uintptr{unix.MS_BIND, unix.MS_SHARED} {
		if err := unix.Mount(dir, dir, "", flags, ""); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			t.Errorf("umount %s: %v", dir, err)
		}
	})
	return dir
}

// daemonPod is the manifest of a pod with exactly the rights of the chart. Directories that the suite has
// elsewhere than a node are mounted read-only, too. follow is the mount propagation of the kubelet's root directory.
func (n *node) daemonPod(p pod, follow, state string, flags []string) string {
	quoted := make([]string, len(flags))
	for i, f := range flags {
		quoted[i] = fmt.Sprintf("%q", f)
	}
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %[1]s, namespace: e2e, uid: %[2]s}
spec:
  hostPID: true
  hostNetwork: true
  terminationGracePeriodSeconds: 20
  securityContext:
    seccompProfile: {type: RuntimeDefault}
  containers:
  - name: daemon
    image: %[3]s
    imagePullPolicy: Never
    args: [%[4]s]
    securityContext:
      runAsUser: 0
      allowPrivilegeEscalation: false
      readOnlyRootFilesystem: true
      capabilities: {drop: [ALL], add: [DAC_OVERRIDE, FOWNER, SYS_PTRACE, SYS_CHROOT]}
    volumeMounts:
    - {name: suite, mountPath: %[5]s, readOnly: true}
    - {name: cgroup, mountPath: /sys/fs/cgroup, readOnly: true}
    - {name: root, mountPath: %[6]s, mountPropagation: %[7]s}
    - {name: state, mountPath: %[8]s, mountPropagation: HostToContainer}
  volumes:
  - {name: suite, hostPath: {path: %[5]s}}
  - {name: cgroup, hostPath: {path: /sys/fs/cgroup}}
  - {name: root, hostPath: {path: %[6]s}}
  - {name: state, hostPath: {path: %[8]s}}
`, p.name, p.uid, daemonImage, strings.Join(quoted, ", "), n.dir, n.root, follow, state)
}

// inPod runs the daemon's image as a pod of this kubelet. Its log is the pod's log file.
func (n *node) inPod(t *testing.T, p pod, follow string, flags ...string) *daemon {
	t.Helper()
	state := filepath.Join(n.dir, p.name+".state")
	d := &daemon{node: n, state: state, flags: slices.Concat(n.places(state), []string{
		"--mode", "enforce", "--hold", hold.String(), "--confirm", confirm.String(), "--metrics-file", "none",
	}, flags)}
	manifest := filepath.Join(n.dir, "manifests", p.name+".yaml")
	before := len(n.tasks())
	write(t, filepath.Join(n.dir, p.name+".new"), n.daemonPod(p, follow, n.share(t, state), append([]string{"run"}, d.flags...)))
	if err := os.Rename(filepath.Join(n.dir, p.name+".new"), manifest); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(n.podLogs, "e2e_"+p.name+"-e2e_"+p.uid, "daemon", "0.log")
	d.process = &process{kit.Process{Log: log}, p.name}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("orphan-reaper's log in its pod:\n%s", d.Tail(40))
		}
		if err := os.Remove(manifest); err != nil {
			t.Error(err)
		}
		eventually(t, 60*time.Second, func() string {
			return missing(len(n.tasks()) == before && !exists(filepath.Join(n.pods, p.uid)), "the pod has not ended: %q", n.tasks())
		})
	})
	eventually(t, 60*time.Second, func() string {
		return missing(d.size() > 0, "the daemon says nothing in its pod\n%s", n.kubelet.Tail(5))
	})
	return d
}

// daemonset: the image runs as a pod with the rights of the DaemonSet and reaps. A mount made after its start keeps
// its pod and appears in the daemon's own mount namespace. Without HostToContainer it could remove such a mount from
// the node, so it only observes and reports that.
func daemonset(t *testing.T, n *node) {
	must(t, "ctr", "-a", n.socket(engine), "-n", "k8s.io", "images", "import", filepath.Join(n.host.dir, "daemon.tar"))
	orphaned, mounted := n.uid("2badf00d-0000-4000-8000-00000000d51_"), n.uid("2badf00d-0000-4000-8000-00000000d52_")
	ownState := func(name string) pod {
		return pod{uid: n.uid("5a11fe00-0000-4000-8000-000000000d" + name + "_"), name: "daemon-" + name}
	}
	t.Run("follows", func(t *testing.T) {
		n.plant(t, skeleton, orphaned)
		d := n.inPod(t, ownState("1"), "HostToContainer")
		d.awaitReason(t, orphaned, "hold")
		later := n.plant(t, "tmpfs mounted", mounted)
		d.awaitCleaned(t, orphaned)
		if !d.sees(t, later.dir) {
			t.Error("the node's later mount is not in the daemon's namespace")
		}
		n.forge(t, mounted)
		d.awaitReason(t, mounted, "mounted")
		volume := filepath.Join(later.dir, "volumes", emptyDir, "mem")
		checkCanaries(t, volume)
		later.unmount(volume)
	})
	t.Run("does not follow", func(t *testing.T) {
		observed := n.uid("2badf00d-0000-4000-8000-00000000d53_")
		d := n.inPod(t, ownState("2"), "None")
		dead := n.plant(t, skeleton, observed)
		eventually(t, 60*time.Second, func() string {
			return missing(slices.ContainsFunc(d.since(0), func(line string) bool { return strings.Contains(line, "HostToContainer") }), "the daemon does not say why")
		})
		throughout(t, hold+confirm/2, func() string { return missing(exists(dead.dir), "the pod's directory is gone") })
		if err := os.RemoveAll(dead.dir); err != nil {
			t.Error(err)
		}
	})
}

// pid returns the daemon's PID in its container.
func (d *daemon) pid(t *testing.T) int {
	t.Helper()
	for _, pid := range d.node.host.processes() {
		if line := cmdline(pid); strings.HasPrefix(line, "/orphan-reaper run ") && strings.Contains(line, d.state) {
			return pid
		}
	}
	t.Fatal("the daemon's process was not found")
	return 0
}

// sees reports whether the mount namespace of the daemon's container has a mount below dir.
func (d *daemon) sees(t *testing.T, dir string) bool {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", d.pid(t)))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(b), " "+dir+"/")
}
