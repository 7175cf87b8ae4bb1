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

// Config is what a Writer needs.
type Config struct {
	// Node is this node's name as it was set, "" for the one in the credentials; Host is
	// used where they have none.
	Node, Host string
	// Open reads which API server to write to and with which credentials. It is asked again each time.
	Open func() (*kube.Server, error)
	// Written is called each time the report was written.
	Written func(at time.Time)
	Now     func() time.Time
	Log     *slog.Logger
}

// Writer writes the reports that Publish sets. Publish may be called by one goroutine while Run runs in
// another.
type Writer struct {
	cfg    Config
	notice chan struct{} // that newest is another one
	plan   schedule
	events events
	wait   time.Duration                              // requestTime, but in tests
	logged string                                     // what was logged last: the kind of failure, or that it was written
	post   func(context.Context, report.Report) error // send, but in tests

	mu     sync.Mutex
	found  *report.Report // by the last look that could be taken
	newest *report.Report // the same, or with what hinders a newer look
	wrote  uint64         // the mark of the report that was written last
}

// New returns a writer that writes nothing until Run.
func New(cfg Config) *Writer {
	random := func(most time.Duration) time.Duration { return rand.N(most + 1) }
	w := &Writer{cfg: cfg, notice: make(chan struct{}, 1), wait: requestTime, plan: schedule{random: random}}
	w.post = w.send
	return w
}

// Publish sets the report of a pass, which must not be changed afterwards, or the error of a look that failed. It does not wait
// for anything.
func (w *Writer) Publish(r *report.Report, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err == nil:
		w.found, w.newest = r, r
	case w.found == nil:
		return // nothing is known of the node
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

// latest returns the newest report and its mark, and whether that differs from what was written last.
func (w *Writer) latest() (r report.Report, mark uint64, changed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	mark = markOf(w.newest)
	return *w.newest, mark, mark != w.wrote
}

// markOf returns a mark that differs for reports with a difference that is worth a write: not the time, nor
// sizes, nor the details of a reason that stays the same, nor the texts of errors, which may have
// another number in them at each look.
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

// write writes the newest report, and then what events there are.
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
