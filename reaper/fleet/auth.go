package fleet

import (
	"net/http"
	"os"

	"go.yaml.in/yaml/v2" // exporter-toolkit reads the same file by it
	"golang.org/x/crypto/bcrypt"
)

// private serves requests that came over TLS and with a password of the web configuration. To all others the page does not
// exist.
func (s *Server) private(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !s.authenticated(r) {
			http.NotFound(w, r)
			return
		}
		next(w, r)
	}
}

// authenticated reports whether the request came over TLS and its password is one of the web configuration's. The toolkit
// has refused wrong passwords before, one at a time, so that nobody without a password has this node compute a hash here.
func (s *Server) authenticated(r *http.Request) bool {
	user, password, ok := r.BasicAuth()
	if r.TLS == nil || !ok || s.WebConfigFile == "" {
		return false
	}
	text, err := os.ReadFile(s.WebConfigFile)
	if err != nil {
		return false
	}
	var config struct {
		Users map[string]string `yaml:"basic_auth_users"`
	}
	if err := yaml.Unmarshal(text, &config); err != nil {
		return false
	}
	hash, known := config.Users[user]
	return known && bcrypt.CompareHashAndPassword([]byte(hash), []byte(password)) == nil
}
