package openfiles

import (
	"bufio"
	"bytes"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/procfs"
)

// A bound unix socket is a name that a process needs and does not hold open: who removes the
// file cuts off every client to come. /proc/PID/net/unix lists the sockets of the process's
// network namespace, with the path as bind(2) was given it and no inode:
//
//	Num       RefCount Protocol Flags    Type St Inode Path
//	ffff9d0c: 00000002 00000000 00010000 0001 01 26532 /run/dbus/system_bus_socket
//
// The path is as the process saw it that bound the socket, which is not named. So a path with a
// pod's UID in it is followed in every mount namespace that a process of the network
// namespace is in. A path without one, relative or of another root, tells nothing.

const (
	// biggestSockets bounds what is read of one network namespace, some 40,000 sockets. Who opens
	// more in a namespace of his own hides his own sockets only.
	biggestSockets = 4 << 20
	// mostViews bounds the mount namespaces in which one path is followed.
	mostViews = 64
)

// joins remembers in which network namespace a process is.
func (s *scan) joins(pid string) {
	n, err := unix.Readlinkat(s.proc, pid+"/ns/net", s.link[:])
	if err == nil {
		s.nets[string(s.link[:n])] = append(s.nets[string(s.link[:n])], pid)
	}
}

// sockets follows up the paths of sockets that name a wanted pod. A namespace whose processes
// have all ended meanwhile has no socket any more.
func (s *scan) sockets() error {
	for _, pids := range s.nets {
		for _, pid := range pids {
			f, err := os.Open(s.ProcDir + "/" + pid + "/net/unix")
			if err != nil {
				continue
			}
			err = s.table(f, pids)
			_ = f.Close()
			if err == nil {
				break
			}
			if !procfs.Vanished(err) {
				return err
			}
		}
	}
	return nil
}

// table reads one namespace's table.
func (s *scan) table(f io.Reader, pids []string) error {
	lines := bufio.NewScanner(io.LimitReader(f, biggestSockets))
	for lines.Scan() {
		i := bytes.IndexByte(lines.Bytes(), '/')
		if i < 0 {
			continue
		}
		path := lines.Bytes()[i:]
		if len(s.wanted.InPath(nil, path)) > 0 {
			s.socket(string(path), pids)
		}
	}
	return lines.Err()
}

// socket answers for one path.
func (s *scan) socket(path string, pids []string) {
	for _, at := range spots(s.wanted, path) {
		if s.pods[at.uid] != "" || !s.places.isSocket(at) {
			continue
		}
		switch s.bound(at, pids) {
		case policy.Yes:
			s.pods[at.uid] = "a process has bound the unix socket " + clean.Name(path)
		case policy.Unknown:
			s.doubts[at.uid] = "a process has bound a unix socket " + clean.Name(path) + ", and nobody can tell whether that is this pod's"
		case policy.No:
		}
	}
}

// bound says whether the path leads to the pod in any mount namespace of the processes.
func (s *scan) bound(at spot, pids []string) policy.Truth {
	seen := map[string]bool{}
	result := policy.No
	for _, pid := range pids {
		n, err := unix.Readlinkat(s.proc, pid+"/ns/mnt", s.link[:])
		if err != nil || seen[string(s.link[:n])] {
			continue
		}
		if len(seen) >= mostViews {
			return policy.Unknown
		}
		seen[string(s.link[:n])] = true
		switch s.places.below(at, link{process: pid}) {
		case policy.Yes:
			return policy.Yes
		case policy.Unknown:
			result = policy.Unknown
		case policy.No:
		}
	}
	return result
}

// isSocket says whether there is a socket at the spot.
func (p *places) isSocket(at spot) bool {
	fd, err := p.find(at)
	if err != nil {
		return false
	}
	defer beneath.Close(fd)
	st, err := beneath.Stat(fd)
	return err == nil && st.Mode&unix.S_IFMT == unix.S_IFSOCK
}
