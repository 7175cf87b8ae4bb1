package source

import (
	"bytes"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// look brings cur in line with what the name stands for now. A file that has lost its
// name stays open and is read on as an old one.
func (f *File) look() error {
	info, err := statRegular(f.opts.Path)
	if err != nil {
		gone := errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, errNotRegular)
		if gone && f.cur != nil {
			f.setCurrent(nil)
		}
		return err
	}
	if f.cur != nil && f.cur.dev == info.dev && f.cur.ino == info.ino && !f.cur.broken {
		return nil
	}
	if i := slices.IndexFunc(f.old, func(t *tailed) bool { return t.dev == info.dev && t.ino == info.ino }); i >= 0 {
		t := f.old[i] // It has got its name back.
		f.mu.Lock()
		f.old = append(f.old[:i:i], f.old[i+1:]...)
		f.mu.Unlock()
		f.setCurrent(t)
		return nil
	}
	t, _, err := openTailed(f.opts.Path)
	if err != nil {
		if f.cur != nil && (f.cur.dev != info.dev || f.cur.ino != info.ino) {
			f.setCurrent(nil)
		}
		return err
	}
	f.install(t)
	return nil
}

// install makes t the current file, at the place where its content has been read to.
func (f *File) install(t *tailed) {
	f.opened = true
	size := t.size()
	switch {
	case f.cur != nil && f.cur.position().matches(t.ino, size, t.prefix, maxPrefix):
		// Opened again after an error, or edited by a tool that writes a copy and renames it.
		t.goOn(f.cur.position())
		old := f.cur
		f.remark(t)
		f.mu.Lock()
		f.cur = t
		f.mu.Unlock()
		if old.ino != t.ino {
			f.remember(old)
		}
		old.close()
		return
	case f.cur != nil && known([]*tailed{f.cur}, fileInfo{dev: t.dev, ino: t.ino}):
		// Truncated between a failed read and now: its own end is not to be waited for.
		f.cur.close()
		f.mu.Lock()
		f.cur = nil
		f.mu.Unlock()
	case !f.resumed:
		f.take(t, size, maxPrefix)
	case f.reopen(t, size):
	case !f.horizon.IsZero():
		f.scans = 2
	default:
		f.begin(t)
	}
	f.note(t)
	f.setCurrent(t)
}

