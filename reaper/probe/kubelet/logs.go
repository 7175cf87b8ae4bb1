package kubelet

import (
	"context"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/procfs"
)

// each returns what do returns for each running kubelet, nothing if they cannot be read. No verdict depends on
// having all of them.
func each[T any](ctx context.Context, procDir string, do func(k *Kubelet) []T) []T {
	all, err := bounded.Do(ctx, new(bounded.Guard), "kubelet", func() (all []T) {
		ks, err := scanner{procDir: procDir}.kubelets()
		if err != nil {
			return nil
		}
		for _, k := range ks {
			all = append(all, do(k)...)
		}
		return all
	})
	if err != nil {
		return nil
	}
	return all
}

// Units returns the systemd services in which kubelets run, by their cgroups. The name of a unit may be any
// (k3s-NAME.service with INSTALL_K3S_NAME).
func Units(ctx context.Context, procDir string) []string {
	return each(ctx, procDir, func(k *Kubelet) []string {
		if k.parent != 1 {
			return nil // systemd did not start it: its unit has the lines of others, too
		}
		text, err := procfs.Read(procDir, k.ID.PID, "cgroup", 64<<10)
		if unit, ok := serviceOf(string(text)); err == nil && ok {
			return []string{unit}
		}
		return nil
	})
}

// serviceOf returns the service of a /proc/PID/cgroup: the first part of the path in systemd's
// hierarchy that is not a slice (cgroups(7), systemd.unit(5)). A user's manager does not count. If
// we have a cgroup namespace of our own, as in a container, the path begins with ..
// (cgroup_namespaces(7)).
func serviceOf(cgroup string) (string, bool) {
	for line := range strings.Lines(cgroup) {
		_, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		controllers, path, ok := strings.Cut(rest, ":")
		if !ok || (controllers != "" && controllers != "name=systemd") {
			continue
		}
		for part := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
			if strings.HasSuffix(part, ".slice") || part == ".." {
				continue
			}
			if strings.HasSuffix(part, ".service") && !strings.HasPrefix(part, "user@") {
				return part, true
			}
			break
		}
	}
	return "", false
}

// Logs returns the regular files to which kubelets write their standard error or output
// (StandardError=append:FILE, nohup, runit), and not to the journal. A file counts only if this
// process finds it at the same path.
func Logs(ctx context.Context, procDir string) []string {
	logs := each(ctx, procDir, func(k *Kubelet) (logs []string) {
		for _, fd := range [...]string{"fd/2", "fd/1"} {
			if path, ok := regularFile(procfs.Path(procDir, k.ID.PID, fd)); ok {
				logs = append(logs, path)
			}
		}
		return logs
	})
	slices.Sort(logs)
	return slices.Compact(logs)
}

// regularFile returns the path of the regular file to which a link of /proc leads.
func regularFile(link string) (string, bool) {
	path, err := os.Readlink(link)
	if err != nil || !strings.HasPrefix(path, "/") {
		return "", false
	}
	open, err := os.Stat(link)
	named, err2 := os.Stat(path)
	return path, err == nil && err2 == nil && open.Mode().IsRegular() && os.SameFile(open, named)
}

// Start returns the first start time of the running kubelets, on CLOCK_BOOTTIME, and false if none is
// known.
func Start(ctx context.Context, procDir string) (time.Duration, bool) {
	starts := each(ctx, procDir, func(k *Kubelet) []time.Duration { return []time.Duration{k.ID.Start} })
	if len(starts) == 0 {
		return 0, false
	}
	return slices.Min(starts), true
}
