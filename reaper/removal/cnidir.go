package removal

import (
	"fmt"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// cniDir is a directory that is held while its files are taken.
type cniDir struct {
	b       *cniBatch
	path    string // for people
	fd      int
	lockFD  int   // -1 until the first address
	lockErr error // why the lock was not had: it is not waited for twice
	dead    error // what makes any further try in this directory useless
	changed bool
}

func (d *cniDir) close() {
	closeFD(d.lockFD)
	closeFD(d.fd)
}

// openDir opens the configured directory by the administrator's path, through links, and
// steps down from it by one name at a time, through none. On the way, and unlike below the
// kubelet's root, a mount is right: nodes keep the caches on a tmpfs, so that a boot clears
// them.
func (b *cniBatch) openDir(dir string) (int, error) {
	var base string
	for _, c := range b.bases {
		c = path.Clean(c)
		if path.IsAbs(c) && c != "/" && (dir == c || strings.HasPrefix(dir, c+"/")) && len(c) > len(base) {
			base = c
		}
	}
	if base == "" || dir != path.Clean(dir) {
		return -1, fmt.Errorf("%q is not in a CNI directory of the configuration", dir)
	}
	at, err := openAdmin(base)
	if err != nil {
		return -1, err
	}
	names := strings.Split(strings.TrimPrefix(dir[len(base):], "/"), "/")
	if names[0] == "" {
		names[0] = "."
	}
	for i, name := range names {
		next, err := b.r.open.cross(at, cstring(name))
		closeFD(at)
		if err != nil {
			return -1, pathError("open", path.Join(base, path.Join(names[:i+1]...)), err)
		}
		at = next
	}
	return at, nil
}

// cross opens a directory that may be a mount point. Without openat2, one name and
// O_NOFOLLOW say as much.
func (o *opener) cross(parent int, name cname) (int, error) {
	const flags = readDir &^ unix.O_NOATIME
	if !o.openat2 {
		return openat(parent, name, flags)
	}
	return o.step(parent, name, flags, o.down&^unix.RESOLVE_NO_XDEV)
}

// sync makes what was done in the directory durable. What was written is synced with it:
// by syncfs(2), which is one call for all of the files.
func (d *cniDir) sync(free []int, sections [][]int) {
	if !d.changed {
		return
	}
	sync, op := fsync, "fsync"
	if d.b.restore {
		sync, op = func(fd int) error { return retry(func() unix.Errno { return errno(unix.Syncfs(fd)) }) }, "syncfs"
	}
	err := sync(d.fd)
	if err == nil {
		return
	}
	err = fmt.Errorf("not synced: %w", pathError(op, d.path, err))
	for _, s := range append(sections, free) {
		for _, i := range s {
			if d.b.out[i].Result == policy.Done {
				d.b.set(i, policy.Failed, err)
			}
		}
	}
}

// filePath is a path for people; no call gets it.
func (d *cniDir) filePath(name cname) string { return path.Join(d.path, name.String()) }

func (d *cniDir) before(op string, name cname) {
	if d.b.r.guards.before != nil {
		d.b.r.guards.before(op, name.String())
	}
}
