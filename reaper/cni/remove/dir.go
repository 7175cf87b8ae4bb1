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

// dirHandle is an open directory whose files are removed or restored.
type dirHandle struct {
	b       *batch
	path    string       // for messages
	dir     *beneath.Dir // nil because of err
	err     error
	files   []int // indexes in the batch
	lockFD  int   // -1 until the first address
	lockErr error // why the lock could not be acquired; it is not tried twice
	fatal   error // what makes any further try in this directory useless
	changed bool
}

func (d *dirHandle) close() {
	beneath.Close(d.lockFD)
	d.dir.Close()
}

// openDir opens the configured directory that contains dir, and steps down from it. Unlike below the kubelet's root, a
// mount on the way is allowed: some nodes keep the caches on a tmpfs, which a boot clears.
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
		d.setAll(policy.Refused, fmt.Errorf("%w; it is not created; create it and try again", d.err))
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

// each does one step with each file. It holds the lock of an address only for one file, so that the plugin waits
// briefly.
func (d *dirHandle) each(ctx context.Context, files []int, step func(f *cni.File) (policy.Result, error)) {
	for _, i := range files {
		f := &d.b.files[i]
		err := d.fatal
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
			d.fatal = err // the next file would fail too
		}
		d.b.set(i, result, err)
	}
}

// sync makes the changes in the directory durable: its names by fsync(2), or its names and the content of all its
// files by syncfs(2).
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
		if r := d.b.out[i].Result; r == policy.Done || r == policy.Gone || r == writtenAside {
			d.b.set(i, policy.Failed, err)
		}
	}
}

// filePath returns a path for messages; no system call gets it.
func (d *dirHandle) filePath(name string) string { return path.Join(d.path, name) }

func (d *dirHandle) before(op, name string) {
	if d.b.r.guards.before != nil {
		d.b.r.guards.before(op, name)
	}
}
