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

// begun is the state of a file that is written under its other name.
const begun policy.Result = "begun"

// restore writes files back, those one after the other that have the same other name.
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

// restoreTogether writes all files under their other names, syncs them, and then renames them to their own, so
// that no program finds a partial file, also after a power cut. A second run after a kill finds:
//
//  1. begun: files and a part of one under the other names: begin again;
//  2. synced: the same;
//  3. renamed: the files as they were: Gone, once they are synced.
func (d *dirHandle) restoreTogether(ctx context.Context, files []int) {
	d.each(ctx, files, d.begin)
	var written []int
	for _, i := range files {
		if d.b.out[i].Result == begun {
			written = append(written, i)
		}
	}
	d.sync("syncfs", files)
	d.dead = nil // one file that cannot be written keeps none from its name that can
	d.each(ctx, slices.DeleteFunc(slices.Clone(written), func(i int) bool { return d.b.out[i].Result != begun }), d.giveName)
	for _, i := range written {
		if d.b.out[i].Result != policy.Done {
			_, _ = d.unlink(asideName(d.b.files[i].Name))
		}
	}
	d.sync("fsync", files)
}

// begin writes a file under its other name.
func (d *dirHandle) begin(c *cni.File) (policy.Result, error) {
	if result, err := d.vacant(c.Name, c); result != "" {
		return result, err
	}
	if err := d.write(asideName(c.Name), c); err != nil {
		return d.left("write", c.Name, err)
	}
	return begun, nil
}

// giveName renames a file to its own name. It replaces no other file.
func (d *dirHandle) giveName(c *cni.File) (policy.Result, error) {
	err := d.rename(asideName(c.Name), c.Name)
	if errors.Is(err, unix.EEXIST) {
		return policy.Refused, fmt.Errorf("%s was made meanwhile", d.filePath(c.Name))
	}
	if err != nil {
		return d.left("renameat2", c.Name, err)
	}
	return policy.Done, nil
}

// vacant returns "" where nothing has the name, else why the file is not written.
func (d *dirHandle) vacant(name string, c *cni.File) (policy.Result, error) {
	st, err := beneath.StatName(d.dir.FD(), name)
	if errors.Is(err, unix.ENOENT) {
		return "", nil
	}
	if err != nil {
		return d.left("statx", name, err)
	}
	id := fileIDOf(&st)
	if _, err := d.known(name, id, c.Data); err == nil {
		d.changed = true // the run before may not have synced
		return policy.Gone, nil
	}
	found, todo := typeName(st.Mode), ""
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
	case d.part(name, &st, c):
		// Another process may be about to write the rest, so it is kept.
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

// part reports whether name is a file with the beginning of the content to write, or all of it.
func (d *dirHandle) part(name string, st *unix.Statx_t, c *cni.File) bool {
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size > uint64(len(c.Data)) {
		return false
	}
	_, err := d.known(name, fileIDOf(st), c.Data[:st.Size])
	return err == nil
}

// write writes the whole file under its other name.
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
		err = dress(fd, c)
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

// dropPart removes what an interrupted run had written of the same file. Anything else
// under that name is kept.
func (d *dirHandle) dropPart(aside string, c *cni.File) error {
	st, err := beneath.StatName(d.dir.FD(), aside)
	if err != nil {
		return err
	}
	if !d.part(aside, &st, c) {
		return fmt.Errorf("an interrupted run has left %q; inspect it and remove it", d.filePath(aside))
	}
	if result, err := d.unlink(aside); result != policy.Done && result != policy.Gone {
		return err
	}
	return nil
}

// dress restores the file's owner, mode, label and modification time.
func dress(fd int, c *cni.File) error {
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
