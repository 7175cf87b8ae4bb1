package kubelet

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
)

// The kubelet's defaults of --cert-dir, which does not depend on its root directory, and of its port.
const (
	defaultCertDir = "/var/lib/kubelet/pki"
	defaultPort    = "10250"
)

// Endpoint returns the URL of the kubelet's authenticated port, as scheme, host and port, and a TLS configuration
// that accepts only the kubelet.
func (r *Reader) Endpoint(ctx context.Context, k *Kubelet) (base string, config *tls.Config, err error) {
	at, err := k.hostPort()
	if err != nil {
		return "", nil, err
	}
	config, err = bounded.Try(ctx, r.Guard, "kubelet's port", func() (*tls.Config, error) {
		leafs, files, err := k.servingLeafs()
		return pinned(leafs, files), err
	})
	if err != nil {
		return "", nil, fmt.Errorf("cannot find the kubelet's certificate: %w", err)
	}
	return "https://" + at, config, nil
}

// hostPort returns the address of the kubelet's port: the configured one, or the loopback address if it listens at all addresses.
func (k *Kubelet) hostPort() (string, error) {
	address, port := k.config.Address, k.config.Port
	if port == "" || port == "0" {
		port = defaultPort // to the kubelet 0 means unset
	}
	ip := net.ParseIP(address)
	_, err := strconv.ParseUint(port, 10, 16)
	switch {
	case k.configErr != nil:
		return "", fmt.Errorf("cannot find the kubelet's port: %w", k.configErr)
	case err != nil:
		return "", fmt.Errorf("cannot find the kubelet's port: %w", err)
	case address != "" && ip == nil:
		return "", fmt.Errorf("its address %.60q is not an IP address", address)
	case ip == nil || ip.IsUnspecified():
		address = "127.0.0.1"
	}
	return net.JoinHostPort(address, port), nil
}

// servingCertificates returns the files that may have the certificate that the kubelet presents: in its
// certificate directory the one that the API server issued (serverTLSBootstrap), and the configured or
// self-signed one. k3s has a file in its data directory, and hides its command line.
func (k *Kubelet) servingCertificates() []string {
	dir := cmp.Or(k.config.CertDir, defaultCertDir)
	usual := filepath.Join(dir, "kubelet.crt")
	if k.name == nameK3s {
		usual = filepath.Join(k.flags.last(flagDataDir), "agent", "serving-kubelet.crt")
	}
	return []string{filepath.Join(dir, "kubelet-server-current.pem"), cmp.Or(k.config.TLSCertFile, usual)}
}

// servingLeafs reads the certificates that the kubelet may present.
func (k *Kubelet) servingLeafs() ([]*x509.Certificate, []string, error) {
	files := k.servingCertificates()
	var leafs []*x509.Certificate
	for _, file := range files {
		leaf, err := k.readLeaf(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, files, err
		}
		leafs = append(leafs, leaf)
	}
	if leafs == nil {
		return nil, files, fmt.Errorf("the kubelet's serving certificate is not there: %s", strings.Join(files, ", "))
	}
	return leafs, files, nil
}

// readLeaf reads the first certificate of a file, which may have a key, too.
func (k *Kubelet) readLeaf(file string) (*x509.Certificate, error) {
	text, err := k.files.read(file)
	if err != nil {
		return nil, err
	}
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return nil, fmt.Errorf("%s holds no certificate", file)
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		leaf, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("cannot read %s: %w", file, err)
		}
		return leaf, nil
	}
}

// pinned returns a TLS configuration that accepts only a server with one of the certificates. Usually the kubelet itself has
// signed it, so there is no authority and no name to verify. But presenting it needs its key, which only root can read. It
// may have expired.
func pinned(leafs []*x509.Certificate, files []string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		// VerifyConnection replaces the check of chain and name.
		InsecureSkipVerify: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			for _, leaf := range leafs {
				if len(s.PeerCertificates) > 0 && bytes.Equal(s.PeerCertificates[0].Raw, leaf.Raw) {
					return nil
				}
			}
			return fmt.Errorf("the server presents another certificate than that of the running kubelet (%s): "+
				"another program has its port, or the file was replaced since the kubelet read it", strings.Join(files, ", "))
		},
	}
}

// NodeName returns the configured name of the node at the API server, "" for none.
func (k *Kubelet) NodeName() string {
	if k == nil {
		return ""
	}
	return strings.ToLower(strings.TrimSpace(k.config.Hostname))
}
