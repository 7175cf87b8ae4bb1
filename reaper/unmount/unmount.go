package unmount

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/internal/change"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// Config is the configuration of an Unmounter.
type Config struct {
	PodsDir string // the kubelet's pods directory; its parent may be reached through a link
	// Patience limits the wait for a file system to answer; ten times Patience limits an unmount. 0 is 5 s.
	Patience time.Duration
	// FuseDir is where the kernel shows what FUSE connections wait for. "" is /sys/fs/fuse/connections.
	FuseDir string
	// BlockDir is where the kernel shows block devices by number. "" is /sys/dev/block.
	BlockDir string
}

// Unmounter detaches mounts. It holds nothing open between calls.
type Unmounter struct {
	cfg    Config
	open   *beneath.Opener
	guard  bounded.Guard
	checks checks
}

// checks are the checks before the call. A test turns one off to show what is lost without it.
type checks struct {
	id, crossing, hung bool
	before             func() // called right before umount2; nil but in tests
}

// New returns an Unmounter. It changes nothing.
func New(cfg Config) (*Unmounter, error) {
	open, err := beneath.New(false)
	if err != nil {
		return nil, err
	}
	cfg.BlockDir = cmp.Or(cfg.BlockDir, "/sys/dev/block")
	cfg.Patience, cfg.FuseDir = cmp.Or(cfg.Patience, 5*time.Second), cmp.Or(cfg.FuseDir, "/sys/fs/fuse/connections")
	return &Unmounter{cfg: cfg, open: open, checks: checks{id: true, crossing: true, hung: true}}, nil
}

// Pod is a pod with its directory and mounts.
type Pod struct {
	UID    parsers.PodUID
	ID     policy.DirID // the directory that was judged
	Mounts []policy.Mount
}

// place is a mount point: its directory and its name in it.
type place struct {
	dir  *beneath.Dir
	name string
	err  error
}

// Discard closes a place that is found too late.
func (p place) Discard() { p.dir.Close() }

var (
	errNoPermit = errors.New("this process may not change the node now")
	errReplaced = errors.New("the pod directory has been replaced")
	errCovered  = errors.New("another mount of the pod covers it")
	errGone     = errors.New("nothing is mounted there any more")
	errOther    = errors.New("the mount there is not the one that was shown")
)

// Unmount detaches one mount of the pod. It returns in bounded time.
func (u *Unmounter) Unmount(ctx context.Context, permit policy.Permit, pod Pod, m policy.Mount) policy.MountOutcome {
	if !permit.MayRemove() {
		return refused(m, errNoPermit)
	}
	if err := context.Cause(ctx); err != nil {
		return refused(m, err)
	}
	at, err := bounded.Within(ctx, &u.guard, "find "+m.Path, 2*u.cfg.Patience, func() place { return u.find(ctx, pod, m) })
	if err = cmp.Or(err, at.err); err != nil {
		return refused(m, err)
	}
	detachErr, err := bounded.Within(context.WithoutCancel(ctx), &u.guard, "unmount "+m.Path, 10*u.cfg.Patience, func() error {
		defer at.dir.Close()
		return u.detach(at, m)
	})
	if err != nil {
		return policy.MountOutcome{Mount: m, Result: policy.Failed, Err: "the kernel has not ended the unmount: " + err.Error()}
	}
	if detachErr != nil {
		return refused(m, detachErr)
	}
	return policy.MountOutcome{Mount: m, Result: policy.Done}
}

// refused returns the outcome for a mount that was not changed.
func refused(m policy.Mount, err error) policy.MountOutcome {
	o := policy.MountOutcome{Mount: m, Result: policy.Refused, Why: err.Error()}
	switch {
	case errors.Is(err, errGone), beneath.Gone(err):
		o.Result = policy.Gone
	case errors.Is(err, errCovered):
		o.Covered = true
	case errors.Is(err, unix.EBUSY):
		o.Busy, o.Why = true, "it is in use"
	case errors.Is(err, unix.EPERM):
		o.Why = "the kernel refuses it: " + err.Error() + " (this needs CAP_SYS_ADMIN in the node's namespaces)"
	case errors.Is(err, bounded.ErrHangs), errors.Is(err, bounded.ErrStuck):
		o.Hangs, o.Why = true, "its file system hangs: "+err.Error()
	}
	return o
}

