package reporter

import (
	"context"
	"encoding/json"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/fleet/report"
	"github.com/orphan-reaper/orphan-reaper/reaper/kube"
)

// Config configures a Writer.
type Config struct {
	// Node is the configured name of this node. If it is "", the name comes from the credentials, and then from Host.
	Node, Host string
	// Open returns the API server with its credentials. It is called for each report.
	Open func() (*kube.Server, error)
	// Written is called after each written report.
	Written func(at time.Time)
	Now     func() time.Time
	Log     *slog.Logger
}

// Writer writes the reports that Publish sets. Publish may be called by one goroutine while Run runs in
// another.
type Writer struct {
	cfg    Config
	notice chan struct{} // signals that newest has changed
	plan   schedule
	events events
	wait   time.Duration                              // requestTime; tests set it
	logged string                                     // the kind of failure that was logged last, or "written"
	post   func(context.Context, report.Report) error // send; tests set it

	mu     sync.Mutex
	found  *report.Report // of the last look that succeeded
	newest *report.Report // the same, or with the error of a later look
	wrote  uint64         // the mark of the report that was written last
}

// New returns a writer that writes nothing until Run.
func New(cfg Config) *Writer {
	random := func(most time.Duration) time.Duration { return rand.N(most + 1) }
	w := &Writer{cfg: cfg, notice: make(chan struct{}, 1), wait: requestTime, plan: schedule{random: random}}
	w.post = w.send
	return w
}

// Publish sets the report of a pass, which must not be changed afterwards, or the error of a failed look. It does not
// block.
func (w *Writer) Publish(r *report.Report, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err == nil:
		w.found, w.newest = r, r
	case w.found == nil:
		return // there was no look yet
	default:
		failed := *w.found
		failed.Failed(err)
		w.newest = &failed
	}
	select {
	case w.notice <- struct{}{}:
	default: // Run has a notice already
	}
}

// latest returns the newest report and its mark, and whether the mark differs from that of the last written report.
func (w *Writer) latest() (r report.Report, mark uint64, changed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	mark = markOf(w.newest)
	return *w.newest, mark, mark != w.wrote
}

// markOf returns a hash of the report without values that change at each look and are not worth a write: times, sizes,
// the details of reasons, and the texts of errors.
func markOf(r *report.Report) uint64 {
	same := *r
	same.Look, same.At = 0, time.Time{}
	same.Errors, same.Missing = make([]string, len(r.Errors)), make([]string, len(r.Missing))
	same.Counts.Bytes, same.Done.Bytes, same.Sums = 0, 0, slices.Clone(r.Sums)
	for i := range same.Sums {
		same.Sums[i].Bytes = 0
	}
	same.Pods = slices.Clone(r.Pods)
	for i := range same.Pods {
		p := &same.Pods[i]
		p.DueSeconds, p.Bytes, p.Why = 0, 0, slices.Clone(p.Why)
		for j := range p.Why {
			p.Why[j].Detail = ""
		}
	}
	sum := fnv.New64a()
	_ = json.NewEncoder(sum).Encode(same) // a hash never fails
	return sum.Sum64()
}

// Run writes until ctx ends.
func (w *Writer) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Stop()
		if due := w.plan.due; !due.IsZero() {
			timer.Reset(due.Sub(w.cfg.Now()))
		}
		select {
		case <-ctx.Done():
			return
		case <-w.notice:
			r, _, changed := w.latest()
			w.events.note(&r, w.cfg.Now())
			w.plan.published(w.cfg.Now(), changed)
		case <-timer.C:
			w.write(ctx)
		}
	}
}

// write writes the newest report, and then the pending events.
func (w *Writer) write(ctx context.Context) {
	r, mark, _ := w.latest()
	began := w.cfg.Now()
	err := w.post(ctx, r)
	if ctx.Err() != nil {
		return // the daemon stops
	}
	now := w.cfg.Now()
	w.log(ctx, err)
	if err != nil {
		w.plan.failed(now, kube.RetryAfter(err))
		return
	}
	w.mu.Lock()
	w.wrote = mark
	w.mu.Unlock()
	w.plan.written(now, now.Sub(began))
	if _, _, changed := w.latest(); changed { // while it was written
		w.plan.published(now, true)
	}
	w.cfg.Written(now)
}

// log logs a failure, and its end, once.
func (w *Writer) log(ctx context.Context, err error) {
	kind, mend := "written", ""
	if err != nil {
		kind, mend = diagnose(err)
	}
	if kind == w.logged {
		return
	}
	w.logged = kind
	if err == nil {
		w.cfg.Log.InfoContext(ctx, "the node's OrphanReport is written")
		return
	}
	w.cfg.Log.WarnContext(ctx, "cannot write the node's OrphanReport; the daemon works as before and tries again",
		slog.Any("error", err), slog.String("mend", mend))
}
