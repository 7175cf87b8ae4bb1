package probe

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// users are the processes that hold something of a wanted pod.
type users struct {
	pods    map[parsers.PodUID]string
	read    int  // processes that could be read, ourselves left out
	refused int  // processes that could not
	alone   bool // this process is PID 1 and the only one of its namespace
	err     error
}

// fact: a process that cannot be read is counted and shown, and does not keep by itself;
// where no process but ourselves could be read, nothing is known.
func (u *users) fact(uid parsers.PodUID, procDir string) policy.Fact {
	origin := fmt.Sprintf("%s/*/{cwd,root,exe,fd}, %d processes", procDir, u.read)
	if who, ok := u.pods[uid]; ok {
		return policy.Fact{Truth: policy.Yes, Origin: origin, Detail: who}
	}
	switch {
	case u.err != nil:
		return policy.Fact{Origin: origin, Detail: u.err.Error()}
	case u.read == 0 && !u.alone:
		return policy.Fact{Origin: origin, Detail: "no other process could be read"}
	case u.refused > 0:
		return policy.Fact{Truth: policy.No, Origin: origin, Detail: fmt.Sprintf("processes that could not be read: %d", u.refused)}
	}
	return policy.Fact{Truth: policy.No, Origin: origin}
}

func (p *Probe) users(ctx context.Context, w wanted) *users {
	u, err := guarded(ctx, &p.guard, "processes", p.patience, func() *users { return p.readUsers(ctx, w) })
	if err != nil {
		return &users{err: fmt.Errorf("cannot read the processes: %w", err)}
	}
	return u
}

// readUsers reads the links of every process. Reading a link asks the process's own
// tables, never the file system behind it, so it does not hang on a dead one. Mapped
// files are left to the mounts: a file that is mapped and not open is rare in a pod's
// volume, and its blocks stay until it is unmapped.
func (p *Probe) readUsers(ctx context.Context, w wanted) *users {
	u := &users{pods: map[parsers.PodUID]string{}}
	proc, pids, err := p.processes()
	if err != nil {
		u.err = err
		return u
	}
	defer closeFD(proc)
	var buf [4096]byte
	self := "self"
	if n, err := unix.Readlinkat(proc, "self", buf[:]); err == nil {
		self = string(buf[:n])
	}
	u.alone = self == "1" && len(pids) == 1 && pids[0] == self
	s := useScan{users: u, wanted: w, proc: proc, procDir: p.cfg.ProcDir, names: make([]byte, 32<<10)}
	for _, pid := range pids {
		if ctx.Err() != nil {
			u.err = ctx.Err()
			return u
		}
		if pid == self {
			continue // the handles of this look
		}
		switch ok, err := s.process(pid); {
		case err != nil && u.err == nil:
			u.err = fmt.Errorf("cannot read the open files of PID %s: %w", pid, err)
		case ok:
			u.read++
		}
	}
	return u
}

// useScan is one pass over all processes.
type useScan struct {
	*users
	wanted  wanted
	proc    int
	procDir string
	names   []byte
	link    [4096]byte
}

// process says whether the process could be read; one that has ended is neither read nor
// refused.
func (s *useScan) process(pid string) (bool, error) {
	for _, name := range [...]string{"cwd", "root", "exe"} {
		if refused, err := s.look(s.proc, pid, pid+"/"+name, name); refused || err != nil {
			return false, err
		}
	}
	fd, err := retry(func() (int, error) {
		return unix.Openat(s.proc, pid+"/fd", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		_, err = s.class(err)
		return false, err
	}
	defer closeFD(fd)
	var links []string
	err = readNames(fd, s.names, func(d dirent) bool {
		links = append(links, d.name)
		return true
	})
	if err != nil {
		_, err = s.class(err)
		return false, err
	}
	for _, name := range links {
		if refused, err := s.look(fd, pid, name, "fd "+name); refused || err != nil {
			return false, err
		}
	}
	return true, nil
}

// look reads one link. Every component is compared, wherever the path begins: a process
// in another mount namespace shows it from its own root.
func (s *useScan) look(dir int, pid, name, what string) (refused bool, err error) {
	n, err := retry(func() (int, error) { return unix.Readlinkat(dir, name, s.link[:]) })
	if err != nil {
		return s.class(err)
	}
	var found [4]parsers.PodUID
	for _, uid := range s.wanted.find(found[:0], s.link[:n]) {
		if _, known := s.pods[uid]; !known {
			v := view{pid: pid}
			s.pods[uid] = "PID " + v.who(s.procDir) + " has " + clean(string(s.link[:n])) + " as " + what
		}
	}
	return false, nil
}

// class: gone is fine, refused is counted once a process, the rest is an error.
func (s *useScan) class(err error) (refused bool, _ error) {
	switch {
	case vanished(err):
		return false, nil
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		s.refused++
		return true, nil
	case errors.Is(err, unix.ENAMETOOLONG):
		// A path of more than 4,096 bytes: nothing the kubelet made is so deep, and who
		// went there by relative steps is seen by its root and its other files.
		return false, nil
	}
	return false, err
}
