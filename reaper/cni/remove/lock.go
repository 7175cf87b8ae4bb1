package remove

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
)

// lockName is the file in a network's directory that host-local locks with flock(2).
const lockName = "lock"

// lockWait is how long a batch waits in total for locks. The plugin holds a lock for the milliseconds that it needs to
// find a free address; a process that holds it for seconds hangs or was stopped. Later batches do not wait for that
// lock: 300,000 addresses of one network are some 150 batches.
const lockWait = 5 * time.Second

var errLocked = errors.New("is locked by another process, which lslocks shows")

// lock acquires host-local's lock of the network, as each version of the plugin does, and
// returns the function that releases it:
//
//   - since 0.8.0, flock(LOCK_EX) on NETWORK/lock, opened with O_CREAT|O_RDONLY and mode
//     0750 (plugins/ipam/host-local/backend/disk/lock.go; alexflint/go-filemutex);
//   - before, flock(LOCK_EX) on the directory itself.
//
// Each version acquires only one of the two, so acquiring both, the directory first, excludes all versions without a
// deadlock. No lock of another network is held at the same time.
//
// A missing lock file is created as the plugin creates it, since the next ADD would create and lock it. It is never
// unlinked: a process that has it open would hold a lock on a file without a name.
func (d *dirHandle) lock(ctx context.Context) (unlock func(), err error) {
	if d.lockErr != nil {
		return nil, d.lockErr
	}
	defer func() { d.lockErr = err }()
	unlock = func() {
		flockEnd(d.lockFD)
		flockEnd(d.dir.FD())
	}
	if err := d.wait(ctx, d.dir.FD(), d.path); err != nil {
		return nil, err
	}
	for range 8 {
		if d.lockFD < 0 {
			if d.lockFD, err = d.openLock(); err != nil {
				break
			}
		}
		if err = d.wait(ctx, d.lockFD, d.filePath(lockName)); err != nil {
			break
		}
		var same bool
		if same, err = d.lockIsThere(); same {
			delete(d.b.r.timedOut, d.path)
			return unlock, nil
		}
		// The file was replaced, and other processes lock the new one.
		beneath.Close(d.lockFD)
		d.lockFD = -1
		if err != nil {
			break
		}
	}
	unlock()
	if err == nil {
		err = fmt.Errorf("%s is replaced again and again", d.filePath(lockName))
	}
	return nil, err
}

func (d *dirHandle) openLock() (int, error) {
	name := lockName
	d.before("openat", name)
	// With O_NONBLOCK and O_NOFOLLOW a FIFO or link does not block; it is refused below.
	fd, err := beneath.Retry(func() (int, error) {
		return unix.Openat(d.dir.FD(), lockName, unix.O_RDONLY|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0o750)
	})
	if err != nil {
		return -1, explain(beneath.PathError("open", d.filePath(name), err))
	}
	if st, err := beneath.Stat(fd); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		beneath.Close(fd)
		return -1, fmt.Errorf("%s is no regular file", d.filePath(name))
	}
	return fd, nil
}

// lockIsThere reports whether the locked file still has its name.
func (d *dirHandle) lockIsThere() (bool, error) {
	locked, err := beneath.IDOf(d.lockFD)
	if err != nil {
		return false, beneath.PathError("fstat", d.filePath(lockName), err)
	}
	st, err := beneath.StatName(d.dir.FD(), lockName)
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	if err != nil {
		return false, beneath.PathError("statx", d.filePath(lockName), err)
	}
	return beneath.DirID(&st) == locked, nil
}

// wait acquires flock(2) on fd. It polls, since a blocking call has no deadline. A process that waits in the kernel
// gets the lock first, so it polls every few milliseconds: even two plugins that alternate leave a gap of about one.
func (d *dirHandle) wait(ctx context.Context, fd int, path string) error {
	for pause := time.Millisecond; ; pause = min(2*pause, 4*time.Millisecond) {
		err := beneath.Uninterrupted(func() error { return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) })
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return beneath.PathError("flock", path, err)
		}
		if d.b.patience <= 0 || d.b.r.timedOut[d.path] {
			d.b.r.timedOut[d.path] = true
			return fmt.Errorf("%s %w", path, errLocked)
		}
		d.b.patience -= pause
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%s %w: %w", path, errLocked, ctx.Err())
		case <-timer.C:
		}
	}
}

func flockEnd(fd int) {
	if fd >= 0 {
		_ = beneath.Uninterrupted(func() error { return unix.Flock(fd, unix.LOCK_UN) })
	}
}
