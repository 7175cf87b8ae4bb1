package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/exporter-toolkit/web"
	"go.yaml.in/yaml/v2"
)

// webConfig reads the current web configuration, as the toolkit does for each request, with the toolkit's type and
// parser: trusted must see the configuration that the toolkit has enforced.
func (s *Server) webConfig() (*web.Config, error) {
	c := new(web.Config)
	if s.cfg.WebConfig == "" {
		return c, nil
	}
	text, err := os.ReadFile(s.cfg.WebConfig)
	if err != nil {
		return nil, err
	}
	if err := yaml.UnmarshalStrict(text, c); err != nil {
		return nil, errors.New(strings.ReplaceAll(err.Error(), "\n ", ""))
	}
	c.TLSConfig.SetDirectory(filepath.Dir(s.cfg.WebConfig))
	return c, nil
}

// wantsCertificate reports whether every connection needs a certificate of an authority that the file names. Without
// an authority any public certificate would be accepted.
func wantsCertificate(c *web.Config) bool {
	return c.TLSConfig.ClientAuth == "RequireAndVerifyClientCert" && (c.TLSConfig.ClientCAsText != "" || c.TLSConfig.ClientCAs != "")
}

// Check returns an error if the web configuration cannot be used.
func (s *Server) Check() error {
	if s.cfg.WebConfig == "" {
		return nil
	}
	c, err := s.webConfig()
	if err == nil {
		err = readable(&c.TLSConfig)
	}
	if err == nil {
		err = web.Validate(s.cfg.WebConfig)
	}
	if err != nil {
		return fmt.Errorf("cannot use the web configuration %s: %w", s.cfg.WebConfig, err)
	}
	return nil
}

// readable returns the error of the first file that cannot be opened. The toolkit's error does not wrap it, and
// callers handle a missing file, which may still be created, differently.
func readable(c *web.TLSConfig) error {
	for _, path := range []string{c.TLSCertPath, c.TLSKeyPath, c.ClientCAs} {
		if path == "" {
			continue
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		_ = f.Close() // nothing was read
	}
	return nil
}

// checkAgain is the shortest time between two checks of a web configuration that may have become wrong.
const checkAgain = time.Minute

// unanswered is the handler for the lines that net/http and the toolkit log about clients that were not answered. Any
// client can cause such a line, so it logs them at level debug. One cause needs the operator: a web configuration that
// has become invalid is logged once, as an error.
type unanswered struct{ *Server }

// Enabled reports true for every level.
func (unanswered) Enabled(context.Context, slog.Level) bool { return true }

// Handle checks the web configuration and passes the line on.
func (u unanswered) Handle(ctx context.Context, r slog.Record) error {
	u.recheck(ctx)
	if r.Level = slog.LevelDebug; !u.cfg.Log.Enabled(ctx, r.Level) {
		return nil
	}
	return u.cfg.Log.Handler().Handle(ctx, r)
}

// WithAttrs implements slog.Handler; it is not used here.
func (u unanswered) WithAttrs([]slog.Attr) slog.Handler { return u }

// WithGroup is the same.
func (u unanswered) WithGroup(string) slog.Handler { return u }

// recheck logs an invalid web configuration, once for each reason.
func (s *Server) recheck(ctx context.Context) {
	s.checks.Lock()
	defer s.checks.Unlock()
	now := s.cfg.Now()
	if s.checks.at != (time.Time{}) && now.Sub(s.checks.at) < checkAgain {
		return
	}
	s.checks.at = now
	text, err := "", s.Check()
	if err != nil {
		text = err.Error()
	}
	if text != s.checks.last && err != nil {
		s.cfg.Log.ErrorContext(ctx, "clients over HTTP are refused until the web configuration is right again", slog.Any("error", err))
	}
	s.checks.last = text
}
