package webconfig

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
)

// verifyAll is the client_auth_type that lets nobody in without a certificate that was verified.
const verifyAll = "RequireAndVerifyClientCert"

// clientAuth are the values of client_auth_type.
var clientAuth = map[string]tls.ClientAuthType{
	"": tls.NoClientCert, "NoClientCert": tls.NoClientCert,
	"RequestClientCert":       tls.RequestClientCert,
	"RequireAnyClientCert":    tls.RequireAnyClientCert,
	"RequireClientCert":       tls.RequireAnyClientCert, // its older name
	"VerifyClientCertIfGiven": tls.VerifyClientCertIfGiven,
	verifyAll:                 tls.RequireAndVerifyClientCert,
}

// The bounds on what is read: the file itself, and a bundle of all public authorities some times over.
const (
	fileBytes = 1 << 20
	pemBytes  = 4 << 20
)

// readFile reads a file that has no more than so many bytes.
func readFile(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if int64(len(text)) > most {
		return nil, fmt.Errorf("%s has more than %d bytes", path, most)
	}
	return text, nil
}

// on reports whether the file speaks of TLS. What it says may be too little for it.
func (t *TLS) on() bool {
	return t.Cert+t.CertFile+t.Key+t.KeyFile+t.ClientCA+t.CAFile+t.ClientAuth != ""
}

// pems are the texts that a TLS configuration is made of.
type pems struct{ cert, key, authorities []byte }

func (p *pems) equal(q *pems) bool {
	return bytes.Equal(p.cert, q.cert) && bytes.Equal(p.key, q.key) && bytes.Equal(p.authorities, q.authorities)
}

// pems reads the files as they are now.
func (t *TLS) pems() (*pems, error) {
	p := &pems{}
	for _, of := range []struct {
		to           *[]byte
		path, inline string
		key, want    string
	}{
		{&p.cert, t.CertFile, t.Cert, "cert_file", "tls_server_config has neither cert_file nor cert"},
		{&p.key, t.KeyFile, t.Key, "key_file", "tls_server_config has neither key_file nor key"},
		{&p.authorities, t.CAFile, t.ClientCA, "client_ca_file", ""},
	} {
		var err error
		switch {
		case of.path != "":
			if *of.to, err = readFile(of.path, pemBytes); err != nil {
				return nil, fmt.Errorf("cannot read the %s: %w", of.key, err)
			}
		case of.inline == "" && of.want != "":
			return nil, errors.New(of.want)
		default:
			*of.to = []byte(of.inline)
		}
	}
	return p, nil
}

// config is what crypto/tls needs. There are no session tickets: who resumes a session shows no certificate anew, and one
// that was taken back would go on to count.
func (t *TLS) config(p *pems) (*tls.Config, error) {
	auth, ok := clientAuth[t.ClientAuth]
	if !ok {
		return nil, fmt.Errorf("there is no client_auth_type %s", strconv.Quote(t.ClientAuth))
	}
	pair, err := tls.X509KeyPair(p.cert, p.key)
	if err != nil {
		return nil, fmt.Errorf("the certificate and its key cannot be used: %w", err)
	}
	c := &tls.Config{
		Certificates: []tls.Certificate{pair}, MinVersion: uint16(t.Min), MaxVersion: uint16(t.Max), ClientAuth: auth,
		NextProtos: []string{"http/1.1"}, SessionTicketsDisabled: true,
	}
	for _, id := range t.Ciphers {
		c.CipherSuites = append(c.CipherSuites, uint16(id))
	}
	for _, id := range t.Curves {
		c.CurvePreferences = append(c.CurvePreferences, tls.CurveID(id))
	}
	if t.ClientCA+t.CAFile != "" {
		if auth == tls.NoClientCert {
			return nil, errors.New("tls_server_config names client authorities, and requests no certificate: client_auth_type is missing")
		}
		c.ClientCAs = x509.NewCertPool()
		if !c.ClientCAs.AppendCertsFromPEM(p.authorities) && auth == tls.RequireAndVerifyClientCert {
			return nil, errors.New("there is no certificate in the client_ca_file or client_ca: no client could connect")
		}
	}
	if t.Names != nil && auth != tls.NoClientCert {
		c.VerifyConnection = t.allowed
	}
	return c, nil
}

// allowed refuses a client whose certificate has none of the names that the file allows.
func (t *TLS) allowed(state tls.ConnectionState) error {
	if len(state.PeerCertificates) == 0 {
		return errors.New("the client has shown no certificate, and client_allowed_sans wants a name")
	}
	cert := state.PeerCertificates[0]
	names := slices.Concat(cert.DNSNames, cert.EmailAddresses)
	for _, ip := range cert.IPAddresses {
		names = append(names, ip.String())
	}
	for _, uri := range cert.URIs {
		names = append(names, uri.String())
	}
	if slices.ContainsFunc(names, func(name string) bool { return slices.Contains(t.Names, name) }) {
		return nil
	}
	return errors.New("no name of the client's certificate is in client_allowed_sans")
}
