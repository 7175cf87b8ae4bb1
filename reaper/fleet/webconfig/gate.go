package webconfig

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// Gate lets in whom a web configuration lets in. It is safe for concurrent use.
type Gate struct {
	path      string
	now       func() time.Time
	log       *slog.Logger
	passwords *passwords

	mu   sync.Mutex
	text []byte // of file
	file *File  // as it was read last, nil before
	tls  struct {
		of     *File
		from   *pems
		config *tls.Config
	}
	bucket struct {
		Rate
		tokens float64
		at     time.Time
	}
	connections, requests string // what was logged of each last
}

// New returns a gate for the file at path. Without a path it lets everybody in.
func New(path string, now func() time.Time, log *slog.Logger) *Gate {
	return &Gate{path: path, now: now, log: log, passwords: newPasswords(now)}
}

// File reads the web configuration as it is now. It is parsed when its text has changed.
func (g *Gate) File() (*File, error) {
	if g.path == "" {
		return &File{}, nil
	}
	text, err := readFile(g.path, fileBytes)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.file != nil && bytes.Equal(g.text, text) {
		return g.file, nil
	}
	f, err := Parse(text, filepath.Dir(g.path))
	if err != nil {
		return nil, err
	}
	g.text, g.file = text, f
	return f, nil
}

// Check says what is wrong with the file and those that it names.
func (g *Gate) Check() error {
	f, err := g.File()
	if err == nil {
		err = f.checkUsers()
	}
	if err == nil {
		_, err = g.config(f)
	}
	if err != nil {
		return fmt.Errorf("cannot use the web configuration %s: %w", g.path, err)
	}
	return nil
}

// config is the TLS configuration as it is now, nil where the file has none. It is made anew when a file has changed.
func (g *Gate) config(f *File) (*tls.Config, error) {
	if !f.TLS.on() {
		return nil, nil
	}
	p, err := f.TLS.pems()
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.tls.of == f && g.tls.from.equal(p) {
		return g.tls.config, nil
	}
	c, err := f.TLS.config(p)
	if err != nil {
		return nil, err
	}
	g.tls.of, g.tls.from, g.tls.config = f, p, c
	return c, nil
}

// TLS is the configuration of a server, nil where it is to serve without TLS. It reads the file anew for each connection.
func (g *Gate) TLS() (*tls.Config, error) {
	if err := g.Check(); err != nil {
		return nil, err
	}
	f, err := g.File()
	if err != nil || !f.TLS.on() {
		return nil, err
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: g.forClient}, nil
}

// forClient is the TLS configuration of one connection.
func (g *Gate) forClient(*tls.ClientHelloInfo) (*tls.Config, error) {
	f, err := g.File()
	var c *tls.Config
	if err == nil {
		c, err = g.config(f)
	}
	if err == nil && c == nil {
		err = errors.New("tls_server_config is gone; to turn TLS off, restart the daemon")
	}
	g.tell(&g.connections, err)
	return c, err
}

// tell logs why nobody is let in, once for each reason.
func (g *Gate) tell(told *string, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	g.mu.Lock()
	isNew := text != *told
	*told = text
	g.mu.Unlock()
	if err != nil && isNew {
		g.log.Error("the web configuration cannot be used: HTTP requests are refused until it can", slog.String("file", g.path), slog.Any("error", err))
	}
}

// key is that of the file in the context of a request.
type key struct{}

// From returns the web configuration under which a Gate has let a request in: what it demanded was met, whatever the file has
// come to say since. Without a Gate there is none.
func From(ctx context.Context) *File {
	f, _ := ctx.Value(key{}).(*File)
	return f
}

// Handler puts the gate before next.
func (g *Gate) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f, err := g.File()
		g.tell(&g.requests, err)
		switch {
		case err != nil:
			refuse(w, http.StatusInternalServerError)
			return
		case !g.allows(f.Rate):
			refuse(w, http.StatusTooManyRequests)
			return
		}
		for name, value := range f.HTTP.Headers {
			w.Header().Set(name, value)
		}
		switch g.password(r, f) {
		case wrong:
			w.Header().Set("WWW-Authenticate", "Basic")
			refuse(w, http.StatusUnauthorized)
		case busy:
			w.Header().Set("Retry-After", strconv.Itoa(int(mostWait.Seconds())))
			refuse(w, http.StatusServiceUnavailable)
		case right:
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), key{}, f)))
		}
	})
}

func refuse(w http.ResponseWriter, code int) { http.Error(w, http.StatusText(code), code) }

// password says whether a request has the password that it needs.
func (g *Gate) password(r *http.Request, f *File) answer {
	if !f.WantsPassword() {
		return right
	}
	user, password, ok := r.BasicAuth()
	if !ok {
		return wrong
	}
	return g.passwords.check(r.Context(), f.Users, user, password)
}

// allows counts a request in, or reports that it is one too many.
func (g *Gate) allows(r Rate) bool {
	if r.Interval <= 0 {
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	now, b := g.now(), &g.bucket
	if b.Rate != r {
		b.Rate, b.tokens = r, float64(r.Burst)
	} else {
		b.tokens = min(float64(r.Burst), b.tokens+float64(max(0, now.Sub(b.at)))/float64(r.Interval))
	}
	b.at = now
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}
