package quarantine

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/fdpath"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// Config configures where a Quarantine works.
type Config struct {
	// PodsDir is the kubelet's pods directory: its root directory, which may be behind a symbolic link, and one name.
	PodsDir string
	// Dir is the quarantine, on the same mount as PodsDir and outside it. Make or the first move makes it, with mode 0700.
	Dir string
	// Logger gets what stops no move, such as a manifest that could not be written. nil discards it.
	Logger *slog.Logger
	// NoOpenat2 makes tests compare mount IDs on a kernel that has openat2.
	NoOpenat2 bool
}

// Quarantine moves pod directories and removes what lies in quarantine. It holds no descriptor between calls: the pods
// directory may be replaced, and an open descriptor would make an administrator's umount fail. Safe for use by several
// goroutines; one batch runs at a time.
type Quarantine struct {
	root, pods   string // the kubelet's root, and the name of the pods directory in it
	parent, name string // of the quarantine
	log          *slog.Logger
	open         *fdpath.Opener
	landlock     landlock
	disk         disk
	guards       guards
	clock        func() time.Time

	running sync.Mutex // held by the batch that runs
	progress
}

// guards are the checks between steps, so that a test can turn one off and show what is lost without it. Open sets all.
type guards struct {
	noreplace uint                              // renameat2's flag
	same      func(want, got judge.FileID) bool // is it the directory that was judged?
	moved     bool                              // check that open directories are still in their parents
	unused    bool                              // check a directory that is to be exchanged
	liftFrom  int                               // see removal.lift
	topmost   bool                              // check the ID of a mount right before it is unmounted
}

// Open returns a Quarantine for the given directories, which need not exist yet. It tests what the kernel has, and changes
// nothing.
func Open(cfg Config) (*Quarantine, error) {
	pods, dir := filepath.Clean(cfg.PodsDir), filepath.Clean(cfg.Dir)
	switch {
	case !filepath.IsAbs(pods) || pods == "/":
		return nil, fmt.Errorf("cannot use %q as the pods directory: it is not an absolute path", cfg.PodsDir)
	case !filepath.IsAbs(dir) || dir == "/":
		return nil, fmt.Errorf("cannot use %q as the quarantine: it is not an absolute path", cfg.Dir)
	case dir == pods || strings.HasPrefix(dir, pods+"/"):
		return nil, fmt.Errorf("cannot use %q as the quarantine: the kubelet treats every directory in %s as a pod", dir, pods)
	case strings.HasPrefix(pods, dir+"/"):
		return nil, fmt.Errorf("cannot use %q as the quarantine: it holds %s", dir, pods)
	}
	open, err := fdpath.New(cfg.NoOpenat2)
	if err != nil {
		return nil, err
	}
	q := &Quarantine{
		root: filepath.Dir(pods), pods: filepath.Base(pods), parent: filepath.Dir(dir), name: filepath.Base(dir),
		log: cfg.Logger, open: open, landlock: newLandlock(), disk: kernel{},
		guards: guards{noreplace: unix.RENAME_NOREPLACE, same: same, moved: true, unused: true, liftFrom: liftFrom, topmost: true},
		clock:  time.Now, //nolint:forbidigo // for Stuck alone; no move depends on it
	}
	if q.log == nil {
		q.log = slog.New(slog.DiscardHandler)
	}
	return q, nil
}

// podsPath and path return paths for messages; no system call gets them.
func (q *Quarantine) podsPath(name string) string { return filepath.Join(q.root, q.pods, name) }

func (q *Quarantine) path(name string) string { return filepath.Join(q.parent, q.name, name) }

// Means reports how the kernel confines a batch, for display: by openat2 and by Landlock.
func (q *Quarantine) Means() (openat2, landlock judge.Fact) {
	openat2 = judge.Fact{Truth: judge.Yes, Detail: "the kernel stops each step at a mount"}
	if why := q.open.Fallback(); why != nil {
		openat2 = judge.Fact{Truth: judge.No, Detail: fmt.Sprintf("mount IDs are compared instead: %v", why)}
	}
	return openat2, q.landlock.fact()
}

// Movable returns why nothing can be moved to the quarantine, as far as that shows without a try. It changes nothing.
func (q *Quarantine) Movable() error {
	defer q.opening()()
	h := q.openHandles(false)
	defer h.close()
	if h.absent && h.podsErr == nil { // it will be made in its parent directory
		parent, err := q.open.Open(q.parent)
		if err != nil {
			return err
		}
		h.quar, h.quarErr = &fdpath.Level{Dir: parent}, nil
	}
	return h.movable()
}

