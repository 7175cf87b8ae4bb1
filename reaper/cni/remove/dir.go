package remove

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/internal/change"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/removal/confine"
)

// dirHandle is a directory that is open while its files are removed or written back.
type dirHandle struct {
	b       *batch
	path    string       // for messages
	dir     *beneath.Dir // nil because of err
	err     error
	files   []int // of the batch
	lockFD  int   // -1 until the first address
	lockErr error // why the lock was not had: it is not waited for twice
	dead    error // what makes any further try in this directory useless
	changed bool
}

func (d *dirHandle) close() {
	beneath.Close(d.lockFD)
	d.dir.Close()
}

// openDir opens the configured directory that dir is in, and steps down from it. On the way, and unlike below the
// kubelet's root, a mount is right: nodes keep the caches on a tmpfs, so that a boot clears
// them.
func (b *batch) openDir(dir string, bases []string) *dirHandle {
	d := &dirHandle{b: b, path: dir, lockFD: -1}
	base := ""
	for _, c := range bases {
		c = path.Clean(c)
		if path.IsAbs(c) && c != "/" && (dir == c || strings.HasPrefix(dir, c+"/")) && len(c) > len(base) {
			base = c
		}
	}
	if base == "" || dir != path.Clean(dir) {
		d.err = fmt.Errorf("%q is not in a CNI directory of the configuration", dir)
		return d
	}
	names := strings.Split(strings.TrimPrefix(dir[len(base):], "/"), "/")
	if names[0] == "" {
		names[0] = "."
	}
	if d.dir, d.err = b.r.open.Descend(base, names...); d.err != nil {
		d.err = fmt.Errorf("cannot open %s: %w", dir, d.err)
	}
	return d
}

// handle removes or restores the files of the directory.
func (d *dirHandle) handle(ctx context.Context) {
	switch {
	case errors.Is(d.err, unix.ENOENT) && !d.b.restore:
		d.setAll(policy.Gone, nil)
	case errors.Is(d.err, unix.ENOENT):
		d.setAll(policy.Refused, fmt.Errorf("%w; it is not made again: make it and try once more", d.err))
	case d.err != nil:
		d.setAll(resultOf(d.err), d.err)
	case d.b.restore:
		d.restore(ctx)
	default:
		slices.SortStableFunc(d.files, func(x, y int) int { return cmp.Compare(d.b.files[x].ID.Ino, d.b.files[y].ID.Ino) })
		d.each(ctx, d.files, d.remove)
		d.sync("fsync", d.files)
	}
}

func (d *dirHandle) setAll(result policy.Result, err error) {
	for _, i := range d.files {
		d.b.set(i, result, err)
	}
}

// each does one step with each file, with an address under the lock, which the plugin then waits for no longer than for one file.
func (d *dirHandle) each(ctx context.Context, files []int, step func(f *cni.File) (policy.Result, error)) {
	for _, i := range files {
		f := &d.b.files[i]
		err := d.dead
		if ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", confine.ErrNotBegun, ctx.Err())
		}
		unlock := func() {}
		if err == nil && f.Kind == cni.Address && d.b.r.guards.locks {
			unlock, err = d.lock(ctx)
		}
		if err != nil {
			d.b.set(i, policy.Refused, err)
			continue
		}
		result, err := step(f)
		unlock()
		if change.Is(err, unix.EROFS, unix.EIO, unix.ENOTCONN, unix.ESTALE) {
			d.dead = err // the next file would fail, too
		}
		d.b.set(i, result, err)
	}
}

// sync makes what was done in the directory durable: the names in it by fsync(2), and the content of
// its files with them by syncfs(2), which is one call for all.
func (d *dirHandle) sync(op string, files []int) {
	if !d.changed {
		return
	}
	d.before(op, ".")
	err := beneath.Uninterrupted(func() error {
		if op == "syncfs" {
			return unix.Syncfs(d.dir.FD())
		}
		return change.Fsync(d.dir.FD())
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

// filePath is a path for messages; no call gets it.
func (d *dirHandle) filePath(name string) string { return path.Join(d.path, name) }

func (d *dirHandle) before(op, name string) {
	if d.b.r.guards.before != nil {
		d.b.r.guards.before(op, name)
	}
}
