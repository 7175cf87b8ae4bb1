package e2e

import (
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

// builtIn are the places outside their own directories that the programs write to, whatever
// they are told: the kubelet's device plugin socket and its pods' logs, libcni's cache, the
// network namespaces of CRI, the shims' sockets.
var builtIn = []string{
	"/var/lib/kubelet", "/var/log/pods", "/var/log/containers", "/var/lib/cni", "/run/netns",
	"/run/containerd", "/opt/containerd", "/opt/cni", "/usr/libexec/kubernetes",
}

// host is the machine as it was, and what of it is the suite's: everything whose name
// begins with tag, and everything below dir.
type host struct {
	dir    string
	tag    string
	sysctl map[string]string
	absent []string // those of builtIn that were not there
	netns  []string
}

func newHost() (*host, error) {
	dir, err := os.MkdirTemp("/var/tmp", "orphan-reaper-e2e-")
	if err != nil {
		return nil, err
	}
	h := &host{dir: dir, tag: fmt.Sprintf("ore2e%d", os.Getpid()%100000), sysctl: map[string]string{}, netns: netns()}
	for _, name := range sysctls {
		b, err := os.ReadFile("/proc/sys/" + name)
		if err == nil {
			h.sysctl[name] = string(b)
		}
	}
	for _, path := range builtIn {
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			h.absent = append(h.absent, path)
		}
	}
	return h, nil
}

// restore ends what is still running and takes away what is left. It is called when all
// scenarios have stopped what they started, or in their place when the run is cut short.
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
	// The last mount first; a network namespace is a mount too.
	for _, path := range slices.Backward(h.mounts()) {
		if err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			errs = append(errs, fmt.Errorf("cannot unmount %s: %w", path, err))
		}
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
	for name, value := range h.sysctl {
		errs = append(errs, os.WriteFile("/proc/sys/"+name, []byte(value), 0o600))
	}
	if len(h.mounts()) > 0 {
		return errors.Join(append(errs, errors.New("something is still mounted, so no file is removed"))...)
	}
	for _, path := range append([]string{h.dir}, h.absent...) {
		_ = exec.Command("chattr", "-R", "-f", "-i", path).Run()
		errs = append(errs, os.RemoveAll(path))
	}
	for _, path := range netns() {
		if !slices.Contains(h.netns, path) {
			errs = append(errs, os.Remove(path))
		}
	}
	return errors.Join(errs...)
}

// left names everything of the suite's that is there.
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
		if !slices.Contains(h.netns, path) {
			all = append(all, "network namespace "+path)
		}
	}
	return all
}

// changed names what is not as it was.
func (h *host) changed() []string {
	all := h.left()
	for name, was := range h.sysctl {
		if b, err := os.ReadFile("/proc/sys/" + name); err != nil || string(b) != was {
			all = append(all, fmt.Sprintf("sysctl %s: %q, was %q (%v)", name, b, was, err))
		}
	}
	for _, path := range append([]string{h.dir}, h.absent...) {
		if _, err := os.Lstat(path); err == nil {
			all = append(all, "file "+path)
		}
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

// processes are those whose command line names our directory (containerd, its shims, the
// kubelets, orphan-reaper) and those in our cgroups (the containers).
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
		if strings.Contains(cmdline(pid), h.dir+"/") || strings.Contains(string(cgroup), "/"+h.tag) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// mounts are those below our directory and the new network namespaces, in their order.
func (h *host) mounts() []string {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	var all []string
	for line := range strings.Lines(string(b)) {
		path := strings.Fields(line)[4]
		ns := strings.HasPrefix(path, "/run/netns/") && !slices.Contains(h.netns, path)
		if strings.HasPrefix(path, h.dir+"/") || ns {
			all = append(all, path)
		}
	}
	return all
}

func (h *host) links() []string {
	all, err := filepath.Glob("/sys/class/net/" + h.tag + "*")
	if err != nil {
		return nil
	}
	for i := range all {
		all[i] = filepath.Base(all[i])
	}
	return all
}

// cgroups are ours in every hierarchy, parents before children.
func (h *host) cgroups() []string {
	tops, err := filepath.Glob("/sys/fs/cgroup/" + h.tag + "*")
	if err != nil {
		return nil
	}
	v1, err := filepath.Glob("/sys/fs/cgroup/*/" + h.tag + "*")
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

func netns() []string {
	all, err := filepath.Glob("/run/netns/cni-*")
	if err != nil {
		return nil
	}
	return all
}
