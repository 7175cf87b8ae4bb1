package removal

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/internal/change"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
)

const (
	// surveyEntries and surveyDepth bound the survey of a tree that stays: it is for the
	// record, and to find that the tree holds nothing but directories.
	surveyEntries = 10_000
	surveyDepth   = 40
)

// surveyor counts a tree and changes nothing. It has one descriptor open a level.
type surveyor struct {
	w         *walker
	residue   policy.Residue
	dirsOnly  bool
	exhausted bool
}

// survey looks at a tree that may not be taken. If it holds nothing but directories it is
// skeleton, and goes by rmdir alone, which removes no file whatever comes in between.
// Else it stays as it is. The child's descriptor is survey's from here.
func (w *walker) survey(f *frame, child frame) error {
	s := &surveyor{w: w, dirsOnly: true, residue: policy.Residue{
		Path: quoted(w.rel(f, child.name)), Class: child.class, Entries: 1, Bytes: child.bytes,
	}}
	if err := s.dir(f, &child, 1); err != nil {
		beneath.Close(child.fd)
		return err
	}
	if s.dirsOnly && !s.exhausted && w.take.Has(contents.ClassSkeleton) {
		if err := rewind(child.fd); err != nil {
			beneath.Close(child.fd)
			return w.stop(policy.ReasonRemoval, "lseek", f, child.name, err)
		}
		child.mode, child.class = prune, contents.ClassSkeleton
		return w.push(child)
	}
	beneath.Close(child.fd)
	f.kept = true
	s.residue.Partial = s.exhausted
	w.row(s.residue)
	return nil
}

// dir counts what is in at. The directories are noted first and entered then, since all
// share one buffer.
func (s *surveyor) dir(f, at *frame, depth int) error {
	var dirs []string
	d := &s.w.b.dents
	for {
		more, err := d.read(at.fd)
		if err != nil {
			return s.w.stop(policy.ReasonRemoval, "getdents64", f, at.name, err)
		}
		if !more {
			break
		}
		for _, e := range d.list {
			if s.residue.Entries >= surveyEntries {
				s.exhausted = true
				return nil
			}
			isDir, err := s.one(f, at, e)
			if err != nil {
				return err
			}
			if isDir {
				dirs = append(dirs, e.Name)
			}
		}
	}
	if len(dirs) > 0 && depth >= surveyDepth {
		s.exhausted = true
		return nil
	}
	for _, name := range dirs {
		if err := s.enter(f, at, name, depth); err != nil || s.exhausted {
			return err
		}
	}
	return nil
}

// one counts one entry.
func (s *surveyor) one(f, at *frame, e beneath.Entry) (isDir bool, err error) {
	st, err := beneath.StatName(at.fd, e.Name)
	switch {
	case errors.Is(err, unix.ENOENT):
		return false, nil
	case err != nil:
		return false, s.w.stop(policy.ReasonRemoval, "statx", f, at.name, err)
	case st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0:
		return false, s.w.stop(policy.ReasonMounted, "statx", f, at.name+"/"+e.Name, unix.EBUSY)
	}
	s.residue.Entries++
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		s.residue.Bytes += int64(st.Blocks) * 512 // no directory has 2^63 bytes
		return true, nil
	}
	s.residue.Bytes += share(&st)
	s.dirsOnly = false
	return false, nil
}

func (s *surveyor) enter(f, at *frame, name string, depth int) error {
	fd, err := s.w.b.r.open.Step(at.fd, name, beneath.ReadDir)
	switch {
	case err == nil:
	case change.Is(err, unix.ENOENT):
		return nil
	case change.Is(err, unix.EXDEV):
		return s.w.stop(policy.ReasonMounted, "openat2", f, at.name+"/"+name, err)
	default:
		// Not a directory by now, or not ours to read: doubt keeps.
		s.dirsOnly = false
		return nil
	}
	child := frame{fd: fd, name: name, mode: prune}
	defer beneath.Close(fd)
	if err := s.w.known(at, &child); err != nil {
		return err
	}
	return s.dir(f, &child, depth+1)
}
