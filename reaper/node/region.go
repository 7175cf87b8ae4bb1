package node

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/fdpath"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// The name of a pod in a mount's path is a hint only: any user can mount at a path of any name in a namespace of their own. The
// place of a mount point is that of its parent mount: device, root and the path below it. It is the same in every namespace,
// whatever other path leads there.

// region is one of our directories in the terms of mountinfo.
type region struct {
	dev   device
	path  string // from the root of the file system
	mount int    // the ID of the mount that it lies on, in our namespace
}

// regions are the pods directory and the quarantine, and the directory of staged volumes.
type regions struct {
	pods    []region
	plugins []region
}

func (r *regions) has(dev device) bool { return len(r.pods) > 0 && r.pods[0].dev == dev }

type location uint8

const (
	elsewhere location = iota
	inPods
	inPlugins
)

// findRegions finds our directories in our own table.
func (r *mountReader) findRegions() (regions, error) {
	var found regions
	for _, d := range []struct {
		path string
		to   *[]region
	}{
		{r.cfg.RootDir + "/pods", &found.pods}, {r.cfg.QuarantineDir, &found.pods}, {r.cfg.RootDir + "/" + csiDir, &found.plugins},
	} {
		at, err := r.regionOf(d.path)
		switch {
		case fdpath.Gone(err):
		case err != nil:
			return regions{}, fmt.Errorf("cannot find out on which mount %s lies: %w", d.path, err)
		default:
			*d.to = append(*d.to, at)
		}
	}
	return found, nil
}

func (r *mountReader) regionOf(dir string) (region, error) {
	at, err := r.open.Open(dir)
	if err != nil {
		return region{}, err
	}
	defer at.Close()
	id, err := at.MountID()
	if err != nil {
		return region{}, err
	}
	m, ok := r.own.byID[int(id)] //nolint:gosec // the kernel's mount IDs are an int
	if !ok {
		return region{}, fmt.Errorf("mount %d is not in our mountinfo", id)
	}
	full, err := os.Readlink("/proc/thread-self/fd/" + strconv.Itoa(at.FD()))
	if err != nil {
		return region{}, err
	}
	below, ok := relative(full, m.point)
	if !ok {
		return region{}, fmt.Errorf("%s is not below its mount point %s", full, m.point)
	}
	return region{m.dev, path.Join(m.root, below), int(id)}, nil //nolint:gosec // the same
}

// relative returns the path below dir.
func relative(at, dir string) (string, bool) {
	if dir == "/" {
		return strings.TrimPrefix(at, "/"), strings.HasPrefix(at, "/")
	}
	rest, ok := strings.CutPrefix(at, dir)
	if !ok || rest != "" && rest[0] != '/' {
		return "", false
	}
	return strings.TrimPrefix(rest, "/"), true
}

// place returns in which of our directories the mount point lies, and its path below that.
func (r *mountReader) place(t *table, m *mountinfo.Info) (string, location) {
	parent, ok := t.byID[m.Parent]
	if !ok {
		return "", elsewhere
	}
	below, ok := relative(m.Mountpoint, parent.point)
	if !ok {
		return "", elsewhere
	}
	at := path.Join(parent.root, below)
	for _, l := range [...]struct {
		in []region
		is location
	}{{r.regions.pods, inPods}, {r.regions.plugins, inPlugins}} {
		for _, region := range l.in {
			if rest, ok := relative(at, region.path); ok && rest != "" && parent.dev == region.dev {
				return rest, l.is
			}
		}
	}
	return "", elsewhere
}

// seesMounts reports whether what is mounted on our directories in the kubelet's mount namespace, or in that of PID 1 where
// no kubelet runs, is mounted here, too. From a private namespace rmdir of a directory that is a mount point on the host
// succeeds, and detaches the host's mount (measured, Linux 6.18).
func (r *mountReader) seesMounts() judge.Fact {
	f := judge.Fact{Source: r.cfg.Proc}
	if r.kubelet == 0 {
		// PROC_PID_INIT_INO of linux/proc_ns.h, the same on every machine.
		if link, err := os.Readlink(r.cfg.Proc + "/self/ns/pid"); err != nil || link != "pid:[4026531836]" {
			f.Truth, f.Detail = judge.No, "this is neither the host's PID namespace nor one where the kubelet runs; run on the host, or in the host's PID namespace"
			return f
		}
	}
	if r.own.first == r.host.first {
		f.Truth, f.Detail = judge.Yes, "the mount namespace of the kubelet"
		return f
	}
	if len(r.regions.pods) == 0 {
		f.Detail = "the pods directory was not found"
		return f
	}
	for _, at := range r.regions.pods {
		if !r.follows(at.mount) {
			f.Truth = judge.No
			f.Detail = "the host's later mounts do not come to " + r.own.byID[at.mount].point + " in this mount namespace: in a container mount it " +
				"with mountPropagation: HostToContainer; from a unit remove what makes the namespace (ProtectSystem=, PrivateTmp=, ReadWritePaths=, MountFlags=private and the like)"
			return f
		}
	}
	f.Truth, f.Detail = judge.Yes, "the kubelet's mounts come to this mount namespace"
	return f
}

// follows reports whether a mount of ours is a slave or a peer of one of the host's (mount_namespaces(7)).
func (r *mountReader) follows(mount int) bool {
	for _, f := range r.own.peers[mount] {
		if tag, group, _ := strings.Cut(f, ":"); (tag == "master" || tag == "shared") && r.host.shared[group] {
			return true
		}
	}
	return false
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
