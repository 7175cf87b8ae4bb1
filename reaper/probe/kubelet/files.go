package kubelet

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/procfs"
)

// kubeletFiles reads files as one kubelet sees them. The zero value reads them as this process
// sees them.
//
// A kubelet may have a mount namespace or a root directory of its own: in a container (RKE1, Talos),
// or by PrivateTmp= or ProtectSystem= of its unit. A path of its command line may lead to another file
// there. So its files are opened below /proc/PID/root, by openat2 with RESOLVE_IN_ROOT: an absolute
// symlink, such as /var/run, begins at the kubelet's root. If that fails, every read is an error.
type kubeletFiles struct {
	apart bool  // it has a mount namespace or a root of its own
	err   error // why that is unknown
	scan  scanner
	pid   int
	start int64 // in ticks; with the PID it identifies the process
}

// filesOf finds out whether a process sees the same files as this one.
func (s scanner) filesOf(pid int, start int64) (kubeletFiles, error) {
	files := kubeletFiles{scan: s, pid: pid, start: start}
	theirs, err := procfs.FirstMountAt(procfs.Path(s.procDir, pid, "mountinfo"))
	switch {
	case err != nil && procfs.Vanished(err):
		return files, procfs.ErrEnded
	case err != nil:
		files.err = fmt.Errorf("cannot find out which files it sees: %w", err)
		return files, nil
	}
	ours, err := procfs.FirstMountAt(filepath.Join(s.procDir, "self", "mountinfo"))
	if err != nil {
		files.err = fmt.Errorf("cannot find out which files this process sees: %v", err) //nolint:errorlint // see root
		return files, nil
	}
	files.apart = len(theirs) == 0 || !bytes.Equal(theirs, ours)
	return files, nil
}

// open opens a file as the kubelet sees it. With O_NONBLOCK the open of a FIFO does not wait for a writer.
func (k kubeletFiles) open(path string, flags int) (*os.File, error) {
	flags |= unix.O_CLOEXEC
	switch {
	case k.err != nil:
		return nil, k.err
	case !filepath.IsAbs(path):
		return nil, fmt.Errorf("cannot read %q: the path is not absolute", path)
	case !k.apart:
		return os.OpenFile(path, flags|unix.O_NONBLOCK, 0)
	case flags&unix.O_PATH != 0:
		return k.oPath(path, flags)
	}
	handle, err := k.oPath(path, unix.O_PATH|unix.O_CLOEXEC)
	if err != nil {
		return nil, err
	}
	defer func() { _ = handle.Close() }() // nothing was written
	info, err := handle.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() && !info.IsDir() {
		return nil, fmt.Errorf("cannot read %s of PID %d: it is %s", path, k.pid, beneath.TypeOf(handle))
	}
	fd, err := beneath.OpenTrusted(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", handle.Fd()), flags|unix.O_NONBLOCK)
	if err != nil {
		return nil, beneath.PathError("open", path, err)
	}
	return os.NewFile(uintptr(fd), path), nil
}

// oPath returns an O_PATH handle of a file in the kubelet's tree. A container may make device nodes there, and
// opening one fully can have effects.
func (k kubeletFiles) oPath(path string, flags int) (*os.File, error) {
	root, err := k.root()
	if err != nil {
		return nil, err
	}
	defer beneath.Close(root)
	how := unix.OpenHow{Flags: uint64(flags), Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	fd, err := beneath.Retry(func() (int, error) { return unix.Openat2(root, path, &how) })
	switch {
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM): // EPERM: a seccomp filter of an old systemd
		return nil, fmt.Errorf("cannot read %s of PID %d, which has a mount namespace of its own: "+
			"openat2 (Linux 5.6) is not available: %w", path, k.pid, err)
	case err != nil:
		return nil, fmt.Errorf("as PID %d sees it: %w", k.pid, beneath.PathError("open", path, err))
	}
	return os.NewFile(uintptr(fd), path), nil
}

// root opens the kubelet's root directory.
func (k kubeletFiles) root() (int, error) {
	fd, err := beneath.OpenTrusted(unix.AT_FDCWD, procfs.Path(k.scan.procDir, k.pid, "root"), unix.O_PATH|unix.O_DIRECTORY)
	switch {
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return -1, fmt.Errorf("cannot read the files of PID %d, which has a mount namespace of its own: %w; "+
			"orphan-reaper needs CAP_SYS_PTRACE for that", k.pid, beneath.PathError("open", procfs.Path(k.scan.procDir, k.pid, "root"), err))
	case err != nil && procfs.Vanished(err):
		return -1, procfs.ErrEnded // ErrNotExist would mean the file
	case err != nil:
		return -1, beneath.PathError("open", procfs.Path(k.scan.procDir, k.pid, "root"), err)
	}
	if st, err := procfs.StatOf(k.scan.procDir, k.pid); err != nil || st.Start != k.start {
		beneath.Close(fd)
		return -1, cmp.Or(err, procfs.ErrEnded)
	}
	return fd, nil
}

// stat uses O_PATH, so that it does not wait for a FIFO or a device.
func (k kubeletFiles) stat(path string) (fs.FileInfo, error) {
	f, err := k.open(path, unix.O_PATH)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	return f.Stat()
}

// read reads a file that must be a regular one of at most maxConfig bytes.
func (k kubeletFiles) read(path string) ([]byte, error) { return k.readUpTo(path, maxConfig) }

func (k kubeletFiles) readUpTo(path string, limit int64) ([]byte, error) {
	f, err := k.open(path, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	return beneath.ReadOpened(f, limit)
}

// mostFiles bounds a directory of a kubelet's configuration or manifests, which usually has a few files.
const mostFiles = 512

// list returns up to most entries of a directory, sorted by name. The error is fs.ErrNotExist only if the directory does not
// exist.
func (k kubeletFiles) list(dir string, most int) ([]beneath.Entry, error) {
	f, err := k.open(dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	entries, err := beneath.List(int(f.Fd()), most)
	if errors.Is(err, beneath.ErrTooMany) {
		err = fmt.Errorf("%s holds more than %d files", dir, most)
	} else if err != nil {
		err = fmt.Errorf("cannot list %s: %v", dir, err) //nolint:errorlint // see above
	}
	slices.SortFunc(entries, func(a, b beneath.Entry) int { return cmp.Compare(a.Name, b.Name) })
	return entries, err
}

// deepestDropIn bounds the walk below a drop-in directory.
const deepestDropIn = 16

// below returns the files below dir as the kubelet reads its drop-in directory, in the order of
// filepath.WalkDir. It follows no symlink to a directory, not even dir.
func (k kubeletFiles) below(dir string, depth int) ([]string, error) {
	f, err := k.open(dir, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	_ = f.Close() // nothing was written
	switch {
	case err != nil:
		return nil, err
	case !info.IsDir():
		return []string{dir}, nil
	case depth > deepestDropIn:
		return nil, fmt.Errorf("cannot read %s: it is nested too deep", dir)
	}
	entries, err := k.list(dir, mostFiles)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		path := filepath.Join(dir, e.Name)
		if e.Kind != unix.DT_DIR && e.Kind != unix.DT_UNKNOWN {
			files = append(files, path)
			continue
		}
		more, err := k.below(path, depth+1)
		if err != nil {
			return nil, err
		}
		files = append(files, more...)
	}
	return files, nil
}
