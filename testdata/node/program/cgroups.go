package program

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// cgroups makes the cgroup hierarchy of version 2 as the systemd driver does, and those of version 1 as the cgroupfs
// driver does. All pods are of the class BestEffort.
type cgroups struct{ v1 bool }

// v1Hierarchies are the directories of version 1 and their names in /proc/PID/cgroup.
var v1Hierarchies = [][2]string{{"cpu,cpuacct", "cpu,cpuacct"}, {"memory", "memory"}, {"pids", "pids"}, {"systemd", "name=systemd"}}

func (c cgroups) make() error {
	for _, path := range []string{c.service("kubelet.service"), c.service("containerd.service"), filepath.Dir(c.pod("x"))} {
		if err := c.add(path, 0); err != nil {
			return err
		}
	}
	if c.v1 {
		return nil
	}
	return os.WriteFile(cgroupRoot+"/cgroup.controllers", []byte("cpuset cpu io memory pids\n"), 0o644)
}

// pod returns the path of a pod's cgroup.
func (c cgroups) pod(uid string) string {
	if c.v1 {
		return "/kubepods/besteffort/pod" + uid
	}
	return "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" + strings.ReplaceAll(uid, "-", "_") + ".slice"
}

// container returns the path of a container's cgroup.
func (c cgroups) container(uid, id string) string {
	if c.v1 {
		return c.pod(uid) + "/" + id
	}
	return c.pod(uid) + "/cri-containerd-" + id + ".scope"
}

// service returns the path of a service's cgroup.
func (c cgroups) service(unit string) string { return "/system.slice/" + unit }

// dirs returns the directories of a cgroup.
func (c cgroups) dirs(path string) []string {
	if !c.v1 {
		return []string{cgroupRoot + path}
	}
	var all []string
	for _, h := range v1Hierarchies {
		all = append(all, cgroupRoot+"/"+h[0]+path)
	}
	return all
}

// text returns the content of /proc/PID/cgroup.
func (c cgroups) text(path string) string {
	if !c.v1 {
		return "0::" + path + "\n"
	}
	var b strings.Builder
	for i, h := range v1Hierarchies {
		fmt.Fprintf(&b, "%d:%s:%s\n", len(v1Hierarchies)-i, h[1], path)
	}
	return b.String()
}

// add makes a cgroup and its parents, with a process unless pid is 0.
func (c cgroups) add(path string, pid int) error {
	for _, dir := range c.dirs(path) {
		for at := dir; at != cgroupRoot; at = filepath.Dir(at) {
			if err := c.files(at, dir == at, pid); err != nil {
				return err
			}
		}
	}
	return nil
}

// files writes the files of a cgroup that has the process, or that is a parent.
func (c cgroups) files(dir string, own bool, pid int) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	procs, populated := "", 0
	if pid != 0 {
		populated = 1
	}
	if own && pid != 0 {
		procs = strconv.Itoa(pid) + "\n"
	}
	if _, err := os.Stat(dir + "/cgroup.procs"); err != nil || own {
		if err := os.WriteFile(dir+"/cgroup.procs", []byte(procs), 0o644); err != nil {
			return err
		}
	}
	if _, err := os.Stat(dir + "/cgroup.events"); c.v1 || err == nil && pid == 0 && !own {
		return nil
	}
	return os.WriteFile(dir+"/cgroup.events", fmt.Appendf(nil, "populated %d\nfrozen 0\n", populated), 0o644)
}

// remove removes a cgroup with all below it. That is what rmdir(2) does to a real one.
func (c cgroups) remove(path string) error {
	var all error
	for _, dir := range c.dirs(path) {
		all = errors.Join(all, removeTree(dir))
	}
	return all
}

// runRmdir is rmdir(1), and removes cgroups with their files, as the kernel does.
func runRmdir(dirs []string) (code int) {
	for _, dir := range dirs {
		if strings.HasPrefix(dir, "-") {
			continue
		}
		err := rmCgroup(dir)
		if err == nil {
			err = unix.Rmdir(dir)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "rmdir: failed to remove '%s': %v\n", dir, err)
			code = 1
		}
	}
	return code
}

// rmCgroup removes the files of a cgroup that has no process and no cgroup below it.
func rmCgroup(dir string) error {
	procs, err := os.ReadFile(dir + "/cgroup.procs")
	if err != nil || !strings.HasPrefix(dir, cgroupRoot+"/") {
		return nil //nolint:nilerr // rmdir(2) reports what is wrong
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if len(procs) > 0 || e.IsDir() {
			return unix.EBUSY
		}
	}
	for _, e := range entries {
		if err := os.Remove(dir + "/" + e.Name()); err != nil {
			return err
		}
	}
	return nil
}
