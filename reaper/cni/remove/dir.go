package remove

import (
	"fmt"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/internal/change"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// dirHandle is a directory that is open while its files are removed or written back.
type dirHandle struct {
	b       *batch
	path    string // for people
	fd      int
	lockFD  int   // -1 until the first address
	lockErr error // why the lock was not had: it is not waited for twice
	dead    error // what makes any further try in this directory useless
	changed bool
}

func (d *dirHandle) close() {
	beneath.Close(d.lockFD)
	beneath.Close(d.fd)
}

// openDir opens the configured directory by the administrator's path, through links, and
// steps down from it by one name at a time, through none. On the way, and unlike below the
// kubelet's root, a mount is right: nodes keep the caches on a tmpfs, so that a boot clears
// them.
func (b *batch) openDir(dir string) (int, error) {
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
	at, err := beneath.OpenDirPath(base)
	if err != nil {
		return -1, err
	}
	names := strings.Split(strings.TrimPrefix(dir[len(base):], "/"), "/")
	if names[0] == "" {
		names[0] = "."
	}
	for i, name := range names {
		next, err := b.r.open.At(at).Cross(name)
		beneath.Close(at)
		if err != nil {
			return -1, beneath.PathError("open", path.Join(base, path.Join(names[:i+1]...)), err)
		}
		at = next.FD()
	}
	return at, nil
}

// dir is the directory as package change has it.
func (d *dirHandle) dir() *beneath.Dir { return d.b.r.open.At(d.fd) }

// sync makes what was done in the directory durable: the names in it by fsync(2), and the content of
// its files with them by syncfs(2), which is one call for all.
func (d *dirHandle) sync(op string, files []int) {
	if !d.changed {
		return
	}
	d.before(op, ".")
	err := beneath.Uninterrupted(func() error {
		if op == "syncfs" {
			return unix.Syncfs(d.fd)
		}
		return change.Fsync(d.fd)
	})
	if err == nil {
		return
	}
	err = fmt.Errorf("not synced: %w", beneath.PathError(op, d.path, err))
	for _, i := range files {
		if r := d.b.out[i].Result; r == policy.Done || r == policy.Gone || r == begun {
			d.b.set(i, policy.Failed, err)
		}
	}
}

// filePath is a path for people; no call gets it.
func (d *dirHandle) filePath(name string) string { return path.Join(d.path, name) }

func (d *dirHandle) before(op, name string) {
	if d.b.r.guards.before != nil {
		d.b.r.guards.before(op, name)
	}
}
