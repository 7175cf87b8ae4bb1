package remove

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/internal/change"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/removal/confine"
)

// Remover removes and restores files of CNI. Safe for use by several goroutines; one batch runs at a time.
type Remover struct {
	// dirs returns, at each batch, in and below which directories files may be removed or put back; nil: in none.
	dirs     func() []string
	open     *beneath.Opener
	run      *confine.Runner
	lockWait time.Duration // how long a batch waits in all for host-local's locks
	// notHad are the networks whose lock the last batch waited for in vain: the next asks for it once and does not wait. Only the
	// thread of a batch uses it.
	notHad map[string]bool
	guards guards
}

// guards are the checks between steps, as values so that a test can disable one and show
// what is lost without it. New sets them all and nothing else does.
type guards struct {
	noreplace uint // renameat2's flag
	locks     bool // acquire host-local's lock
	aside     bool // move a cache file aside and check it again before it is removed
	// before is called before each system call that changes the disk, on the batch's own
	// thread; nil but in tests.
	before func(op, name string)
}

// grace is how long a batch waits, after its context has ended, for the call that is under way.
const grace = 10 * time.Second

// Open makes a Remover. dirs returns, at each batch, in and below which directories files may be removed or put back: the cache
// directories, and host-local's data directories, of which the network configuration may name more at any time. nil: none may.
func Open(dirs func() []string, log *slog.Logger) (*Remover, error) {
	open, err := beneath.New(false)
	if err != nil {
		return nil, err
	}
	return newRemover(dirs, open, confine.New(grace, log)), nil
}

func newRemover(dirs func() []string, open *beneath.Opener, run *confine.Runner) *Remover {
	return &Remover{
		dirs: dirs, open: open, run: run, lockWait: lockWait, notHad: map[string]bool{},
		guards: guards{noreplace: unix.RENAME_NOREPLACE, locks: true, aside: true},
	}
}

var errNoPermit = errors.New("this process may not change the node now")

// RemoveCNI removes files with a permit of the gate: see remove.
func (r *Remover) RemoveCNI(ctx context.Context, permit policy.Permit, files []cni.File) []cni.File {
	if !permit.Removes() {
		return cni.Ended(files, policy.Refused, errNoPermit)
	}
	return r.remove(ctx, files)
}

// RestoreCNI writes files back with a permit of the gate: see restore.
func (r *Remover) RestoreCNI(ctx context.Context, permit policy.Permit, files []cni.File) []cni.File {
	if !permit.Undoes() {
		return cni.Ended(files, policy.Refused, errNoPermit)
	}
	return r.restore(ctx, files)
}

// remove removes files that CNI wrote, which the caller has archived and synced. It
// removes a file only if it is still the one that was archived, by device, inode, size,
// change time and content. What is no longer there is Gone; what is another, or no file at
// all by now, is Refused. The results are in the order of the files, and are returned
// after the directories are synced.
//
// A cache file has no lock. It is first moved aside in its own directory, so that no
// program finds it any more, checked again, and then removed. Where something took its name
// in between, that is what was moved, and it is moved back. A run that was killed
// between the two leaves NAME.~orphan-reaper, which remove with the same files finishes.
//
// An address is read again and removed under host-local's own lock, those of one sandbox
// and interface in a network in one go.
//
// The context, and a file system that does not answer, end it as they end Runner.Run of package
// confine.
func (r *Remover) remove(ctx context.Context, files []cni.File) []cni.File {
	return r.batch(ctx, files, false)
}

// restore writes files back that remove has removed, with mode, owner, modification
// time and SELinux label. It never replaces anything and makes no directory. No file has its
// name before its content is on the disk. An address is written back only if it is still free,
// under the lock. One that is there as it was is Gone: it is synced, and that is all.
func (r *Remover) restore(ctx context.Context, files []cni.File) []cni.File {
	return r.batch(ctx, files, true)
}

func (r *Remover) batch(ctx context.Context, files []cni.File, restore bool) []cni.File {
	if len(files) == 0 {
		return nil
	}
	b := &batch{r: r, files: files, restore: restore, out: cni.Ended(files, policy.Refused, confine.ErrNotBegun), patience: r.lockWait}
	switch err := r.run.Run(ctx, func() { b.run(ctx) }); {
	case err == nil:
		return b.out
	case errors.Is(err, confine.ErrNoAnswer):
		return cni.Ended(files, policy.Failed, err)
	default:
		return cni.Ended(files, policy.Refused, err)
	}
}

// batch is one removal or restore on its thread.
type batch struct {
	r       *Remover
	files   []cni.File
	restore bool
	out     []cni.File
	bases   []string
	// patience is what is left of the time for which locks are waited for.
	patience time.Duration
	buf      []byte
}

func (b *batch) run(ctx context.Context) {
	if b.r.dirs != nil {
		b.bases = b.r.dirs()
	}
	var dirs []string
	byDir := map[string][]int{}
	for i := range b.files {
		f := &b.files[i]
		switch err := checkName(f); {
		case f.Err != "":
			b.set(i, policy.Refused, fmt.Errorf("it was not archived: %s", f.Err))
		case err != nil:
			b.set(i, policy.Refused, err)
		default:
			if byDir[f.Dir] == nil {
				dirs = append(dirs, f.Dir)
			}
			byDir[f.Dir] = append(byDir[f.Dir], i)
		}
	}
	b.confined(ctx, dirs, byDir)
}

