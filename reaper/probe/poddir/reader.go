package poddir

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
)

// Reader reads the directories of pods, and the kubelet's files about pods.
type Reader struct {
	RootDir, QuarantineDir string
	Entries                int // the limit of entries of one directory; the default is mostEntries
	Open                   *beneath.Opener
	Guard                  *bounded.Guard

	// stat is beneath.Stat if nil. Tests replace it, since few machines have a btrfs.
	stat func(fd int) (unix.Statx_t, error)
}

// Dirs has the open directories of one look, and every name in the pods directory.
type Dirs struct {
	Root, Pods *bounded.Handle
	Quarantine *bounded.Handle // nil if there is none
	Names      []beneath.Entry // of the pods directory, sorted

	csi    *bounded.Handle // plugins/kubernetes.io/csi, nil if there is none
	csiErr error
}

// Close closes all directories.
func (d *Dirs) Close() {
	d.Root.Unref()
	d.Pods.Unref()
	d.Quarantine.Unref()
	d.csi.Unref()
}

// Discard closes the result of a listing that came too late.
func (d *Dirs) Discard() { d.Close() }

// Kind returns the type (DT_…) of a name in the listing of the pods directory, and false if it is not there.
func (d *Dirs) Kind(name string) (uint8, bool) {
	i, ok := slices.BinarySearchFunc(d.Names, name, func(e beneath.Entry, name string) int { return strings.Compare(e.Name, name) })
	if !ok {
		return 0, false
	}
	return d.Names[i].Kind, true
}

// mostNames bounds the pods directory; a node runs some hundred pods.
const mostNames = 1_000_000

// List opens the root directory and the pods directory in it, and lists the latter. The root
// directory may be a symlink, since the administrator chose it, and pods may be a mount point, since
// some nodes have a disk for it.
func (r *Reader) List(ctx context.Context) (*Dirs, error) {
	d, err := bounded.Try(ctx, r.Guard, "pods directory", r.readListing)
	if err != nil {
		return nil, fmt.Errorf("cannot list the pods directory %s/pods: %w", r.RootDir, err)
	}
	return d, nil
}

func (r *Reader) readListing() (*Dirs, error) {
	root, err := openNamed(r.RootDir)
	if err != nil {
		return nil, err
	}
	d := &Dirs{Root: root}
	pods, err := r.Open.At(root.FD).Cross("pods")
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		if st, serr := beneath.StatName(root.FD, "pods"); serr == nil {
			err = fmt.Errorf("it is %s: %w", beneath.TypeName(st.Mode), err)
		}
	}
	if err == nil {
		d.Pods = bounded.NewHandle(pods.FD())
		d.Names, err = beneath.List(pods.FD(), mostNames)
		d.Names = slices.DeleteFunc(d.Names, isLostFound)
	}
	if err != nil {
		d.Close()
		return nil, err
	}
	slices.SortFunc(d.Names, func(a, b beneath.Entry) int { return strings.Compare(a.Name, b.Name) })
	return d, nil
}

// isLostFound reports whether an entry is a file system's own directory, mklost+found(8), which a disk for the pods has.
func isLostFound(e beneath.Entry) bool {
	return e.Name == "lost+found" && (e.Kind == unix.DT_DIR || e.Kind == unix.DT_UNKNOWN)
}

// openNamed opens a directory that the administrator chose.
func openNamed(path string) (*bounded.Handle, error) {
	fd, err := beneath.OpenTrusted(unix.AT_FDCWD, path, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	return bounded.NewHandle(fd), nil
}

// beside is the result of OpenBeside; a handle is nil if the directory does not exist.
type beside struct {
	quarantine, csi *bounded.Handle
	err, csiErr     error
}

func (b beside) Discard() {
	b.quarantine.Unref()
	b.csi.Unref()
}

// OpenBeside opens the quarantine, and the directory in which CSI volumes are staged. A directory that does
// not exist is no error.
func (r *Reader) OpenBeside(ctx context.Context, d *Dirs) (quarantine, csi error) {
	a, err := bounded.On(ctx, r.Guard, "quarantine", d.Root, func(root int) (a beside) {
		h, err := openNamed(r.QuarantineDir)
		if a.quarantine = h; err != nil && !beneath.Gone(err) {
			a.err = fmt.Errorf("cannot open the quarantine: %w", beneath.PathError("open", r.QuarantineDir, err))
		}
		csi, err := r.Open.At(root).Walk("plugins", "kubernetes.io", "csi")
		if err == nil {
			a.csi = bounded.NewHandle(csi.FD())
		} else if !beneath.Gone(err) {
			a.csiErr = fmt.Errorf("cannot open plugins/%s: %w", CSIDir, err)
		}
		return a
	})
	if err != nil {
		a.csiErr = fmt.Errorf("cannot open plugins/%s: %w", CSIDir, err)
	}
	d.Quarantine, d.csi, d.csiErr = a.quarantine, a.csi, a.csiErr
	return a.err, a.csiErr
}

// CSIErr returns why the directory in which CSI volumes are staged could not be opened.
func (d *Dirs) CSIErr() error { return d.csiErr }
