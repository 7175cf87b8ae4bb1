package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/exporter-toolkit/web"
	"golang.org/x/net/netutil"

	"github.com/orphan-reaper/orphan-reaper/reaper/fleet/report"
)

// The limits of one request. A scrape of all metrics has some 50 KiB.
const (
	headerTime  = 5 * time.Second
	requestTime = 10 * time.Second
	answerTime  = 30 * time.Second
	headerBytes = 8 << 10
	bodyBytes   = 1 << 10
)

// mostOpen is how many connections of one listener are served at once. A silent one is closed after headerTime.
const mostOpen = 64

// lateBy is how late a look may be before the daemon is no longer ready: a pass that removes much takes minutes.
const lateBy = 5 * time.Minute

// Asked is the daemon's answer to a request for a look.
type Asked struct {
	Look uint64        // its number
	In   time.Duration // it begins within this time; 0 if it runs
}

// Config configures a Server.
type Config struct {
	Node string // this node's name
	// Addresses are HOST:PORT each. With Systemd the sockets that systemd has opened are served too.
	Addresses []string
	Systemd   bool
	// WebConfig is the path of Prometheus' web configuration, or "".
	WebConfig string
	Metrics   prometheus.Gatherer
	// Ask asks the daemon for a look. It returns at once, or with an error when ctx ends.
	Ask func(ctx context.Context) (Asked, error)
	// Stuck returns how long the current pass has been running; longer than Hangs is unhealthy.
	Stuck func() time.Duration
	Hangs time.Duration
	Now   func() time.Time
	Log   *slog.Logger
}

// Server serves the results of the daemon's passes. It is safe for concurrent use.
type Server struct {
	cfg     Config
	handler http.Handler
	again   time.Duration // tryAgain; tests set it
	checks  struct {      // the last check of the web configuration by recheck
		sync.Mutex
		at   time.Time
		last string // its error, or ""
	}

	mu     sync.Mutex
	report []byte   // as JSON, nil before the first look
	failed string   // the error of the last look, or ""
	lacks  []string // what keeps the daemon from enforcing
	open   bool     // the breaker is open
	done   report.Done
	due    time.Time // when the daemon is no longer ready without another look
}

// New returns a server that does not listen yet.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg, again: tryAgain}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(cfg.Metrics, promhttp.HandlerOpts{
		DisableCompression: true, MaxRequestsInFlight: 4, Timeout: requestTime,
	}))
	mux.HandleFunc("GET /healthz", s.healthz)
	mux.HandleFunc("GET /readyz", s.readyz)
	mux.HandleFunc("GET /v1/orphans", s.trusted(s.orphans))
	mux.HandleFunc("POST /v1/sweep", s.trusted(s.sweep))
	// Web pages of other origins are refused too.
	s.handler = http.MaxBytesHandler(http.NewCrossOriginProtection().Handler(mux), bodyBytes)
	return s
}

// Serve serves all addresses until ctx ends. It retries an address that is in use: any user may occupy a port, and that
// must not stop the daemon.
func (s *Server) Serve(ctx context.Context) {
	var wg sync.WaitGroup
	if s.cfg.Systemd {
		given, err := systemdSockets()
		if err != nil {
			s.cfg.Log.ErrorContext(ctx, "cannot serve HTTP on systemd's sockets", slog.Any("error", err))
		}
		for _, l := range given {
			wg.Go(func() { s.warn(ctx, s.serve(ctx, l)) })
		}
	}
	for _, address := range s.cfg.Addresses {
		wg.Go(func() { s.keep(ctx, address) })
	}
	wg.Wait()
}

// systemdSockets returns the sockets that systemd has opened (sd_listen_fds(3)). It can be called once.
func systemdSockets() ([]net.Listener, error) {
	var all []net.Listener
	given, err := activation.Listeners()
	for _, l := range given {
		if l != nil { // nil is not a stream socket
			all = append(all, l)
		}
	}
	if err == nil && len(all) == 0 {
		err = errors.New("systemd has passed none; check that orphan-reaper.socket is installed and started")
	}
	return all, err
}

// tryAgain is how soon an address is tried again.
const tryAgain = 30 * time.Second

// keep serves one address, and tries again while it is in use.
func (s *Server) keep(ctx context.Context, address string) {
	logged := ""
	for ctx.Err() == nil {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
		if err == nil {
			logged, err = "", s.serve(ctx, l)
		}
		if err != nil && err.Error() != logged {
			logged = err.Error()
			s.warn(ctx, err)
		}
		wait := time.NewTimer(s.again)
		select {
		case <-ctx.Done():
		case <-wait.C:
		}
		wait.Stop()
	}
}

