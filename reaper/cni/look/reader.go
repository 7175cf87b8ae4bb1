package look

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/procfs"
)

// Reader has the directories of CNI's files and of the other sources. New replaces a zero field by its usual value,
// below NodeRoot.
type Reader struct {
	Node     Node
	NodeRoot string
	// Self means that this process is in the node's namespaces. If not, a missing path is opened as PID 1 sees it.
	Self bool
	// CacheDirs are the cache directories of libcni, Multus and flannel, and DataDirs those of host-local,
	// besides the ones in a configuration.
	CacheDirs, DataDirs []string
	// ConfDir has the network configurations. Unless ConfDirSet, the directories of distributions are read too.
	ConfDir    string
	ConfDirSet bool
	NetnsDirs  []string // where network namespaces are bound
	// TaskDirs have an entry for each running container, and Stores for each container of an engine other than the
	// kubelet's. An entry's name is the whole ID. "*" matches one name, which at the end of a task directory is
	// containerd's namespace.
	TaskDirs, Stores []string
	ProcDir          string
	Now              func() policy.Instant
	Open             *beneath.Opener
	Guard            *bounded.Guard
	Chunk            int // the most files of a chunk; 0 is usualChunk
}

// Node is the part of probe.Probe that this package uses.
type Node interface {
	// Containers returns the facts about all containers, after a chunk was read. dir is a directory of the chunk or nil.
	Containers(ctx context.Context, dir *bounded.Handle) probe.Containers
}

// New completes a Reader.
func New(r Reader) (*Reader, error) {
	r.ConfDir = cmp.Or(r.ConfDir, filepath.Join("/", r.NodeRoot, "etc/cni/net.d"))
	r.ProcDir = cmp.Or(r.ProcDir, "/proc")
	for _, d := range []struct {
		paths *[]string
		usual []string
	}{
		{&r.CacheDirs, []string{"/var/lib/cni"}},
		{&r.DataDirs, []string{cni.HostLocalDir}},
		{&r.NetnsDirs, []string{"/run/netns", "/var/run/netns"}},
		{&r.TaskDirs, usualTaskDirs()},
		{&r.Stores, usualStores},
	} {
		if *d.paths != nil {
			continue
		}
		for _, path := range d.usual {
			*d.paths = append(*d.paths, filepath.Join("/", r.NodeRoot, path))
		}
	}
	var err error
	r.Guard = &bounded.Guard{}
	r.Open, err = beneath.New(false)
	return &r, err
}

// openPath opens a directory by its configured path, following links.
func openPath(path string) (int, error) {
	fd, err := beneath.Retry(func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return -1, beneath.PathError("open", path, err)
	}
	return fd, nil
}

// openUsual opens a directory at its usual path. A path that is missing in our container may exist on the node: a
// living namespace or task in it must not count as gone.
func (r *Reader) openUsual(path string) (int, error) {
	fd, err := openPath(path)
	if beneath.Gone(err) {
		return r.openOnNode(path, unix.O_RDONLY|unix.O_DIRECTORY, err)
	}
	return fd, err
}

