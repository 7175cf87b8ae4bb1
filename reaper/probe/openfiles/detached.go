package openfiles

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/procfs"
)

// A mount that was taken out of the tree (umount --lazy), or never was in it (open_tree(2)), is in
// no mountinfo. A file on it stays open, and its path begins at the mount: nothing in it names
// the pod. But fdinfo has the ID of the mount (Linux 3.15), and asks no file system for it. Where no
// mount namespace has that ID, the file's device and inode number are asked for. One of the pods'
// file system is a stray then, which the walk of its pod meets.

// detachedFiles is what processes have open on mounts that may be in no mountinfo.
type detachedFiles struct {
	mounts      map[uint64][]string // the processes and threads that have a file open on a mount, by its ID
	directories []string            // those whose root and working directory are to be asked for
	namespaces  map[string]string   // mount namespaces as mnt:[N], with a descriptor of each below the proc directory
}

// nullDevice is the commonest of all open files. Nothing else with that path keeps a pod.
const nullDevice = "/dev/null"

// opens notes on which mount a file is that a process has open by a path.
func (s *scan) opens(pid, fd string, path []byte) {
	if procfs.IsMountNamespace(path) {
		s.detached.namespaces[string(path)] = pid + "/fd/" + fd
	}
	if len(path) == 0 || path[0] != '/' || string(path) == nullDevice {
		return
	}
	if s.info < 0 {
		var err error
		if s.info, err = openFDInfo(s.proc, pid); err != nil {
			return
		}
	}
	id, err := mountOfFD(s.info, fd)
	if err != nil {
		return // closed
	}
	// A process is read at once: its name is the last, or not there.
	if pids := s.detached.mounts[id]; len(pids) == 0 || pids[len(pids)-1] != pid {
		s.detached.mounts[id] = append(pids, pid)
	}
}

func openFDInfo(proc int, pid string) (int, error) {
	return beneath.Retry(func() (int, error) {
		return unix.Openat(proc, pid+"/fdinfo", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
}

// mountOfFD reads the mount ID of a descriptor in an open fdinfo directory. It is in the third line.
func mountOfFD(info int, name string) (uint64, error) {
	fd, err := beneath.Retry(func() (int, error) { return unix.Openat(info, name, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return 0, err
	}
	defer beneath.Close(fd)
	var buf [256]byte
	n, err := beneath.Retry(func() (int, error) { return unix.Read(fd, buf[:]) })
	if err != nil {
		return 0, err
	}
	return beneath.MountIn(buf[:n])
}

// Detached adds what lies on detached mounts to an answer. mounts are the IDs of all mounts of all
// namespaces, sorted. Where none could be read it does nothing: every mount would count as detached.
func (r *Reader) Detached(ctx context.Context, a *Answer, mounts []uint64) {
	if len(mounts) == 0 {
		return
	}
	d := detachedScan{Reader: r, ctx: ctx, known: mounts, held: a.detached, devs: a.devs}
	found, err := bounded.Do(ctx, r.Guard, "detached mounts", d.find)
	if err = cmp.Or(err, found.err); err != nil {
		a.Err = cmp.Or(a.Err, fmt.Errorf("cannot look for files on detached mounts: %w", err))
		return
	}
	for id, held := range found.found {
		a.stray(id, held)
	}
}

type detachedScan struct {
	*Reader
	ctx   context.Context //nolint:containedctx // the look's, and the scan ends with it
	known []uint64        // the mounts that are somewhere, sorted
	held  detachedFiles
	devs  map[uint64]device
	found map[inode]stray
	hangs int
}

// mostWaits bounds how many files are waited for. A server that is gone is why people detach mounts.
const mostWaits = 3

// detachedAnswer is what was found, and why it may not be all.
type detachedAnswer struct {
	found map[inode]stray
	err   error
}

func (d *detachedScan) find() detachedAnswer {
	d.found = map[inode]stray{}
	proc, err := procfs.Open(d.ProcDir)
	if err != nil {
		return detachedAnswer{err: err}
	}
	defer beneath.Close(proc)
	for _, id := range slices.Sorted(maps.Keys(d.held.mounts)) {
		for _, pid := range d.held.mounts[id] {
			if d.attached(id) || !d.files(proc, pid, id) {
				break
			}
		}
	}
	d.directories()
	return detachedAnswer{found: d.found}
}

func (d *detachedScan) attached(id uint64) bool {
	_, ok := slices.BinarySearch(d.known, id)
	return ok
}

// files looks at what a process has open on a mount, and reports whether that is of the pods'
// file system.
func (d *detachedScan) files(proc int, pid string, id uint64) bool {
	info, err := openFDInfo(proc, pid)
	if err != nil {
		return true // it has ended
	}
	defer beneath.Close(info)
	fds, err := procfs.Numbers(info)
	if err != nil {
		return true
	}
	for _, fd := range append(fds, "0") { // which is not listed among the numbers
		if at, err := mountOfFD(info, fd); err != nil || at != id {
			continue
		}
		name := pid + "/fd/" + fd
		st, err := d.ask(name)
		if err != nil {
			return procfs.Vanished(err)
		}
		if _, ok := d.devs[beneath.DevOf(&st)]; !ok {
			return false
		}
		d.add(pid, "fd "+fd, &st)
	}
	return true
}

func (d *detachedScan) ask(name string) (unix.Statx_t, error) {
	type answer struct {
		st  unix.Statx_t
		err error
	}
	if d.hangs >= mostWaits {
		return unix.Statx_t{}, bounded.ErrHangs
	}
	a, err := bounded.Within(d.ctx, d.Guard, "file "+name, d.Guard.Limit()/8, func() (a answer) {
		a.err = statLinkTo(d.ProcDir+"/"+name, &a.st)
		return a
	})
	if errors.Is(err, bounded.ErrHangs) {
		d.hangs++
	}
	if err != nil {
		return unix.Statx_t{}, err
	}
	return a.st, a.err
}

// directories looks at working directories and roots, of which statx tells the mount, since Linux 5.8.
// Where one of them does not answer, none is known of.
func (d *detachedScan) directories() {
	type directory struct {
		pid, name string
		st        unix.Statx_t
	}
	found, err := bounded.Within(d.ctx, d.Guard, "directories", d.Guard.Limit()/8, func() (found []directory) {
		for _, pid := range d.held.directories {
			for _, name := range [...]string{"cwd", "root"} {
				at := directory{pid: pid, name: name}
				err := statLinkTo(d.ProcDir+"/"+pid+"/"+name, &at.st)
				_, ours := d.devs[beneath.DevOf(&at.st)]
				if err == nil && ours && at.st.Mask&unix.STATX_MNT_ID != 0 && !d.attached(at.st.Mnt_id) {
					found = append(found, at)
				}
			}
		}
		return found
	})
	if err != nil {
		return
	}
	for _, at := range found {
		d.add(at.pid, at.name, &at.st)
	}
}

// add notes a file on a mount that no namespace had. The namespace may be younger than the scan of
// the mounts: so the process's own is read once more.
func (d *detachedScan) add(pid, what string, st *unix.Statx_t) {
	text, err := os.ReadFile(d.ProcDir + "/" + pid + "/mountinfo")
	if err == nil && procfs.HasMount(text, st.Mnt_id) {
		return
	}
	d.found[idOf(st)] = stray{process: pid, path: "a file on a detached mount", what: what, sure: true, nameless: true}
}
