package cni

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/cri"
	"github.com/orphan-reaper/orphan-reaper/reaper/fdpath"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// Config has the settings of a Sweeper. Tests set the fields after Endpoints.
type Config struct {
	Dir       string        // cni_dir, default /var/lib/cni
	ConfDir   string        // cni_conf_dir, default /etc/cni/net.d
	StateDir  string        // where the archives are kept; it exists, since the ledger is there
	OlderThan time.Duration // cni_older_than
	Endpoints []string      // of runtimes; empty: the usual sockets that connect

	Sockets []string // the usual sockets of runtimes
	Root    string   // the node's root directory, default that of the kubelet, else of PID 1: a pod has another /run
}

// Sweeper sweeps CNI's files. It is safe for one goroutine.
type Sweeper struct {
	cfg     Config
	open    *fdpath.Opener
	guard   bounded.Guard
	changes changes
	// callTime bounds one call to a runtime, readTime the reading of all files.
	callTime, readTime time.Duration
	cleaned            parsers.PodSet // confirmed dead since the start: a sweep may fail and be repeated
	// at is where a sweep that changes something is, nil if none does.
	at    atomic.Pointer[place]
	clock func() time.Time
}

// place is a path, and since when a sweep is at it.
type place struct {
	path  string
	since time.Time
}

// Stuck returns where a sweep that changes something is, and for how long it has made no progress there. It may be called
// from any goroutine.
func (s *Sweeper) Stuck() (path string, since time.Duration) {
	if at := s.at.Load(); at != nil {
		return at.path, s.clock().Sub(at.since)
	}
	return "", 0
}

// enter notes for Stuck that the next calls are about this path.
func (s *Sweeper) enter(path string) { s.at.Store(&place{path, s.clock()}) }

// New returns a sweeper. It fails if this kernel and its filters cannot distinguish mounts.
func New(cfg Config) (*Sweeper, error) {
	open, err := fdpath.New(false)
	if err != nil {
		return nil, err
	}
	cfg.Dir, cfg.ConfDir = cmp.Or(cfg.Dir, "/var/lib/cni"), cmp.Or(cfg.ConfDir, "/etc/cni/net.d")
	if cfg.Sockets == nil {
		cfg.Sockets = cri.UsualSockets("/")
	}
	return &Sweeper{
		cfg: cfg, open: open, changes: kernel{}, callTime: callTime, readTime: readTime, cleaned: parsers.PodSet{},
		clock: time.Now, //nolint:forbidigo // for Stuck alone; no judgement depends on it
	}, nil
}

// Sweep reads and judges all files, and removes the stale ones if the permit allows that.
func (s *Sweeper) Sweep(ctx context.Context, sweep reaper.CNISweep) *reaper.CNIStatus {
	for _, uid := range sweep.Cleaned {
		s.cleaned[uid] = true
	}
	now, node := sweep.Snapshot.At, sweep.Snapshot.Node
	f, err := s.readBounded(ctx, s.rootOf(node), now)
	if err != nil {
		return &reaper.CNIStatus{Problems: []string{"cannot read the files in " + s.cfg.Dir + ": " + err.Error()}}
	}
	e := evidence{stored: f.stored, doubt: f.doubt, kubelets: f.kubeletNetworks()}
	f.problem(f.doubt)
	e.boxes, err = s.askRuntimes(ctx)
	switch {
	case node.KubeletKnown.Truth != judge.Yes:
		f.problem(errors.New("no CNI file is judged without a kubelet: " + node.KubeletKnown.Detail))
	case err != nil:
		f.problem(fmt.Errorf("no CNI file is judged: %w", err))
	default:
		e.complete = true
	}
	e.addresses = sync.OnceValues(func() (map[netip.Addr]bool, error) { return e.boxes.addresses(ctx) })
	stale := f.judge(&e)
	f.status.Complete = e.complete
	if sweep.Permit.MayRemove() {
		f.problem(s.dropOld(now, sweep.Retention))
		if len(stale) > 0 {
			s.remove(ctx, f, stale, now, sweep.Write)
		}
		s.at.Store(nil)
	}
	f.status.Networks = f.networkStatus()
	return &f.status
}

// readBounded reads all files in bounded time: the server of a directory may be gone.
func (s *Sweeper) readBounded(ctx context.Context, root string, now judge.Instant) (*found, error) {
	type result struct {
		found *found
		err   error
	}
	cleaned := maps.Clone(s.cleaned)
	ctx, cancel := context.WithTimeoutCause(ctx, s.readTime, bounded.ErrHangs)
	defer cancel()
	r, err := bounded.Within(ctx, &s.guard, "CNI", s.readTime, func() result {
		f, err := s.read(ctx, root, now, cleaned)
		return result{f, err}
	})
	return r.found, cmp.Or(err, r.err)
}
