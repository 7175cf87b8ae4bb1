package app

import (
	"context"
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
	"github.com/orphan-reaper/orphan-reaper/reaper/fleet/report"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/source"
)

// stuckAfter is how long a pass may take before systemd's watchdog gets no more messages. Even a million files are removed in
// minutes.
const stuckAfter = time.Hour

// RunDaemon runs the daemon of a version until ctx ends. At each SIGHUP it reads the configuration again with reload.
func RunDaemon(
	ctx context.Context, cfg config.Config, version string, by Person, reload func(context.Context) (config.Config, error),
) error {
	limitHeap()
	level := new(slog.LevelVar)
	level.Set(logLevel(cfg))
	log := newLogger(cfg, by.Stderr, level)
	notes, err := CheckCredentials(ctx, cfg, time.Now())
	if err != nil {
		return err
	}
	for _, note := range append(cfg.Notes(), notes...) {
		log.WarnContext(ctx, "the configuration is unusual", slog.String("note", note))
	}
	metrics, recorder := newMetricsFile(ctx, cfg, version, log, slog.LevelInfo), newRecorder(cfg, by.Stderr, level, by.Commands)
	n, err := open(ctx, cfg, options{access: Runs, log: log, recorder: recorder, metrics: metrics})
	if err != nil {
		return err
	}
	defer n.Close()
	r, store := n.Reaper, n.Store
	logMeans(r.Remover.Means(), log)
	var from source.Checkpoints
	if _, err := store.Load("checkpoints", &from); err != nil {
		return err
	}
	units := newUnits(cfg, log)
	all := newSources(ctx, cfg, units, log)
	if len(all) == 0 {
		return exit.Failf("name one with --log-source and --log-file", "no log can be followed")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	logs := source.Follow(ctx, all, from, log, metrics.Source)
	again := time.NewTicker(relook)
	defer again.Stop()
	var guard bounded.Guard
	logs.Relook(ctx, again.C, time.Now, func() []string { return laterFiles(ctx, cfg, &guard) })
	apply := func(next config.Config) string {
		metrics.Enforcing(!next.Observe())
		level.Set(logLevel(next))
		return next.Begins()
	}
	d := &reaper.Daemon{
		Reaper: r, Lines: logs.Lines(), Parse: countLines(metrics.Source, newParse(cfg, units)), Reload: reloads(ctx, cfg, reload, apply, log),
		Status:     func(text string) { notify("STATUS=" + text); releaseMemory() },
		Checkpoint: func() { saveCheckpoints(store, logs.Positions(), log) },
	}
	who := report.Report{Node: NodeName(cfg), Version: version, Started: time.Now().UTC()}
	stopWeb, err := serveWeb(ctx, cfg, d, who, metrics, log)
	if err != nil {
		return err
	}
	defer stopWeb()
	recordOwn(recorder, log, policy.Record{Kind: policy.KindStarted, At: r.Clock.Now(), Text: startedText(cfg, all) + ". It " + cfg.Begins()})
	notify(daemon.SdNotifyReady)
	go watchdog(ctx, d, r.Clock)
	err = d.Run(ctx)
	notify(daemon.SdNotifyStopping)
	cancel()
	logs.Wait()
	if err == nil { // the context ended
		metrics.Remove()
	}
	recordOwn(recorder, log, policy.Record{Kind: policy.KindStopped, At: r.Clock.Now(), Text: "orphan-reaper stopped"})
	return err
}

// limitHeap makes the garbage collector run early: the heap is a few MiB and grows only during a look.
func limitHeap() {
	debug.SetGCPercent(50)
	limitMemory("/proc", "/sys/fs/cgroup")
}

// recordOwn writes a record about the daemon itself, which is not in the ledger.
func recordOwn(recorder reaper.Recorder, log *slog.Logger, r policy.Record) {
	if err := recorder.Record(r); err != nil {
		log.Error("cannot write a record", slog.String("kind", string(r.Kind)), slog.Any("error", err))
	}
}

// logMeans logs which means of the kernel confine the remover.
func logMeans(m policy.Means, log *slog.Logger) {
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

func startedText(cfg config.Config, all []source.Source) string {
	var names []string
	for _, s := range all {
		names = append(names, s.Name())
	}
	return "orphan-reaper started: mode " + cfg.Mode + ", pods directory " + cfg.PodsDir() + ", following " + strings.Join(names, ", ")
}

// notify sends a message to systemd (sd_notify(3)), if it runs.
func notify(text string) { _, _ = daemon.SdNotify(false, text) }

// watchdog sends systemd its watchdog messages as long as passes end.
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

// reloads reads the configuration again at each SIGHUP. It applies the settings that can change at run time and
// logs the others; apply applies those of the log and the metrics, and returns the daemon's new behaviour. A
// wrong configuration changes nothing.
func reloads(
	ctx context.Context, cfg config.Config, reload func(context.Context) (config.Config, error), apply func(config.Config) string, log *slog.Logger,
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
			cfg = cfg.With(next, live)
			behaviour := apply(cfg)
			select {
			case out <- Rules(cfg):
				log.InfoContext(ctx, "the configuration was read again", slog.Any("changed", live), slog.String("now", behaviour))
			case <-ctx.Done():
				return
			}
			notify(daemon.SdNotifyReady)
		}
	}()
	return out
}

// reloading returns the message of Type=notify-reload, with the time (systemd.service(5)).
func reloading() string {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return daemon.SdNotifyReloading
	}
	return daemon.SdNotifyReloading + "\nMONOTONIC_USEC=" + strconv.FormatInt(ts.Nano()/1000, 10)
}
