package fleet

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"

	"go.yaml.in/yaml/v3"
)

// trusted lets through who is authenticated, and who asks from this host. A client that gets
// here has passed the web configuration; where that asks for nobody's name, passing it
// proves nothing.
func (s *Server) trusted(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		names, err := s.authenticates()
		switch {
		case err != nil:
			http.Error(w, "cannot read the web configuration", http.StatusInternalServerError)
		case !names && !local(r):
			http.Error(w, "only for clients of this host, or authenticated ones: name basic_auth_users, or a client_auth_type that verifies, "+
				"in the file that web.config_file names", http.StatusForbidden)
		default:
			next(w, r)
		}
	}
}

// local reports whether the client is on this host: it came by loopback or by a Unix socket,
// whose file says who may open it.
func local(r *http.Request) bool {
	addr, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if _, ok := addr.(*net.UnixAddr); ok {
		return true
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	ip := net.ParseIP(host)
	return err == nil && ip != nil && ip.IsLoopback()
}

// webConfigBytes bounds the web configuration that is read.
const webConfigBytes = 1 << 20

// authenticates reports whether the web configuration, as it is now, lets only clients through
// that it can name: by a password, or by a certificate that is verified. It is read anew for
// each request, as the toolkit does: what changed in the file holds at once.
func (s *Server) authenticates() (bool, error) {
	if s.cfg.WebConfig == "" {
		return false, nil
	}
	f, err := os.Open(s.cfg.WebConfig)
	if err != nil {
		return false, err
	}
	text, err := io.ReadAll(io.LimitReader(f, webConfigBytes))
	if err = errors.Join(err, f.Close()); err != nil {
		return false, err
	}
	return demands(text)
}

// demands reports whether the text of a web configuration demands that a client proves who it is.
func demands(text []byte) (bool, error) {
	var c struct {
		TLS struct {
			ClientAuth string `yaml:"client_auth_type"`
		} `yaml:"tls_server_config"`
		Users map[string]string `yaml:"basic_auth_users"`
	}
	if err := yaml.Unmarshal(text, &c); err != nil {
		return false, err
	}
	return len(c.Users) > 0 || c.TLS.ClientAuth == "RequireAndVerifyClientCert", nil
}
