package procfs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
)

// mostListings bounds the listings of one scan. Each after the first reads only the processes that
// have started since, which takes almost no time.
const mostListings = 32

// ErrChurn means that listing after listing found processes that had ended when they were read.
var ErrChurn = errors.New("processes start and end faster than they can be read")

// Open opens a proc directory.
func Open(dir string) (int, error) {
	proc, err := beneath.OpenTrusted(unix.AT_FDCWD, dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return -1, fmt.Errorf("cannot list processes: %w", beneath.PathError("open", dir, err))
	}
	return proc, nil
}

// Any user can run processes that start the next one and end, forever. So a process of a pod, or of another user than root
// and us, that ended causes another listing only in the first theirListings, and one of an unknown owner only in the first
// unknownListings. One of root's always does.
const theirListings, unknownListings = 8, 20

// quietListings is how many listings in a row must show no process that ended. One is not enough: after pid_max the
// numbers start again, so a child may get a number that the listing has passed, and its parent may end before the
// listing comes to it.
const quietListings = 2

// each calls do for every process of the open directory proc, which is dir, and returns how many
// there were. do reports whether the process had ended before it could be read. Its mount namespace
// or its open directory may then belong to a child that is not in the listing. So each lists again, as
// long as one of the new processes had ended. rest reads the processes that do did not finish, and
// reports whether one of them had ended.
func each(ctx context.Context, dir string, proc int, do func(pid string) (ended bool), rest func() (again bool)) (int, error) {
	seen := map[string]bool{}
	quiet := 0
	for i := range mostListings {
		pids, err := Numbers(proc)
		if err != nil {
			return len(seen), fmt.Errorf("cannot list processes: %w", beneath.PathError("getdents", dir, err))
		}
		pids = slices.DeleteFunc(pids, func(pid string) bool { return seen[pid] })
		passed := passedOver(dir, proc, pids, i)
		again := i == 0
		for _, pid := range pids {
			seen[pid] = true
			if err := ctx.Err(); err != nil {
				return len(seen), err
			}
			again = do(pid) && !passed[pid] || again
		}
		if again || rest() {
			quiet = 0
		} else if quiet++; quiet == quietListings {
			return len(seen), nil
		}
	}
	return len(seen), ErrChurn
}

// passedOver returns the processes whose end does not cause another listing after that one.
func passedOver(dir string, proc int, pids []string, listing int) map[string]bool {
	if listing < theirListings {
		return nil
	}
	passed := map[string]bool{}
	for _, pid := range pids {
		uid, err := userOf(dir, proc, pid)
		if err != nil {
			passed[pid] = listing >= unknownListings
			continue
		}
		_, pod := PodOf(dir, "", pid)
		passed[pid] = pod || uid != "0" && uid != strconv.Itoa(os.Geteuid())
	}
	return passed
}

// Numbers lists the names in an open directory that are numbers: PIDs or thread IDs.
func Numbers(fd int) ([]string, error) {
	if _, err := unix.Seek(fd, 0, 0); err != nil {
		return nil, err
	}
	var found []string
	err := beneath.EachName(fd, make([]byte, 32<<10), func(d beneath.Entry) bool {
		if n := d.Name; n[0] >= '1' && n[0] <= '9' {
			if _, err := strconv.ParseUint(n, 10, 32); err == nil {
				found = append(found, n)
			}
		}
		return true
	})
	return found, err
}

// Threads lists the threads of a process except its first, as paths below the proc directory.
// Each may have a mount namespace and a working directory of its own (unshare(2)). When the
// first has ended (pthread_exit(3)), the process's own files are empty, as a zombie's. The link
// count of the directory is the number of threads plus two, so a process with one thread costs one
// call.
func Threads(proc int, pid string) ([]string, error) {
	var st unix.Statx_t
	task := pid + "/task"
	_, err := beneath.Retry(func() (int, error) {
		return 0, unix.Statx(proc, task, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_NLINK, &st)
	})
	if err != nil || st.Nlink <= 3 {
		return nil, unlessVanished(err)
	}
	fd, err := beneath.OpenTrusted(proc, task, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, unlessVanished(err)
	}
	defer beneath.Close(fd)
	tids, err := Numbers(fd)
	if err != nil {
		return nil, unlessVanished(err)
	}
	var paths []string
	for _, tid := range tids {
		if tid != pid {
			paths = append(paths, task+"/"+tid)
		}
	}
	return paths, nil
}

// Vanished reports whether the error means that a process is gone: ENOENT or ESRCH if it ended, EINVAL if it is a zombie.
func Vanished(err error) bool {
	return beneath.Gone(err) || errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL)
}

// Ended reports whether the process ended while a link of it was read: the error is EACCES if it was reaped after its name
// was resolved (proc_pid_readlink of fs/proc/base.c). While it ends it has no memory and so no program any more, and the
// list of its files is root's (task_dump_owner, there), which another user may not read.
func Ended(proc int, pid string, err error) bool {
	if !errors.Is(err, unix.EACCES) {
		return false
	}
	if _, err = beneath.StatName(proc, pid); err == nil {
		var link [1]byte
		_, err = beneath.Retry(func() (int, error) { return unix.Readlinkat(proc, pid+"/exe", link[:]) })
	}
	return beneath.Gone(err)
}

func unlessVanished(err error) error {
	if Vanished(err) {
		return nil
	}
	return err
}
