package kube

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"path/filepath"
)

// ServiceAccountDir is where a pod has the token and the authority of its service account.
const ServiceAccountDir = "/var/run/secrets/kubernetes.io/serviceaccount"

// InCluster returns the API server of the cluster that this pod is in: the environment names it, and
// the files token and ca.crt in dir are for it. Callers read it anew each time, since the kubelet
// replaces the token.
func InCluster(dir string, env func(string) string) (*Server, error) {
	host, port := env("KUBERNETES_SERVICE_HOST"), env("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return nil, errors.New("this is no pod of a cluster: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set; name a kubeconfig instead")
	}
	ca, err := readNamed(filepath.Join(dir, "ca.crt"))
	if err != nil {
		return nil, fmt.Errorf("cannot read the service account's authority: %w", err)
	}
	s := &Server{
		Base: "https://" + net.JoinHostPort(host, port), User: "this pod's service account",
		TLS: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()},
	}
	if !s.TLS.RootCAs.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("%s holds no certificate", filepath.Join(dir, "ca.crt"))
	}
	s.Token, err = ReadToken(filepath.Join(dir, "token"))
	return s, err
}
