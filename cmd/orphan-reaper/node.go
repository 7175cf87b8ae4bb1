package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/audit"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
	"github.com/orphan-reaper/orphan-reaper/reaper/ledger"
	"github.com/orphan-reaper/orphan-reaper/reaper/logs"
	"github.com/orphan-reaper/orphan-reaper/reaper/node"
	"github.com/orphan-reaper/orphan-reaper/reaper/quarantine"
)

// access is a command's access to the node.
type access int

const (
	reads  access = iota // changes nothing, and works for any user
	acts                 // an operator's command, which may run beside the daemon
	sweeps               // a sweep, or
	runs                 // the daemon: one of these at a time
)

// opened is a node that was opened for one command.
type opened struct {
	*reaper.Daemon
	cfg     *config.Config
	store   *ledger.Store
	disk    *quarantine.Quarantine
	by      *judge.User // who gave the command
	metrics *audit.Metrics
	sources *sources
	runner  ledger.Runner // the daemon or sweep that runs beside this command; the zero value if none does or that is not known
}

// settings returns the settings of a call. It reads nothing of the node.
func settings(cmd *cobra.Command) (*config.Config, error) {
	cfg, err := config.Load(cmd.Flags(), config.DefaultFile)
	if err != nil {
		return nil, &failure{codeUsage, err, "`orphan-reaper config check --config /dev/null` prints each setting with its default"}
	}
	return cfg, nil
}

// load returns the settings of a call, with the root directory of the kubelet that runs.
func load(cmd *cobra.Command) (*config.Config, error) {
	cfg, err := settings(cmd)
	if err != nil {
		return nil, err
	}
	running := cfg.RootDir
	if running == "" {
		if running, err = node.RunningRootDir(cmd.Context()); err != nil {
			return nil, failf("name it by --root-dir", "cannot find the kubelet's root directory: %w", err)
		}
	}
	if err := cfg.Settle(running); err != nil {
		return nil, &failure{codeUsage, err, ""}
	}
	return cfg, nil
}

// open opens the node for a command. The caller closes it.
func (a *app) open(cmd *cobra.Command, to access) (*opened, error) {
	cfg, err := load(cmd)
	if err != nil {
		return nil, err
	}
	return a.openNode(cfg, to, audit.NewLog(a.stderr, cfg.LogLevel))
}

func (a *app) openNode(cfg *config.Config, to access, log *slog.Logger) (*opened, error) {
	if _, err := os.Stat(filepath.Join(cfg.RootDir, "pods")); errors.Is(err, fs.ErrNotExist) {
		return nil, failf("name the kubelet's root directory by --root-dir", "cannot find the pods directory: %w", err)
	}
	// The heap is a few MiB. What a sweep remembers of 300,000 CNI files has no pointers, so that a collection is cheap.
	debug.SetGCPercent(25)
	useNodesZone()
	clock, err := ledger.NewClock()
	if err != nil {
		return nil, err
	}
	scanner, err := node.New(node.Config{
		RootDir: cfg.RootDir, QuarantineDir: cfg.QuarantineDir, Endpoints: cfg.RuntimeEndpoints, Logger: log, Clock: clock,
		Journals: logs.Journals(), NodeName: os.Getenv("NODE_NAME"), // the chart sets it: a pod has its own host name
	})
	if err != nil {
		return nil, err
	}
	disk, err := quarantine.Open(quarantine.Config{PodsDir: filepath.Join(cfg.RootDir, "pods"), Dir: cfg.QuarantineDir, Logger: log})
	if err != nil {
		return nil, &failure{codeUsage, err, ""}
	}
	n := &opened{cfg: cfg, disk: disk, by: whoami(), metrics: audit.NewMetrics(version())}
	if n.store, err = openStore(cfg, to, log, n.by); err != nil {
		return nil, err
	}
	n.beside(to)
	n.sources = newSources(cfg, clock, log)
	var sweeper reaper.CNI
	if cfg.CNI {
		sweeper, err = cni.New(cni.Config{
			Dir: cfg.CNIDir, ConfDir: cfg.CNIConfDir, StateDir: cfg.StateDir, OlderThan: cfg.CNIOlderThan, Endpoints: cfg.RuntimeEndpoints,
		})
		if err != nil {
			return nil, errors.Join(err, n.store.Close())
		}
	}
	n.Daemon = &reaper.Daemon{
		Loop: &reaper.Loop{
			Scanner: scanner, Disk: disk, Ledger: n.store, Clock: clock, Recorder: audit.NewJournal(log), Meter: n.metrics, Log: log,
			Settings: cfg.Judge(), CNI: sweeper,
		},
		Lines: n.sources.lines,
		Parse: func(line parsers.Line) (parsers.Report, bool) {
			n.metrics.Line()
			return parsers.Parse(line)
		},
	}
	return n, nil
}

