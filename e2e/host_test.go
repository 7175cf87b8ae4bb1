package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// sysctls are the kernel settings that a kubelet rewrites at its start (setupKernelTunables
// in pkg/kubelet/cm/container_manager_linux.go).
var sysctls = []string{
	"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
	"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
}

// builtIn are the places outside their own directories that the programs always write to: the kubelet's device
// plugin socket and its pods' logs, libcni's cache, the network namespaces of CRI, the shims' sockets.
var builtIn = []string{
	"/var/lib/kubelet", "/var/log/pods", "/var/log/containers", "/var/lib/cni", netnsDir,
	"/run/containerd", "/opt/containerd", "/opt/cni", "/usr/libexec/kubernetes",
}

// The suite uses one directory on a machine, which is also its lock: two runs at once would treat each other's
// residue as their own.
const (
	place = "/var/tmp/orphan-reaper-e2e"
	// tag is the prefix of our bridges' and cgroups' names.
	tag = "ore2e"
	// netnsDir is where ip-netns(8) and CRI keep network namespaces by name.
	netnsDir = "/run/netns"
)

// host is the machine's state before the run.
type host struct {
	dir    string
	Sysctl map[string]string
	Absent []string // those of builtIn that did not exist
	Netns  []string // the existing network namespaces
	// NetnsMounts is how often their directory was mounted: ip-netns(8) mounts it on itself, and then it cannot be
	// removed.
	NetnsMounts int
	lock        *os.File
}

// newHost acquires the place, and records the machine's state in it. If an earlier run was killed, it first
// removes that run's residue, by its record.
func newHost() (*host, error) {
	h := &host{dir: place, Sysctl: map[string]string{}}
	if err := os.Mkdir(place, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	var err error
	if h.lock, err = os.OpenFile(place, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_DIRECTORY, 0); err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(h.lock.Fd()), &st); err != nil || st.Uid != 0 || st.Mode&0o777 != 0o700 {
		return nil, fmt.Errorf("%s belongs to another user: %w", place, err)
	}
	if err := unix.Flock(int(h.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, fmt.Errorf("another run of the suite is active: %w", err)
	}
	note := filepath.Join(place, "host.json")
	if b, err := os.ReadFile(note); err == nil && json.Unmarshal(b, h) == nil {
		_, _ = fmt.Fprintln(os.Stderr, "e2e: taking away what a run that was killed has left")
		if err := errors.Join(h.restore(), os.Mkdir(place, 0o700)); err != nil {
			return nil, err
		}
		return newHost()
	}
	h.Netns, h.NetnsMounts = netns(), netnsMounts()
	for _, name := range sysctls {
		if b, err := os.ReadFile("/proc/sys/" + name); err == nil {
			h.Sysctl[name] = string(b)
		}
	}
	for _, path := range builtIn {
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			h.Absent = append(h.Absent, path)
		}
	}
	b, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	return h, os.WriteFile(note, b, 0o600)
}

// restore ends the remaining processes and removes the residue. It runs after all scenarios have stopped their
// programs, or instead of that when the run is interrupted.
func (h *host) restore() error {
	for range 50 {
		pids := h.processes()
		if len(pids) == 0 {
			break
		}
		for _, pid := range pids {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		time.Sleep(100 * time.Millisecond)
	}
	var errs []error
	// The last mount comes first; a network namespace is a mount, too.
	for _, path := range slices.Backward(h.mounts()) {
		if err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			errs = append(errs, fmt.Errorf("cannot unmount %s: %w", path, err))
		}
	}
	for range netnsMounts() - h.NetnsMounts {
		errs = append(errs, unix.Unmount(netnsDir, unix.MNT_DETACH))
	}
	for _, link := range h.links() {
		if out, err := exec.Command("ip", "link", "delete", link).CombinedOutput(); err != nil {
			errs = append(errs, fmt.Errorf("cannot delete %s: %s", link, out))
		}
	}
	for _, dir := range slices.Backward(h.cgroups()) {
		if err := unix.Rmdir(dir); err != nil {
			errs = append(errs, fmt.Errorf("cannot remove %s: %w", dir, err))
		}
	}
	for name, value := range h.Sysctl {
		errs = append(errs, os.WriteFile("/proc/sys/"+name, []byte(value), 0o600))
	}
	if len(h.mounts()) > 0 {
		return errors.Join(append(errs, errors.New("something is still mounted, so no file is removed"))...)
	}
	for _, path := range append([]string{h.dir}, h.Absent...) {
		_ = exec.Command("chattr", "-R", "-f", "-i", path).Run()
		errs = append(errs, os.RemoveAll(path))
	}
	for _, path := range netns() {
		if !slices.Contains(h.Netns, path) {
			errs = append(errs, os.Remove(path))
		}
	}
	return errors.Join(errs...)
}

