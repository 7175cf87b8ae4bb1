package node

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"io"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/fdpath"
)

// readTable reads one table for sure, with all of its mounts.
func (r *mountReader) readTable(pid int) (*table, error) {
	path := r.procPath(pid, "mountinfo")
	fd, err := openProc(path)
	if err != nil {
		return nil, err
	}
	in := &tableReader{fd: fd, path: path}
	defer in.close()
	first, err := in.first()
	if err != nil {
		return nil, err
	}
	r.seen[first] = true
	t := &table{first: first, mounts: map[int]mount{}, shared: map[string]bool{}}
	return t, r.parse(in, owner{}, t)
}

// table has what concerns the pods in one mountinfo, and all mounts of our own one and the kubelet's.
type table struct {
	first  lineSum
	hits   []*mountinfo.Info // those that have a wanted UID, or are of a staged volume
	mounts map[int]mount     // by ID, if they are asked for
	shared map[string]bool   // the peer groups of mounts
}

type mount struct {
	dev             device
	point, optional string
}

type device struct{ major, minor int }

// add adds a mount to those that are asked for.
func (t *table) add(m *mountinfo.Info) {
	if t.mounts == nil {
		return
	}
	t.mounts[m.ID] = mount{device{m.Major, m.Minor}, m.Mountpoint, m.Optional}
	for f := range strings.FieldsSeq(m.Optional) {
		if group, ok := strings.CutPrefix(f, "shared:"); ok {
			t.shared[group] = true
		}
	}
}

// parse reads the table within the budget of its owner.
func (r *mountReader) parse(in *tableReader, o owner, t *table) error {
	r.views++
	b := r.budget(o)
	in.left = b.bytes
	over := false
	_, err := mountinfo.GetMountsFromReader(in, func(m *mountinfo.Info) (skip, stop bool) {
		if b.entries--; b.entries < 0 {
			over = true
			return true, true
		}
		t.add(m)
		if r.concerns(m) {
			t.hits = append(t.hits, m)
		}
		return true, over
	})
	if b.bytes = in.left; over {
		return errBudget
	}
	return cmp.Or(in.err, err) // a line that the budget cuts off is no valid one
}

func (r *mountReader) budget(o owner) *budget {
	if r.budgets[o] == nil {
		r.budgets[o] = &budget{unitBytes, unitEntries}
		if o.pod != "" {
			r.budgets[o] = &budget{podBytes, podEntries}
		}
	}
	return r.budgets[o]
}

// tableReader reads a mountinfo from its beginning, also after its first line was read, and at most left bytes.
type tableReader struct {
	fd   int
	path string
	head []byte // read before
	left int
	err  error
}

// longestFirst bounds the first line. Two paths of 4,096 bytes, each of which is escaped, have 32 KiB.
const longestFirst = 64 << 10

// first returns the first line. Two processes have the same first line only if they share mount namespace and root: the mount
// ID is of one namespace, and the mount point is relative to the root. The kernel formats only the lines that are read.
func (t *tableReader) first() (lineSum, error) {
	const usual = 512
	for len(t.head) < longestFirst {
		n, err := t.raw(usual)
		if err != nil {
			return lineSum{}, err
		}
		if line, _, ok := bytes.Cut(t.head, []byte{'\n'}); ok || n == 0 {
			return sha256.Sum256(line), nil
		}
	}
	return sha256.Sum256(t.head), nil
}

// raw reads up to n bytes into head.
func (t *tableReader) raw(n int) (int, error) {
	at := len(t.head)
	t.head = append(t.head, make([]byte, n)...)
	n, err := fdpath.Retry(func() (int, error) { return unix.Read(t.fd, t.head[at:]) })
	t.head = t.head[:at+max(n, 0)]
	if err != nil {
		return 0, fdpath.PathError("read", t.path, err)
	}
	return n, nil
}

// Read implements io.Reader.
func (t *tableReader) Read(p []byte) (int, error) {
	if t.left <= 0 {
		t.err = errBudget
		return 0, errBudget
	}
	if len(t.head) > 0 {
		n := copy(p, t.head)
		t.head = t.head[n:]
		t.left -= n
		return n, nil
	}
	n, err := fdpath.Retry(func() (int, error) { return unix.Read(t.fd, p[:min(len(p), t.left)]) })
	switch {
	case err != nil:
		return 0, fdpath.PathError("read", t.path, err)
	case n == 0:
		return 0, io.EOF
	}
	t.left -= n
	return n, nil
}

// close closes the table's file.
func (t *tableReader) close() { fdpath.Close(t.fd) }
