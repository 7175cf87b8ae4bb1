package remove

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/removal/confine"
)

// Remover removes and restores CNI files. Safe for use by several goroutines; one batch runs at a time.
type Remover struct {
	// dirs returns, for each batch, the directories in and below which files may be removed or restored. nil allows none.
	dirs     func() []string
	open     *beneath.Opener
	run      *confine.Runner
	lockWait time.Duration // how long a batch waits in total for host-local's locks
	// timedOut has the networks for whose lock the last batch waited in vain: the next batch tries once and does not
	// wait. Only the thread of a batch uses it.
	timedOut map[string]bool
	guards   guards
}

// guards are the checks between steps, as values so that a test can disable one and show the consequence. Only Open
// sets them, and sets all.
type guards struct {
	noreplace uint // renameat2's flag
	locks     bool // acquire host-local's lock
	aside     bool // move a cache file aside and check it again before it is removed
	// before is called before each system call that changes the disk, on the batch's own thread. Only tests set it.
	before func(op, name string)
}

// grace is how long a batch waits for a pending system call after its context has ended.
const grace = 10 * time.Second

// Open returns a Remover. dirs returns, for each batch, the directories in and below which files may be removed or
// restored: the cache directories and host-local's data directories, which the network configuration may change. nil
// allows none.
func Open(dirs func() []string, log *slog.Logger) (*Remover, error) {
	open, err := beneath.New(false)
	if err != nil {
		return nil, err
	}
	return newRemover(dirs, open, confine.New(grace, log)), nil
}

func newRemover(dirs func() []string, open *beneath.Opener, run *confine.Runner) *Remover {
	return &Remover{
		dirs: dirs, open: open, run: run, lockWait: lockWait, timedOut: map[string]bool{},
		guards: guards{noreplace: unix.RENAME_NOREPLACE, locks: true, aside: true},
	}
}

var errNoPermit = errors.New("this process may not change the node now")

// RemoveCNI removes CNI's files, which the caller has archived and synced, with a permit of the gate. It removes a
// file only if device, inode, size, change time and content are still those of the archive. A missing file is Gone; a
// different file, or one that is not regular, is Refused. RemoveCNI syncs the directories and returns the results in
// the order of the files.
//
// A cache file has no lock. It is moved aside in its own directory, so that no program finds it, checked again, and
// then removed. If the check finds that a program replaced it, the replacement is moved back. A killed run may leave
// NAME.~orphan-reaper; RemoveCNI with the same files finishes it. An address is read again and removed under
// host-local's own lock.
//
// If the context ends or a file system hangs, RemoveCNI ends as Runner.Run of package confine does.
func (r *Remover) RemoveCNI(ctx context.Context, permit policy.Permit, files []cni.File) []cni.File {
	return r.change(ctx, files, permit.MayRemove(), false)
}

// RestoreCNI writes back files that RemoveCNI has removed, with a permit of the gate, and with mode, owner,
// modification time and SELinux label. It never replaces anything and creates no directory. A file gets its name only
// when its content is on disk. An address is written back under the lock, and only if it is free. A file that exists
// as it was is Gone: it is only synced.
func (r *Remover) RestoreCNI(ctx context.Context, permit policy.Permit, files []cni.File) []cni.File {
	return r.change(ctx, files, permit.Undoes(), true)
}

func (r *Remover) change(ctx context.Context, files []cni.File, permitted, restore bool) []cni.File {
	if !permitted {
		return cni.Ended(files, policy.Refused, errNoPermit)
	}
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
	// patience is the remaining time to wait for locks.
	patience time.Duration
	buf      []byte // of the file that is compared
}

// run opens all directories before it handles the first, since Confine then restricts the thread to them.
func (b *batch) run(ctx context.Context) {
	var bases []string
	if b.r.dirs != nil {
		bases = b.r.dirs()
	}
	var dirs []*dirHandle
	var grants []confine.Grant
	at := map[string]*dirHandle{}
	for i := range b.files {
		f := &b.files[i]
		if err := checkName(f); err != nil {
			b.set(i, policy.Refused, err)
			continue
		}
		d := at[f.Dir]
		if d == nil {
			d = b.openDir(f.Dir, bases)
			at[f.Dir], dirs = d, append(dirs, d)
			grants = append(grants, confine.Grant{FD: d.dir.FD(), Rights: confine.MayReplace})
		}
		d.files = append(d.files, i)
	}
	err := b.r.run.Confine(grants...)
	for _, d := range dirs {
		if err != nil {
			d.setAll(policy.Refused, err)
		} else {
			d.handle(ctx)
		}
		d.close()
	}
}

// asideSuffix ends the name of a file before its removal, or until it is complete and synced. No program that writes
// to these directories uses such a name, and for host-local it is not an address.
const asideSuffix = ".~orphan-reaper"

// asideName returns the name aside, which a second run finds again. Long names may share one; neither file then
// replaces the other.
func asideName(name string) string {
	return name[:min(len(name), unix.NAME_MAX-len(asideSuffix))] + asideSuffix
}

// checkName returns why a file cannot be handled by its name, which comes from a directory listing or from an archive.
func checkName(f *cni.File) error {
	name := f.Name
	switch {
	case f.Err != "":
		return fmt.Errorf("it was not archived: %s", f.Err)
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
