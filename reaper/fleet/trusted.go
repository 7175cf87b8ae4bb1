package fleet

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// trusted serves authenticated clients, and those on this host. A client that gets here has passed the web
// configuration, which proves nothing if that has no users and requires no certificate. The user of a bearer token
// needs the right to verb and path.
func (s *Server) trusted(verb, path string, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c, err := s.webConfig()
		if err != nil {
			http.Error(w, "cannot read the web configuration", http.StatusInternalServerError)
			return
		}
		if len(c.Users) > 0 || wantsCertificate(c) && verified(r) || local(r) {
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
		http.Error(w, v.Text, v.Code)
	}
}

// reviewed returns whether a client of another host is admitted, by its bearer token.
func (s *Server) reviewed(r *http.Request, verb, path string) admission {
	token, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case s.cfg.Reviews == nil && r.TLS != nil && r.TLS.DidResume:
		return admission{Code: http.StatusForbidden, Text: "this TLS session was resumed, so it has shown no certificate; connect without a session ticket"}
	case s.cfg.Reviews == nil:
		return admission{Code: http.StatusForbidden, Text: "only for clients of this host, or authenticated ones: name basic_auth_users, or a " +
			"client_auth_type that verifies against a client_ca_file, in the file that web.config_file names; or set web.token_review"}
	case r.TLS == nil:
		return admission{Code: http.StatusForbidden, Text: "bearer tokens need TLS: without it, others on the network can read them"}
	case !bearer:
		return admission{Code: http.StatusUnauthorized, Text: "only for clients of this host, or with a bearer token for the audience " + Audience}
	}
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return admission{Code: http.StatusForbidden, Text: "the address of the client is unknown"}
	}
	return s.cfg.Reviews.review(r.Context(), token, verb, path, func() bool { return s.limits.review(originOf(from)) })
}

// verified reports whether a certificate of this connection was verified: the web configuration may require one only
// since after the connection began. A resumed session has none, and the toolkit does not check client_allowed_sans.
func verified(r *http.Request) bool {
	return r.TLS != nil && len(r.TLS.VerifiedChains) > 0 && !r.TLS.DidResume
}

// local reports whether the client is on this host: it uses loopback or a Unix socket, whose file mode limits its
// clients. By loopback the Host header must be an address or localhost, since a web page may use a name of its own
// that resolves to 127.0.0.1.
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