// Make makes a missing quarantine.
func (q *Quarantine) Make(permit judge.Permit) error {
	if !permit.MayRemove() {
		return errNoPermit
	}
	defer q.opening()()
	h := q.openHandles(true)
	defer h.close()
	return h.movable()
}

// opening notes for Stuck that both directories are being opened: the caller waits for a disk that hangs.
func (q *Quarantine) opening() (end func()) {
	q.running.Lock()
	q.at(&fdpath.Level{Name: q.podsPath("")}, "")
	return func() {
		q.at(nil, "")
		q.running.Unlock()
	}
}

// Where returns the directory pods/UID and that of the entry in quarantine; zero if it is not there. What is no directory,
// or is a mount point, is an error. A quarantine that does not exist yet is empty; if its parent does not exist, it is not
// known what lies in it.
//
// It is the recovery of an intent that has no result. The killed run may not have synced its rename, so both directories are
// synced before Where returns: the caller writes the result to the ledger.
func (q *Quarantine) Where(uid parsers.PodUID, entry string) (inPods, inQuarantine judge.FileID, err error) {
	if err := validate(uid, entry); err != nil {
		return inPods, inQuarantine, err
	}
	defer q.opening()()
	h := q.openHandles(false)
	defer h.close()
	if h.podsErr != nil {
		return inPods, inQuarantine, h.podsErr
	}
	if inPods, err = h.pods.Identify(string(uid)); err != nil && !errors.Is(err, unix.ENOENT) {
		return inPods, inQuarantine, fdpath.OpenError(q.podsPath(string(uid)), err)
	}
	if h.absent {
		return inPods, inQuarantine, q.syncAll(h.pods)
	}
	if h.quarErr != nil {
		return inPods, inQuarantine, h.quarErr
	}
	if inQuarantine, err = h.quar.Identify(entry); err != nil && !errors.Is(err, unix.ENOENT) {
		return inPods, inQuarantine, fdpath.OpenError(q.path(entry), err)
	}
	if inQuarantine != (judge.FileID{}) { // the target of the rename first
		return inPods, inQuarantine, q.syncAll(h.quar, h.pods)
	}
	return inPods, inQuarantine, q.syncAll(h.pods, h.quar)
}

// syncAll syncs the directories in this order, and stops at the first error.
func (q *Quarantine) syncAll(dirs ...*fdpath.Level) error {
	for _, d := range dirs {
		q.at(d, "")
		if err := q.disk.sync(d.Dir); err != nil {
			return fdpath.PathError("fsync", d.Name, err)
		}
	}
	return nil
}

// List returns the sorted names of the entries in quarantine, without manifests, whether or not the ledger has them.
func (q *Quarantine) List() ([]string, error) {
	h := q.openHandles(false)
	defer h.close()
	if h.absent {
		return nil, nil
	}
	if h.quarErr != nil {
		return nil, h.quarErr
	}
	all, err := h.quar.List(math.MaxInt)
	if err != nil {
		return nil, fdpath.PathError("getdents64", q.path(""), err)
	}
	var names []string
	for _, e := range all {
		if !strings.HasSuffix(e.Name, manifestSuffix) {
			names = append(names, e.Name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// validate checks both names of a move. They come from the ledger or from an operator.
func validate(uid parsers.PodUID, entry string) error {
	if _, ok := parsers.ParsePodUID(string(uid)); !ok {
		return fmt.Errorf("%q is no pod UID", string(uid))
	}
	rest, ok := strings.CutPrefix(entry, string(uid)+".")
	switch {
	case !ok || rest == "" || strings.ContainsAny(entry, "/\x00"):
		return fmt.Errorf("%q is no quarantine entry of pod %s", entry, uid)
	case strings.HasSuffix(entry, manifestSuffix):
		return fmt.Errorf("%q is the name of a manifest", entry)
	case len(entry) > 200: // the names that are made of it must still fit into 255 bytes
		return fmt.Errorf("%q is too long for a quarantine entry", entry)
	}
	return nil
}

// same reports whether got is the directory that was judged during this boot.
func same(want, got judge.FileID) bool { return want == got && want != judge.FileID{} }
