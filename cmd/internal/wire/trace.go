package wire

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/fleet/report"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/trace"
)

// startTracing has each look traced until the returned function is called, which waits for the end. Without
// an endpoint there is no tracer, and nothing of a look is kept for one.
func startTracing(ctx context.Context, cfg config.Config, version string, d *reaper.Daemon, log *slog.Logger) (t *trace.Tracer, stop func()) {
	if cfg.TracingEndpoint == config.None {
		return nil, func() {}
	}
	host, err := os.Hostname()
	if err != nil {
		host = "" // then it is not told
	}
	tc := trace.Config{Endpoint: cfg.TracingEndpoint, Version: version, Host: host, Node: NodeName(cfg), Log: log}
	if cfg.TracingCAFile != config.None {
		tc.CAFile = cfg.TracingCAFile
	}
	t = trace.New(tc)
	tellToo(d, func(look uint64, rep reaper.Report, err error) {
		t.Ended(lookOf(look, &rep, err, d.Rules.Observe))
	})
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { t.Run(ctx); close(done) }()
	return t, func() { cancel(); <-done }
}

// lookOf gives what a trace tells of a pass the room's type: counts and times, and nothing of a pod.
func lookOf(number uint64, rep *reaper.Report, err error, observe bool) trace.Look {
	// One clock for all spans: the wall's may be set while a pass runs.
	at := func(boot time.Duration) time.Time { return rep.Began.Wall.Add(boot - rep.Began.Boot) }
	l := trace.Look{Number: number, Span: trace.Span{Name: "look", Begin: rep.Began.Wall, End: at(rep.Ended.Boot)}}
	r := report.New(report.Report{}, passOf(number, rep, err, observe)) // it counts as /v1/orphans does
	l.Attributes = []trace.Attribute{{Key: "orphan_reaper.look", Value: int(number)}, {Key: "orphan_reaper.mode", Value: r.Mode}}
	if err != nil {
		l.Error = report.Short(err.Error())
		return l
	}
	c := &r.Counts
	l.Attributes = append(l.Attributes, []trace.Attribute{
		{Key: "orphan_reaper.pod_directories", Value: c.PodDirectories},
		{Key: "orphan_reaper.reap", Value: c.Reap},
		{Key: "orphan_reaper.wait", Value: c.Wait},
		{Key: "orphan_reaper.keep", Value: c.Keep},
		{Key: "orphan_reaper.needs_person", Value: c.NeedsPerson},
		{Key: "orphan_reaper.quarantine", Value: c.Quarantine},
		{Key: "orphan_reaper.breaker_open", Value: rep.Stopped},
		{Key: "orphan_reaper.errors", Value: len(rep.Look.Errors)},
	}...)
	for _, p := range rep.Look.Timings {
		l.Parts = append(l.Parts, trace.Span{Name: "read " + p.Name, Begin: at(p.Begin), End: at(p.End)})
	}
	for i := range rep.Batches {
		b := &rep.Batches[i]
		s := trace.Span{Name: "batch " + b.Name, Begin: at(b.Begin), End: at(b.End)}
		s.Attributes, s.Error = outcomesOf(b, rep)
		l.Parts = append(l.Parts, s)
	}
	return l
}

// outcomesOf counts how the actions of a batch ended, and says where a person should look.
func outcomesOf(b *reaper.Batch, rep *reaper.Report) (list []trace.Attribute, failed string) {
	count := func(what string, n int) {
		if n > 0 {
			list = append(list, trace.Attribute{Key: "orphan_reaper.outcomes." + what, Value: n})
		}
	}
	if b.Name == reaper.BatchCNI {
		swept := cni.ReportOf(rep.CNI)
		c := &swept.Census
		count("done", int(c.Removed()))
		count("gone", int(c.Vanished))
		count("refused", int(c.Refused))
		count("failed", int(c.Failed-c.Refused))
		if len(swept.Errors) > 0 {
			failed = "not all could be read or removed"
		}
		return list, failed
	}
	list = append(list, trace.Attribute{Key: "orphan_reaper.actions", Value: len(b.Outcomes)})
	results := map[policy.Result]int{}
	for i := range b.Outcomes {
		results[b.Outcomes[i].Result]++
	}
	for _, r := range slices.Sorted(maps.Keys(results)) {
		count(string(r), results[r])
	}
	if results[policy.Failed] > 0 {
		failed = "an action has failed; the journal says which"
	}
	return list, failed
}
