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
	Plugin string // as in the path: kubernetes.io~csi
	Name   string
}

// Content has what the walk of one pod directory found.
type Content struct {
	Rows    []policy.Residue
	Volumes []Volume
	VolData map[string]string // the content of each vol_data.json, by path
	Inodes  []uint64          // of all files that were met, on the directory's device
	PodName policy.PodName    // from etc-hosts, if that was read
	Mount   string            // the first mount point that was met
	Err     error
	// Unlisted is why the skeleton was not read completely: then the pod's volumes are unknown.
	Unlisted error

	byKey   map[rowKey]int   // only during the walk
	badData map[string]error // by path, why a vol_data.json could not be read
	kept    int              // bytes in VolData
}

func (c *Content) addInode(st *unix.Statx_t) { c.Inodes = append(c.Inodes, st.Ino) }

type rowKey struct {
	path  string
	class contents.Class
}

// add adds to the row of path and class, and returns its index.
func (c *Content) add(path []byte, class contents.Class, bytes, entries int64) int {
	i, ok := c.byKey[rowKey{string(path), class}] // allocates no string
	if !ok {
		i = c.row(string(path), class)
	}
	c.Rows[i].Bytes += bytes
	c.Rows[i].Entries += entries
	return i
}

// row makes a row. To bound the report, beyond mostRows there is one for each first component, and
// then one for all.
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

// crossed records a mount point that was met, in t unless that is nil.
func (c *Content) crossed(rel []string, t *tree) {
	if t != nil {
		t.Partial = true
	}
	if c.Mount == "" {
		c.Mount = clean.Name(strings.Join(rel, "/"))
	}
}

// fail keeps the first error. A file that vanished meanwhile is no error.
func (c *Content) fail(rel []string, err error) {
	if c.Err == nil && !beneath.Gone(err) {
		c.Err = fmt.Errorf("cannot read %s: %w", clean.Name(strings.Join(append([]string{"."}, rel...), "/")), err)
	}
}

// unread is fail for the skeleton.
func (c *Content) unread(rel []string, err error) {
	if c.fail(rel, err); c.Unlisted == nil && !beneath.Gone(err) {
		c.Unlisted = c.Err
	}
}

func blocksOf(st *unix.Statx_t) int64 { return int64(min(st.Blocks, 1<<53)) * 512 }

// hostsName returns the pod's name from the etc-hosts that the kubelet writes. It is the host name,
// unless the pod's spec has another:
//
//	# Kubernetes-managed hosts file.
//	127.0.0.1	localhost
//	10.0.0.7	web-0.web.shop.svc.cluster.local	web-0
//
// With the host's network the file is a copy of the host's.
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

// scratch is the memory of a walk, which the next one reuses: no Answer refers to it.
type scratch struct {
	buf     [32 << 10]byte // of a listing
	entries []beneath.Entry
	rel     [deepest + 8]string // the path that is being read
	text    []byte
	byKey   map[rowKey]int
	rows    []policy.Residue
	inodes  []uint64
}

func newScratch() *scratch { return &scratch{byKey: map[rowKey]int{}} }

var scratches sync.Pool

var here = []byte(".")

// join joins a path for a row. It is valid until the next join.
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

// top returns the path of the row for an entry of the skeleton: one for each volume, one for each other
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
