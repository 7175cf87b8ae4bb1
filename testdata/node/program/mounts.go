package program

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const (
	cgroupRoot = "/sys/fs/cgroup"
	procNosuid = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
)

// coveredDirs are directories of the machine that the node covers where they exist: a program that is started without
// OR_FLAGS must not find the machine's own.
var coveredDirs = []string{
	"/var/lib/kubelet", "/var/lib/orphan-reaper", "/etc/orphan-reaper", "/var/lib/cni", "/etc/cni/net.d",
	"/var/snap/microk8s/common/run", "/var/lib/rancher/rke2/agent",
}

// mount is mount(2).
func mount(source, target, kind string, flags uintptr, data string) error {
	err := unix.Mount(source, target, kind, flags, data)
	switch {
	case errors.Is(err, unix.EPERM):
		return refused(fmt.Errorf("cannot mount %s: %w", target, err))
	case err != nil:
		return fmt.Errorf("cannot mount %s: %w", target, err)
	}
	return nil
}

func mountTmpfs(target string) error {
	return mount("tmpfs", target, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755")
}

// bind shows source at target, too.
func bind(source, target string) error { return mount(source, target, "", unix.MS_BIND, "") }

// refused returns the error of a kernel that refuses namespaces. In a container that masks a part of /proc it refuses another
// /proc to a user namespace (mount_too_revealing in fs/namespace.c).
func refused(err error) error {
	return fmt.Errorf("cannot make namespaces: %w; allow user namespaces on this machine, or give the container CAP_SYS_ADMIN", err)
}

// firstMounts separates the mounts from those of the machine and mounts /proc for the PID namespace.
func firstMounts() error {
	if err := mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	return mount("proc", "/proc", "proc", procNosuid, "")
}

// mounts makes the node's directories below DIR, and mounts.
func (n *node) mounts() error {
	for _, dir := range []string{n.root + "/pods", n.cni, n.cniConf, n.logDir, n.own} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	covered := map[string]string{"/var/lib/cni": n.cni, "/etc/cni/net.d": n.cniConf, "/var/log": n.logDir}
	for _, dir := range coveredDirs {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() || covered[dir] != "" {
			continue
		}
		if err := mountTmpfs(dir); err != nil {
			return err
		}
	}
	for at, source := range covered {
		if _, err := os.Stat(at); errors.Is(err, fs.ErrNotExist) && at != "/var/log" {
			continue // OR_FLAGS has it
		}
		if err := bind(source, at); err != nil {
			return err
		}
	}
	for _, dir := range []string{"/run", cgroupRoot, n.own} {
		if err := mountTmpfs(dir); err != nil {
			return err
		}
	}
	if info, err := os.Lstat("/var/run"); err == nil && info.IsDir() {
		if err := bind("/run", "/var/run"); err != nil {
			return err
		}
	}
	// As a kubelet does, so that mounts in its containers reach the node.
	if err := bind(n.root, n.root); err != nil {
		return err
	}
	return mount("", n.root, "", unix.MS_SHARED, "")
}

// link makes a program of the node: a link to this one. The kernel derives the process's name from the link (execve(2)).
// PID 1 is this program, wherever its file is.
func (n *node) link(name string) error {
	if err := os.MkdirAll(n.bin(), 0o755); err != nil {
		return err
	}
	return os.Symlink("/proc/1/exe", filepath.Join(n.bin(), name))
}

func (n *node) bin() string { return n.own + "/bin" }

// replaceFile covers a file, such as one of /proc, by one with the text.
func (n *node) replaceFile(path, text string) error {
	f, err := os.CreateTemp(n.own, "file-")
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		return err
	}
	if err := f.Chmod(0o444); err != nil {
		return err
	}
	return bind(f.Name(), path)
}
