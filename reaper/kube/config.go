package kube

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// nodeUser is how the user of a kubelet's own credentials begins.
const nodeUser = "system:node:"

// Server is an API server, how it shows who it is, and the credentials for it.
type Server struct {
	Base  string // https://HOST:PORT, and what comes before every path; no slash at its end
	TLS   *tls.Config
	Token string // "" for none
	// User is whose the credentials are, in words: a certificate's common name, else what the file calls it.
	User string
}

// kubeconfigFile is the file as clientcmd/api/v1 of client-go writes it.
type kubeconfigFile struct {
	Current  string `yaml:"current-context"`
	Contexts []struct {
		Name    string
		Context struct{ Cluster, User string }
	}
	Clusters []struct {
		Name    string
		Cluster kubeconfigCluster
	}
	Users []struct {
		Name string
		User kubeconfigUser
	}
}

type kubeconfigCluster struct {
	Server     string
	CAFile     string `yaml:"certificate-authority"`
	CAData     string `yaml:"certificate-authority-data"`
	ServerName string `yaml:"tls-server-name"`
	Insecure   bool   `yaml:"insecure-skip-tls-verify"`
	ProxyURL   string `yaml:"proxy-url"`
}

type kubeconfigUser struct {
	CertFile  string `yaml:"client-certificate"`
	CertData  string `yaml:"client-certificate-data"`
	KeyFile   string `yaml:"client-key"`
	KeyData   string `yaml:"client-key-data"`
	Token     string
	TokenFile string `yaml:"tokenFile"`

	Exec         any
	AuthProvider any `yaml:"auth-provider"`
	Username     string
	As           string
	AsUID        string         `yaml:"as-uid"`
	AsGroups     []string       `yaml:"as-groups"`
	AsExtra      map[string]any `yaml:"as-user-extra"`
}

// RefusedError is for credentials that will never be used, whatever becomes of the files.
type RefusedError struct{ err error }

// Error says why, and what to do instead.
func (e *RefusedError) Error() string { return e.err.Error() }

// Unwrap returns the error itself.
func (e *RefusedError) Unwrap() error { return e.err }

// ReadConfig reads what a kubeconfig's current context says of a server and a user, and the files
// that it names. Callers read it anew each time: tokens and certificates are replaced while we run.
//
// It is read here, and not by client-go, which costs more than this whole program does
// (docs/dependencies.md); of all that a kubeconfig may say this is what a node's has. What
// would start programs or leave out a check is refused in words, by a RefusedError.
func ReadConfig(file string, now time.Time) (*Server, error) {
	text, err := readNamed(file)
	if err != nil {
		return nil, err
	}
	var f kubeconfigFile
	if err := yaml.Unmarshal(text, &f); err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", file, err)
	}
	cluster, user, name, err := f.current()
	if err == nil {
		if refused := policy.OneLine(cluster.refuse(), user.refuse()); refused != nil {
			err = &RefusedError{refused}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("cannot use %s: %w", file, err)
	}
	s := &Server{User: name, TLS: &tls.Config{MinVersion: tls.VersionTLS12, ServerName: cluster.ServerName}}
	in := fileDir(file)
	if err := policy.OneLine(s.serve(cluster, in), s.login(user, in, now)); err != nil {
		return nil, fmt.Errorf("cannot use %s: %w", file, err)
	}
	return s, nil
}

// current returns what the current context names.
func (f *kubeconfigFile) current() (c kubeconfigCluster, u kubeconfigUser, user string, err error) {
	if f.Current == "" {
		return c, u, "", errors.New("it names no current-context")
	}
	var cluster string
	found := 0
	for _, n := range f.Contexts {
		if n.Name == f.Current {
			cluster, user, found = n.Context.Cluster, n.Context.User, 1
		}
	}
	for _, n := range f.Clusters {
		if found > 0 && n.Name == cluster {
			c, found = n.Cluster, found|2
		}
	}
	for _, n := range f.Users {
		if found > 0 && n.Name == user {
			u, found = n.User, found|4
		}
	}
	switch {
	case found == 0:
		err = fmt.Errorf("it has no context %q, which its current-context names", f.Current)
	case found&2 == 0:
		err = fmt.Errorf("it has no cluster %q, which context %q names", cluster, f.Current)
	case found&4 == 0:
		err = fmt.Errorf("it has no user %q, which context %q names", user, f.Current)
	}
	return c, u, user, err
}

