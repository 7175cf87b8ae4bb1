package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/exporter-toolkit/web"
	"golang.org/x/net/netutil"

	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// The limits of one request.
const (
	headerTime  = 5 * time.Second
	requestTime = 10 * time.Second
	answerTime  = 30 * time.Second
	headerBytes = 8 << 10
	mostOpen    = 64 // connections of one listener; a silent one is closed after headerTime
)

// tryAgain is how soon an address that is in use is tried again.
const tryAgain = 30 * time.Second

// settled is how long after hold and confirm a daemon is ready: a report, three scans and a restore take less.
const settled = 4 * time.Minute

// Server serves the results of the daemon's passes. Its methods are safe for concurrent use; the fields are set before.
type Server struct {
	Node, Version string
	Start         time.Time // of the daemon
	Settings      judge.Settings
	WebConfigFile string // "" for none
	Metrics       prometheus.Gatherer
	Ask           func(traceparent string) (pass uint64) // reaper.Daemon.Ask
	// Alive returns nil while the loop works, else what it hangs at: what stops the watchdog.
	Alive func() error
	Clock reaper.Clock
	Log   *slog.Logger

	mu     sync.Mutex
	head   Head
	status *reaper.Status // of the last pass that did not fail
	closed judge.Instant  // since when passes have found the circuit breaker closed; zero if it is open
}

// Ended takes the result of a pass, which nothing changes afterwards: reaper.Daemon.Ended.
func (s *Server) Ended(pass uint64, status reaper.Status, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begin()
	if err != nil {
		s.head.Pass, s.head.Failed = pass, err.Error()
		return
	}
	s.head.Pass, s.head.Failed, s.status = pass, "", &status
	s.head.fill(&status)
	switch {
	case s.head.Breaker:
		s.closed = judge.Instant{}
	case s.closed == judge.Instant{}:
		s.closed = status.At
	}
}

// Reload takes new settings.
func (s *Server) Reload(settings judge.Settings) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Settings = settings
}

// begin fills the head before the first pass.
func (s *Server) begin() {
	if s.head.Node == "" {
		s.head = Head{Node: s.Node, Version: s.Version, Start: s.Start}
	}
}

// Listen is one address to serve.
type Listen struct {
	Address string // HOST:PORT
	Probes  bool   // only /healthz and /readyz, without TLS and password
}

// ParseListen parses a web_listen_address: HOST:PORT, or probes=HOST:PORT.
func ParseListen(text string) (Listen, error) {
	address, probes := strings.CutPrefix(text, "probes=")
	_, port, err := net.SplitHostPort(address)
	if n, errPort := strconv.ParseUint(port, 10, 16); err != nil || errPort != nil || n == 0 {
		return Listen{}, fmt.Errorf("%q is not HOST:PORT or probes=HOST:PORT", text)
	}
	return Listen{address, probes}, nil
}

// Serve serves all addresses until ctx ends. An address that is in use is tried again: any user of the node may take a
// port, and that must not stop the daemon.
func (s *Server) Serve(ctx context.Context, all []Listen) {
	var wg sync.WaitGroup
	for _, l := range all {
		wg.Go(func() { s.keep(ctx, l) })
	}
	wg.Wait()
}

// keep serves one address, and tries again after an error, which it logs once.
func (s *Server) keep(ctx context.Context, at Listen) {
	logged := ""
	for ctx.Err() == nil {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", at.Address)
		if err == nil {
			err = s.serve(ctx, l, at.Probes)
		}
		if err != nil && err.Error() != logged && ctx.Err() == nil {
			logged = err.Error()
			s.Log.ErrorContext(ctx, "cannot serve HTTP at an address, and tries again; the daemon works as before",
				slog.String("address", at.Address), slog.Any("error", err))
		}
		wait := time.NewTimer(tryAgain)
		select {
		case <-ctx.Done():
		case <-wait.C:
		}
		wait.Stop()
	}
}

