package remove

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/internal/change"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// writtenAside is the state of a file that is written under its name aside.
const writtenAside policy.Result = "written"

// restore writes files back. Files with the same name aside are written one after the other.
func (d *dirHandle) restore(ctx context.Context) {
	for files := d.files; len(files) > 0; {
		var now, later []int
		taken := map[string]bool{}
		for _, i := range files {
			if aside := asideName(d.b.files[i].Name); !taken[aside] {
				taken[aside] = true
				now = append(now, i)
			} else {
				later = append(later, i)
			}
		}
		d.restoreTogether(ctx, now)
		files = later
	}
}

// restoreTogether writes all files under their names aside, syncs them, and then renames them to their own names, so
// that no program finds a partial file, even after a power cut. If it is killed after a step, a second run does this:
//
//  1. written or synced: removes the files aside and writes them again;
//  2. renamed: finds the files as they were: Gone, once they are synced.
func (d *dirHandle) restoreTogether(ctx context.Context, files []int) {
	d.each(ctx, files, d.writeAside)
	var written []int
	for _, i := range files {
		if d.b.out[i].Result == writtenAside {
			written = append(written, i)
		}
	}
	d.sync("syncfs", files)
	d.fatal = nil // the files that were written can still be renamed
	d.each(ctx, slices.DeleteFunc(slices.Clone(written), func(i int) bool { return d.b.out[i].Result != writtenAside }), d.giveName)
	for _, i := range written {
		if d.b.out[i].Result != policy.Done {
			_, _ = d.unlink(asideName(d.b.files[i].Name))
		}
	}
	d.sync("fsync", files)
}

// writeAside writes a file under its name aside.
func (d *dirHandle) writeAside(c *cni.File) (policy.Result, error) {
	if result, err := d.vacant(c.Name, c); result != "" {
		return result, err
	}
	if err := d.write(asideName(c.Name), c); err != nil {
		return d.failure("write", c.Name, err)
	}
	return writtenAside, nil
}

// giveName renames a file to its own name. It replaces no other file.
func (d *dirHandle) giveName(c *cni.File) (policy.Result, error) {
	err := d.rename(asideName(c.Name), c.Name)
	if errors.Is(err, unix.EEXIST) {
		return policy.Refused, fmt.Errorf("%s was made meanwhile", d.filePath(c.Name))
	}
	if err != nil {
		return d.failure("renameat2", c.Name, err)
	}
	return policy.Done, nil
}

// vacant returns "" if nothing has the name, and otherwise the result of the file and the reason.
func (d *dirHandle) vacant(name string, c *cni.File) (policy.Result, error) {
	st, err := beneath.StatName(d.dir.FD(), name)
	if errors.Is(err, unix.ENOENT) {
		return "", nil
	}
	if err != nil {
		return d.failure("statx", name, err)
	}
	id := cni.FileID(beneath.StateOf(&st))
	if _, err := d.verify(name, id, c.Data); err == nil {
		d.changed = true // the run before may not have synced
		return policy.Gone, nil
	}
	found, todo := typeName(st.Mode), ""
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
	case d.isPart(name, &st, c):
		// Another process may be writing the rest, so the file is kept.
		found = fmt.Sprintf("a file with only the first %d of its %d bytes", st.Size, len(c.Data))
		todo = "; a power cut can leave such a file: if no program is writing it, remove it and give the command again"
	case c.Kind == cni.Address:
		found = "another reservation: the address is in use"
	default:
		found = fmt.Sprintf("another file of %d bytes", st.Size)
	}
	return policy.Refused, fmt.Errorf("at %s there is %s, changed at %s%s", d.filePath(name), found,
		time.Unix(0, id.Ctime).UTC().Format(time.RFC3339), todo)
}

// isPart reports whether name is a file with a prefix of the content to write, or with all of it.
func (d *dirHandle) isPart(name string, st *unix.Statx_t, c *cni.File) bool {
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size > uint64(len(c.Data)) {
		return false
	}
	_, err := d.verify(name, cni.FileID(beneath.StateOf(st)), c.Data[:st.Size])
	return err == nil
}

// write writes the whole file under its name aside.
func (d *dirHandle) write(aside string, c *cni.File) error {
	fd, err := d.create(aside)
	if errors.Is(err, unix.EEXIST) {
		if err := d.dropPart(aside, c); err != nil {
			return err
		}
		fd, err = d.create(aside)
	}
	if err != nil {
		return err
	}
	d.changed = true
	err = change.Write(fd, c.Data)
	if err == nil {
		err = restoreAttributes(fd, c)
	}
	if err = change.Close(fd, err); err != nil {
		_, _ = d.unlink(aside)
	}
	return err
}

func (d *dirHandle) create(name string) (int, error) {
	d.before("openat", name)
	return change.Create(d.dir, name)
}

// dropPart removes a part of the same file that an interrupted run has written. It keeps any other file.
func (d *dirHandle) dropPart(aside string, c *cni.File) error {
	st, err := beneath.StatName(d.dir.FD(), aside)
	if err != nil {
		return err
	}
	if !d.isPart(aside, &st, c) {
		return fmt.Errorf("an interrupted run has left %q; inspect it and remove it", d.filePath(aside))
	}
	if result, err := d.unlink(aside); result != policy.Done && result != policy.Gone {
		return err
	}
	return nil
}

// restoreAttributes restores the file's owner, mode, label and modification time.
func restoreAttributes(fd int, c *cni.File) error {
	if err := unix.Fchown(fd, int(c.Owner[0]), int(c.Owner[1])); err != nil {
		return err
	}
	if err := unix.Fchmod(fd, c.Mode&0o7777); err != nil {
		return err
	}
	if c.Label != "" {
		// Without SELinux the label has no meaning.
		if err := unix.Fsetxattr(fd, "security.selinux", []byte(c.Label), 0); err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
			return fmt.Errorf("cannot set the SELinux label: %w", err)
		}
	}
	if c.Mtime.IsZero() {
		return nil
	}
	return change.SetModTime(fd, c.Mtime)
}
