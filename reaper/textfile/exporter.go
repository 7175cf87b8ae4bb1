package textfile

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
)

// defaults are the files in which packages of the node exporter keep its arguments: Debian's,
// then those of the unit that comes with it and of other packages.
var defaults = []string{
	"/etc/default/prometheus-node-exporter", "/etc/sysconfig/node_exporter", "/etc/default/node_exporter",
	"/etc/sysconfig/prometheus-node-exporter", "/etc/default/node-exporter", "/etc/sysconfig/node-exporter",
}

// usual are where packages have the node exporter read textfiles: Debian and its kin, then what
// the node exporter's own examples, roles and charts use.
var usual = []string{
	"/var/lib/prometheus/node-exporter",
	"/var/lib/node_exporter/textfile_collector",
	"/var/lib/node-exporter/textfile_collector",
	"/var/lib/prometheus/node_exporter",
	"/var/lib/node_exporter/textfile",
	"/var/lib/node_exporter",
	"/var/lib/node-exporter",
}

// patience bounds the search: /proc/PID/cmdline waits for ever where the process hangs with its
// memory locked.
const patience = 2 * time.Second

// Finder finds the directory. Tests give it other places.
type Finder struct {
	procDir  string
	defaults []string
	isDir    func(path string) bool
	guard    *bounded.Guard
}

// New looks among the processes of a /proc and in this machine's usual places.
func New(procDir string) *Finder {
	return &Finder{procDir, defaults, isDir, &bounded.Guard{Patience: patience}}
}

func isDir(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}

// Find returns the directory, "" where there is none. running says that a node exporter runs:
// else one that starts later may be told another.
//
// Only a service of the system's own counts. Anybody may run a program of that name, and a
// pod's has another file system: else a user could have root write a file to any place.
func (f *Finder) Find(ctx context.Context) (dir string, running bool) {
	type found struct {
		dir     string
		running bool
	}
	told, err := bounded.Do(ctx, f.guard, "node exporter", func() found {
		dir, running := f.told()
		return found{dir, running}
	})
	if err == nil && told.dir != "" && f.isDir(told.dir) {
		return told.dir, told.running
	}
	for _, dir := range usual {
		if f.isDir(dir) {
			return dir, err == nil && told.running
		}
	}
	return "", false
}

// told returns the directory that the node exporter was told, "" where it was told none.
func (f *Finder) told() (dir string, running bool) {
	entries, err := os.ReadDir(f.procDir)
	if err == nil {
		for _, e := range entries {
			if _, err := strconv.Atoi(e.Name()); err != nil {
				continue
			}
			args, ok := nodeExporter(filepath.Join(f.procDir, e.Name()))
			if !ok {
				continue
			}
			if dir := directoryIn(args); dir != "" {
				return dir, true
			}
			running = true
		}
	}
	for _, path := range f.defaults {
		text, err := read(path)
		if err != nil {
			continue
		}
		if dir := directoryOf(string(text)); dir != "" {
			return dir, running
		}
	}
	return "", running
}

// nodeExporter returns the arguments of a process that is a node exporter. The kernel cuts
// its name to 15 bytes (proc(5)): prometheus-node-exporter is called prometheus-node.
func nodeExporter(process string) (args []string, ok bool) {
	comm, err := read(filepath.Join(process, "comm"))
	if err != nil {
		return nil, false
	}
	switch strings.TrimSuffix(string(comm), "\n") {
	case "node_exporter", "node-exporter", "prometheus-node":
	default:
		return nil, false
	}
	cgroup, err := read(filepath.Join(process, "cgroup"))
	if err != nil || !systemService(string(cgroup)) {
		return nil, false
	}
	cmdline, err := read(filepath.Join(process, "cmdline"))
	if err != nil {
		return nil, false
	}
	return strings.Split(strings.TrimRight(string(cmdline), "\x00"), "\x00"), true
}

// systemService reports whether a process whose /proc/PID/cgroup this is belongs to a service
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

// maxFile bounds what is read of a file.
const maxFile = 1 << 20

// read reads a file that must be a regular one: a FIFO in its place is not waited for.
func read(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("cannot read %s: it is no regular file", path)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(b) > maxFile {
		err = fmt.Errorf("cannot read %s: it is longer than %d bytes", path, maxFile)
	}
	return b, err
}
