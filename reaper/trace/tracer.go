package trace

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
)

const (
	mostQueued = 4 // traces that wait to be sent
	mostAsked  = 9 // who asked for one look: its parent and eight links
)

// Config is what a Tracer needs.
type Config struct {
	// Endpoint is the collector's address, http://HOST:PORT or https://HOST:PORT; v1/traces is added.
	Endpoint string
	// CAFile has the certificates by which an https collector is known, "" for the system's.
	CAFile  string
	Version string // of the program
	Host    string // this host's name, "" where it is not known
	Node    string // the node's name at the API server, "" where it is not known
	Log     *slog.Logger
}

// Tracer sends a trace of each look. A nil Tracer is one that is off.
type Tracer struct {
	cfg      Config
	resource []Attribute
	queue    chan queued
	id       func(bytes int) string
	send     func(ctx context.Context, body []byte) error

	mu      sync.Mutex
	asked   map[uint64][]parent // by the look that answers them
	lost    int                 // traces that no collector has got since that was told
	failing bool                // that was told
}

type queued struct {
	look  Look
	asked []parent
}

// New returns a Tracer that sends nothing until Run.
func New(cfg Config) *Tracer {
	t := &Tracer{cfg: cfg, queue: make(chan queued, mostQueued), id: randomID, asked: map[uint64][]parent{}}
	t.send = (&collector{url: address(cfg.Endpoint), caFile: cfg.CAFile, agent: "orphan-reaper/" + cfg.Version, patience: requestTime}).send
	// The names are those of OpenTelemetry's semantic conventions.
	t.resource = []Attribute{{"service.name", "orphan-reaper"}, {"service.version", cfg.Version}}
	for _, a := range []Attribute{{"host.name", cfg.Host}, {"k8s.node.name", cfg.Node}} {
		if a.Value != "" {
			t.resource = append(t.resource, a)
		}
	}
	return t
}

// Asked notes that somebody with this header traceparent has asked for a look, and that this one
// answers. It must be called before Ended of the look.
func (t *Tracer) Asked(look uint64, traceparent string) {
	if t == nil {
		return
	}
	p, ok := parseParent(traceparent)
	if !ok {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.asked[look]) < mostAsked {
		t.asked[look] = append(t.asked[look], p)
	}
}

// Ended takes a look that has ended, and returns at once.
func (t *Tracer) Ended(l Look) {
	if t == nil {
		return
	}
	t.mu.Lock()
	q := queued{l, t.asked[l.Number]}
	for n := range t.asked {
		if n <= l.Number {
			delete(t.asked, n)
		}
	}
	t.mu.Unlock()
	select {
	case t.queue <- q:
	default:
		t.failed(errBehind)
	}
}

// Run sends what Ended takes until ctx ends. What is then not sent is lost.
func (t *Tracer) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case q := <-t.queue:
			if err := t.export(ctx, &q); err == nil {
				t.worked()
			} else if ctx.Err() == nil {
				t.failed(err)
			}
		}
	}
}

// export sends one look. Whatever goes wrong here costs a trace and no more.
func (t *Tracer) export(ctx context.Context, q *queued) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("cannot write the trace: %v", r)
		}
	}()
	body, err := t.encode(&q.look, q.asked)
	if err != nil {
		return err
	}
	return t.send(ctx, body)
}

// failed counts a trace that is lost, and tells of the first.
func (t *Tracer) failed(err error) {
	t.mu.Lock()
	t.lost++
	told := t.failing
	t.failing = true
	t.mu.Unlock()
	if !told {
		t.cfg.Log.Warn("traces cannot be sent, and are dropped; the daemon works as before; this is logged once",
			slog.String("endpoint", t.cfg.Endpoint), slog.Any("error", err))
	}
}

// worked tells that traces are sent again, where it was told that they are not.
func (t *Tracer) worked() {
	t.mu.Lock()
	told, lost := t.failing, t.lost
	t.failing, t.lost = false, 0
	t.mu.Unlock()
	if told {
		t.cfg.Log.Info("traces are sent again", slog.Int("lost", lost))
	}
}
