package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/orphan-reaper/orphan-reaper/reaper/fleet"
)

// ownLoopback returns an address of this machine that no other process uses.
func ownLoopback() net.IP {
	pid := os.Getpid()
	return net.IPv4(127, byte(pid>>16)|0x80, byte(pid>>8), byte(pid))
}

// webConfig writes a web configuration for an address, with the password "right" of the user "op". tls.crt in the same
// directory is the authority.
func webConfig(t *testing.T, ip net.IP) (dir string) {
	t.Helper()
	dir = t.TempDir()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{ip},
	}
	cert, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, k.Public(), k)
	must(t, err)
	key, err := x509.MarshalPKCS8PrivateKey(k)
	must(t, err)
	hash, err := bcrypt.GenerateFromPassword([]byte("right"), bcrypt.MinCost)
	must(t, err)
	for name, text := range map[string][]byte{
		"tls.crt":  pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}),
		"tls.key":  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
		"password": []byte("right\n"),
		"web.yaml": fmt.Appendf(nil, "tls_server_config: {cert_file: tls.crt, key_file: tls.key}\nbasic_auth_users: {op: '%s'}\n", hash),
	} {
		must(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	return dir
}

// TestFleet asks a daemon on a node for a scan, waits for it, and asks again after the daemon has ended.
func TestFleet(t *testing.T) {
	t.Parallel()
	s := newShell(t, "a "+dead+" dead emptydir\n")
	address := net.JoinHostPort(ownLoopback().String(), "9477")
	dir := webConfig(t, ownLoopback())
	stop := s.daemon("--log-level=debug --hold=1h --web-listen-address=" + address + " --web-config-file=" + dir + "/web.yaml")
	s.waitLog("TLS is enabled")
	flags := " -o json --user=op --password-file=" + dir + "/password --ca=" + dir + "/tls.crt https://" + address
	ask := func(command string, want int) (f fleet.Fleet) {
		t.Helper()
		stdout, stderr, code := s.run(command + flags)
		if err := json.Unmarshal([]byte(stdout), &f); err != nil || code != want || len(f.Nodes) != 1 {
			t.Fatalf("%s: exit %d, want %d, %v\n%s%s", command, code, want, err, stdout, stderr)
		}
		return f
	}
	asked := ask("fleet sweep", 0).Nodes[0]
	ended := ask("fleet sweep --wait", 0).Nodes[0]
	if asked.Scan == 0 || ended.Pass < asked.Scan || !ended.Start.Equal(asked.Start) || ended.Mode != "observe" && ended.Mode != "enforce" {
		t.Errorf("asked: %+v\nended: %+v", asked, ended)
	}
	if n := ask("fleet list", 0).Sums; n.Wait+n.Keep != 1 {
		t.Errorf("list: %+v", n)
	}
	stop()
	if n := ask("fleet list", codeOperator).Nodes[0]; !strings.Contains(n.Error, "refused") {
		t.Errorf("after the daemon has ended: %+v", n)
	}
}