func (s *Server) warn(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		s.cfg.Log.ErrorContext(ctx, "cannot serve HTTP at an address; the daemon works as before. "+
			"Free the address, or set another in web.listen_addresses",
			slog.Any("error", err))
	}
}

// serve serves one listener until ctx ends, and closes it.
func (s *Server) serve(ctx context.Context, l net.Listener) error {
	h := s.httpServer()
	stop := context.AfterFunc(ctx, func() { _ = h.Close() })
	defer stop()
	if err := s.Check(); err != nil {
		return errors.Join(err, l.Close())
	}
	s.cfg.Log.InfoContext(ctx, "serving HTTP at an address", slog.String("address", l.Addr().String()))
	err := web.Serve(netutil.LimitListener(l, mostOpen), h, &web.FlagConfig{WebConfigFile: &s.cfg.WebConfig}, slog.New(unanswered{s}))
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return errors.Join(err, l.Close())
}

// httpServer returns the server of one listener; the toolkit puts its own handler before ours.
func (s *Server) httpServer() *http.Server {
	h := &http.Server{
		Handler: s.handler, ReadHeaderTimeout: headerTime, ReadTimeout: requestTime, WriteTimeout: answerTime,
		MaxHeaderBytes: headerBytes, ErrorLog: slog.NewLogLogger(unanswered{s}, slog.LevelDebug),
		Protocols: new(http.Protocols),
	}
	// One request a connection, so that what bounds connections bounds requests.
	h.Protocols.SetHTTP1(true)
	h.SetKeepAlivesEnabled(false)
	return h
}

// Publish sets the report that is served, or the error of a failed look. The next look comes within next.
func (s *Server) Publish(r *report.Report, err error, next time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.due = s.cfg.Now().Add(next + lateBy)
	if err != nil {
		s.failed = report.Short(err.Error())
		return
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		s.cfg.Log.Error("cannot write the report", slog.Any("error", err))
		return
	}
	s.report, s.failed, s.lacks, s.open = append(text, '\n'), "", nil, r.BreakerOpen
	s.done = r.Done
	if r.Mode == report.Observe {
		return
	}
	for _, m := range r.Missing {
		s.lacks = append(s.lacks, "nothing is removed, although the mode is enforce: "+m)
	}
	if r.BreakerOpen {
		s.lacks = append(s.lacks,
			"nothing is removed, since the breaker is open: a quarantined pod turned out to be alive; inspect it with orphan-reaper quarantine list")
	}
}

// healthz reports whether a pass has been running for longer than Hangs.
func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) {
	if d := s.cfg.Stuck(); d > s.cfg.Hangs {
		http.Error(w, "a pass has not ended for "+d.Round(time.Second).String(), http.StatusServiceUnavailable)
		return
	}
	_, _ = fmt.Fprintln(w, "ok")
}

// readyz reports whether the daemon does what its mode is for, and if not, what is missing.
func (s *Server) readyz(w http.ResponseWriter, _ *http.Request) {
	problems := s.problems()
	if len(problems) == 0 {
		_, _ = fmt.Fprintln(w, "ok")
		return
	}
	http.Error(w, "not ready:\n- "+strings.Join(problems, "\n- "), http.StatusServiceUnavailable)
}

// problems returns what keeps the daemon from being ready.
func (s *Server) problems() (list []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed != "" {
		list = append(list, "the node cannot be looked at: "+s.failed)
	}
	switch now := s.cfg.Now(); {
	case s.due.IsZero():
		list = append(list, "no look has ended yet")
	case now.After(s.due):
		list = append(list, "the last look was due "+now.Sub(s.due.Add(-lateBy)).Round(time.Second).String()+" ago")
	}
	return append(list, s.lacks...)
}

func (s *Server) orphans(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	text := s.report
	s.mu.Unlock()
	if text == nil {
		http.Error(w, "no look has ended yet; ask again in a few seconds", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text)
}

// sweep asks for a look. Two clients that ask at once get the same one.
func (s *Server) sweep(w http.ResponseWriter, r *http.Request) {
	a, err := s.cfg.Ask(r.Context())
	if err != nil {
		http.Error(w, "the daemon stops: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusAccepted)
	s.mu.Lock()
	answer := report.Answer{Node: s.cfg.Node, Look: a.Look, InSeconds: a.In.Seconds(), BreakerOpen: s.open, Done: s.done}
	s.mu.Unlock()
	_ = json.NewEncoder(w).Encode(answer)
}
