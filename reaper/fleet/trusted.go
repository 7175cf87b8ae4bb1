package fleet

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/orphan-reaper/orphan-reaper/reaper/fleet/review"
)

// trusted lets through who is authenticated, and who asks from this host. A client that gets
// here has passed the web configuration; where that asks for nobody's name, passing it
// proves nothing. verb and path are what a bearer token's user must be allowed.
func (s *Server) trusted(verb, path string, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		d, err := s.demanded()
		if err != nil {
			http.Error(w, "cannot read the web configuration", http.StatusInternalServerError)
			return
		}
		if d.password || d.certificate && verified(r) || local(r) {
			next(w, r)
			return
		}
		v := s.reviewed(r, verb, path)
		switch v.Code {
		case http.StatusOK:
			next(w, r)
			return
		case http.StatusUnauthorized:
			w.Header().Set("WWW-Authenticate", "Bearer")
		case http.StatusTooManyRequests, http.StatusServiceUnavailable:
			w.Header().Set("Retry-After", "30")
		}
		http.Error(w, v.Words, v.Code)
	}
}

// reviewed says whether a client from elsewhere may, by its bearer token.
func (s *Server) reviewed(r *http.Request, verb, path string) review.Verdict {
	token, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case s.cfg.Reviews == nil:
		return review.Verdict{Code: http.StatusForbidden, Words: "only for clients of this host, or authenticated ones: name basic_auth_users, or a " +
			"client_auth_type that verifies against a client_ca_file, in the file that web.config_file names; or set web.token_review"}
	case r.TLS == nil:
		return review.Verdict{Code: http.StatusForbidden, Words: "bearer tokens are taken by TLS only; whoever was on the way could read one that came without"}
	case !bearer:
		return review.Verdict{Code: http.StatusUnauthorized, Words: "only for clients of this host, or with a bearer token for the audience " + review.Audience}
	}
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return review.Verdict{Code: http.StatusForbidden, Words: "whence the request came is not known"}
	}
	return s.cfg.Reviews.Review(r.Context(), token, verb, path, func() bool { return s.limits.review(originOf(from)) })
}

// verified reports whether this very connection has shown a certificate that was verified: the file
// may have come to demand one after the connection, or the whole server, had begun without.
func verified(r *http.Request) bool { return r.TLS != nil && len(r.TLS.VerifiedChains) > 0 }

// local reports whether the client is on this host: it came by loopback or by a Unix socket,
// whose file says who may open it. By loopback it must ask for this host by address or as
// localhost: a web page whose name leads to 127.0.0.1 asks by that name.
func local(r *http.Request) bool {
	addr, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if _, ok := addr.(*net.UnixAddr); ok {
		return true
	}
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !from.Addr().Unmap().IsLoopback() {
		return false
	}
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = strings.Trim(r.Host, "[]")
	}
	_, err = netip.ParseAddr(host)
	return err == nil || host == "localhost"
}

// webConfigBytes bounds the web configuration that is read.
const webConfigBytes = 1 << 20

// demand is what the web configuration has every client show.
type demand struct {
	password    bool
	certificate bool // of an authority that the file names: without one any public certificate would do
	tls         bool
}

// demanded reads the web configuration as it is now, as the toolkit does for each request: what
// changed in the file holds at once.
func (s *Server) demanded() (demand, error) {
	if s.cfg.WebConfig == "" {
		return demand{}, nil
	}
	f, err := os.Open(s.cfg.WebConfig)
	if err != nil {
		return demand{}, err
	}
	text, err := io.ReadAll(io.LimitReader(f, webConfigBytes))
	if err = errors.Join(err, f.Close()); err != nil {
		return demand{}, err
	}
	return demands(text)
}

// demands reads the text of a web configuration.
func demands(text []byte) (demand, error) {
	var c struct {
		TLS struct {
			Cert       string `yaml:"cert"`
			CertFile   string `yaml:"cert_file"`
			ClientAuth string `yaml:"client_auth_type"`
			CA         string `yaml:"client_ca"`
			CAFile     string `yaml:"client_ca_file"`
		} `yaml:"tls_server_config"`
		Users map[string]string `yaml:"basic_auth_users"`
	}
	if err := yaml.Unmarshal(text, &c); err != nil {
		return demand{}, err
	}
	return demand{
		password:    len(c.Users) > 0,
		certificate: c.TLS.ClientAuth == "RequireAndVerifyClientCert" && (c.TLS.CA != "" || c.TLS.CAFile != ""),
		tls:         c.TLS.Cert != "" || c.TLS.CertFile != "",
	}, nil
}
