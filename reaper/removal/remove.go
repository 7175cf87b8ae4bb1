package removal

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/internal/change"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
)

// maxVolData is the most that a vol_data.json may hold; the kubelet writes some 500 bytes.
const maxVolData = 1 << 20

var (
	errUnidentified = errors.New(`neither the ledger nor a manifest identifies it; remove it with "orphan-reaper quarantine purge --force"`)
	errReappeared   = errors.New("it was missing and exists again, so it must be judged again")
)

// remove removes from quarantine/Entry what the plan allows. An entry whose identity the ledger has needs no
// manifest, since a full disk may have had no room for it. Any other entry needs one, which is therefore removed last.
func (b *batch) remove(ctx context.Context, a policy.Action) policy.Outcome {
	out := policy.Outcome{Action: a}
	entry := a.Entry
	if b.h.quarErr != nil {
		// A missing quarantine does not show that the entry is gone: its disk may not be mounted, or
		// --quarantine-dir may have changed.
		return refuse(a, policy.ReasonRemoval, b.h.quarErr)
	}
	id, err := b.h.quar.Identify(entry)
	switch {
	case errors.Is(err, unix.ENOENT):
		b.dropManifest(a.Entry)
		out.Result = policy.Gone
		return out
	case err != nil && !change.Is(err, unix.EXDEV, unix.ENOTDIR, unix.ELOOP):
		return refuse(a, policy.ReasonRemoval, beneath.PathError("openat2", b.r.quarPath(a.Entry), err))
	case err != nil:
		return b.refuseStep(a, b.r.quarPath(a.Entry), err)
	case !sameParked(a.ID, id):
		return refuse(a, policy.ReasonRemoval, beneath.PathError("statx", b.r.quarPath(a.Entry), errReplaced))
	case a.Take == contents.TakeNone:
		return refuse(a, policy.ReasonContentUnknown, beneath.PathError("unlinkat", b.r.quarPath(a.Entry), errReappeared))
	case a.Take != contents.TakeAll && (isConflict(a.Entry) || a.ID == (policy.DirID{}) && !b.inQuarantine(a.Entry+manifestSuffix)):
		return refuse(a, policy.ReasonContentUnknown, beneath.PathError("unlinkat", b.r.quarPath(a.Entry), errUnidentified))
	}
	w := &walker{b: b, entry: a.Entry, take: a.Take, out: &out}
	w.outcome(w.start(ctx, entry, id))
	return out
}

// start opens the entry, checks its identity and walks it.
func (w *walker) start(ctx context.Context, entry string, id policy.DirID) error {
	if w.b.dents.buf == nil {
		w.b.dents.buf = make([]byte, firstBuffer)
	}
	root := frame{dir: w.b.h.quar, id: w.b.h.quarID}
	dir, err := root.dir.Step(entry)
	if err != nil {
		return &stopped{policy.ReasonRemoval, beneath.PathError("openat2", w.path(nil, ""), err)}
	}
	top := frame{dir: dir, name: entry, mode: judge, class: contents.ClassSkeleton}
	if err := w.identify(&root, &top); err != nil {
		dir.Close()
		return err
	}
	if top.id != id {
		dir.Close()
		return &stopped{policy.ReasonRemoval, beneath.PathError("openat2", w.path(nil, ""), errReplaced)}
	}
	if err := w.push(top); err != nil {
		return err
	}
	return w.run(ctx)
}

// outcome records how the walk ended.
func (w *walker) outcome(err error) {
	o := w.out
	for class, t := range w.tally {
		if t.Entries == 0 {
			continue
		}
		if o.Taken == nil {
			o.Taken = map[contents.Class]policy.Tally{}
		}
		o.Taken[contents.Class(class)] = t
		w.b.movedQuar = true
	}
	stop, isStop := errors.AsType[*stopped](err)
	switch {
	case isStop && o.Taken == nil:
		o.Result = policy.Refused
	case isStop || w.first != nil:
		o.Result = policy.Failed
	case w.kept:
		o.Result = policy.Partly
	default:
		o.Result = policy.Done
		w.b.dropManifest(w.entry)
	}
	switch {
	case isStop:
		o.Why, o.Err = []policy.Why{{Reason: stop.reason, Detail: stop.Error()}}, stop.Error()
	case w.first != nil:
		o.Why, o.Err = []policy.Why{{Reason: policy.ReasonRemoval, Detail: w.first.Error()}}, w.first.Error()
	}
}

