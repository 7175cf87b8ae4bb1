package kubelet

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
)

// defaultCertDir is the kubelet's own default of --cert-dir, whatever its root directory is.
const defaultCertDir = "/var/lib/kubelet/pki"

// defaultPort is the kubelet's own default of its port.
const defaultPort = 10250

// kubeletServing is how a kubelet serves, from its configuration file.
type kubeletServing struct {
	Address      string `yaml:"address"`
	Port         int    `yaml:"port"`
	ReadOnlyPort int    `yaml:"readOnlyPort"`
	TLSCertFile  string `yaml:"tlsCertFile"`
}

// merge takes over what a further file says. A number that it repeats, 0 too, wins; an empty
// word says nothing.
func (s *kubeletServing) merge(next kubeletServing) {
	s.Port, s.ReadOnlyPort = next.Port, next.ReadOnlyPort
	if next.Address != "" {
		s.Address = next.Address
	}
	if next.TLSCertFile != "" {
		s.TLSCertFile = next.TLSCertFile
	}
}

// portFlag returns what a flag says of a port, and false where there is no such flag.
func (k Kubelet) portFlag(name string) (int, bool, error) {
	text := k.flags.last(name)
	if text == "" {
		return 0, false, nil
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 0, true, fmt.Errorf("cannot read --%s: %w", name, err)
	}
	return int(port), true, nil
}

// readOnlyPort returns the port at which the kubelet was told to answer without asking who
// is there, 0 where it was told none. One that was told nothing has none if it has a
// configuration file, and 10255 if it has only flags (applyLegacyDefaults in
// cmd/kubelet/app/options); that one is not asked: it is nobody's choice.
func (k Kubelet) readOnlyPort() (int, error) {
	if port, ok, err := k.portFlag("read-only-port"); ok {
		return port, err
	}
	c, err := k.configured()
	return goodPort(c.ReadOnlyPort, err)
}

// securePort returns the port at which the kubelet asks who is there.
func (k Kubelet) securePort() (int, error) {
	if port, ok, err := k.portFlag("port"); ok {
		return port, err
	}
	c, err := k.configured()
	if c.Port == 0 {
		c.Port = defaultPort // the kubelet's defaulting takes 0 for nothing said
	}
	return goodPort(c.Port, err)
}

func goodPort(port int, err error) (int, error) {
	if err == nil && (port < 0 || port > math.MaxUint16) {
		err = fmt.Errorf("%d is no port", port)
	}
	return port, err
}

// hostPort returns where this host reaches that port of the kubelet: at the address that the
// kubelet was told to bind, or on the loopback where that is all of them.
func (k Kubelet) hostPort(port int) (string, error) {
	address := k.flags.last("address")
	if address == "" {
		c, err := k.configured()
		if err != nil {
			return "", err
		}
		address = c.Address
	}
	ip := net.ParseIP(address)
	switch {
	case address != "" && ip == nil:
		return "", fmt.Errorf("its address %.60q is no IP address", address)
	case ip == nil || ip.IsUnspecified():
		address = "127.0.0.1"
	}
	return net.JoinHostPort(address, strconv.Itoa(port)), nil
}

// servingCertificates names the files that may hold the certificate that the kubelet
// presents: the one that it was told, and in its certificate directory the one that it asked
// the API server for (serverTLSBootstrap) and the one that it signed itself.
// k3s tells its kubelet a file in its own data directory, and hides its command line.
func (k Kubelet) servingCertificates() ([]string, error) {
	c, err := k.configured()
	if err != nil {
		return nil, err
	}
	dir := k.flags.last("cert-dir")
	if dir == "" {
		dir = defaultCertDir
	}
	files := []string{filepath.Join(dir, "kubelet-server-current.pem")}
	switch file := k.flags.last("tls-cert-file"); {
	case file != "":
		files = append(files, file)
	case c.TLSCertFile != "":
		files = append(files, c.TLSCertFile)
	case k.name == nameK3s:
		files = append(files, filepath.Join(k.flags.last(flagDataDir), "agent", "serving-kubelet.crt"))
	default:
		files = append(files, filepath.Join(dir, "kubelet.crt"))
	}
	return files, nil
}

// servingLeafs reads the certificates that the kubelet may present.
func (k Kubelet) servingLeafs() ([]*x509.Certificate, []string, error) {
	files, err := k.servingCertificates()
	if err != nil {
		return nil, nil, err
	}
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

// readLeaf reads the first certificate of a file, which may hold a key as well.
func (k Kubelet) readLeaf(file string) (*x509.Certificate, error) {
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

// pinned returns a TLS configuration that takes a server for the kubelet only if it presents
// the very certificate that the running kubelet's files hold. Usually nobody but the kubelet
// itself has signed it, so there is no authority to ask and no name to compare; but who does
// not have its key cannot present it, and the key lies in a directory of root's. Whether it
// is out of date says nothing about who it is.
func pinned(leafs []*x509.Certificate, files []string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		// The chain and the name are not looked at; the comparison below takes their place.
		InsecureSkipVerify: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			for _, leaf := range leafs {
				if len(s.PeerCertificates) > 0 && bytes.Equal(s.PeerCertificates[0].Raw, leaf.Raw) {
					return nil
				}
			}
			return fmt.Errorf("who answers presents another certificate than that of the running kubelet (%s): "+
				"another program has its port, or the file was replaced since the kubelet read it", strings.Join(files, ", "))
		},
	}
}

// Door is where and how the kubelet is asked.
type Door struct {
	Base   string      // scheme, host and port
	TLS    *tls.Config // takes none but the kubelet; nil at the read-only port
	Silent string      // why there is none
	Err    error
}

// Door finds where to ask: the port that asks who is there, where there are credentials for
// it (secure); else the read-only port, where the kubelet was told one.
func (r *Reader) Door(ctx context.Context, k *Kubelet, secure bool) Door {
	d, err := bounded.Do(ctx, r.Guard, "kubelet's port", func() (d Door) {
		if secure {
			d.Err = d.secure(k)
		} else {
			d.Err = d.readOnly(k)
		}
		return d
	})
	switch {
	case err != nil:
		d.Err, d.Silent = err, fmt.Sprintf("not asked: cannot find the kubelet's port: %v", err)
	case d.Err != nil:
		d.Silent = fmt.Sprintf("not asked: %v", d.Err)
	}
	return d
}

func (d *Door) readOnly(k *Kubelet) error {
	port, err := k.readOnlyPort()
	if err != nil {
		return fmt.Errorf("cannot find the kubelet's read-only port: %w", err)
	}
	if port == 0 {
		d.Silent = "not asked: the kubelet has no read-only port, and no credentials were given for its other one " +
			"(--kubelet-token-file, --kubelet-client-certificate)"
		return nil
	}
	at, err := k.hostPort(port)
	d.Base = "http://" + at
	return err
}

func (d *Door) secure(k *Kubelet) error {
	port, err := k.securePort()
	if err != nil {
		return fmt.Errorf("cannot find the kubelet's port: %w", err)
	}
	at, err := k.hostPort(port)
	if err != nil {
		return err
	}
	d.Base = "https://" + at
	leafs, files, err := k.servingLeafs()
	if err != nil {
		return fmt.Errorf("cannot find the kubelet's certificate: %w", err)
	}
	d.TLS = pinned(leafs, files)
	return nil
}

// NodeName is the name that the kubelet was told to have at the API server, "" for none.
func (k *Kubelet) NodeName() string {
	if k == nil {
		return ""
	}
	return strings.ToLower(strings.TrimSpace(k.flags.last("hostname-override")))
}
