package cni

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"sync"
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
	Retention time.Duration // of the archives
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
	// callTime bounds one call to a runtime.
	callTime time.Duration
	cleaned  parsers.PodSet // confirmed dead since the start: a sweep may fail and be repeated
}

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
	return &Sweeper{cfg: cfg, open: open, changes: kernel{}, callTime: callTime, cleaned: parsers.PodSet{}}, nil
}

// Sweep reads and judges all files, and removes the stale ones if the permit allows that.
func (s *Sweeper) Sweep(ctx context.Context, permit judge.Permit, snapshot judge.Snapshot, cleaned []parsers.PodUID, write func(...judge.Event) bool) *reaper.CNIStatus {
	for _, uid := range cleaned {
		s.cleaned[uid] = true
	}
	now := snapshot.At
	f, err := s.readBounded(ctx, s.rootOf(snapshot.Node), now)
	if err != nil {
		return &reaper.CNIStatus{Problems: []string{"cannot read CNI's files: " + err.Error()}}
	}
	e := evidence{stored: f.stored, doubt: f.doubt, kubelets: f.kubeletNetworks()}
	f.problem(f.doubt)
	e.boxes, err = s.askRuntimes(ctx)
	switch {
	case snapshot.Node.KubeletKnown.Truth != judge.Yes:
		f.problem(errors.New("no CNI file is judged without a kubelet: " + snapshot.Node.KubeletKnown.Detail))
	case err != nil:
		f.problem(fmt.Errorf("no CNI file is judged: %w", err))
	default:
		e.complete = true
	}
	e.addresses = sync.OnceValues(func() (map[netip.Addr]bool, error) { return e.boxes.addresses(ctx) })
	stale := f.judge(&e)
	f.status.Complete = e.complete
	if permit.MayRemove() {
		f.problem(s.dropOld(now))
		if len(stale) > 0 {
			s.remove(ctx, f, stale, now, write)
		}
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
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	r, err := bounded.Within(ctx, &s.guard, "CNI", readTime, func() result {
		f, err := s.read(ctx, root, now, cleaned)
		return result{f, err}
	})
	return r.found, cmp.Or(err, r.err)
}
