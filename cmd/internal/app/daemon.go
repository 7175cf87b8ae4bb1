package app

import (
	"context"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/source"
)

// stuckAfter is how long one pass may take before the watchdog is no longer told that all
// is well. Removing a million files takes minutes; a pass that takes this long hangs.
const stuckAfter = time.Hour

// Process is the process in which the daemon runs.
type Process struct {
	Version string
	Stderr  io.Writer
}

// RunDaemon wires the daemon and runs it until ctx ends. At each SIGHUP reload makes the configuration
// again.
func RunDaemon(ctx context.Context, cfg config.Config, proc Process, reload func(context.Context) (config.Config, error)) error {
	collectEarly()
	level := new(slog.LevelVar)
	level.Set(logLevel(cfg))
	log := newLogger(cfg, proc.Stderr, level)
	notes, err := CheckCredentials(ctx, cfg, time.Now())
	if err != nil {
		return err
	}
	for _, note := range append(cfg.Notes(), notes...) {
		log.WarnContext(ctx, "the configuration is unusual", slog.String("note", note))
	}
	metrics, recorder := newMetricsFile(ctx, cfg, proc.Version, log, slog.LevelInfo), newRecorder(cfg, proc.Stderr, nil, level)
	n, err := open(ctx, cfg, options{access: Runs, log: log, recorder: recorder, metrics: metrics})
	if err != nil {
		return err
	}
	defer n.Close()
	r, store := n.Reaper, n.Store
	tellMeans(r.Remover.Means(), log)
	var from source.Checkpoints
	if _, err := store.Load("checkpoints", &from); err != nil {
		return err
	}
	units := newUnits(cfg, log)
	all := newSources(ctx, cfg, units, log)
	if len(all) == 0 {
		return exit.Failf("name one with --log-source and --log-file", "%w", errNoSource)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	logs := source.Follow(ctx, all, from, log, metrics.Source)
	again := time.NewTicker(relook)
	defer again.Stop()
	var guard bounded.Guard
	logs.Relook(ctx, again.C, func() []string { return laterFiles(ctx, cfg, &guard) })
	does := func(cfg config.Config) string { return cfg.Begins(r.Clock.Now().Wall, seen(store, time.Time{})) }
	took := func(next config.Config) string {
		metrics.Enforcing(!next.Observe())
		level.Set(logLevel(next))
		return does(next)
	}
	d := &reaper.Daemon{
		Reaper: r, Lines: logs.Lines(), Parse: counted(metrics.Source, newParse(cfg, units)), Reload: reloads(ctx, cfg, reload, took, log),
		Status:     func(text string) { notify("STATUS=" + text); giveBack() },
		Checkpoint: func() { keep(store, logs.Positions(), log) },
	}
	stopWeb, err := serveWeb(ctx, cfg, proc.Version, d, metrics, log)
	if err != nil {
		return err
	}
	defer stopWeb()
	stopReports := writeReports(ctx, cfg, proc.Version, d, metrics, log)
	defer stopReports()
	// Whoever has installed, upgraded or changed it learns what it will do.
	say(recorder, log, policy.Record{Kind: policy.KindStarted, At: r.Clock.Now(), Text: started(cfg, all) + ". It " + does(cfg)})
	notify(daemon.SdNotifyReady)
	go watchdog(ctx, d, r.Clock)
	err = d.Run(ctx)
	notify(daemon.SdNotifyStopping)
	cancel()
	logs.Wait()
	stopReports()
	if err == nil { // somebody wanted it to stop
		metrics.Remove()
	}
	say(recorder, log, policy.Record{Kind: policy.KindStopped, At: r.Clock.Now(), Text: "orphan-reaper stopped"})
	return err
}

// collectEarly keeps the program small: the heap is a few MiB and grows only while a look
// runs, so collecting it often costs little.
func collectEarly() {
	debug.SetGCPercent(50)
	limitMemory("/proc", "/sys/fs/cgroup")
}

// say tells a record of the daemon itself, which is no pod's and so not in the ledger.
func say(recorder reaper.Recorder, log *slog.Logger, r policy.Record) {
	if err := recorder.Record(r); err != nil {
		log.Error("cannot write a record", slog.String("kind", string(r.Kind)), slog.Any("error", err))
	}
}

// tellMeans says once, at the start, how the remover is kept to what it is to change: by the
// kernel, where there is openat2 and Landlock.
func tellMeans(m policy.Means, log *slog.Logger) {
	if why := slog.String("why", m.Openat2.Detail); m.Openat2.Truth == policy.Yes {
		log.Info("the walker uses openat2", why)
	} else {
		log.Warn("the walker cannot use openat2, it compares mount IDs", why)
	}
	if why := slog.String("why", m.Landlock.Detail); m.Landlock.Truth == policy.Yes {
		log.Info("Landlock confines each batch", why)
	} else {
		log.Warn("Landlock cannot be used, no batch is confined", why)
	}
}

func started(cfg config.Config, all []source.Source) string {
	var names []string
	for _, s := range all {
		names = append(names, s.Name())
	}
	return "orphan-reaper started: mode " + cfg.Mode + ", pods directory " + cfg.PodsDir() + ", following " + strings.Join(names, ", ")
}

// notify tells systemd (sd_notify(3)); without systemd nobody listens, and that is fine.
func notify(text string) { _, _ = daemon.SdNotify(false, text) }

// watchdog tells systemd that all is well, as often as it asked for, while passes end.
func watchdog(ctx context.Context, d *reaper.Daemon, clock reaper.Clock) {
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
			if d.Stuck(clock.Now().Boot) < stuckAfter {
				notify(daemon.SdNotifyWatchdog)
			}
		}
	}
}

// reloads reads the configuration again at each SIGHUP. What can change at run time does, where took takes it, which
// says what the daemon does now; the rest is named. A configuration that is wrong changes nothing.
func reloads(
	ctx context.Context, cfg config.Config, reload func(context.Context) (config.Config, error), took func(config.Config) string, log *slog.Logger,
) <-chan policy.Rules {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	out := make(chan policy.Rules)
	go func() {
		defer signal.Stop(hup)
		for {
			select {
			case <-ctx.Done():
				return
			case <-hup:
			}
			notify(reloading())
			next, err := reload(ctx)
			if err != nil {
				log.ErrorContext(ctx, "the configuration is wrong; the old one stays", slog.Any("error", err))
				notify(daemon.SdNotifyReady)
				continue
			}
			live, restart := cfg.Diff(next)
			if len(restart) > 0 {
				log.WarnContext(ctx, "some settings change only with a restart: systemctl restart orphan-reaper", slog.Any("settings", restart))
			}
			cfg = cfg.Take(next, live)
			does := took(cfg)
			select {
			case out <- Rules(cfg):
				log.InfoContext(ctx, "the configuration was read again", slog.Any("changed", live), slog.String("now", does))
			case <-ctx.Done():
				return
			}
			notify(daemon.SdNotifyReady)
		}
	}()
	return out
}

// reloading is the message of Type=notify-reload, which wants the time with it.
func reloading() string {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return daemon.SdNotifyReloading
	}
	return daemon.SdNotifyReloading + "\nMONOTONIC_USEC=" + strconv.FormatInt(ts.Nano()/1000, 10)
}
