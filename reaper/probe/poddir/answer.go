package poddir

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
)

// Answer has what was read of one pod directory.
type Answer struct {
	Directory, OwnMount policy.Fact
	ID                  policy.DirID
	Changed             time.Time
	Content             *Content // nil if it was not read
	Staging             Staging
	Gone                bool
	Alive               string // why it need not be read: a sign of life
	Err                 error  // why it could not be read
}

// Absent returns the answer for a pod without a directory in the listing.
func (r *Reader) Absent() *Answer {
	a := &Answer{Gone: true, Content: &Content{}}
	a.Directory = policy.Fact{Truth: policy.No, Origin: r.RootDir + "/pods", Detail: "it is not there"}
	a.OwnMount = policy.Fact{Truth: policy.No, Origin: a.Directory.Origin}
	return a
}

// Resting returns the answer for an entry of the quarantine that is not read.
func (r *Reader) Resting(e policy.EntryState) *Answer {
	a := &Answer{Err: errors.New("not read: it rests")}
	a.Directory.Origin = r.quarantined(e)
	a.Directory.Detail, a.OwnMount = a.Err.Error(), a.Directory
	return a
}

// Complaint returns what went wrong, for messages.
func (a *Answer) Complaint() error {
	if a.Err == nil && a.Content != nil && a.Content.Err != nil {
		return fmt.Errorf("%s: %w", a.Directory.Origin, a.Content.Err)
	}
	return a.Err
}

func unread(d Dir, err error) *Answer {
	out := &Answer{Err: fmt.Errorf("cannot read %s: %w", d.origin, err)}
	f := policy.Fact{Origin: d.origin, Detail: out.Err.Error()}
	out.Directory, out.OwnMount = f, f
	return out
}

// notOpened records why a directory could not be opened.
func (r *Reader) notOpened(out *Answer, d Dir, parent *beneath.Dir, err error) {
	out.Err = err
	switch {
	case beneath.Gone(err):
		out.Gone, out.Err, out.Content = true, nil, &Content{}
		out.Staging = stagingOf(nil, out.Content, d.recorded)
		out.Directory.Truth, out.Directory.Detail = policy.No, "it is not there"
		out.OwnMount.Truth = policy.No
	case errors.Is(err, unix.EXDEV):
		out.OwnMount.Truth, out.OwnMount.Detail = policy.Yes, "it is a mount point"
		if d.kind == unix.DT_DIR {
			out.Directory.Truth = policy.Yes
		} else {
			out.Directory.Truth, out.Directory.Detail = policy.No, "a mount point that is not a directory"
		}
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		out.Err, out.Content = nil, &Content{byKey: map[rowKey]int{}}
		out.Directory.Truth, out.Directory.Detail = policy.No, "it is not a directory"
		out.OwnMount.Truth = policy.No
		if st, err := parent.StatName(d.name); err == nil {
			out.Directory.Detail = "it is " + beneath.TypeName(st.Mode)
			out.identify(&st)
			out.Content.add(here, contents.ClassData, blocksOf(&st), 1)
		}
	default:
		out.Directory.Detail, out.OwnMount.Detail = err.Error(), err.Error()
	}
}

// identify records the directory's identity, and the later of its times of birth and change. A rename or a new child changes
// the latter, and a copy has new ones.
func (a *Answer) identify(st *unix.Statx_t) {
	changed := time.Unix(st.Ctime.Sec, int64(st.Ctime.Nsec))
	a.ID = policy.DirID{Dev: beneath.DevOf(st), Ino: st.Ino}
	if st.Mask&unix.STATX_BTIME != 0 {
		born := time.Unix(st.Btime.Sec, int64(st.Btime.Nsec))
		a.ID.Btime = born.UnixNano()
		if born.After(changed) {
			changed = born
		}
	}
	a.Changed = changed
}

// Below reports whether the walk met a mount below the directory. It never returns No, since the walk may
// have missed one.
func (a *Answer) Below() policy.Fact {
	f := policy.Fact{Origin: a.Directory.Origin}
	if a.Content != nil && a.Content.Mount != "" {
		f.Truth, f.Detail = policy.Yes, "mounted at "+a.Content.Mount+" below it"
	}
	return f
}

// Fact reports whether the content was read and classified.
func (a *Answer) Fact() policy.Fact {
	f := policy.Fact{Origin: a.Directory.Origin}
	switch {
	case a.Gone:
		f.Detail = "it is not there"
	case a.Err != nil:
		f.Detail = a.Err.Error()
	case a.Alive != "":
		f.Detail = a.Alive
	case a.Content == nil:
		f.Detail = "it was not read"
	case a.Content.Err != nil:
		f.Detail = a.Content.Err.Error()
	default:
		f.Truth = policy.Yes
		if a.Content.Mount != "" {
			f.Detail = "not entered: the mount point " + a.Content.Mount
		}
	}
	return f
}
