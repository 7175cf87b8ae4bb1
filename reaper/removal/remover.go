package removal

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/removal/confine"
)

// Config configures where a Remover works.
type Config struct {
	// PodsDir is the kubelet's pods directory: its root directory, which may be behind a
	// symbolic link, and one name.
	PodsDir string
	// QuarantineDir is on the same mount as PodsDir, outside it, and is made with mode
	// 0700 by the first park if it is not there. "" is orphan-reaper beside PodsDir.
	QuarantineDir string
	// Used reports whether anything now uses the pod directory that was recreated after since: it reads the mounts
	// of all namespaces, open files and the runtime. It is called before that directory is exchanged with the parked
	// one, on a goroutine that may read the node. If it is nil or returns Unknown, nothing is exchanged.
	Used func(ctx context.Context, uid parsers.PodUID, since policy.Instant) policy.Fact
	// Logger gets messages that belong to no pod. nil discards them.
	Logger *slog.Logger
	// NoOpenat2 makes tests compare mount IDs on a kernel that has openat2.
	NoOpenat2 bool
	// Grace is how long Execute waits for a pending system call after its context has ended. 0 is 10 s.
	Grace time.Duration
}

// Remover moves pod directories and removes from quarantine. It holds no descriptor between calls: the pods
// directory may be replaced, and an open descriptor would make an administrator's umount fail. Safe for use by
// several goroutines; one batch runs at a time.
type Remover struct {
	root, pods string // the kubelet's root, and the name of the pods directory in it
	quarParent string
	quar       string
	log        *slog.Logger
	open       *beneath.Opener
	run        *confine.Runner
	used       func(context.Context, parsers.PodUID, policy.Instant) policy.Fact
	guards     guards
	threads    int // at most this many remove at once
}

// mostThreads limits the threads of a batch that removes: they share one file system and its journal.
const mostThreads = 4

// guards are the checks between steps, as values so that a test can disable one and show the consequence. Only
// Open sets them, and sets all.
type guards struct {
	noreplace uint                              // renameat2's flag
	same      func(want, got policy.DirID) bool // Park's check of identity
	hangs     bool                              // check that open directories are still in their parents
	used      bool                              // keep a recreated directory that is used
	liftFrom  int                               // see lift
	// before is called before each system call that changes the disk, on the batch's own thread. Only tests set it.
	before func(op, name string)
}

// Open returns a Remover for the given directories, which need not exist yet. It checks whether the kernel has
// openat2 and Landlock. It changes nothing.
func Open(cfg Config) (*Remover, error) {
	pods := filepath.Clean(cfg.PodsDir)
	if !filepath.IsAbs(pods) || pods == "/" {
		return nil, fmt.Errorf("cannot use %q as the pods directory: not an absolute path", cfg.PodsDir)
	}
	quar := filepath.Join(filepath.Dir(pods), "orphan-reaper")
	if cfg.QuarantineDir != "" {
		quar = filepath.Clean(cfg.QuarantineDir)
	}
	switch {
	case !filepath.IsAbs(quar) || quar == "/":
		return nil, fmt.Errorf("cannot use %q as the quarantine: not an absolute path", cfg.QuarantineDir)
	case quar == pods || strings.HasPrefix(quar, pods+"/"):
		return nil, fmt.Errorf("cannot use %q as the quarantine: the kubelet treats every directory in %s as a pod", quar, pods)
	case strings.HasPrefix(pods, quar+"/"):
		return nil, fmt.Errorf("cannot use %q as the quarantine: it holds %s", quar, pods)
	}
	open, err := beneath.New(cfg.NoOpenat2)
	if err != nil {
		return nil, err
	}
	r := &Remover{
		root: filepath.Dir(pods), pods: filepath.Base(pods),
		quarParent: filepath.Dir(quar), quar: filepath.Base(quar),
		log: cfg.Logger, open: open,
		used: cfg.Used, threads: min(mostThreads, runtime.GOMAXPROCS(0)),
		guards: guards{noreplace: unix.RENAME_NOREPLACE, same: same, hangs: true, used: true, liftFrom: liftFrom},
	}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	grace := cfg.Grace
	if grace <= 0 {
		grace = 10 * time.Second
	}
	r.run = confine.New(grace, r.log)
	return r, nil
}

