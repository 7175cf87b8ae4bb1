package removal

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/internal/change"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
)

const (
	// maxOpen limits the directories that a walk keeps open: a process may have only 1,024 descriptors.
	maxOpen = 64
	// maxRescans limits how often a directory that turns out not to be empty is read again.
	maxRescans = 3
	// checkEvery is the number of removals between two checks that the open directories are still in place. On
	// tmpfs 32 costs no more time than 256, and 1 costs a third more.
	checkEvery = 32
	// maxSwaps limits how often a name may turn from a directory into something else during one walk. Each time,
	// an attacker has to win a race.
	maxSwaps = 10_000
)

// mode determines how a walk treats the content of a directory.
type mode uint8

const (
	judge mode = iota // each child by its own class
	whole             // remove everything
	prune             // remove empty directories, keep the rest
	count             // remove nothing; see survey
)

// frame is one directory on the walk's stack. Its handle is nil while more than maxOpen are on the stack. It is
// later opened again as ".." of its child.
type frame struct {
	dir     *beneath.Dir
	name    string
	id      policy.DirID
	bytes   int64 // its own allocated bytes
	mode    mode
	class   contents.Class
	pending []string // directories of the last piece that was read
	next    int      // index in pending of the next one to enter
	read    bool     // to its end
	kept    bool     // something in it is kept
	rescans int
	// ephemeral marks the directory of an ephemeral CSI volume. Only its vol_data.json shows this, so that file is
	// removed last; putOff is set if there is one.
	ephemeral, putOff bool
	lifted            bool   // something was moved into it that is not in pending
	widest            []byte // the widest buffer, if this directory has it
}

// walker removes one entry of the quarantine, from the leaves up, without recursion.
type walker struct {
	b     *batch
	entry string
	take  contents.ClassSet
	stack []frame
	// closed is how many frames, from closedFrom on, have no descriptor.
	closedFrom, closed int
	removals, checkAt  int
	swaps              int
	kept               bool // something is kept, so the entry is kept, too
	survey             survey
	tally              [4]policy.Tally
	out                *policy.Outcome
	first              error // the first error that stopped no more than one entry
}

// stopped is the error that ends the walk of one entry.
type stopped struct {
	reason policy.Reason
	err    error
}

func (s *stopped) Error() string { return s.err.Error() }
func (s *stopped) Unwrap() error { return s.err }

var (
	errMovedAway = errors.New("it was moved away while it was being removed")
	errChanges   = errors.New("it keeps changing")
	errSubvol    = errors.New("another subvolume or file system begins here")
	errWriter    = errors.New("something still writes here")
)

func (w *walker) stop(reason policy.Reason, op string, f *frame, name string, err error) error {
	return &stopped{reason, beneath.PathError(op, w.path(f, name), err)}
}

