package program

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/testdata/node/internal/kubelet"
)

// namespace is that of all pods.
const namespace = "default"

// pod is a pod of the node as it is now. Its state is where it began.
type pod struct {
	podSpec
	dir        string
	created    time.Time // of its sandbox
	sandbox    sandboxState
	sandboxID  string
	lives      int // how many sandboxes it has had
	containers []containerState
	listed     bool
	inManager  bool
	cgroup     bool
	volumes    []volume
	processes  []*process
	agents     []*process // with a mount of their own
	mounted    []string   // mount points in the node's namespace
}

// hexID returns an ID of 64 digits that is the same for the same parts.
func hexID(parts ...any) string {
	sum := sha256.Sum256(fmt.Append(nil, parts...))
	return hex.EncodeToString(sum[:])
}

func (n *node) makePods() error {
	for _, spec := range n.Pods {
		if err := n.addPod(spec); err != nil {
			return fmt.Errorf("pod %s: %w", spec.Name, err)
		}
	}
	return nil
}

// addPod makes a pod with its directory, cgroup, processes and mounts.
func (n *node) addPod(spec podSpec) error {
	state := spec.state()
	p := &pod{
		podSpec: spec, dir: n.root + "/pods/" + spec.UID, created: time.Now().Add(-age), sandbox: state.sandbox,
		sandboxID: hexID("sandbox", spec.UID, 0), containers: state.containers, listed: state.listed, inManager: state.inManager,
	}
	n.pods = append(n.pods, p)
	if err := p.fill(); err != nil {
		return err
	}
	if p.sandbox != noSandbox {
		if err := writeFile(n.containerLog(p), "", 0o640); err != nil {
			return err
		}
	}
	if spec.Network != "" {
		if err := n.addNetworkFiles(p, !spec.has("young")); err != nil {
			return err
		}
	}
	if err := n.addMounts(p); err != nil {
		return err
	}
	if state.cgroup || spec.has("cgroup") {
		p.cgroup = true
		if err := n.cgroups.add(n.cgroups.pod(p.UID), 0); err != nil {
			return err
		}
	}
	if state.process || spec.has("process") {
		return n.addProcess(p)
	}
	return nil
}

// addProcess starts a process in the cgroup of the pod's container.
func (n *node) addProcess(p *pod) error {
	path := n.cgroups.container(p.UID, hexID("container", p.UID, 0))
	running, err := n.startPause(path)
	if err != nil {
		return err
	}
	p.processes, p.cgroup = append(p.processes, running), true
	return n.cgroups.add(path, running.Pid)
}

// containerLog returns the file to which the runtime writes a container's output. The kubelet keeps it as long as it wants
// the pod.
func (n *node) containerLog(p *pod) string {
	return n.logDir + "/pods/" + namespace + "_" + p.Name + "_" + p.UID + "/app/0.log"
}

// end ends all that a kubelet and a runtime keep of a pod. Its directory and its mounts stay.
func (n *node) end(p *pod) error {
	for _, running := range p.processes {
		running.kill()
	}
	p.processes, p.containers, p.sandbox = nil, nil, noSandbox
	p.listed, p.inManager, p.cgroup = false, false, false
	return errors.Join(n.cgroups.remove(n.cgroups.pod(p.UID)), removeTree(filepath.Dir(filepath.Dir(n.containerLog(p)))))
}

// addMounts mounts what the pod's words say.
func (n *node) addMounts(p *pod) error {
	first := func() string { return p.dir + "/" + p.volumes[0].target }
	if p.has("mount") {
		if err := p.mountTmpfs(first()); err != nil {
			return err
		}
	}
	if p.has("mount-subpath") {
		if err := p.mountTmpfs(p.dir + "/" + subpath); err != nil {
			return err
		}
	}
	if p.has("staged") {
		global, err := n.stagingDir(p)
		if err != nil {
			return err
		}
		if err := p.mountTmpfs(global); err != nil {
			return err
		}
	}
	if p.has("mount-elsewhere") {
		// Else the kubelet removes the directory, and so ends the mount that it does not see.
		if err := writeFile(first()+"/precious", precious, 0o644); err != nil {
			return err
		}
		agent, err := n.startAgent(first())
		if err != nil {
			return err
		}
		p.agents = append(p.agents, agent)
	}
	return nil
}

// mountTmpfs mounts a tmpfs with a file.
func (p *pod) mountTmpfs(at string) error {
	if err := mountTmpfs(at); err != nil {
		return err
	}
	p.mounted = append(p.mounted, at)
	return writeFile(at+"/precious", precious, 0o644)
}

// unmount ends the pod's mounts, the newest first, and the processes that have their own.
func (p *pod) unmount() error {
	for len(p.mounted) > 0 {
		at := p.mounted[len(p.mounted)-1]
		if err := unix.Unmount(at, 0); err != nil && !isUnmounted(err) {
			return fmt.Errorf("cannot unmount %s: %w", at, err)
		}
		p.mounted = p.mounted[:len(p.mounted)-1]
	}
	for _, agent := range p.agents {
		agent.kill()
	}
	p.agents = nil
	return nil
}

// isUnmounted reports whether umount2(2) found no mount: COMMAND may have unmounted it, or moved the directory.
func isUnmounted(err error) bool { return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) }

// setAges makes what lies in the directories of pods older, unless they are young. That follows a sweep of the kubelet,
// which removes empty directories: it did so long ago. The change time of a file cannot be set.
func setAges(pods []*pod) error {
	for _, p := range pods {
		if p.has("young") {
			continue
		}
		if err := setAge(p.dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func setAge(path string) error {
	at := unix.NsecToTimespec(time.Now().Add(-age).UnixNano())
	return filepath.WalkDir(path, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{at, at}, unix.AT_SYMLINK_NOFOLLOW)
	})
}

// age is how long ago all was made that is not young.
const age = time.Hour

// managed returns what the kubelet's volume manager has of the pod: its first volume.
func (p *pod) managed(version string) kubelet.Managed {
	v := p.volumes[0]
	m := kubelet.Managed{UID: p.UID, Volume: v.name, UniqueName: v.uniqueName(p.UID)}
	if !v.isCSI() {
		m.Error = "remove " + p.dir + "/" + v.target + ": directory not empty"
		return m
	}
	m.Data = p.dir + "/" + strings.TrimSuffix(v.target, "mount") + "vol_data.json"
	who := "Unmounter.TearDownAt"
	if version == "1.19" {
		who = "mounter.SetUpAt" // as it says
	}
	m.Error = "kubernetes.io/csi: " + who + " failed to get CSI client: driver name " + csiDriver + " not found in the list of registered CSI drivers"
	return m
}
