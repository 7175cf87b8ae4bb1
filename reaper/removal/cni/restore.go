package cni

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/removal/internal/change"
)

// restore writes a file under its other name and then gives it its own, so that no program
// ever finds half of it. What a second run finds when the process was killed after each
// step:
//
//  1. begun: a part of it under the other name: begin again;
//  2. renamed: the file as it was: Gone.
func (d *dirHandle) restore(c *cni.Content) (policy.Result, error) {
	name, aside := c.File.Name, asideName(c.File.Name)
	if result, err := d.vacant(name, c); result != "" {
		return result, err
	}
	if err := d.write(aside, c); err != nil {
		return d.left("write", name, err)
	}
	err := d.rename(aside, name)
	if err == nil {
		d.changed = true
		return policy.Done, nil
	}
	_, _ = d.unlink(aside)
	if errors.Is(err, unix.EEXIST) {
		return policy.Refused, fmt.Errorf("%s was made meanwhile", d.filePath(name))
	}
	return d.left("renameat2", name, err)
}

// vacant says what is there, or "" where nothing is.
func (d *dirHandle) vacant(name string, c *cni.Content) (policy.Result, error) {
	st, err := beneath.StatName(d.fd, name)
	if errors.Is(err, unix.ENOENT) {
		return "", nil
	}
	if err != nil {
		return d.left("statx", name, err)
	}
	id := fileIDOf(&st)
	if _, err := d.known(name, id, c.Data); err == nil {
		return policy.Gone, nil
	}
	words := typeName(st.Mode)
	if st.Mode&unix.S_IFMT == unix.S_IFREG {
		words = fmt.Sprintf("another file of %d bytes", st.Size)
		if c.File.Kind == cni.Address {
			words = "another reservation: the address is in use"
		}
	}
	return policy.Refused, fmt.Errorf("at %s there is %s, changed at %s", d.filePath(name), words,
		time.Unix(0, id.Ctime).UTC().Format(time.RFC3339))
}

// write writes the whole file under its other name.
func (d *dirHandle) write(aside string, c *cni.Content) error {
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
	return change.Create(d.fd, name)
}

// dropPart removes what a run that was cut off had written of the same file. Anything else
// under that name stays.
func (d *dirHandle) dropPart(aside string, c *cni.Content) error {
	other := fmt.Errorf("a run that was cut off has left %q; look at it and remove it", d.filePath(aside))
	st, err := beneath.StatName(d.fd, aside)
	if err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size > uint64(len(c.Data)) {
		return other
	}
	part := c.Data[:st.Size]
	if _, err := d.known(aside, fileIDOf(&st), part); err != nil || !bytes.HasPrefix(c.Data, part) {
		return other
	}
	if result, err := d.unlink(aside); result != policy.Done && result != policy.Gone {
		return err
	}
	return nil
}

// dress gives the file the owner, mode, label and modification time that it had.
func dress(fd int, c *cni.Content) error {
	if err := unix.Fchown(fd, int(c.Owner[0]), int(c.Owner[1])); err != nil {
		return err
	}
	if err := unix.Fchmod(fd, c.Mode&0o7777); err != nil {
		return err
	}
	if c.Label != "" {
		// Without SELinux there is nobody to whom the label says anything.
		if err := unix.Fsetxattr(fd, "security.selinux", []byte(c.Label), 0); err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
			return fmt.Errorf("cannot set the SELinux label: %w", err)
		}
	}
	if c.Mtime.IsZero() {
		return nil
	}
	return change.SetModTime(fd, c.Mtime)
}
