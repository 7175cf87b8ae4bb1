package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// reloads reads the configuration again at each SIGHUP, and delivers its settings. A wrong one changes nothing.
func (n *opened) reloads(ctx context.Context, cmd *cobra.Command, level *slog.LevelVar, more func(judge.Settings)) <-chan judge.Settings {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	out := make(chan judge.Settings)
	reload := func() {
		notify(reloading())
		defer notify(daemon.SdNotifyReady)
		next, err := config.Load(cmd.Flags(), config.DefaultFile)
		if err == nil {
			err = next.Settle(n.cfg.RootDir)
		}
		if err != nil {
			n.Log.ErrorContext(ctx, "the configuration is wrong, and the old one stays", slog.Any("error", err))
			return
		}
		if keys := n.cfg.NeedRestart(next); len(keys) > 0 {
			n.Log.WarnContext(ctx, "some settings change only with a restart", slog.Any("settings", keys))
		}
		if err := n.store.Publish(daemonOf(n.cfg, next)); err != nil {
			n.Log.WarnContext(ctx, "commands beside this daemon show its old settings", slog.Any("error", err))
		}
		level.Set(next.LogLevel)
		more(next.Judge())
		select {
		case out <- next.Judge():
			n.Log.InfoContext(ctx, "the configuration was read again", slog.String("mode", next.Mode))
		case <-ctx.Done():
		}
	}
	go func() {
		defer signal.Stop(hup)
		for {
			select {
			case <-ctx.Done():
				return
			case <-hup:
				reload()
			}
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
