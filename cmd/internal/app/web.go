package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/fleet"
	"github.com/orphan-reaper/orphan-reaper/reaper/fleet/report"
)

// serveWeb serves HTTP on the listening addresses until stop is called, which waits for the end.
func serveWeb(
	ctx context.Context, cfg config.Config, d *reaper.Daemon, who report.Report, metrics *metricsFile, log *slog.Logger,
) (stop func(), err error) {
	if len(cfg.WebListenAddresses) == 0 {
		return func() {}, nil
	}
	asks := make(chan func(reaper.Asked))
	fc := fleet.Config{
		Node:      who.Node,
		Addresses: slices.DeleteFunc(slices.Clone(cfg.WebListenAddresses), func(a string) bool { return a == config.Systemd }),
		Systemd:   slices.Contains(cfg.WebListenAddresses, config.Systemd),
		Metrics:   metrics.Registry(), Now: time.Now, Log: log, Hangs: stuckAfter,
		Stuck: func() time.Duration { return d.Stuck(d.Clock.Now().Boot) },
		Ask:   func(ctx context.Context) (fleet.Asked, error) { return askLook(ctx, asks) },
	}
	server := newServer(cfg, fc)
	if err := server.Check(); err != nil {
		return nil, &exit.Error{Code: exit.UsageCode, Err: err}
	}
	d.Asks = asks
	publish(d, who, server.Publish)
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { server.Serve(ctx); close(done) }()
	return func() { cancel(); <-done }, nil
}

// publish passes the report of each pass, or the error of a look that failed, and how long it is until the next.
func publish(d *reaper.Daemon, who report.Report, to func(r *report.Report, err error, next time.Duration)) {
	var done report.Done
	d.Ended = func(look uint64, rep reaper.Report, err error) {
		var r report.Report
		done.Add(rep.Outcomes)
		if err == nil {
			r = report.New(who, &report.Pass{
				Number: look, Look: rep.Look, Pods: rep.Pods, Entries: rep.Entries,
				BreakerOpen: rep.Stopped, Observe: d.Rules.Observe, Done: done,
			})
		}
		to(&r, err, rep.Next)
	}
}

// newServer returns a server with the settings of access.
func newServer(cfg config.Config, fc fleet.Config) *fleet.Server {
	if cfg.WebConfigFile != config.None {
		fc.WebConfig = cfg.WebConfigFile
	}
	return fleet.New(fc)
}

// checkWeb checks the web configuration. A file that cannot be read is a note: it may come later.
func checkWeb(cfg config.Config) (note string, err error) {
	if cfg.WebConfigFile == config.None {
		return "", nil
	}
	fc := fleet.Config{Metrics: prometheus.NewRegistry(), Now: time.Now, Log: slog.New(slog.DiscardHandler)}
	err = newServer(cfg, fc).Check()
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return "web.config_file: run would not start now: " + err.Error(), nil
	}
	if err != nil {
		return "", &exit.Error{Code: exit.UsageCode, Err: fmt.Errorf("web.config_file: %w", err)}
	}
	return "", nil
}

// askTime limits how long a client waits for the daemon's answer. The answer does not wait for the look.
const askTime = 5 * time.Second

// askLook requests a look from the daemon.
func askLook(ctx context.Context, asks chan<- func(reaper.Asked)) (fleet.Asked, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, askTime, errors.New("it does not answer"))
	defer cancel()
	answer := make(chan reaper.Asked, 1)
	select {
	case asks <- func(a reaper.Asked) { answer <- a }:
	case <-ctx.Done():
		return fleet.Asked{}, context.Cause(ctx)
	}
	a := <-answer // the daemon answers at once
	return fleet.Asked(a), nil
}

// NodeName returns the node's name in reports: the setting, or the host's name as the kubelet writes it.
func NodeName(cfg config.Config) string {
	if cfg.NodeName != config.Auto {
		return cfg.NodeName
	}
	host, err := os.Hostname()
	if err != nil {
		return ""
	}
	return strings.ToLower(strings.TrimSpace(host))
}
