package fleet

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// trusted serves authenticated clients, and those on this host. A client that gets here has passed the web
// configuration, which proves nothing if that has no users and requires no certificate.
func (s *Server) trusted(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c, err := s.webConfig()
		switch {
		case err != nil:
			http.Error(w, "cannot read the web configuration", http.StatusInternalServerError)
		case len(c.Users) > 0 || wantsCertificate(c) && verified(r) || local(r):
			next(w, r)
		case r.TLS != nil && r.TLS.DidResume:
			http.Error(w, "this TLS session was resumed, so it has shown no certificate; connect without a session ticket", http.StatusForbidden)
		default:
			http.Error(w, "only for clients of this host, or authenticated ones: name basic_auth_users, or a client_auth_type that verifies against a "+
				"client_ca_file, in the file that web.config_file names", http.StatusForbidden)
		}
	}
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
