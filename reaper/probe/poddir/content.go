package poddir

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
)

// Volume is one directory below volumes/.
type Volume struct {
	Plugin string // as the kubelet writes it: kubernetes.io~csi
	Name   string
}

// Content is what the walk of one pod directory found.
type Content struct {
	Rows    []policy.Residue
	Volumes []Volume
	VolData map[string]string // by path, vol_data.json as it is
	Inodes  []uint64          // of all that was met, on the directory's device
	PodName policy.PodName    // by etc-hosts, where that was asked for and tells
	Mount   string            // the first mount point that was met
	Err     error
	// Unlisted is the error where the skeleton itself was not read to its end: then it is not
	// known which volumes the pod has.
	Unlisted error

	byKey   map[rowKey]int   // while it is read
	badData map[string]error // by path, why a vol_data.json could not be read
	kept    int              // bytes in VolData
}

// Whole says whether the walk met all that lies there.
func (c *Content) Whole() bool {
	for _, row := range c.Rows {
		if row.Partial {
			return false
		}
	}
	return c.Err == nil && c.Unlisted == nil
}

// note remembers what the walk met.
func (c *Content) note(st *unix.Statx_t) { c.Inodes = append(c.Inodes, st.Ino) }

type rowKey struct {
	path  string
	class contents.Class
}

// add counts into the row of path and class, and returns which row that is.
func (c *Content) add(path []byte, class contents.Class, bytes, entries int64) int {
	i, ok := c.byKey[rowKey{string(path), class}] // no string is made to ask
	if !ok {
		i = c.row(string(path), class)
	}
	c.Rows[i].Bytes += bytes
	c.Rows[i].Entries += entries
	return i
}

// row makes one; beyond mostRows one of the first component, and then one of them all, so that
// no tree makes an endless report.
func (c *Content) row(path string, class contents.Class) int {
	k := rowKey{path, class}
	if len(c.Rows) >= mostRows {
		first, _, below := strings.Cut(path, "/")
		if k.path = "..."; below && len(c.Rows) < mostRows+mostRows/4 {
			k.path = first + "/..."
		}
		if i, ok := c.byKey[k]; ok {
			return i
		}
	}
	c.byKey[k] = len(c.Rows)
	c.Rows = append(c.Rows, policy.Residue{Path: clean.Name(k.path), Class: class})
	return c.byKey[k]
}

func (c *Content) crossed(rel []string) {
	if c.Mount == "" {
		c.Mount = clean.Name(strings.Join(rel, "/"))
	}
}

// fail keeps the first error; what vanished meanwhile is no error.
func (c *Content) fail(rel []string, err error) {
	if c.Err == nil && !beneath.Gone(err) {
		c.Err = fmt.Errorf("cannot read %s: %w", clean.Name(strings.Join(append([]string{"."}, rel...), "/")), err)
	}
}

// unread is fail for the skeleton itself.
func (c *Content) unread(rel []string, err error) {
	if c.fail(rel, err); c.Unlisted == nil && !beneath.Gone(err) {
		c.Unlisted = c.Err
	}
}

func blocksOf(st *unix.Statx_t) int64 { return int64(min(st.Blocks, 1<<53)) * 512 }

func entryType(mode uint16) contents.EntryType {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return contents.TypeRegular
	case unix.S_IFLNK:
		return contents.TypeSymlink
	case unix.S_IFDIR:
		return contents.TypeDirectory
	}
	return contents.TypeOther
}
