package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/fdpath"
)

// process has what /proc/PID/status shows of a process.
type process struct {
	pid, parent int
	inner       int // its PID in its own PID namespace
	name        string
	root        bool // its real user ID is 0: any user who executes a set-user-ID program has root's effective one
}

type processes struct{ all []process }

// readProcesses reads the status of every process.
func (s *Scanner) readProcesses(ctx context.Context) (*processes, error) {
	pids, err := s.listProcesses()
	if err != nil {
		return nil, err
	}
	found := &processes{}
	for _, pid := range pids {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("cannot read the processes in time: %w", err)
		}
		text, err := s.readProc(pid, "status", 64<<10)
		if vanished(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		found.all = append(found.all, parseStatus(pid, text))
	}
	return found, nil
}

// listProcesses returns the PIDs in /proc.
func (s *Scanner) listProcesses() ([]int, error) {
	dir, err := os.Open(s.cfg.Proc)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	// Every PID namespace has a PID 1. Without it /proc hides processes (hidepid of proc(5)).
	if !slices.Contains(pids, 1) {
		return nil, fmt.Errorf("%s does not show all processes: mount it without hidepid, or run as root", s.cfg.Proc)
	}
	slices.Sort(pids)
	return pids, nil
}

// readProc reads a file of a process, of at most limit bytes.
func (s *Scanner) readProc(pid int, file string, limit int) ([]byte, error) {
	path := s.procPath(pid, file)
	fd, err := openProc(path)
	if err != nil {
		return nil, err
	}
	defer fdpath.Close(fd)
	text := make([]byte, 0, 4<<10)
	for len(text) < limit {
		text = slices.Grow(text, 2<<10)
		n, err := fdpath.Retry(func() (int, error) { return unix.Read(fd, text[len(text):cap(text)]) })
		if err != nil {
			return nil, fdpath.PathError("read", path, err)
		}
		if n == 0 {
			return text, nil
		}
		text = text[:len(text)+n]
	}
	return nil, fdpath.PathError("read", path, fdpath.ErrTooLong)
}

func openProc(path string) (int, error) {
	fd, err := fdpath.Retry(func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return -1, fdpath.PathError("open", path, err)
	}
	return fd, nil
}

func (s *Scanner) procPath(pid int, file string) string {
	return s.cfg.Proc + "/" + strconv.Itoa(pid) + "/" + file
}

// vanished reports whether the error is of a process that has ended: ENOENT or ESRCH, and EINVAL if it is a zombie.
func vanished(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || fdpath.Is(err, unix.ESRCH, unix.EINVAL)
}

// parseStatus parses /proc/PID/status, proc_pid_status(5).
func parseStatus(pid int, text []byte) process {
	p := process{pid: pid, inner: pid}
	for line := range bytes.Lines(text) {
		key, value, _ := strings.Cut(string(line), ":")
		f := strings.Fields(value)
		switch {
		case len(f) == 0:
		case key == "Name":
			p.name = strings.TrimSpace(value)
		case key == "PPid":
			p.parent, _ = strconv.Atoi(f[0]) // 0 is no process
		case key == "Uid":
			p.root = f[0] == "0"
		case key == "NSpid": // Linux 4.1
			p.inner, _ = strconv.Atoi(f[len(f)-1])
		}
	}
	return p
}

// owner is whose process it is: of a pod by its cgroup, else of a systemd unit.
type owner struct {
	pod  parsers.PodUID
	unit string
}

// ownPod returns the pod that PID 1 is in, "" on a usual node. If this whole node is a container in a pod of another node and
// sees that node's cgroups, all of its processes are in that pod, and it does not count.
func (s *Scanner) ownPod() parsers.PodUID {
	text, err := s.readProc(1, "cgroup", 64<<10)
	if err != nil {
		return ""
	}
	return parseOwner(string(text), "").pod
}

// parseOwner parses /proc/PID/cgroup, cgroups(7). A pod counts unless it is below a user's slice, where the user may give
// cgroups any name. The unit is the first part of the path in systemd's hierarchy that is not a slice.
func parseOwner(text string, node parsers.PodUID) owner {
	var o owner
	for line := range strings.Lines(text) {
		_, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		controllers, path, ok := strings.Cut(rest, ":")
		if !ok {
			continue
		}
		parts := strings.Split(strings.Trim(path, "/"), "/")
		if !slices.Contains(parts, "user.slice") {
			for _, part := range parts {
				if uid, ok := parsers.PodOfCgroup(part); ok && uid != node && o.pod == "" {
					o.pod = uid
				}
			}
		}
		if controllers == "" || controllers == "name=systemd" {
			// A cgroup namespace of our own makes the path begin with .. (cgroup_namespaces(7)).
			i := slices.IndexFunc(parts, func(part string) bool { return part != ".." && !strings.HasSuffix(part, ".slice") })
			if i >= 0 && strings.HasSuffix(parts[i], ".service") && !strings.HasPrefix(parts[i], "user@") {
				o.unit = parts[i]
			}
		}
	}
	return o
}

// who returns a process for messages.
func (p *process) who() string { return fmt.Sprintf("PID %d (%s)", p.pid, bounded.Name(p.name)) }