// serve serves one listener until ctx ends, and closes it.
func (s *Server) serve(ctx context.Context, l net.Listener, probes bool) error {
	file, quiet := s.WebConfigFile, slog.New(atDebug{s.Log.Handler()})
	if probes {
		file = ""
	}
	h := &http.Server{
		Handler: s.handler(probes), ReadHeaderTimeout: headerTime, ReadTimeout: requestTime, WriteTimeout: answerTime,
		MaxHeaderBytes: headerBytes, ErrorLog: slog.NewLogLogger(quiet.Handler(), slog.LevelDebug), Protocols: new(http.Protocols),
	}
	h.Protocols.SetHTTP1(true)
	h.SetKeepAlivesEnabled(false) // so that what bounds connections bounds requests
	stop := context.AfterFunc(ctx, func() { _ = h.Close() })
	defer stop()
	err := web.Serve(netutil.LimitListener(l, mostOpen), h, &web.FlagConfig{WebConfigFile: &file}, quiet)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	if err != nil && file != "" {
		err = fmt.Errorf("cannot use the web configuration %s: %w", file, err)
	}
	return errors.Join(err, l.Close())
}

// handler returns what one listener serves.
func (s *Server) handler(probes bool) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", s.healthz)
	mux.HandleFunc("GET /readyz", s.readyz)
	if !probes {
		mux.Handle("GET /metrics", promhttp.HandlerFor(s.Metrics, promhttp.HandlerOpts{
			DisableCompression: true, MaxRequestsInFlight: 4, Timeout: requestTime,
		}))
		mux.HandleFunc("GET /report", s.private(s.getReport))
		mux.HandleFunc("POST /scan", s.private(s.postScan))
	}
	// A web page of another origin cannot use the password that a browser keeps.
	return http.NewCrossOriginProtection().Handler(mux)
}

func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) {
	if err := s.Alive(); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	_, _ = fmt.Fprintln(w, "ok")
}

func (s *Server) readyz(w http.ResponseWriter, _ *http.Request) {
	if why := s.unready(); why != "" {
		http.Error(w, why, http.StatusServiceUnavailable)
		return
	}
	_, _ = fmt.Fprintln(w, "ok")
}

// unready returns why a rolling update has to wait for this node, "" if it need not. A daemon that observes is always
// ready: the DaemonSet's controller replaces pods that are not ready outside of its budget.
func (s *Server) unready() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch wait := s.Settings.Hold + s.Settings.Confirm + settled; {
	case s.Settings.Observe:
		return ""
	case s.head.Failed != "":
		return "the last pass failed: " + s.head.Failed
	case s.head.Breaker:
		return "the circuit breaker is open: see `orphan-reaper quarantine list` on the node"
	case s.closed == judge.Instant{}:
		return "no pass has ended yet"
	default:
		if ran := s.Clock.Now().Age(s.closed); ran < wait {
			return fmt.Sprintf("the daemon has run for %s of %s with a closed circuit breaker", ran.Round(time.Second), wait)
		}
	}
	return ""
}

func (s *Server) getReport(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	s.begin()
	head, status := s.head, s.status
	s.mu.Unlock()
	hangs := s.Alive()
	if hangs != nil { // the pass that waits for the call gives no status
		head.Stopped, head.Operator = judge.Stuck, true
	}
	if status == nil {
		answer(w, http.StatusOK, head)
		return
	}
	last := *status
	if hangs != nil {
		last.Stopped, last.Operator = &judge.Reason{Reason: judge.Stuck, Detail: hangs.Error(), Operator: true}, true
	}
	text, err := Report{head, last}.encode()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text)
}

func (s *Server) postScan(w http.ResponseWriter, r *http.Request) {
	scan := s.Ask(r.Header.Get("traceparent"))
	s.mu.Lock()
	s.begin()
	head := s.head
	s.mu.Unlock()
	head.Scan = scan
	answer(w, http.StatusAccepted, head)
}

func answer(w http.ResponseWriter, code int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(value) // the client has gone
}

// atDebug is the handler for what net/http and the toolkit log: any client can cause such a line.
type atDebug struct{ slog.Handler }

// Enabled reports whether lines at level debug are logged.
func (h atDebug) Enabled(ctx context.Context, _ slog.Level) bool {
	return h.Handler.Enabled(ctx, slog.LevelDebug)
}

// Handle logs the line at level debug.
func (h atDebug) Handle(ctx context.Context, r slog.Record) error {
	r.Level = slog.LevelDebug
	return h.Handler.Handle(ctx, r)
}