// Means reports how the Remover is confined, for messages.
func (r *Remover) Means() policy.Means {
	m := policy.Means{
		Openat2:  policy.Fact{Truth: policy.Yes, Detail: "the kernel stops each step at a mount"},
		Landlock: r.run.Landlock(),
	}
	if why := r.open.Fallback(); why != nil {
		m.Openat2 = policy.Fact{Truth: policy.No, Detail: fmt.Sprintf("mount IDs are compared instead: %v", why)}
	}
	return m
}

// podsPath and quarPath return paths for messages; no system call gets them.
func (r *Remover) podsPath(name string) string { return filepath.Join(r.root, r.pods, name) }

func (r *Remover) quarPath(name string) string { return filepath.Join(r.quarParent, r.quar, name) }

// Home identifies the parent directory of the quarantine, by default the kubelet's root directory, and the
// quarantine. The identities change when a file system is mounted over either. The quarantine's is zero if it
// does not exist or cannot be used.
func (r *Remover) Home() (parent, quarantine policy.DirID, err error) {
	dir, err := r.open.Open(r.quarParent)
	if err != nil {
		return policy.DirID{}, policy.DirID{}, err
	}
	defer dir.Close()
	if parent, err = dir.ID(); err != nil {
		return policy.DirID{}, policy.DirID{}, beneath.PathError("statx", r.quarParent, err)
	}
	if id, err := dir.Identify(r.quar); err == nil {
		quarantine = id
	}
	return parent, quarantine, nil
}

// Where reports whether pods/UID exists, whatever its type, and whether the quarantine has the entry. It returns
// an error if the pods directory cannot be read. A quarantine that does not exist yet is empty.
func (r *Remover) Where(uid parsers.PodUID, entry string) (inPods, inQuarantine bool, err error) {
	if err := validate(uid, entry); err != nil {
		return false, false, err
	}
	h := r.openHandles(false)
	defer h.close()
	if h.podsErr != nil {
		return false, false, h.podsErr
	}
	inPods, err = h.pods.Exists(string(uid))
	if err != nil {
		return false, false, beneath.PathError("statx", r.podsPath(string(uid)), err)
	}
	if h.absent {
		return inPods, false, nil
	}
	if h.quarErr != nil {
		return false, false, h.quarErr
	}
	inQuarantine, err = h.quar.Exists(entry)
	if err != nil {
		return false, false, beneath.PathError("statx", r.quarPath(entry), err)
	}
	return inPods, inQuarantine, nil
}

// List returns the sorted names of the entries in quarantine, without manifests, whether or not the ledger has
// them.
func (r *Remover) List() ([]string, error) {
	h := r.openHandles(false)
	defer h.close()
	if h.absent {
		return nil, nil
	}
	if h.quarErr != nil {
		return nil, h.quarErr
	}
	all, err := r.quarNames(h)
	return slices.DeleteFunc(all, func(name string) bool { return strings.HasSuffix(name, manifestSuffix) }), err
}

func (r *Remover) quarNames(h *handles) ([]string, error) {
	names, err := namesOf(h.quar)
	if err != nil {
		return nil, beneath.PathError("getdents64", r.quarPath(""), err)
	}
	slices.Sort(names)
	return names, nil
}

// namesOf lists a directory from its beginning.
func namesOf(dir *beneath.Dir) ([]string, error) {
	if err := dir.Rewind(); err != nil {
		return nil, err
	}
	entries, err := beneath.List(dir.FD(), math.MaxInt)
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name
	}
	return names, err
}

const (
	manifestSuffix = ".json"
	conflictSuffix = policy.ConflictSuffix
)

// validate checks both names of an action. They come from the ledger or from an operator.
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
	case len(entry) > 200:
		// A conflict's number and the manifest's suffix must still fit into 255 bytes.
		return fmt.Errorf("%q is too long for a quarantine entry", entry)
	}
	return nil
}

// isConflict reports whether the entry is a directory that was recreated while its predecessor was parked. Its
// pod is alive, so only an operator may purge it.
func isConflict(entry string) bool { return strings.Contains(entry, conflictSuffix) }
