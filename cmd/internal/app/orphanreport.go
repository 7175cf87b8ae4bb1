package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/fleet/reporter"
	"github.com/orphan-reaper/orphan-reaper/reaper/kube"
)

// openAPIServer reads which API server a setting names and with which credentials; nil for none.
func openAPIServer(ctx context.Context, guard *bounded.Guard, which string, now time.Time) (*kube.Server, error) {
	type answer struct {
		server *kube.Server
		err    error
	}
	a, hung := bounded.Do(ctx, guard, "credentials", func() (a answer) {
		switch which {
		case config.None:
		case config.InCluster:
			a.server, a.err = kube.InCluster(now)
		default:
			a.server, a.err = kube.ReadConfig(which, now)
		}
		return a
	})
	if hung != nil {
		return nil, hung
	}
	return a.server, a.err
}

// writeReports writes the node's OrphanReport, where it is to be written, until the returned function
// is called.
func writeReports(ctx context.Context, cfg config.Config, version string, d *reaper.Daemon, metrics *metricsFile, log *slog.Logger) (stop func()) {
	if cfg.OrphanReport == config.None {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var guard bounded.Guard // a file that hangs costs one thread
	c := reporter.Config{
		Version: version, Started: time.Now(), Now: time.Now, Log: log,
		Open: func() (*kube.Server, error) { return openAPIServer(ctx, &guard, cfg.OrphanReport, time.Now()) },
		Ended: func(at time.Time, written bool) {
			if written {
				metrics.Reported(at)
				_ = metrics.Flush() // it tells by itself
			}
		},
	}
	c.Host = NodeName(cfg)
	if cfg.NodeName != config.Auto {
		c.Node = cfg.NodeName
	}
	w := reporter.New(c)
	publish(d, w.Publish)
	done := make(chan struct{})
	go func() { w.Run(ctx); close(done) }()
	return func() { cancel(); <-done }
}