func (c *kubeconfigCluster) refuse() error {
	switch u, err := url.Parse(c.Server); {
	case err != nil || u.Host == "" || u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("its server %.100q is not https://HOST:PORT", c.Server)
	case c.Insecure:
		return errors.New("insecure-skip-tls-verify lets anybody answer for the API server; name its authority in certificate-authority instead")
	case c.ProxyURL != "":
		return errors.New("proxy-url is not supported; name a server that this node reaches without a proxy")
	}
	return nil
}

// useInstead is what to do where a user's credentials cannot be used.
const useInstead = "use a client certificate or a token from a file: kubeadm's /etc/kubernetes/kubelet.conf has one, " +
	"elsewhere a service account that may list pods"

func (u *kubeconfigUser) refuse() error {
	switch {
	case u.Exec != nil:
		return errors.New("its user's credentials come from a program (exec), and no program is started for them; " + useInstead)
	case u.AuthProvider != nil:
		return errors.New("its user's credentials come from an auth-provider, which is not supported; " + useInstead)
	case u.Username != "":
		return errors.New("its user has a name and a password, which no API server accepts since 1.19; " + useInstead)
	case u.As != "" || u.AsUID != "" || len(u.AsGroups) > 0 || len(u.AsExtra) > 0:
		return errors.New("its user acts as another one (as, as-groups …), which is not supported; use the credentials of that one itself")
	}
	return nil
}

// fileDir resolves a path as client-go does: a relative one begins where the file lies.
type fileDir string

func (b fileDir) read(path string) ([]byte, error) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(string(b)), path)
	}
	return readNamed(path)
}

// either reads what stands in the file itself, in base64, or else in the one that it names.
func (b fileDir) either(data, path, what string) ([]byte, error) {
	if data == "" {
		text, err := b.read(path)
		if err != nil {
			return nil, fmt.Errorf("cannot read its %s: %w", what, err)
		}
		return text, nil
	}
	text, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		return nil, fmt.Errorf("its %s-data is not base64: %w", what, err)
	}
	return text, nil
}

// serve reads how to know the server.
func (s *Server) serve(c kubeconfigCluster, in fileDir) (err error) {
	s.Base = strings.TrimSuffix(c.Server, "/")
	if c.CAData == "" && c.CAFile == "" {
		return nil // the system's authorities, as everywhere
	}
	text, err := in.either(c.CAData, c.CAFile, "certificate-authority")
	if err != nil {
		return err
	}
	s.TLS.RootCAs = x509.NewCertPool()
	if !s.TLS.RootCAs.AppendCertsFromPEM(text) {
		return errors.New("its certificate-authority holds no certificate")
	}
	return nil
}

// login reads the credentials.
func (s *Server) login(u kubeconfigUser, in fileDir, now time.Time) (err error) {
	switch {
	case u.CertData != "" || u.CertFile != "":
		cert, err := in.either(u.CertData, u.CertFile, "client-certificate")
		if err != nil {
			return err
		}
		key, err := in.either(u.KeyData, u.KeyFile, "client-key")
		if err != nil {
			return err
		}
		pair, err := clientPairOf(cert, key, now)
		if err != nil {
			return err
		}
		s.TLS.Certificates = []tls.Certificate{pair}
		s.User = pair.Leaf.Subject.CommonName
	case u.Token == "" && u.TokenFile == "":
		return errors.New("its user has no credentials; " + useInstead)
	}
	s.Token = u.Token
	if u.TokenFile != "" { // it wins in client-go, too
		if !filepath.IsAbs(u.TokenFile) {
			u.TokenFile = filepath.Join(filepath.Dir(string(in)), u.TokenFile)
		}
		s.Token, err = ReadToken(u.TokenFile)
	}
	return err
}

// Node returns the name of the node whose kubelet has these credentials, "" where they are
// somebody else's.
func (s *Server) Node() string {
	name, ok := strings.CutPrefix(s.User, nodeUser)
	if !ok {
		return ""
	}
	return name
}