// setCurrent moves the current file among the old ones and puts t in its place.
func (f *File) setCurrent(t *tailed) {
	if t != nil {
		f.remark(t)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if t != nil {
		f.closed = slices.DeleteFunc(f.closed, t.is)
	}
	if f.cur != nil {
		f.cur.quiet = 0
		f.old = append(f.old, f.cur)
	}
	f.cur = t
}

// is reports whether the position is one in this inode.
func (t *tailed) is(p FilePosition) bool { return p.Dev == t.dev && p.Inode == t.ino }

func (t *tailed) size() int64 {
	info, err := t.stat()
	if err != nil {
		return 0
	}
	return info.size
}

// goOn sets where reading goes on.
func (t *tailed) goOn(p FilePosition) { t.next, t.done = p.Offset, p.Offset }

// take looks for t among the wanted files and, if it is one, goes on where it stood.
func (f *File) take(t *tailed, size int64, least int) bool {
	for i, p := range f.want {
		if p.matches(t.ino, size, t.prefix, least) {
			t.goOn(p)
			f.mu.Lock()
			f.want = append(f.want[:i:i], f.want[i+1:]...)
			f.mu.Unlock()
			return true
		}
	}
	return false
}

// reopen goes on in a file that was closed as an old one and has got its name back.
func (f *File) reopen(t *tailed, size int64) bool {
	i := slices.IndexFunc(f.closed, t.is)
	if i < 0 || !f.closed[i].matches(t.ino, size, t.prefix, maxPrefix) {
		return false
	}
	t.goOn(f.closed[i])
	return true
}

// begin notes, at a first start, that nothing older than the log itself is to be read.
func (f *File) begin(t *tailed) {
	info, err := t.stat()
	if err != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.horizon = info.mtime
}

// noteDirectory asks for a scan when names in the log's directory have changed, which is
// how a copy shows that was made of content that nobody had seen.
func (f *File) noteDirectory() {
	path := f.opts.Path
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	var st unix.Stat_t
	if err := unix.Stat(filepath.Dir(path), &st); err != nil {
		return // Reported where the log itself is opened.
	}
	if at := time.Unix(st.Mtim.Unix()); !at.Equal(f.dirTime) {
		f.dirTime, f.scans = at, 2
	}
}

// findRotated finds, once after a start, the files of the last run that have been rotated
// since, and those that came and went in the meantime.
func (f *File) findRotated() {
	if f.resumed {
		return
	}
	names, err := siblings(f.opts.Path)
	if err != nil {
		return // Tried again at the next step.
	}
	f.resumed = true
	var found []*tailed
	for _, name := range names {
		t, info, err := openTailed(name)
		if err != nil {
			continue // Gone, or not readable: as good as compressed.
		}
		if known(f.files(), info) || known(found, info) {
			t.close()
			continue
		}
		if !f.take(t, info.size, 1) && (f.horizon.IsZero() || info.mtime.Before(f.horizon)) {
			t.close()
			continue
		}
		f.remark(t)
		found = append(found, t)
	}
	found = byAge(found) // Asks the file system, which may hang; Position must not for it.
	f.mu.Lock()
	defer f.mu.Unlock()
	f.want = nil
	f.old = append(found, f.old...)
	f.opened, f.scans = true, 2
}

// addMissed follows the rotated files that came and went between two looks. It is called
// twice after each rotation, with the same horizon: names may move on during the first.
func (f *File) addMissed() {
	if f.horizon.IsZero() {
		return
	}
	names, err := siblings(f.opts.Path)
	if err != nil {
		return
	}
	var found []*tailed
	for _, name := range names {
		info, err := statRegular(name)
		if err != nil || info.mtime.Before(f.horizon) || known(f.files(), info) {
			continue
		}
		t, info, err := openTailed(name)
		if err != nil {
			continue
		}
		if known(f.files(), info) || known(found, info) || f.read(t, info) {
			t.close()
			continue
		}
		f.remark(t)
		found = append(found, t)
	}
	found = byAge(found)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.old = append(f.old, found...)
	f.opened = f.opened || len(found) > 0
}

// read reports whether the file was read to its end and closed in this run, or is a copy of one
// that is followed. The inode alone does not say so: that of a deleted file is used again.
func (f *File) read(t *tailed, info fileInfo) bool {
	return slices.ContainsFunc(f.closed, func(p FilePosition) bool {
		return t.is(p) && p.Length > 0 && p.matches(t.ino, info.size, t.prefix, maxPrefix)
	}) || slices.ContainsFunc(f.files(), func(o *tailed) bool {
		return o.position().matches(t.ino, info.size, t.prefix, 1) || t.copying(info, o)
	})
}

// copying reports whether t is a copy of o that is being made: it has nothing yet that was
// not read of o. What o loses by being truncated next is looked for by truncated.
func (t *tailed) copying(info fileInfo, o *tailed) bool {
	return info.size <= o.done && bytes.HasPrefix(o.prefix, t.prefix)
}

// truncated begins t anew. What had not been read of it is looked for in the copy that
// logrotate's copytruncate makes first.
func (f *File) truncated(t *tailed) {
	f.mu.Lock()
	was := t.position()
	f.mu.Unlock()
	var copies []*tailed
	if names, err := siblings(f.opts.Path); err == nil && was.Length > 0 {
		for _, name := range names {
			c, info, err := openTailed(name)
			if err != nil {
				continue
			}
			if len(copies) > 0 || known(f.files(), info) || info.size < t.next || !was.matches(c.ino, info.size, c.prefix, 1) {
				c.close()
				continue
			}
			c.goOn(was)
			f.remark(c)
			copies = append(copies, c)
		}
	}
	f.mu.Lock()
	t.forget()
	t.done = 0
	t.mark = FilePosition{Dev: t.dev, Inode: t.ino, Fingerprint: fingerprint(nil)}
	f.old = append(f.old, copies...)
	f.mu.Unlock()
	f.opened = f.opened || len(copies) > 0
	f.scans = 2
}

// byAge sorts files by when they were last written to.
func byAge(files []*tailed) []*tailed {
	age := make(map[*tailed]time.Time, len(files))
	for _, t := range files {
		if info, err := t.stat(); err == nil {
			age[t] = info.mtime
		}
	}
	slices.SortStableFunc(files, func(a, b *tailed) int { return age[a].Compare(age[b]) })
	return files
}
