package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/audit"
	"github.com/orphan-reaper/orphan-reaper/reaper/fleet"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
	"github.com/orphan-reaper/orphan-reaper/reaper/node"
)

func newRunCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "run", Short: "Run the daemon", Args: cobra.NoArgs,
		Long: `Run the daemon until a signal ends it. SIGHUP reads the configuration again.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.daemon(cmd) },
	}
}

func (a *app) daemon(cmd *cobra.Command) error {
	cfg, err := load(cmd)
	if err != nil {
		return err
	}
	level := new(slog.LevelVar)
	level.Set(cfg.LogLevel)
	ctx, cancel := context.WithCancelCause(cmd.Context())
	defer cancel(nil)
	n, err := a.openNode(cfg, runs, audit.NewLog(a.stderr, level))
	if err != nil {
		return err
	}
	var edges sync.WaitGroup
	file := audit.NewTextfile(cfg.MetricsFile, n.metrics.Registry(), n.Log)
	n.metrics.Changed = file.Changed
	edges.Go(func() { file.Run(ctx) })
	edges.Go(func() { n.watchdog(ctx) })
	server, err := n.serve(ctx, &edges)
	if err != nil {
		return err
	}
	n.LogProblems = n.sources.problems
	n.Reload = n.reloads(ctx, cmd, level, server.Reload)
	var stopped judge.ReasonName
	n.Ended = func(pass uint64, s reaper.Status, err error) {
		server.Ended(pass, s, err)
		if err != nil {
			n.Log.Error("cannot scan; trying again", slog.Any("error", err))
			return
		}
		stopped = n.logStopped(s.Stopped, stopped)
		if n.sources.follow(ctx, s.Node, false) {
			n.Ask("") // the metrics of this pass do not have the problem
		}
		if err := n.otherRoot(ctx, s); err != nil {
			cancel(err)
		}
		time.AfterFunc(settleTime, releaseMemory) // the metrics are written meanwhile
	}
	openat2, landlock := n.disk.Means()
	n.Log.Info("settings are read", slog.String("version", version()), slog.String("mode", cfg.Mode),
		slog.String("root_dir", cfg.RootDir), slog.String("openat2", openat2.Detail), slog.String("landlock", landlock.Detail))
	notify(daemon.SdNotifyReady)
	edges.Go(func() { n.Run(ctx) })
	<-ctx.Done()
	notify(daemon.SdNotifyStopping)
	if !within(patience-time.Second, edges.Wait) {
		n.Log.Warn("a pass does not end; the next start finishes it", slog.Duration("waited", patience-time.Second))
	} else {
		n.Close()
	}
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// logStopped logs why nothing is moved or removed, unless that was logged before, and returns it.
func (n *opened) logStopped(why *judge.Reason, before judge.ReasonName) judge.ReasonName {
	if why == nil {
		return ""
	}
	if why.Reason != before && why.Reason != judge.ModeObserve { // which is logged with the settings
		n.Log.Warn("nothing is moved or removed now", slog.String("reason", string(why.Reason)), slog.String("detail", why.Detail))
	}
	return why.Reason
}

// serve answers HTTP at the addresses of the settings.
func (n *opened) serve(ctx context.Context, edges *sync.WaitGroup) (*fleet.Server, error) {
	name, err := os.Hostname() // until the first pass has found the node's
	if err != nil {
		return nil, err
	}
	n.Asks = make(chan string, 1)
	server := &fleet.Server{
		Node: name, Version: version(), Start: n.Clock.Now().Wall, Settings: n.Settings, WebConfigFile: n.cfg.WebConfigFile,
		Metrics: n.metrics.Registry(), Ask: n.Ask, Clock: n.Clock, Log: n.Log,
		Alive: func() error {
			if path := n.Stuck(); path != "" {
				return errors.New("a call that changes the disk has not returned: " + path)
			}
			return nil
		},
	}
	var all []fleet.Listen
	for _, address := range n.cfg.WebListenAddress {
		listen, err := fleet.ParseListen(address)
		if err != nil {
			return nil, &failure{codeUsage, err, ""}
		}
		all = append(all, listen)
	}
	edges.Go(func() { server.Serve(ctx, all) })
	return server, nil
}

// within reports whether f returns within the time.
func within(most time.Duration, f func()) bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
		return true
	case <-time.After(most):
		return false
	}
}

// otherRoot returns an error if a kubelet that has started since has another root directory, and none was set: systemd starts
// the daemon again, which then finds that directory.
func (n *opened) otherRoot(ctx context.Context, s reaper.Status) error {
	if s.Node.KubeletKnown.Truth != judge.No || n.cfg.Origin("root_dir") != config.Auto {
		return nil
	}
	if dir, err := node.RunningRootDir(ctx); err == nil && dir != n.cfg.RootDir {
		return failf("start the daemon again", "the kubelet that runs now has the root directory %s, and not %s", dir, n.cfg.RootDir)
	}
	return nil
}

// notify sends a message to systemd (sd_notify(3)), if it runs.
func notify(text string) { _, _ = daemon.SdNotify(false, text) }

// watchdog sends systemd its watchdog messages as long as no changing call hangs.
func (n *opened) watchdog(ctx context.Context) {
	every, err := daemon.SdWatchdogEnabled(false)
	if err != nil || every == 0 {
		return
	}
	tick := time.NewTicker(every / 2)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if n.Stuck() == "" {
				notify(daemon.SdNotifyWatchdog)
			}
		}
	}
}
