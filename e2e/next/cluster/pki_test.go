package cluster

import (
	"crypto/ecdsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/e2e/kit"
)

// authority signs all certificates of the cluster.
type authority struct {
	dir    string
	key    *ecdsa.PrivateKey
	cert   *x509.Certificate
	serial int64
}

func newAuthority(t *testing.T, dir string) *authority {
	t.Helper()
	a := &authority{dir: dir, key: kit.NewKey(t), serial: 1}
	a.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "cluster"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	lay(t, a.file("ca.crt"), kit.Sign(t, a.cert, a.cert, a.key, a.key))
	return a
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// sign writes NAME.crt and NAME.key for the user in these groups. The certificate is valid for the addresses, and as
// a client.
func (a *authority) sign(t *testing.T, name, user string, groups []string, addresses ...string) (crt, key string) {
	t.Helper()
	a.serial++
	c := &x509.Certificate{
		SerialNumber: big.NewInt(a.serial), Subject: pkix.Name{CommonName: user, Organization: groups},
		NotBefore: a.cert.NotBefore, NotAfter: a.cert.NotAfter, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	for _, address := range addresses {
		if ip := net.ParseIP(address); ip != nil {
			c.IPAddresses = append(c.IPAddresses, ip)
		} else {
			c.DNSNames = append(c.DNSNames, address)
		}
	}
	k := kit.NewKey(t)
	return lay(t, a.file(name+".crt"), kit.Sign(t, c, a.cert, k, a.key)), lay(t, a.file(name+".key"), kit.KeyPEM(t, k))
}

// kubeconfig signs a client certificate and writes a self-contained kubeconfig for the API server.
func (a *authority) kubeconfig(t *testing.T, name, user string, groups ...string) string {
	t.Helper()
	crt, key := a.sign(t, name, user, groups)
	return lay(t, a.file(name+".conf"), fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}]
users: [{name: u, user: {client-certificate-data: %s, client-key-data: %s}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`, apiServer, encoded(t, a.file("ca.crt")), encoded(t, crt), encoded(t, key)))
}
