package probe

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/procfs"
)

// NodeExporterDefaults are the files in which packages of the node exporter keep its
// arguments: Debian's, then those of the unit that comes with it and of other packages.
func NodeExporterDefaults() []string {
	return []string{
		"/etc/default/prometheus-node-exporter", "/etc/sysconfig/node_exporter", "/etc/default/node_exporter",
		"/etc/sysconfig/prometheus-node-exporter", "/etc/default/node-exporter", "/etc/sysconfig/node-exporter",
	}
}

// NodeExporter finds out where this node's node exporter reads textfiles.
type NodeExporter struct {
	procDir  string
	defaults []string
	guard    *bounded.Guard
}

// NewNodeExporter looks among the processes of a /proc, then in the files of arguments.
func NewNodeExporter(procDir string, defaults []string) *NodeExporter {
	return &NodeExporter{procDir: procDir, defaults: defaults, guard: &bounded.Guard{Patience: exporterPatience}}
}

// exporterPatience bounds the search: /proc/PID/cmdline waits for ever where the process
// hangs with its memory locked.
const exporterPatience = 2 * time.Second

// Textfile returns the directory that this node's node exporter was told to
// read textfiles from, "" where it was told none. running says that the answer is that of
// one that runs; else it comes from the files of its arguments.
//
// Only a service of the system's own counts. Anybody may run a program of that name, and a
// pod's has another file system: else a user could have root write a file to any place.
func (n *NodeExporter) Textfile(ctx context.Context) (dir string, running bool) {
	type found struct {
		dir     string
		running bool
	}
	procDir, defaults := n.procDir, n.defaults
	f, err := bounded.Do(ctx, n.guard, "node exporter", func() found {
		dir, running := nodeExporterTextfile(procDir, defaults)
		return found{dir, running}
	})
	if err != nil {
		return "", false // it is looked for again
	}
	return f.dir, f.running
}

func nodeExporterTextfile(procDir string, defaults []string) (dir string, running bool) {
	entries, err := os.ReadDir(procDir)
	if err == nil {
		for _, e := range entries {
			if _, err := strconv.Atoi(e.Name()); err != nil {
				continue
			}
			args, ok := nodeExporter(filepath.Join(procDir, e.Name()))
			if !ok {
				continue
			}
			if dir := parsers.TextfileDirectory(args); dir != "" {
				return dir, true
			}
			running = true
		}
	}
	for _, path := range defaults {
		text, err := procfs.ReadRegular(path, maxConfig)
		if err != nil {
			continue
		}
		if dir := parsers.TextfileDirectoryOf(string(text)); dir != "" {
			return dir, running
		}
	}
	return "", running
}

// nodeExporter returns the arguments of a process that is a node exporter. The kernel cuts
// its name to 15 bytes (proc(5)): prometheus-node-exporter is called prometheus-node.
func nodeExporter(process string) (args []string, ok bool) {
	comm, err := procfs.ReadRegular(filepath.Join(process, "comm"), 4<<10)
	if err != nil {
		return nil, false
	}
	switch strings.TrimSuffix(string(comm), "\n") {
	case "node_exporter", "node-exporter", "prometheus-node":
	default:
		return nil, false
	}
	cgroup, err := procfs.ReadRegular(filepath.Join(process, "cgroup"), maxConfig)
	if err != nil || !systemService(string(cgroup)) {
		return nil, false
	}
	cmdline, err := procfs.ReadRegular(filepath.Join(process, "cmdline"), procfs.MaxCmdline)
	if err != nil {
		return nil, false
	}
	return splitCmdline(cmdline), true
}

// systemService says whether a process whose /proc/PID/cgroup this is belongs to a service
// of the system's service manager: cgroup v2's line (0::) or v1's of systemd.
func systemService(cgroup string) bool {
	for line := range strings.Lines(cgroup) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, path, _ := strings.Cut(rest, ":")
		if controllers != "" && controllers != "name=systemd" {
			continue
		}
		if rest, ok := strings.CutPrefix(path, "/system.slice/"); ok {
			unit, _, _ := strings.Cut(rest, "/")
			return strings.HasSuffix(unit, ".service")
		}
	}
	return false
}
