package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/cri"
	"github.com/orphan-reaper/orphan-reaper/reaper/fdpath"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
	"github.com/orphan-reaper/orphan-reaper/reaper/span"
)

// Config has the settings of a Scanner. Tests set the fields after Clock.
type Config struct {
	RootDir       string   // the kubelet's
	QuarantineDir string   // default RootDir/orphan-reaper
	Endpoints     []string // of runtimes; empty: the usual sockets that connect
	NodeName      string   // of the Node object, for display; empty: the kubelet's --hostname-override, else the host name
	Logger        *slog.Logger
	Clock         Clock

	Proc     string   // default /proc
	Cgroups  string   // default /sys/fs/cgroup
	Sockets  []string // the usual sockets of runtimes
	Journals []string // the directories of journald
	RKE2Log  string   // the file to which RKE2 writes its kubelet's log
}

// Clock returns the time of both clocks.
type Clock interface{ Now() judge.Instant }

// DefaultRootDir is the kubelet's root directory if none is set and no kubelet runs.
const DefaultRootDir = "/var/lib/kubelet"

// Scanner reads the node. It is safe for one goroutine.
type Scanner struct {
	cfg   Config
	open  *fdpath.Opener
	guard bounded.Guard
	limit time.Duration           // of one sensor; 0: by the load of the machine
	hosts map[judge.FileID]string // the host names of pod directories; of the sensor of directories alone
}

// New returns a scanner. It fails if this kernel and its filters cannot distinguish mounts.
func New(cfg Config) (*Scanner, error) {
	open, err := fdpath.New(false)
	if err != nil {
		return nil, err
	}
	cfg.RootDir = cmp.Or(cfg.RootDir, DefaultRootDir)
	cfg.QuarantineDir = cmp.Or(cfg.QuarantineDir, filepath.Join(cfg.RootDir, "orphan-reaper"))
	cfg.Proc, cfg.Cgroups = cmp.Or(cfg.Proc, "/proc"), cmp.Or(cfg.Cgroups, "/sys/fs/cgroup")
	cfg.RKE2Log = cmp.Or(cfg.RKE2Log, "/var/lib/rancher/rke2/agent/logs/kubelet.log")
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	if cfg.Sockets == nil {
		cfg.Sockets = cri.UsualSockets("/")
	}
	if cfg.Journals == nil {
		cfg.Journals = []string{"/run/log/journal", "/var/log/journal"}
	}
	return &Scanner{cfg: cfg, open: open}, nil
}

// sensorLimit is the time limit of one sensor on an idle machine, and mostLimit on the busiest.
const (
	sensorLimit = 10 * time.Second
	mostLimit   = 2 * time.Minute
)

// patience returns the time limit of a sensor: as much longer than on an idle machine as there are processes that wait for
// each processor (sysinfo(2)).
func (s *Scanner) patience() time.Duration {
	if s.limit != 0 {
		return s.limit
	}
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return sensorLimit
	}
	const one = 1 << 16 // SI_LOAD_SHIFT
	perCPU := float64(info.Loads[0]) / one / float64(runtime.NumCPU())
	return time.Duration(min(float64(mostLimit), float64(sensorLimit)*(1+perCPU)))
}

// sensed is what one sensor found, and why it is not complete.
type sensed[T any] struct {
	found T
	doubt doubt
}

// sense runs one sensor under its time limit. Work that takes too long is abandoned, and not begun again until it ends.
func sense[T any](ctx context.Context, s *Scanner, name string, work func(ctx context.Context) (T, error)) (answer sensed[T]) {
	ctx, end := span.Start(ctx, name)
	defer func() { end(answer.doubt.err) }()
	limit := s.patience()
	inner, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := inner.Err(); err != nil {
		return sensed[T]{doubt: doubt{fmt.Errorf("cannot read the %s in time: %w", name, err), true}}
	}
	type result struct {
		found T
		err   error
	}
	r, err := bounded.Within(ctx, &s.guard, name, limit+limit/10, func() result {
		found, err := work(inner)
		return result{found, err}
	})
	err = cmp.Or(err, r.err)
	busy := errors.Is(err, bounded.ErrHangs) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
	return sensed[T]{r.found, doubt{err, busy}}
}

// Scan reads every entry of the pods directory, or those of only if that is not empty, and the pods of also, which are in
// quarantine.
func (s *Scanner) Scan(ctx context.Context, only, also []parsers.PodUID) judge.Snapshot {
	ctx, end := span.Start(ctx, "scan")
	defer end(nil)
	c := &scan{Scanner: s, at: s.cfg.Clock.Now(), names: sense(ctx, s, "directories", s.listPods)}
	c.want(only, also)
	c.procs = sense(ctx, s, "processes", s.readProcesses)
	c.kubelet = sense(ctx, s, "kubelets", func(context.Context) (kubelets, error) { return s.findKubelets(c.procs) })
	c.list = sense(ctx, s, "PodsAPI", func(ctx context.Context) (podsAPI, error) { return s.askPodsAPI(ctx, c.kubelet.found.pid()) })
	c.runtime = sense(ctx, s, "runtimes", func(ctx context.Context) (runtimes, error) { return s.askRuntimes(ctx) })
	c.mounts = sense(ctx, s, "mounts", func(ctx context.Context) (*mountTables, error) {
		return s.readMounts(ctx, c.kubelet.found.pid(), c.wanted)
	})
	c.staged = sense(ctx, s, "staged volumes", func(ctx context.Context) (*stagedVolumes, error) {
		return s.readStaged(ctx, c.mounts.found, c.names.found, c.wanted)
	})
	c.cgroups = sense(ctx, s, "cgroups", s.readCgroups)
	c.dirs = sense(ctx, s, "pod directories", func(ctx context.Context) (map[string]directory, error) {
		return s.readDirectories(ctx, c)
	})
	c.free = sense(ctx, s, "free space", s.readFree)
	c.known = c.runtimeKnown()
	return c.snapshot()
}

// scan is one scan under way.
type scan struct {
	*Scanner
	at      judge.Instant
	asked   []string       // the names in the pods directory that the snapshot has
	wanted  parsers.PodSet // the pods that the snapshot has
	entries parsers.PodSet // the pods that are in quarantine

	names   sensed[[]string]
	procs   sensed[*processes]
	kubelet sensed[kubelets]
	list    sensed[podsAPI]
	runtime sensed[runtimes]
	mounts  sensed[*mountTables]
	staged  sensed[*stagedVolumes]
	cgroups sensed[podCgroups]
	dirs    sensed[map[string]directory]
	free    sensed[freeShares]
	known   judge.Fact // RuntimeKnown
}

// want sets which pods the snapshot has: all names in the pods directory or only these, and those in quarantine.
func (c *scan) want(only, also []parsers.PodUID) {
	c.wanted, c.entries = parsers.PodSet{}, parsers.PodSet{}
	if len(only) == 0 {
		c.asked = slices.Clone(c.names.found)
	}
	for _, uid := range only {
		c.asked = append(c.asked, string(uid))
	}
	for _, uid := range also {
		c.asked, c.entries[uid] = append(c.asked, string(uid)), true
	}
	slices.Sort(c.asked)
	c.asked = slices.Compact(c.asked)
	for _, name := range c.asked {
		if uid, ok := parsers.ParsePodUID(name); ok {
			c.wanted[uid] = true
		}
	}
}

// listed reports whether the pods directory had the name at the beginning of the scan.
func (c *scan) listed(name string) bool {
	_, ok := slices.BinarySearch(c.names.found, name)
	return ok
}