// left lists everything of the suite that still exists.
func (h *host) left() []string {
	var all []string
	for _, pid := range h.processes() {
		all = append(all, fmt.Sprintf("process %d: %s", pid, cmdline(pid)))
	}
	for what, list := range map[string][]string{"mount": h.mounts(), "link": h.links(), "cgroup": h.cgroups()} {
		for _, name := range list {
			all = append(all, what+" "+name)
		}
	}
	for _, path := range netns() {
		if !slices.Contains(h.Netns, path) {
			all = append(all, "network namespace "+path)
		}
	}
	return all
}

// changed lists the differences from the recorded state.
func (h *host) changed() []string {
	all := h.left()
	for name, was := range h.Sysctl {
		if b, err := os.ReadFile("/proc/sys/" + name); err != nil || string(b) != was {
			all = append(all, fmt.Sprintf("sysctl %s: %q, was %q (%v)", name, b, was, err))
		}
	}
	for _, path := range append([]string{h.dir}, h.Absent...) {
		if _, err := os.Lstat(path); err == nil {
			all = append(all, "file "+path)
		}
	}
	if now := netnsMounts(); now != h.NetnsMounts {
		all = append(all, fmt.Sprintf("%s is mounted %d times, was %d", netnsDir, now, h.NetnsMounts))
	}
	return all
}

func cmdline(pid int) string {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil {
		return ""
	}
	return strings.ReplaceAll(string(b), "\x00", " ")
}

// processes returns those with our directory in their command line (containerd, its shims, the kubelets,
// orphan-reaper) and those in our cgroups (the containers).
func (h *host) processes() []int {
	var pids []int
	procs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil
	}
	for _, p := range procs {
		pid, err := strconv.Atoi(filepath.Base(p))
		if err != nil || pid == os.Getpid() || pid == os.Getppid() {
			continue
		}
		cgroup, err := os.ReadFile(p + "/cgroup")
		if err != nil {
			continue
		}
		if strings.Contains(cmdline(pid), h.dir+"/") || strings.Contains(string(cgroup), "/"+tag) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// mounts returns those below our directory and the new network namespaces, in their order.
func (h *host) mounts() []string {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	var all []string
	for line := range strings.Lines(string(b)) {
		path := strings.Fields(line)[4]
		ns := strings.HasPrefix(path, netnsDir+"/") && !slices.Contains(h.Netns, path)
		if strings.HasPrefix(path, h.dir+"/") || ns {
			all = append(all, path)
		}
	}
	return all
}

func (h *host) links() []string {
	all, err := filepath.Glob("/sys/class/net/" + tag + "*")
	if err != nil {
		return nil
	}
	for i := range all {
		all[i] = filepath.Base(all[i])
	}
	return all
}

// cgroups returns ours in every hierarchy, parents before children.
func (h *host) cgroups() []string {
	tops, err := filepath.Glob("/sys/fs/cgroup/" + tag + "*")
	if err != nil {
		return nil
	}
	v1, err := filepath.Glob("/sys/fs/cgroup/*/" + tag + "*")
	if err != nil {
		return nil
	}
	var all []string
	for _, top := range append(tops, v1...) {
		_ = filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				all = append(all, path)
			}
			return nil
		})
	}
	return all
}

// netnsMounts returns how often the directory of the network namespaces is mounted.
func netnsMounts() int {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return 0
	}
	n := 0
	for line := range strings.Lines(string(b)) {
		if strings.Fields(line)[4] == netnsDir {
			n++
		}
	}
	return n
}

func netns() []string {
	all, err := filepath.Glob(netnsDir + "/cni-*")
	if err != nil {
		return nil
	}
	return all
}
