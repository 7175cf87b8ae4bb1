package kube

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// Server is an API server and the credentials for it. Its Asker sends requests with them.
type Server struct {
	*Asker
	Token string // or ""
	// User names the owner of the credentials: a certificate's common name, or the user's name in the kubeconfig.
	User string
}

// NewServer returns the server of a client-go configuration whose files have been read. It does not connect.
func NewServer(c *rest.Config, user string) (*Server, error) {
	conf, err := rest.TLSConfigFor(c)
	if err != nil {
		return nil, err
	}
	a := NewAsker(strings.TrimSuffix(c.Host, "/"), "", conf)
	if a.transport.Proxy = c.Proxy; c.Proxy == nil {
		a.transport.Proxy = http.ProxyFromEnvironment
	}
	a.client.Transport, err = rest.HTTPWrappersForConfig(c, a.transport)
	return &Server{a, c.BearerToken, user}, err
}

// Node returns the name of the node whose kubelet has these credentials, or "" if they are another user's.
func (s *Server) Node() string {
	if name, ok := strings.CutPrefix(s.User, "system:node:"); ok {
		return name
	}
	return ""
}

// RefusedError is the error of credentials that must not be used; trying again does not help.
type RefusedError struct{ err error }

// Error returns the reason, and what to use instead.
func (e *RefusedError) Error() string { return e.err.Error() }

// Unwrap returns the error itself.
func (e *RefusedError) Unwrap() error { return e.err }

// ReadConfig reads the current context of a kubeconfig and the files that it names. It refuses credentials that come
// from a program, since the daemon runs as root and unattended. Call it again each time: tokens and certificates are
// replaced while we run.
func ReadConfig(file string, now time.Time) (*Server, error) {
	raw, err := (&clientcmd.ClientConfigLoadingRules{ExplicitPath: file}).Load()
	if err != nil {
		return nil, err
	}
	return use(file, raw, now, false)
}

// ReadPersonal reads the kubeconfig of a command's user as kubectl does: file, or if that is "" the merged list. name
// is the context, or "" for the current one. A program for credentials is started at the first request. ReadPersonal
// returns nil if none of the files exists.
func ReadPersonal(file string, list []string, name string, now time.Time) (*Server, error) {
	raw, err := (&clientcmd.ClientConfigLoadingRules{ExplicitPath: file, Precedence: list}).Load()
	if err != nil {
		return nil, fmt.Errorf("cannot read the kubeconfig: %w", err)
	}
	if file == "" && api.IsConfigEmpty(raw) {
		return nil, nil
	}
	if file == "" {
		file = "the kubeconfig"
	}
	raw.CurrentContext = cmp.Or(name, raw.CurrentContext)
	return use(file, raw, now, true)
}

// InCluster returns the API server of this pod's cluster, with the pod's service account. Call it again each time,
// since the kubelet replaces the token.
func InCluster(now time.Time) (*Server, error) {
	c, err := rest.InClusterConfig()
	if errors.Is(err, rest.ErrNotInCluster) {
		return nil, errors.New("this is no pod of a cluster: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set; name a kubeconfig instead")
	}
	if err == nil && c.CAFile == "" { // client-go only logs this, and would accept any public authority
		err = errors.New("its ca.crt has no certificate")
	}
	if err != nil {
		return nil, fmt.Errorf("cannot use the pod's service account: %w", err)
	}
	return load(c, "this pod's service account", now)
}

// use returns the server of the current context.
func use(file string, raw *api.Config, now time.Time, programs bool) (*Server, error) {
	s, err := current(raw, now, programs)
	if err != nil {
		return nil, fmt.Errorf("cannot use %s: %w", file, err)
	}
	return s, nil
}

func current(raw *api.Config, now time.Time, programs bool) (*Server, error) {
	in := raw.Contexts[raw.CurrentContext]
	if in == nil {
		return nil, fmt.Errorf("its current-context %q is not among its contexts", raw.CurrentContext)
	}
	cluster, user := raw.Clusters[in.Cluster], raw.AuthInfos[in.AuthInfo]
	if cluster == nil || user == nil {
		return nil, fmt.Errorf("it has no cluster %q or no user %q, which context %q names", in.Cluster, in.AuthInfo, raw.CurrentContext)
	}
	if err := policy.OneLine(refuseCluster(cluster), refuseUser(user, programs)); err != nil {
		return nil, &RefusedError{err}
	}
	c, err := clientcmd.NewDefaultClientConfig(*raw, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, err
	}
	return load(c, in.AuthInfo, now)
}

// load reads the files of a configuration, so that requests read none. The caller limits the time.
func load(c *rest.Config, user string, now time.Time) (*Server, error) {
	if err := rest.LoadTLSFiles(c); err != nil {
		return nil, err
	}
	if len(c.CertData) > 0 {
		pair, err := clientPairOf(c.CertData, c.KeyData, now)
		if err != nil {
			return nil, err
		}
		user = pair.Leaf.Subject.CommonName
	}
	if c.BearerTokenFile != "" {
		token, err := ReadToken(c.BearerTokenFile)
		if err != nil {
			return nil, err
		}
		c.BearerToken, c.BearerTokenFile = token, ""
	}
	if len(c.CertData) == 0 && c.BearerToken == "" && c.Username == "" && c.ExecProvider == nil {
		return nil, errors.New("its user has no credentials; " + useInstead)
	}
	c.UserAgent = userAgent
	return NewServer(c, user)
}

func refuseCluster(c *api.Cluster) error {
	switch u, err := url.Parse(c.Server); {
	case err != nil || u.Host == "" || u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("its server %.100q is not https://HOST:PORT", c.Server)
	case c.InsecureSkipTLSVerify:
		return errors.New("insecure-skip-tls-verify lets any server pose as the API server; set certificate-authority instead")
	}
	return nil
}

// useInstead is the advice if a user's credentials cannot be used.
const useInstead = "use a client certificate or a token from a file: kubeadm's /etc/kubernetes/kubelet.conf has one, " +
	"elsewhere a service account that may list pods"

func refuseUser(u *api.AuthInfo, programs bool) error {
	switch {
	case u.Exec != nil && !programs:
		return errors.New("its user's credentials come from a program (exec), and no program is started for them; " + useInstead)
	case u.AuthProvider != nil:
		return errors.New("its user's credentials come from an auth-provider, which is not supported; " + useInstead)
	}
	return nil
}
