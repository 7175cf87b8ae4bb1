package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/fleet/report"
	"github.com/orphan-reaper/orphan-reaper/reaper/fleet/reporter"
	"github.com/orphan-reaper/orphan-reaper/reaper/kube"
)

// publishers get the report of each pass, or the error of a look that failed, and how long it is until the next.
type publishers []func(r *report.Report, err error, next time.Duration)

func (p *publishers) add(receive func(r *report.Report, err error, next time.Duration)) {
	*p = append(*p, receive)
}

// publish makes one report of each pass for all publishers.
func publish(d *reaper.Daemon, who report.Report, to publishers) {
	if len(to) == 0 {
		return
	}
	var done report.Done
	d.Ended = func(look uint64, rep reaper.Report, err error) {
		var r report.Report
		done.Add(rep.Outcomes)
		if err == nil {
			r = report.New(who, &report.Pass{
				Number: look, Look: rep.Look, Pods: rep.Pods, Entries: rep.Entries,
				BreakerOpen: rep.Stopped, Observe: d.Rules.Observe, EnforcesFrom: d.Rules.Delay.Until, Done: done,
			})
		}
		for _, receive := range to {
			receive(&r, err, rep.Next)
		}
	}
}

// openAPIServer reads which API server a setting names and with which credentials; nil for none.
func openAPIServer(ctx context.Context, guard *bounded.Guard, which string, now time.Time) (*kube.Server, error) {
	return bounded.Try(ctx, guard, "credentials", func() (*kube.Server, error) {
		switch which {
		case config.None:
			return nil, nil // none is an answer, not an error
		case config.InCluster:
			return kube.InCluster(now)
		default:
			return kube.ReadConfig(which, now)
		}
	})
}

// writeReports writes the node's OrphanReport, where it is to be written, until the returned function
// is called.
func writeReports(ctx context.Context, cfg config.Config, to *publishers, metrics *metricsFile, log *slog.Logger) (stop func()) {
	if cfg.OrphanReport == config.None {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var guard bounded.Guard // a file that hangs costs one thread
	c := reporter.Config{
		Host: NodeName(cfg), Now: time.Now, Log: log,
		Open: func() (*kube.Server, error) { return openAPIServer(ctx, &guard, cfg.OrphanReport, time.Now()) },
		Written: func(at time.Time) {
			metrics.Reported(at)
			metrics.Flush()
		},
	}
	if cfg.NodeName != config.Auto {
		c.Node = cfg.NodeName
	}
	w := reporter.New(c)
	to.add(func(r *report.Report, err error, _ time.Duration) { w.Publish(r, err) })
	done := make(chan struct{})
	go func() { w.Run(ctx); close(done) }()
	return func() { cancel(); <-done }
}