// find walks to the mount point, and checks that the mount is the one that was shown and that its file system answers.
func (u *Unmounter) find(ctx context.Context, pod Pod, m policy.Mount) (p place) {
	p.dir, p.name, p.err = u.walk(ctx, pod, m.Path)
	if p.err == nil {
		p.err = u.checkTopmost(p, pod, m)
	}
	if p.err == nil && u.checks.hung {
		p.err = u.checkAnswers(ctx, p, m)
	}
	if p.err != nil {
		p.dir.Close()
		p.dir = nil
	}
	return p
}

// walk opens the directory of the mount point.
func (u *Unmounter) walk(ctx context.Context, pod Pod, path string) (*beneath.Dir, string, error) {
	if _, ok := parsers.ParsePodUID(string(pod.UID)); !ok {
		return nil, "", fmt.Errorf("%q is no pod UID", string(pod.UID))
	}
	pods, err := u.open.Descend(filepath.Dir(u.cfg.PodsDir), filepath.Base(u.cfg.PodsDir))
	if err != nil {
		return nil, "", err
	}
	defer pods.Close()
	at, err := pods.Walk(string(pod.UID))
	if err != nil {
		return nil, "", err
	}
	if id, err := at.ID(); err != nil || id != pod.ID {
		at.Close()
		return nil, "", cmp.Or(err, errReplaced)
	}
	names := strings.Split(path, "/")
	for i, name := range names[:len(names)-1] {
		next, err := at.Step(name)
		if errors.Is(err, unix.EXDEV) {
			next, err = u.cross(ctx, place{dir: at, name: name}, pod, strings.Join(names[:i+1], "/"))
		}
		at.Close()
		if err != nil {
			return nil, "", beneath.PathError("open", strings.Join(names[:i+1], "/"), err)
		}
		at = next
	}
	return at, names[len(names)-1], nil
}

// cross steps onto a mount of the pod.
func (u *Unmounter) cross(ctx context.Context, p place, pod Pod, path string) (*beneath.Dir, error) {
	id, unique, _, err := p.dir.MountAt(p.name)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(pod.Mounts, func(m policy.Mount) bool { return m.Path == path && sameID(m, id, unique) })
	if i < 0 && u.checks.crossing {
		return nil, errCovered // by a mount that is not in the list
	}
	if i >= 0 {
		if err := u.checkAnswers(ctx, p, pod.Mounts[i]); err != nil {
			return nil, err
		}
	}
	next, err := p.dir.Cross(p.name)
	if err != nil {
		return nil, err
	}
	if st, err := next.Stat(); err != nil || st.Mnt_id != id && u.checks.crossing {
		next.Close()
		return nil, cmp.Or(err, errOther)
	}
	return next, nil
}

// sameID reports whether the IDs are those of m. The unique ID of a mount that was covered when it was shown is unknown.
func sameID(m policy.Mount, id, unique uint64) bool {
	return m.ID == id && (m.Unique == unique || m.Unique == 0 || unique == 0)
}

// checkTopmost returns an error unless m is the topmost mount at the place.
func (u *Unmounter) checkTopmost(p place, pod Pod, m policy.Mount) error {
	id, unique, root, err := p.dir.MountAt(p.name)
	switch {
	case err != nil:
		return err
	case !root:
		return errGone
	case sameID(m, id, unique) || !u.checks.id:
		return nil
	case slices.ContainsFunc(pod.Mounts, func(o policy.Mount) bool { return o.Path == m.Path && sameID(o, id, unique) }):
		return errCovered
	}
	return errOther
}

// detach unmounts m on a thread with its own working directory.
func (u *Unmounter) detach(p place, m policy.Mount) error {
	result := make(chan error, 1)
	bounded.OnOwnThread(func() {
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			result <- fmt.Errorf("cannot unshare the working directory: %w", err)
			return
		}
		err := u.checkTopmost(p, Pod{}, m) // immediately before the call
		if u.checks.before != nil {
			u.checks.before()
		}
		if err == nil {
			err = change.Unmount(p.dir, p.name)
		}
		result <- err
	})
	return <-result
}