// openOnNode opens a path as PID 1 sees it. It returns gone if PID 1 has the same mounts as this process, by the first
// line of mountinfo: a confined daemon may read that, but not PID 1's root directory.
func (r *Reader) openOnNode(path string, flags int, gone error) (int, error) {
	if r.Self {
		return -1, gone
	}
	ours, err := procfs.FirstMountAt(r.ProcDir + "/self/mountinfo")
	theirs, err1 := procfs.FirstMountAt(r.ProcDir + "/1/mountinfo")
	if err == nil && err1 == nil && bytes.Equal(ours, theirs) {
		return -1, gone
	}
	root := -1
	if err = cmp.Or(err, err1); err == nil {
		root, err = beneath.Retry(func() (int, error) {
			return unix.Open(r.ProcDir+"/1/root", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		})
	}
	if err != nil {
		return -1, fmt.Errorf("what the node has at %s is not known: %v", clean.Name(path), err) //nolint:errorlint // it is not gone
	}
	defer beneath.Close(root)
	how := unix.OpenHow{Flags: uint64(flags) | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	fd, err := beneath.Retry(func() (int, error) { return unix.Openat2(root, path, &how) })
	if err != nil {
		return -1, beneath.PathError("openat2", path+" of PID 1", err)
	}
	return fd, nil
}

// directory is one directory in which CNI keeps files.
type directory struct {
	kind cni.Kind
	// base is configured and may be behind symlinks; names below it are opened one step at a time.
	base  string
	names []string
}

// path returns the whole path, for messages and File.Dir.
func (d directory) path() string { return filepath.Join(d.base, filepath.Join(d.names...)) }

// cacheDirs returns the caches below the cache directories, in the order in which they are read: the delegates of
// flannel and Multus, a file for each sandbox; libcni's own cache; the cache of dockershim and cri-dockerd
// (--cni-cache-dir, kubernetes PR 78908); and that of Multus since 3.7.2.
func (r *Reader) cacheDirs() (dirs []directory) {
	for _, c := range []directory{
		{kind: cni.Flannel, names: []string{"flannel"}},
		{kind: cni.Multus, names: []string{"multus"}},
		{kind: cni.Cache, names: []string{"results"}},
		{kind: cni.Cache, names: []string{"cache", "results"}},
		{kind: cni.Cache, names: []string{"multus", "results"}},
	} {
		for _, base := range r.CacheDirs {
			dirs = append(dirs, directory{c.kind, base, c.names})
		}
	}
	return dirs
}

// open opens the directory, which may be a mount point: some nodes keep the caches on a tmpfs, which a boot clears.
func (d directory) open(o *beneath.Opener) (*beneath.Dir, error) {
	return o.Descend(d.base, d.names...)
}

// cannotRead adds what to an error. It returns nil for a missing directory, which counts as empty.
func cannotRead(what string, err error) error {
	if err == nil || beneath.Gone(err) {
		return nil
	}
	return fmt.Errorf("cannot read %s: %w", what, err)
}

// skips reports whether a name is not a reservation or result.
func (d directory) skips(e beneath.Entry) bool {
	switch d.kind {
	case cni.Address:
		return e.Name == "lock" || strings.HasPrefix(e.Name, "last_reserved_ip.")
	case cni.Multus:
		return e.Name == "results" && (e.Kind == unix.DT_DIR || e.Kind == unix.DT_UNKNOWN)
	case cni.Cache, cni.Flannel:
	}
	return false
}

// mostNetworks limits the networks of one data directory.
const mostNetworks = 10_000

// networks returns the names of host-local's networks, sorted.
func (r *Reader) networks(ctx context.Context, base string) ([]string, error) {
	names, err := bounded.Try(ctx, r.Guard, "cni "+base, func() (names []string, err error) {
		fd, err := openPath(base)
		if err != nil {
			return nil, err
		}
		defer beneath.Close(fd)
		entries, err := beneath.List(fd, mostNetworks)
		for _, d := range entries {
			// A symlink is included, so that opening it reports an error.
			if d.Kind == unix.DT_DIR || d.Kind == unix.DT_UNKNOWN || d.Kind == unix.DT_LNK {
				names = append(names, d.Name)
			}
		}
		slices.Sort(names)
		return names, err
	})
	return names, cannotRead("the networks in "+clean.Name(base), err)
}

// Dirs returns the directories in and below which CNI keeps its files: the configured ones and every dataDir in a
// network configuration.
func (r *Reader) Dirs() []string {
	return slices.Concat(r.CacheDirs, r.DataDirs, r.readConfs(context.Background()).dataDirs)
}

// dirOf returns the directory of a file.
func (r *Reader) dirOf(f *cni.File) (directory, error) {
	if f.Kind == cni.Address {
		return directory{f.Kind, filepath.Dir(f.Dir), []string{filepath.Base(f.Dir)}}, nil
	}
	for _, d := range r.cacheDirs() {
		if d.kind == f.Kind && d.path() == f.Dir {
			return d, nil
		}
	}
	return directory{}, fmt.Errorf("%s is below no cache directory", clean.Name(f.Dir))
}

var errChanged = errors.New("it is no longer what was judged")

// StillCNI checks files again before they are archived, and sets Err of those that are missing or changed: an undo
// must not bring back a file that a plugin's DEL has removed. It opens no file.
func (r *Reader) StillCNI(ctx context.Context, files []cni.File) {
	byDir := map[string][]int{}
	for i := range files {
		byDir[files[i].Dir] = append(byDir[files[i].Dir], i)
	}
	for _, in := range byDir {
		for some := range slices.Chunk(in, batchSize) {
			r.stillIn(ctx, files, some)
		}
	}
}

// stillIn checks some files of one directory.
func (r *Reader) stillIn(ctx context.Context, files []cni.File, some []int) {
	errs := make([]error, len(some))
	d, err := r.dirOf(&files[some[0]])
	if err == nil {
		names, ids := make([]string, len(some)), make([]cni.FileID, len(some)) // a call that hangs must not use files later
		for n, i := range some {
			names[n], ids[n] = files[i].Name, files[i].ID
		}
		errs, err = bounded.Try(ctx, r.Guard, "cni still "+d.path(), func() ([]error, error) { return d.changes(r.Open, names, ids) })
	}
	for n, i := range some {
		f := &files[i]
		if err != nil {
			f.Err = cmp.Or(f.Err, fmt.Sprintf("cannot read %s: %v", clean.Name(f.Dir), err))
		} else if errs[n] != nil {
			f.Err = cmp.Or(f.Err, errs[n].Error())
		}
	}
}

// changes returns for each name nil, or why it is no longer the file with that ID.
func (d directory) changes(o *beneath.Opener, names []string, ids []cni.FileID) ([]error, error) {
	dir, err := d.open(o)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	errs := make([]error, len(names))
	for i, name := range names {
		switch st, err := dir.StatName(name); {
		case err != nil:
			errs[i] = beneath.PathError("statx", name, err)
		case cni.FileID(beneath.StateOf(&st)) != ids[i]:
			errs[i] = errChanged
		}
	}
	return errs, nil
}
