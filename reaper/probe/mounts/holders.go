package mounts

import (
	"context"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/procfs"
)

const mostHolders = 5

// Holders lists processes that keep a mount, or a copy of it in another namespace, busy: by an open file, working
// directory, root or program. It does not search mapped files. It returns in bounded time what it found.
func (r *Reader) Holders(ctx context.Context, m policy.Mount) []string {
	ids := append([]uint64{m.ID}, m.Copies...)
	found, err := bounded.Do(ctx, r.Guard, "holders", func() (found []string) {
		proc, err := procfs.Open(r.ProcDir)
		if err != nil {
			return nil
		}
		defer beneath.Close(proc)
		pids, err := procfs.Numbers(proc)
		if err != nil {
			return nil
		}
		for _, pid := range pids {
			if len(found) == mostHolders || ctx.Err() != nil {
				break
			}
			if r.holds(pid, ids) {
				found = append(found, "PID "+procfs.Who(r.ProcDir, pid))
			}
		}
		return found
	})
	if err != nil {
		return nil
	}
	return found
}

// holds reports whether a process has something open on one of the mounts. A mount ID is unique in the kernel.
func (r *Reader) holds(pid string, ids []uint64) bool {
	dir := r.ProcDir + "/" + pid
	on := func(link string) bool {
		var st unix.Statx_t
		// The link leads to the file itself. Its server is not asked.
		err := unix.Statx(unix.AT_FDCWD, dir+"/"+link, unix.AT_STATX_DONT_SYNC|unix.AT_NO_AUTOMOUNT, unix.STATX_MNT_ID, &st)
		return err == nil && st.Mask&unix.STATX_MNT_ID != 0 && slices.Contains(ids, st.Mnt_id)
	}
	if slices.ContainsFunc([]string{"cwd", "root", "exe"}, on) {
		return true
	}
	fds, err := procfs.Open(dir + "/fd")
	if err != nil {
		return false
	}
	defer beneath.Close(fds)
	names, err := procfs.Numbers(fds)
	return err == nil && slices.ContainsFunc(names, func(fd string) bool { return on("fd/" + fd) })
}
