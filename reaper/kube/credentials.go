package kube

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
)

// maxCredential limits the size of a configured file.
const maxCredential = 1 << 20

func readNamed(path string) ([]byte, error) {
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("cannot read %q: the path is not absolute", path)
	}
	return beneath.ReadNamed(path, maxCredential)
}

// ClientPair reads a client certificate and its key, which may be in the same file.
func ClientPair(certFile, keyFile string, now time.Time) (tls.Certificate, error) {
	if keyFile == "" {
		keyFile = certFile
	}
	cert, err := readNamed(certFile)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("cannot read the client certificate: %w", err)
	}
	key, err := readNamed(keyFile)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("cannot read the client key: %w", err)
	}
	pair, err := clientPairOf(cert, key, now)
	if err != nil {
		return pair, fmt.Errorf("%s: %w", certFile, err)
	}
	return pair, nil
}

func clientPairOf(cert, key []byte, now time.Time) (tls.Certificate, error) {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return pair, fmt.Errorf("cannot use the client certificate: %w", err)
	}
	if pair.Leaf == nil {
		if pair.Leaf, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
			return pair, fmt.Errorf("cannot use the client certificate: %w", err)
		}
	}
	if end := pair.Leaf.NotAfter; now.After(end) {
		return pair, fmt.Errorf("the client certificate expired at %s; renew it", end.UTC().Format(time.RFC3339))
	}
	return pair, nil
}

// ReadToken reads a bearer token from a file.
func ReadToken(file string) (string, error) {
	text, err := readNamed(file)
	if err != nil {
		return "", fmt.Errorf("cannot read the token: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("%s holds no token", file)
	}
	return token, nil
}
