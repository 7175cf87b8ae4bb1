package quarantine

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/content"
	"github.com/orphan-reaper/orphan-reaper/reaper/fdpath"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// exchange moves the entry back to pods/UID in exchange for the directory there, in one call, so that the kubelet always
// finds a directory; the newer one then gets an entry of its own. If it is killed after a step, Where finds where the two are,
// and the newer one stays an entry. If Where fails, the entry may be restored once more, and then finds:
//
//  1. nothing exchanged: it begins again;
//  2. exchanged: the entry is the newer directory and pods/UID the quarantined one: it renames the newer one. It does not
//     exchange them again, even if something came to the newer one, since the kubelet may have used pods/UID since;
//  3. the newer one renamed: no entry, pods/UID is the quarantined directory: it removes the newer one's skeleton.
func (b *batch) exchange(ctx context.Context, m judge.Move) judge.Outcome {
	if err := b.movable(); err != nil {
		return refuse(m, err)
	}
	id, err := b.quar.Identify(m.Entry)
	switch {
	case errors.Is(err, unix.ENOENT):
		return b.restoredBefore(ctx, m)
	case err != nil:
		return refuse(m, fdpath.OpenError(b.q.path(m.Entry), err))
	case !m.ID.Same(id) && b.inPods(m):
		b.changed(b.quar, b.pods)
		return b.keepOther(ctx, m)
	case !m.ID.Same(id):
		return refuse(m, fdpath.PathError("statx", b.q.path(m.Entry), errReplaced))
	}
	newer, err := b.pods.Identify(string(m.UID))
	if err != nil {
		return b.restore(ctx, m) // which reports what is in the way, if anything is
	}
	if err := b.unused(m, b.pods, string(m.UID), newer); err != nil {
		return conflict(m, id, err)
	}
	err = b.rename(b.quar, m.Entry, b.pods, string(m.UID), unix.RENAME_EXCHANGE)
	switch {
	case errors.Is(err, unix.ENOENT):
		return b.restore(ctx, m) // the newer one is gone
	case err != nil:
		return refuse(m, explain(fdpath.PathError("renameat2", b.q.path(m.Entry), err)))
	}
	err = b.unused(m, b.quar, m.Entry, newer)
	if got, e := b.pods.Identify(string(m.UID)); err == nil && (e != nil || !b.q.guards.same(id, got)) {
		err = fdpath.PathError("renameat2", b.q.podsPath(string(m.UID)), errReplaced)
	}
	if err == nil {
		return b.keepOther(ctx, m)
	}
	if e := b.rename(b.quar, m.Entry, b.pods, string(m.UID), unix.RENAME_EXCHANGE); e != nil {
		return failed(m, fmt.Errorf("%w, and cannot be exchanged back: %w", err, e))
	}
	return conflict(m, id, err)
}

// keepOther gives the newer directory, which has the entry's name, an entry of its own: the first free name. The exchange is
// synced before: a disk that loses it and keeps this rename would have lost the quarantined directory.
func (b *batch) keepOther(ctx context.Context, m judge.Move) judge.Outcome {
	if err := b.flush(); err != nil {
		return failed(m, err)
	}
	err := error(unix.EEXIST)
	for n := 1; n <= 100 && errors.Is(err, unix.EEXIST); n++ { // an entry is restored once
		other := m.Entry + judge.OtherSuffix
		if n > 1 {
			other = fmt.Sprintf("%s.%d", other, n)
		}
		if err = b.rename(b.quar, m.Entry, b.quar, other, b.q.guards.noreplace); err == nil {
			b.dropManifest(m.Entry)
			return b.restored(ctx, m, other)
		}
	}
	return failed(m, explain(fdpath.PathError("renameat2", b.q.path(m.Entry), err)))
}

// restored returns the outcome of a restore. The entry other of an exchange is removed if nothing but a skeleton is in it.
func (b *batch) restored(ctx context.Context, m judge.Move, other string) judge.Outcome {
	o := judge.Outcome{Move: m, Result: judge.Done, ID: m.ID}
	id, err := b.quar.Identify(other)
	if m.Action != judge.Exchange || err != nil {
		return o
	}
	newer := m
	newer.Action, newer.Entry, newer.ID, newer.Remove = judge.Clean, other, id, content.SetOf(content.Skeleton)
	// A stop must not leave a skeleton for an operator.
	if m.Replace || b.remove(context.WithoutCancel(ctx), newer).Result != judge.Done {
		b.writeManifest(newer, other, aboutOther)
		o.Other, o.OtherID = other, id
	}
	return o
}

// A directory that a kubelet has made again and uses is never exchanged, unless an operator asks for it: its mounts would
// move to quarantine, and its containers would lose their files. The caller has seen in the last scan that nothing uses it;
// unused reads it once more, by its handles, before the exchange and after it.

// unused returns an error if the directory parent/name is another than id, has something mounted in it, or holds more than
// a kubelet makes first.
func (b *batch) unused(m judge.Move, parent *fdpath.Level, name string, id judge.FileID) error {
	if !b.q.guards.unused {
		return nil
	}
	b.q.at(parent, name)
	dir, err := parent.Step(name)
	if err != nil {
		return fdpath.OpenError(pathOf(parent, name), err)
	}
	defer dir.Close()
	u := use{replace: m.Replace}
	l := &fdpath.Level{Dir: dir, Name: name, Up: parent}
	if err := b.walker.Walk(l, &u); err != nil {
		return fmt.Errorf("%s is in use: %w", pathOf(parent, name), err)
	}
	if l.ID != id {
		return fdpath.PathError("statx", pathOf(parent, name), errReplaced)
	}
	return nil
}

// use looks for what shows that a directory is used.
type use struct{ replace bool }

// Enter reads each directory: an empty one is no use.
func (u *use) Enter(*fdpath.Level, *statx) (bool, error) { return true, nil }

// File returns an error for a file that a kubelet does not make first, or that is a mount point.
func (u *use) File(l *fdpath.Level, name string, st *statx) error {
	if !u.replace && !content.MadeFirst(l.Rel(name), fdpath.Type(st), fdpath.Size(st)) {
		return fmt.Errorf("it has %s", quoted(l.Rel(name)))
	}
	if st.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		return nil // the walk has checked it
	}
	at, err := l.Handle(name)
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return u.Failed(l, name, "openat2", err)
	}
	at.Close()
	return nil
}

// Leave goes on.
func (u *use) Leave(*fdpath.Level) (bool, error) { return false, nil }

// Failed returns an error: what cannot be read may be in use.
func (u *use) Failed(l *fdpath.Level, name, _ string, err error) error {
	return fdpath.OpenError(quoted(l.Rel(name)), err)
}