// Identify sets the unique ID of each mount that is not covered, and which mounts are of a deleted file. It returns in bounded
// time.
func (u *Unmounter) Identify(ctx context.Context, pod Pod) {
	for i := range pod.Mounts {
		m := pod.Mounts[i]
		found, err := bounded.Within(ctx, &u.guard, "identify "+m.Path, 2*u.cfg.Patience, func() identity { return u.identity(ctx, pod, m) })
		if err == nil {
			pod.Mounts[i].Unique = found.unique
		}
		pod.Mounts[i].Deleted = strings.HasSuffix(m.Root, deleted) && !found.dir || u.loopDeleted(m)
	}
}

// deleted is the end of Root in mountinfo if the directory or file was removed.
const deleted = "//deleted"

type identity struct {
	unique uint64
	dir    bool // a directory, which is empty if it was removed
}

func (u *Unmounter) identity(ctx context.Context, pod Pod, m policy.Mount) (found identity) {
	dir, name, err := u.walk(ctx, pod, m.Path)
	if err != nil {
		return identity{}
	}
	defer dir.Close()
	id, unique, _, err := dir.MountAt(name)
	if err != nil || id != m.ID {
		return identity{}
	}
	found.unique = unique
	if strings.HasSuffix(m.Root, deleted) {
		st, err := dir.StatName(name)
		found.dir = err == nil && st.Mnt_id == id && st.Mode&unix.S_IFMT == unix.S_IFDIR
	}
	return found
}

// loopDeleted reports whether the file of a loop device was deleted.
func (u *Unmounter) loopDeleted(m policy.Mount) bool {
	if !strings.HasPrefix(m.Dev, "7:") {
		return false
	}
	text, err := beneath.ReadNamed(filepath.Join(u.cfg.BlockDir, m.Dev, "loop/backing_file"), 8192)
	return err == nil && strings.HasSuffix(strings.TrimSuffix(string(text), "\n"), " (deleted)")
}

// localTypes are file systems without a server: the kernel itself answers.
var localTypes = []string{
	"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "vfat", "iso9660", "squashfs", "erofs", "tmpfs", "ramfs", "devtmpfs", "proc", "sysfs",
	"mqueue", "cgroup", "cgroup2", "hugetlbfs", "nsfs", "bpf", "securityfs", "debugfs", "tracefs",
}

// checkAnswers returns an error unless the file system of the mount answers in bounded time.
//
// It sends no request to a FUSE server: one that has read a request and does not answer it keeps the thread, and so this
// process, beyond SIGKILL. It reads the kernel's count of unanswered requests instead. A plain unmount sends a FUSE server no
// request. Other servers get a request: a wait for NFS and its like ends with the process.
func (u *Unmounter) checkAnswers(ctx context.Context, p place, m policy.Mount) error {
	switch {
	case slices.Contains(localTypes, m.Type):
		return nil
	case m.Type == "fuse", m.Type == "fuseblk", m.Type == "virtiofs", strings.HasPrefix(m.Type, "fuse."):
		return u.fuseAnswers(ctx, m)
	}
	asked, err := bounded.Within(ctx, &u.guard, "ask "+m.Path, u.cfg.Patience, func() error { return p.dir.Answers(p.name) })
	if err == nil && errors.Is(asked, unix.ETIMEDOUT) { // of a soft mount
		err = fmt.Errorf("%w (%s)", bounded.ErrHangs, asked.Error())
	}
	return err // any other error is an answer, too
}

// fuseAnswers waits until the server has answered all requests.
func (u *Unmounter) fuseAnswers(ctx context.Context, m policy.Mount) error {
	var major, minor uint32
	if _, err := fmt.Sscanf(m.Dev, "%d:%d", &major, &minor); err != nil {
		return fmt.Errorf("cannot read %q as a device: %w", m.Dev, err)
	}
	waiting := filepath.Join(u.cfg.FuseDir, strconv.FormatUint(uint64(major<<20|minor), 10), "waiting") // the kernel's dev_t
	until := time.NewTimer(u.cfg.Patience)
	defer until.Stop()
	for {
		text, err := beneath.ReadNamed(waiting, 64)
		if n := strings.TrimSpace(string(text)); err != nil || n == "0" {
			return nil // without fusectl the file is missing, and nothing shows that the server hangs
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-until.C:
			return fmt.Errorf("%w: requests that wait for its server: %s", bounded.ErrHangs, clean.Text(strings.TrimSpace(string(text))))
		case <-time.After(50 * time.Millisecond):
		}
	}
}
