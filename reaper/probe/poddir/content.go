package poddir

import (
	"bytes"
	"fmt"
	"strings"
	"sync"

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
	PodName policy.PodName    // by etc-hosts, if that was asked for and has it
	Mount   string            // the first mount point that was met
	Err     error
	// Unlisted is the error where the skeleton itself was not read to its end: then it is not
	// known which volumes the pod has.
	Unlisted error

	byKey   map[rowKey]int   // while it is read
	badData map[string]error // by path, why a vol_data.json could not be read
	kept    int              // bytes in VolData
}

// Whole reports whether the walk met all that lies there.
func (c *Content) Whole() bool {
	for _, row := range c.Rows {
		if row.Partial {
			return false
		}
	}
	return c.Err == nil && c.Unlisted == nil
}

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

// crossed notes a mount point that was met, in t where that is not nil.
func (c *Content) crossed(rel []string, t *tree) {
	if t != nil {
		t.Partial = true
	}
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

// hostsName reads the pod's host name, which is its name unless its spec has another,
// from the etc-hosts that the kubelet writes:
//
//	# Kubernetes-managed hosts file.
//	127.0.0.1	localhost
//	10.0.0.7	web-0.web.shop.svc.cluster.local	web-0
//
// With the host's network it is a copy of the host's file.
func hostsName(text []byte) policy.PodName {
	if !bytes.HasPrefix(text, []byte("# Kubernetes-managed hosts file.\n")) {
		return policy.PodName{}
	}
	var last [][]byte
	for line := range bytes.Lines(text) {
		line = bytes.TrimSpace(line)
		if bytes.HasPrefix(line, []byte("# Entries added by HostAliases")) {
			break
		}
		if len(line) > 0 && line[0] != '#' {
			last = bytes.Fields(line)
		}
	}
	if len(last) < 2 {
		return policy.PodName{}
	}
	name := policy.PodName{Name: string(last[len(last)-1])}
	if parts := strings.Split(string(last[1]), "."); len(last) == 3 && len(parts) > 4 && parts[3] == "svc" {
		name.Namespace = parts[2]
	}
	if !policy.IsDNSName(name.Name) || strings.HasPrefix(name.Name, "ip6-") || name.Name == "localhost" ||
		name.Namespace != "" && !policy.IsDNSName(name.Namespace) {
		return policy.PodName{}
	}
	return name
}

// scratch is the memory of a walk, which the next one takes over: nothing of it is in an Answer.
type scratch struct {
	buf     [32 << 10]byte // of a listing
	entries []beneath.Entry
	rel     [deepest + 8]string // the names that lead to what is read; each level overwrites its own
	text    []byte
	byKey   map[rowKey]int
	rows    []policy.Residue
	inodes  []uint64
}

func newScratch() *scratch { return &scratch{byKey: map[rowKey]int{}} }

var scratches sync.Pool

var here = []byte(".")

// join puts a path together, for a row. It lasts until the next.
func (s *scratch) join(rel []string) []byte {
	s.text = s.text[:0]
	for i, name := range rel {
		if i > 0 {
			s.text = append(s.text, '/')
		}
		s.text = append(s.text, name...)
	}
	return s.text
}

// top is the row of something that holds no data: one for each volume, one for each other
// entry of the pod directory, and one for the directories that lead there.
func (s *scratch) top(rel []string, dir bool) []byte {
	depth := 1
	switch rel[0] {
	case "volumes":
		depth = 3
	case "volume-subpaths":
		depth = 2
	}
	if dir && len(rel) < depth {
		return here
	}
	return s.join(rel[:min(depth, len(rel))])
}