// openStore opens the state directory, and for the daemon and a sweep locks it against another of these.
func openStore(cfg *config.Config, to access, log *slog.Logger, by *judge.User) (*ledger.Store, error) {
	o := ledger.Options{Log: log, By: by, Quarantine: cfg.QuarantineDir}
	if (to == runs || to == sweeps) && by.UID == nil { // the daemon's own events have no user
		o.By = nil
	}
	if to == reads {
		return ledger.OpenReadOnly(cfg.StateDir, o)
	}
	store, err := ledger.Open(cfg.StateDir, o)
	if err != nil || to == acts {
		return store, err
	}
	self := ledger.Runner{Command: sweepCommand}
	if to == runs {
		self = daemonOf(cfg, cfg)
	}
	if _, err := store.LockRun(self); err != nil { // Close unlocks it
		hint := "the daemon sweeps by itself; `orphan-reaper doctor` shows when"
		if other, _ := store.Runner(); other.Command == sweepCommand {
			hint = "it is a sweep: wait until it has ended"
		}
		return nil, errors.Join(&failure{codeFailed, err, hint}, store.Close())
	}
	return store, nil
}

// The commands that hold the lock.
const (
	daemonCommand = "run"
	sweepCommand  = "sweep"
)

// daemonOf returns what the daemon publishes about itself. next are the settings of its last reload.
func daemonOf(cfg, next *config.Config) ledger.Runner {
	return ledger.Runner{Command: daemonCommand, Settings: cfg.Shared(next)}
}

// beside finds the process beside which a command runs. A daemon's settings count for the command, too.
func (n *opened) beside(to access) {
	if to == runs || to == sweeps {
		return
	}
	if r, err := n.store.Runner(); err == nil {
		n.runner = r
		n.cfg.Beside(r.Settings)
	}
}

// daemon returns the PID of the daemon that runs, and sweep that of a sweep, 0 if it does not.
func (n *opened) daemon() int {
	if n.runner.Command == sweepCommand {
		return 0
	}
	return n.runner.PID
}

func (n *opened) sweep() int { return n.runner.PID - n.daemon() }

func (n *opened) Close() {
	n.sources.stop()
	if err := n.store.Close(); err != nil {
		n.Log.Warn("cannot close the state directory", slog.Any("error", err))
	}
}

// whoami returns the user who gave the command, as far as this node shows that.
func whoami() *judge.User {
	by := &judge.User{SudoUser: os.Getenv("SUDO_USER")}
	text, err := os.ReadFile("/proc/self/loginuid")
	id, parseErr := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32)
	if err != nil || parseErr != nil || id == 1<<32-1 { // it is not set: pam_loginuid(8)
		return by
	}
	by.UID = new(uint32(id))
	if u, err := user.LookupId(strconv.FormatUint(id, 10)); err == nil {
		by.Login = u.Username
	}
	return by
}

// once scans the node and its log, and changes nothing: scan, explain, doctor.
func (a *app) once(ctx context.Context, n *opened, opt reaper.Options) (reaper.Status, error) {
	opt.Order = opt.Order || n.daemon() == 0 // the mode is a daemon's: without one the operator sweeps
	s := n.Once(ctx, opt, func(s reaper.Status) {
		if f, ok := a.stderr.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
			_, _ = fmt.Fprintln(f, "orphan-reaper: listening to the kubelet's log for up to", listenTime)
		}
		n.sources.listen(ctx, s, n.Recall)
	})
	n.name(&s)
	s.Problems = append(s.Problems, n.sources.problems()...)
	s.Operator = s.Operator || n.sources.problem != ""
	n.unlisted(&s)
	if len(s.Problems) > 0 && os.Geteuid() != 0 {
		s.Problems = append(s.Problems, "not everything can be read by this user: run it as root")
	}
	slices.Sort(s.Problems)
	s.Problems = slices.Compact(s.Problems)
	return s, ctx.Err()
}

// name adds to the status what runs here, and where.
func (n *opened) name(s *reaper.Status) {
	s.Daemon, s.Sweep, s.QuarantineDir = n.daemon(), n.sweep(), n.cfg.QuarantineDir
	for _, dir := range unitDirs {
		info, err := os.Stat(filepath.Join(dir, unit))
		if err == nil && info.Mode().IsRegular() && exists(unitDirs[0]) { // a masked unit is /dev/null
			s.Unit = strings.TrimSuffix(unit, ".service")
		}
	}
}

// unit is the daemon's systemd unit, and unitDirs where it may be installed (systemd.unit(5)). The first directory exists where
// systemd runs (sd_booted(3)).
const unit = "orphan-reaper.service"

var unitDirs = []string{
	"/run/systemd/system", "/etc/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system",
}

// unlisted adds to the status what lies in the quarantine and the ledger does not have: a lost ledger, or a user's files. The
// ledger is read after the quarantine, since each intent is there before the rename, and the quarantine once more, since a daemon
// may have removed an entry meanwhile.
func (n *opened) unlisted(s *reaper.Status) {
	names, err := n.disk.List()
	if err == nil {
		err = n.store.Refresh()
	}
	entries := n.store.Entries()
	names = slices.DeleteFunc(names, func(name string) bool { _, listed := entries[name]; return listed })
	if err == nil && len(names) > 0 {
		var still []string
		still, err = n.disk.List()
		names = slices.DeleteFunc(names, func(name string) bool { return !slices.Contains(still, name) })
	}
	if err != nil {
		s.Problems = append(s.Problems, "cannot compare the quarantine with the ledger: "+err.Error())
		return
	}
	if len(names) > 0 {
		s.Operator = true
		s.Problems = append(s.Problems, fmt.Sprintf("the quarantine %s has %d entries that the ledger does not have, such as %s: "+
			"move them back to the pods directory, or remove them, by hand", n.cfg.QuarantineDir, len(names), bounded.Name(names[0])))
	}
}
