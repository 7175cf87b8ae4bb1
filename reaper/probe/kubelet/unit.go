package kubelet

import (
	"context"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/procfs"
)

// Units returns the systemd services in which kubelets run, as their cgroups tell, so
// that one is heard whatever its unit is called (k3s-NAME.service, where INSTALL_K3S_NAME
// was set). What cannot be read in good time is left out: these are more places to listen,
// and no verdict depends on having all.
func Units(ctx context.Context, procDir string) []string {
	units, err := bounded.Do(ctx, new(bounded.Guard), "kubelet", func() (units []string) {
		s := scanner{procDir: procDir}
		ks, err := s.kubelets()
		if err != nil {
			return nil
		}
		for _, k := range ks {
			if k.parent != 1 {
				continue // Not what systemd started: a shell's or cron's, among others' lines.
			}
			text, err := procfs.Read(s.procDir, k.ID.PID, "cgroup", 64<<10)
			if unit, ok := serviceOf(string(text)); err == nil && ok {
				units = append(units, unit)
			}
		}
		return units
	})
	if err != nil {
		return nil
	}
	return units
}

// serviceOf returns the service to which a /proc/PID/cgroup belongs: the first part of the
// path in systemd's hierarchy that is no slice (cgroups(7), systemd.unit(5)). A user's
// manager is the service of whatever that user starts, and none of the node's. From a cgroup
// namespace of our own, as a container has, the path begins with .. (cgroup_namespaces(7)).
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

// Start returns when the first of the kubelets that run was started, on
// CLOCK_BOOTTIME, and whether any runs and can be told.
func Start(ctx context.Context, procDir string) (time.Duration, bool) {
	start, err := bounded.Do(ctx, new(bounded.Guard), "kubelet", func() time.Duration {
		ks, err := scanner{procDir: procDir}.kubelets()
		if err != nil || len(ks) == 0 {
			return -1
		}
		first := ks[0].ID.Start
		for _, k := range ks {
			first = min(first, k.ID.Start)
		}
		return first
	})
	return start, err == nil && start >= 0
}
