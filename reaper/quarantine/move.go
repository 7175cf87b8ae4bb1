package quarantine

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/fdpath"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

var (
	errReplaced   = errors.New("another directory has its name now")
	errEntryTaken = errors.New("another directory in quarantine has this entry's name")
)

// quarantine moves pods/UID to the entry, whose name is new. If it is killed after the rename, Where finds the entry and syncs
// it; it has no manifest then.
func (b *batch) quarantine(m judge.Move) judge.Outcome {
	if err := b.movable(); err != nil {
		return refuse(m, err)
	}
	uid := string(m.UID)
	id, err := b.pods.Identify(uid)
	switch {
	case errors.Is(err, unix.ENOENT):
		return judge.Outcome{Move: m, Result: judge.Gone}
	case err != nil:
		return refuse(m, fdpath.OpenError(b.q.podsPath(uid), err))
	case !b.q.guards.same(m.ID, id):
		return refuse(m, fdpath.PathError("statx", b.q.podsPath(uid), errReplaced))
	}
	err = b.rename(b.pods, uid, b.quar, m.Entry, b.q.guards.noreplace)
	switch {
	case errors.Is(err, unix.ENOENT):
		return judge.Outcome{Move: m, Result: judge.Gone}
	case errors.Is(err, unix.EEXIST):
		return refuse(m, fdpath.PathError("renameat2", b.q.path(m.Entry), errEntryTaken))
	case err != nil:
		return refuse(m, explain(fdpath.PathError("renameat2", b.q.podsPath(uid), err)))
	}
	if id, err = b.quar.Identify(m.Entry); err != nil || !b.q.guards.same(m.ID, id) {
		return b.undo(m)
	}
	b.writeManifest(m, m.Entry, aboutMoved)
	return judge.Outcome{Move: m, Result: judge.Done, ID: id}
}

// undo moves back a directory that took the place of the judged one between the check and the rename.
func (b *batch) undo(m judge.Move) judge.Outcome {
	wrong := fdpath.PathError("renameat2", b.q.podsPath(string(m.UID)), errReplaced)
	err := b.rename(b.quar, m.Entry, b.pods, string(m.UID), b.q.guards.noreplace)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return refuse(m, wrong)
	}
	// A third directory has the name in pods now. The second stays under the entry's name, and the next pass judges it there.
	return failed(m, fmt.Errorf("%w; it lies at %s and cannot be moved back: %w", wrong, b.q.path(m.Entry), err))
}

// restore moves the entry back to pods/UID, if there is no pods/UID. If it is killed after a step, Where finds where the
// directory is. If Where fails, the entry may be restored once more, and then finds:
//
//  1. the manifest removed: it begins again;
//  2. renamed: no entry, and pods/UID is the quarantined directory: done.
func (b *batch) restore(ctx context.Context, m judge.Move) judge.Outcome {
	if b.absent && b.inPods(m) { // the first move was killed before it made the quarantine
		return judge.Outcome{Move: m, Result: judge.Done, ID: m.ID}
	}
	if err := b.movable(); err != nil {
		return refuse(m, err)
	}
	id, err := b.quar.Identify(m.Entry)
	switch {
	case errors.Is(err, unix.ENOENT):
		return b.restoredBefore(ctx, m)
	case err != nil:
		return refuse(m, fdpath.OpenError(b.q.path(m.Entry), err))
	case !m.ID.Same(id):
		return refuse(m, fdpath.PathError("statx", b.q.path(m.Entry), errReplaced))
	}
	if inTheWay, exists := b.again(m, id); exists {
		return inTheWay
	}
	b.dropManifest(m.Entry)
	err = b.rename(b.quar, m.Entry, b.pods, string(m.UID), b.q.guards.noreplace)
	if err == nil {
		return b.arrived(m, id)
	}
	b.writeManifest(m, m.Entry, aboutMoved)
	if inTheWay, exists := b.again(m, id); exists {
		return inTheWay
	}
	return refuse(m, explain(fdpath.PathError("renameat2", b.q.path(m.Entry), err)))
}

// inPods reports whether pods/UID is the directory of the move.
func (b *batch) inPods(m judge.Move) bool {
	if b.podsErr != nil {
		return false
	}
	id, err := b.pods.Identify(string(m.UID))
	return err == nil && m.ID.Same(id)
}

// restoredBefore returns the outcome for an entry that is not in quarantine.
func (b *batch) restoredBefore(ctx context.Context, m judge.Move) judge.Outcome {
	b.dropManifest(m.Entry)
	if !b.inPods(m) {
		return judge.Outcome{Move: m, Result: judge.Gone}
	}
	b.changed(b.quar, b.pods) // the killed run may not have synced
	return b.restored(ctx, m, m.Entry+judge.OtherSuffix)
}

// again returns the outcome of a restore if there is something at pods/UID.
func (b *batch) again(m judge.Move, id judge.FileID) (o judge.Outcome, exists bool) {
	path := b.q.podsPath(string(m.UID))
	st, err := b.pods.StatName(string(m.UID))
	switch {
	case errors.Is(err, unix.ENOENT):
		return o, false
	case err != nil:
		return refuse(m, fdpath.PathError("statx", path, err)), true
	case !fdpath.IsDir(&st):
		return refuse(m, fmt.Errorf("%s is in the way: it is %s, which no kubelet makes; move it elsewhere", path, fdpath.TypeName(&st))), true
	}
	return conflict(m, id, fmt.Errorf("%s exists again", path)), true
}

func conflict(m judge.Move, id judge.FileID, err error) judge.Outcome {
	return judge.Outcome{Move: m, Result: judge.Conflict, ID: id, Err: err.Error()}
}

// arrived checks the identity of the directory that was moved to pods/UID. Only root can have replaced it in quarantine.
func (b *batch) arrived(m judge.Move, id judge.FileID) judge.Outcome {
	got, err := b.pods.Identify(string(m.UID))
	if err == nil && b.q.guards.same(id, got) || errors.Is(err, unix.ENOENT) {
		return judge.Outcome{Move: m, Result: judge.Done, ID: id}
	}
	wrong := fdpath.PathError("renameat2", b.q.path(m.Entry), errReplaced)
	if err := b.rename(b.pods, string(m.UID), b.quar, m.Entry, b.q.guards.noreplace); err != nil {
		return failed(m, fmt.Errorf("%w, and cannot be moved back: %w", wrong, err))
	}
	return refuse(m, wrong)
}
