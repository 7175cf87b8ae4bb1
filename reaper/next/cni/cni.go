package cni

import (
	"cmp"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/cri"
	"github.com/orphan-reaper/orphan-reaper/reaper/fdpath"
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
	Root    string   // the node's root directory, default /proc/1/root: a pod has another /run
}

// Sweeper sweeps CNI's files. It is safe for one goroutine.
type Sweeper struct {
	cfg     Config
	open    *fdpath.Opener
	guard   bounded.Guard
	cleaned parsers.PodSet // confirmed dead since the start: a sweep may fail and be repeated
}

// New returns a sweeper. It fails if this kernel and its filters cannot distinguish mounts.
func New(cfg Config) (*Sweeper, error) {
	open, err := fdpath.New(false)
	if err != nil {
		return nil, err
	}
	cfg.Dir, cfg.ConfDir = cmp.Or(cfg.Dir, "/var/lib/cni"), cmp.Or(cfg.ConfDir, "/etc/cni/net.d")
	cfg.Root = cmp.Or(cfg.Root, "/proc/1/root")
	if cfg.Sockets == nil {
		cfg.Sockets = cri.UsualSockets("/")
	}
	return &Sweeper{cfg: cfg, open: open, cleaned: parsers.PodSet{}}, nil
}