// run walks until the stack is empty or an error stops it.
func (w *walker) run(ctx context.Context) error {
	defer func() {
		for i := range w.stack {
			w.close(&w.stack[i])
		}
	}()
	for len(w.stack) > 0 {
		if err := w.check(ctx); err != nil {
			return err
		}
		f := &w.stack[len(w.stack)-1]
		var err error
		switch {
		case f.mode == count && w.survey.over():
			err = w.leave(f)
		case f.next < len(f.pending):
			f.next++
			err = w.enter(ctx, f, f.pending[f.next-1])
		case !f.read:
			err = w.list(ctx, f)
		default:
			err = w.leave(f)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// list reads one piece of the directory, handles its files and lists its directories as pending.
func (w *walker) list(ctx context.Context, f *frame) error {
	f.pending, f.next = f.pending[:0], 0
	d := &w.b.dents
	more, err := w.piece(f)
	switch {
	case errors.Is(err, unix.ENOENT):
		// The directory itself was removed meanwhile.
		more = false
	case err != nil:
		return w.stop(policy.ReasonRemoval, "getdents64", f, "", err)
	}
	if !more {
		f.read = true
		return nil
	}
	for _, e := range d.list {
		if f.mode == count && w.survey.over() {
			break
		}
		if e.Kind == unix.DT_DIR {
			f.pending = append(f.pending, e.Name)
			continue
		}
		if err := w.check(ctx); err != nil {
			return err
		}
		if err := w.file(f, e.Name); err != nil {
			return err
		}
	}
	if len(d.list) > mostListed {
		d.list = nil
	}
	return nil
}

// enter opens one directory of f and pushes it.
func (w *walker) enter(ctx context.Context, f *frame, name string) error {
	child := frame{name: name, mode: f.mode, class: f.class}
	surveyed := false
	var rel []string
	if f.mode == judge {
		rel = w.rel(f, name)
		class, uniform := contents.ClassInCSI(rel, f.ephemeral)
		switch {
		case !uniform:
			child.class = contents.ClassSkeleton
		case w.take.Has(class):
			child.mode, child.class = whole, class
		default:
			surveyed, child.class = true, class
		}
	}
	dir, err := f.dir.Step(name)
	if err != nil {
		return w.notEntered(f, name, err)
	}
	child.dir = dir
	if err := w.identify(f, &child); err != nil {
		dir.Close()
		return err
	}
	switch {
	case surveyed:
		w.beginSurvey(f, &child)
		return w.push(child)
	case child.mode == count:
		w.survey.add(child.bytes)
		w.survey.exhausted = w.survey.exhausted || len(w.stack)-w.survey.root >= surveyDepth
		return w.push(child)
	}
	if lifted, err := w.lift(ctx, f, &child); lifted || err != nil {
		child.dir.Close()
		return err
	}
	if child.mode == judge && contents.IsCSIVolume(rel) {
		content, err := child.dir.ReadFile(contents.VolData, maxVolData)
		child.ephemeral = err == nil && contents.EphemeralCSI(content)
	}
	return w.push(child)
}

// identify records the child's identity and rejects another device: a btrfs subvolume has one, and openat2 does
// not stop there.
func (w *walker) identify(f, child *frame) error {
	st, err := child.dir.Stat()
	if err != nil {
		return w.stop(policy.ReasonRemoval, "fstat", f, child.name, err)
	}
	child.id, child.bytes = beneath.DirID(&st), int64(st.Blocks)*512 // no directory has 2^63 bytes
	if child.id.Dev != f.id.Dev {
		return w.stop(policy.ReasonRemoval, "fstat", f, child.name, errSubvol)
	}
	return nil
}

// notEntered handles the error of a step down.
func (w *walker) notEntered(f *frame, name string, err error) error {
	switch {
	case change.Is(err, unix.ENOENT):
		return nil
	case change.Is(err, unix.ENOTDIR, unix.ELOOP):
		if w.swaps++; w.swaps > maxSwaps {
			return w.stop(policy.ReasonRemoval, "openat2", f, name, errChanges)
		}
		return w.file(f, name)
	case change.Is(err, unix.EXDEV):
		return w.stop(policy.ReasonMounted, "openat2", f, name, err)
	case f.mode == count:
		w.survey.files = true
		return nil
	case change.Is(err, unix.EPERM, unix.EACCES):
		w.keepDir(f, name, beneath.PathError("openat2", w.path(f, name), err))
		return nil
	default:
		return w.stop(policy.ReasonRemoval, "openat2", f, name, err)
	}
}

// push puts the child on the stack. If too many directories are open, it closes the topmost one below uniformTop;
// the at most five levels that are judged and uniformTop itself remain open.
func (w *walker) push(child frame) error {
	w.stack = append(w.stack, child)
	if len(w.stack)-w.closed <= maxOpen {
		return nil
	}
	if w.closed == 0 {
		w.closedFrom = w.uniformTop() + 1 // lift moves to the top of it
	}
	f := &w.stack[w.closedFrom+w.closed]
	f.dir.Close()
	f.dir = nil
	w.closed++
	return nil
}

// rel returns the path of name in f relative to the pod directory.
func (w *walker) rel(f *frame, name string) []string {
	rel := make([]string, 0, 8)
	for i := 1; i < len(w.stack) && &w.stack[i-1] != f; i++ {
		rel = append(rel, w.stack[i].name)
	}
	if name != "" {
		rel = append(rel, name)
	}
	return rel
}

// path returns the path of name in f for messages, without the middle of a long one.
func (w *walker) path(f *frame, name string) string {
	rel := w.rel(f, name)
	if len(rel) > 40 {
		rel = slices.Concat(rel[:20], []string{"…"}, rel[len(rel)-19:])
	}
	return w.b.r.quarPath(w.entry + "/" + strings.Join(rel, "/"))
}

// liftFrom is how many levels the walk descends in a tree to be removed; deeper directories are moved to the
// tree's top first. Landlock checks each level up to the quarantine at each step: without moving, a tree of 12,000
// levels took 47 s of processor time, and one of 160,000 would take hours. Any pod can create such a tree.
const liftFrom = 128

// uniformTop returns the index of the topmost directory on the stack that is not in mode judge, or -1. All below
// it is of one class.
func (w *walker) uniformTop() int {
	return slices.IndexFunc(w.stack, func(f frame) bool { return f.mode != judge })
}

// lift moves a directory of f that is too deep to the top of its uniform tree, where the walk reaches it later. The
// tree is of one class, so a kill in between does not change what may be removed. A directory that cannot be moved
// is removed in place.
func (w *walker) lift(ctx context.Context, f, child *frame) (bool, error) {
	top := w.uniformTop()
	if child.mode != whole || top < 0 || len(w.stack)-top < w.b.r.guards.liftFrom {
		return false, nil
	}
	w.checkAt = 0
	if err := w.check(ctx); err != nil { // it must not bring back a tree that was moved out of quarantine
		return false, err
	}
	to, as := &w.stack[top], "lifted-"+strconv.FormatUint(rand.Uint64(), 36)
	w.b.before("renameat2", child.name)
	if err := change.Renameat2(f.dir, child.name, to.dir, as, w.b.r.guards.noreplace); err != nil {
		return false, nil //nolint:nilerr // see above
	}
	id, err := to.dir.Identify(as)
	if err == nil && id != child.id {
		err = errChanges
	}
	if err != nil {
		return false, w.stop(policy.ReasonRemoval, "renameat2", f, child.name, err)
	}
	if len(to.pending)-to.next < mostListed {
		to.pending = append(to.pending, as)
	} else {
		to.lifted = true // it is read again, so that no list grows with the tree
	}
	return true, nil
}