// file removes or keeps one name of f that was not a directory when f was listed.
func (w *walker) file(f *frame, name string) error {
	st, err := f.dir.StatName(name)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil
	case err != nil:
		return w.stop(policy.ReasonRemoval, "statx", f, name, err)
	case st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0:
		return w.stop(policy.ReasonMounted, "statx", f, name, unix.EBUSY)
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		f.pending = append(f.pending, name)
		return nil
	}
	class := f.class
	switch f.mode {
	case whole:
	case prune:
		w.keepFile(f, name, contents.ClassData, &st)
		return nil
	case count:
		w.survey.files = true
		w.survey.add(share(&st))
		return nil
	case judge:
		if f.ephemeral && name == contents.VolData {
			f.putOff = true
			return nil
		}
		var remove bool
		if class, remove = w.classify(f, name, &st); !remove {
			return nil
		}
	}
	return w.unlink(f, name, class, &st)
}

func (w *walker) unlink(f *frame, name string, class contents.Class, st *unix.Statx_t) error {
	w.b.before("unlinkat", name)
	err := change.Unlinkat(f.dir, name, 0)
	switch {
	case err == nil:
		bytes := int64(0)
		if st.Nlink <= 1 {
			bytes = int64(st.Blocks) * 512 // no file has 2^63 bytes
		}
		w.removed(class, bytes)
		return nil
	case change.Is(err, unix.ENOENT):
		return nil
	case change.Is(err, unix.EISDIR):
		f.pending = append(f.pending, name)
		return nil
	case change.Is(err, unix.EBUSY):
		return w.stop(policy.ReasonMounted, "unlinkat", f, name, err)
	case change.Is(err, unix.EPERM, unix.EACCES):
		// Usually it is immutable or append-only. We never clear an attribute.
		w.keepFile(f, name, class, st)
		w.note(beneath.PathError("unlinkat", w.path(f, name), err))
		return nil
	default:
		return w.stop(policy.ReasonRemoval, "unlinkat", f, name, err)
	}
}

// classify returns the class of a name at a level where each name has its own class, and whether it is removed. A
// vol_data.json is removed only when its content is in the outcome. classify records a file that is kept.
func (w *walker) classify(f *frame, name string, st *unix.Statx_t) (class contents.Class, remove bool) {
	rel := w.rel(f, name)
	class = contents.ClassOf(rel, beneath.EntryType(st.Mode), int64(st.Size)) // a file's size is an off_t
	volData := class == contents.ClassSkeleton && name == contents.VolData && rel[0] == "volumes"
	if contents.ByText(rel, beneath.EntryType(st.Mode), int64(st.Size)) { // as above
		if content, err := f.dir.ReadFile(name, contents.BiggestText); err == nil {
			class = contents.ClassOfText(rel, content)
		}
	}
	remove = w.take.Has(class)
	if remove && volData {
		content, err := f.dir.ReadFile(name, maxVolData)
		if err == nil {
			if w.out.VolData == nil {
				w.out.VolData = map[string]string{}
			}
			w.out.VolData[quoted(rel)] = string(content)
		} else if w.take != contents.TakeAll {
			class, remove = contents.ClassData, false
		}
	}
	if !remove {
		w.keepFile(f, name, class, st)
	}
	return class, remove
}

// removeVolData removes the vol_data.json that was put off, after the rest of f. If something is kept, the file
// that identifies it is kept too, until it has aged; then an operator decides.
func (w *walker) removeVolData(f *frame) error {
	f.putOff, f.ephemeral = false, false
	if !f.kept {
		return w.file(f, contents.VolData)
	}
	st, err := f.dir.StatName(contents.VolData)
	if err != nil {
		return nil //nolint:nilerr // removed meanwhile
	}
	class := contents.ClassEphemeral
	if w.take.Has(class) {
		class = contents.ClassData
	}
	w.keepFile(f, contents.VolData, class, &st)
	return nil
}

// removed counts one removed entry for the record and for the progress display.
func (w *walker) removed(class contents.Class, bytes int64) {
	w.tally[class].Add(policy.Tally{Entries: 1, Bytes: bytes})
	w.removals++
	w.b.work.Add(1)
}

// keepDir keeps a directory of f (or f itself) because of an error.
func (w *walker) keepDir(f *frame, name string, err error) {
	f.kept = true
	w.note(err)
	w.row(policy.Residue{Path: quoted(w.rel(f, name)), Class: f.class, Entries: 1, Partial: true})
}

// keepFile records one file that is kept.
func (w *walker) keepFile(f *frame, name string, class contents.Class, st *unix.Statx_t) {
	f.kept = true
	w.row(policy.Residue{Path: quoted(w.rel(f, name)), Class: class, Entries: 1, Bytes: share(st)})
}