// confined opens all directories before it handles the first, since the thread may change
// nothing but what is below one that is open by then.
func (b *batch) confined(ctx context.Context, dirs []string, byDir map[string][]int) {
	fds, errs := make([]int, len(dirs)), make([]error, len(dirs))
	grants := make([]confine.Grant, len(dirs))
	for n, dir := range dirs {
		fds[n], errs[n] = b.openDir(dir)
		grants[n] = confine.Grant{FD: fds[n], Rights: confine.MayReplace}
	}
	if err := b.r.run.Confine(grants...); err != nil {
		for n, dir := range dirs {
			beneath.Close(fds[n])
			for _, i := range byDir[dir] {
				b.set(i, policy.Refused, err)
			}
		}
		return
	}
	for n, dir := range dirs {
		b.dir(ctx, dir, fds[n], errs[n], byDir[dir])
	}
}

// asideSuffix ends the name that a file has between its place and its end, or before it is
// whole and synced. No program that writes to these directories uses such a name, and for host-local
// it is no address.
const asideSuffix = ".~orphan-reaper"

// asideName is the same for the same name, so that a second run finds it. Names of the two
// that differ only after its length have the same; neither replaces the other.
func asideName(name string) string {
	return name[:min(len(name), unix.NAME_MAX-len(asideSuffix))] + asideSuffix
}

// checkName checks the name, which comes from a directory listing or from an archive.
func checkName(c *cni.File) error {
	name := c.Name
	switch {
	case name == "" || name == "." || name == ".." || len(name) > unix.NAME_MAX || strings.ContainsAny(name, "/\x00"):
		return fmt.Errorf("%q is no file's name", name)
	case name == lockName || strings.HasPrefix(name, "last_reserved_ip."):
		return fmt.Errorf("%q belongs to the host-local plugin", name)
	case strings.HasSuffix(name, asideSuffix):
		return fmt.Errorf("%q was left by an interrupted run", name)
	}
	return nil
}

func (b *batch) set(i int, result policy.Result, err error) {
	b.out[i].Result, b.out[i].Err = result, ""
	if err != nil {
		b.out[i].Err = err.Error()
	}
}

// dir removes or restores the files of one directory, which is open as fd, or could not be
// opened because of err.
func (b *batch) dir(ctx context.Context, dir string, fd int, err error, files []int) {
	switch {
	case errors.Is(err, unix.ENOENT) && !b.restore:
		for _, i := range files {
			b.set(i, policy.Gone, nil)
		}
		return
	case errors.Is(err, unix.ENOENT):
		for _, i := range files {
			b.set(i, policy.Refused, fmt.Errorf("%w; it is not made again: make it and try once more", err))
		}
		return
	case err != nil:
		for _, i := range files {
			b.set(i, resultOf(err), err)
		}
		return
	}
	d := &dirHandle{b: b, path: dir, fd: fd, lockFD: -1}
	defer d.close()
	if b.restore {
		d.restore(ctx, files)
		return
	}
	d.each(ctx, files, d.removeFile)
	d.sync("fsync", files)
}

// each does one step with each file, with the addresses under the lock.
func (d *dirHandle) each(ctx context.Context, files []int, step step) {
	free, sections := d.b.sections(files)
	for _, i := range free {
		d.one(ctx, i, step)
	}
	for _, s := range sections {
		d.locked(ctx, s, step)
	}
}

// step is what is done with one file.
type step func(c *cni.File) (policy.Result, error)

// sections separates the files that need no lock, sorted by inode, from
// the addresses, one section for each sandbox and interface.
func (b *batch) sections(files []int) (free []int, sections [][]int) {
	type key struct{ container, ifname string }
	at := map[key]int{}
	for _, i := range files {
		f := &b.files[i]
		if f.Kind != cni.Address {
			free = append(free, i)
			continue
		}
		k := key{f.Container, f.IfName}
		n, ok := at[k]
		if !ok || f.Container == "" {
			n = len(sections)
			at[k] = n
			sections = append(sections, nil)
		}
		sections[n] = append(sections[n], i)
	}
	slices.SortStableFunc(free, func(x, y int) int { return cmp.Compare(b.files[x].ID.Ino, b.files[y].ID.Ino) })
	return free, sections
}

// locked handles the addresses of one section under the lock.
func (d *dirHandle) locked(ctx context.Context, section []int, step step) {
	if ctx.Err() == nil && d.dead == nil && d.b.r.guards.locks {
		var unlock func()
		if d.lockErr == nil {
			unlock, d.lockErr = d.lock(ctx)
		}
		if d.lockErr != nil {
			for _, i := range section {
				d.b.set(i, policy.Refused, d.lockErr)
			}
			return
		}
		defer unlock()
	}
	for _, i := range section {
		d.one(ctx, i, step)
	}
}

// one handles one file.
func (d *dirHandle) one(ctx context.Context, i int, step step) {
	c := &d.b.files[i]
	if err := ctx.Err(); err != nil {
		d.b.set(i, policy.Refused, fmt.Errorf("%w: %w", confine.ErrNotBegun, err))
		return
	}
	if d.dead != nil {
		d.b.set(i, policy.Refused, d.dead)
		return
	}
	result, err := step(c)
	if change.Is(err, unix.EROFS, unix.EIO, unix.ENOTCONN, unix.ESTALE) {
		d.dead = err // the next file would fail, too
	}
	d.b.set(i, result, err)
}
