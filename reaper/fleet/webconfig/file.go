// Package webconfig reads the web configuration of Prometheus and its exporters, and does what it says: TLS, client
// certificates, passwords, headers and the rate of requests.
// https://prometheus.io/docs/prometheus/latest/configuration/https/ has its keys; all are taken, and an unknown one is an
// error. What Prometheus' own exporter-toolkit answers to a file is answered here, too: package webcases has the table, and
// make lint-web puts it before both.
//
// # What holds when
//
// The file is read at each request, and it and the files that it names at each connection: what is replaced on disk holds at
// once. Whether there is TLS at all is settled when a listener opens. What cannot be read lets nobody in, and is logged once.
//
// # What it must not do
//
// It knows no path of a request, writes nothing and asks nobody. Whether a client that it let in may have what it asks for is
// for the caller to say.
package webconfig

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	"golang.org/x/crypto/bcrypt"
)

// File is a web configuration.
type File struct {
	TLS   TLS               `yaml:"tls_server_config"`
	HTTP  HTTP              `yaml:"http_server_config"`
	Rate  Rate              `yaml:"rate_limit"`
	Users map[string]string `yaml:"basic_auth_users"` // to bcrypt's hash of the password
}

// TLS is how connections are encrypted, and which certificate a client has to show.
type TLS struct {
	Cert       string   `yaml:"cert"` // PEM; a file wins over it
	Key        string   `yaml:"key"`
	ClientCA   string   `yaml:"client_ca"`
	CertFile   string   `yaml:"cert_file"`
	KeyFile    string   `yaml:"key_file"`
	CAFile     string   `yaml:"client_ca_file"`
	ClientAuth string   `yaml:"client_auth_type"`
	Names      []string `yaml:"client_allowed_sans"`
	Min        version  `yaml:"min_version"`
	Max        version  `yaml:"max_version"`
	Ciphers    []cipher `yaml:"cipher_suites"`
	Curves     []curve  `yaml:"curve_preferences"`
	Prefer     bool     `yaml:"prefer_server_cipher_suites"` // without effect, in Go and there
}

// HTTP is what is said in HTTP.
type HTTP struct {
	HTTP2   bool              `yaml:"http2"` // without effect: HTTP/1.1 is all that is spoken
	Headers map[string]string `yaml:"headers"`
}

// Rate bounds the requests of all clients together.
type Rate struct {
	Burst    int      `yaml:"burst"`
	Interval interval `yaml:"interval"` // in which one more may come; 0 for no bound
}

// mayHave are the headers that the file may set, each with the values that it may have; none are all.
var mayHave = map[string][]string{
	"Strict-Transport-Security": nil,
	"X-Content-Type-Options":    {"nosniff"},
	"X-Frame-Options":           {"deny", "sameorigin"},
	"X-XSS-Protection":          nil,
	"Content-Security-Policy":   nil,
}

// Parse reads the text of a web configuration that lies in dir. It opens no file that the text names.
func Parse(text []byte, dir string) (*File, error) {
	f := &File{TLS: TLS{Min: tls.VersionTLS12, Max: tls.VersionTLS13}}
	var tree yaml.Node
	if err := yaml.Unmarshal(text, &tree); err != nil {
		return nil, err
	}
	if err := checkKeys(&tree); err != nil {
		return nil, err
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(f); err != nil && !errors.Is(err, io.EOF) {
		return nil, inOneLine(err)
	}
	for name, value := range f.HTTP.Headers {
		switch values, ok := mayHave[name]; {
		case !ok:
			return nil, fmt.Errorf("http_server_config cannot set the header %s", strconv.Quote(name))
		case values != nil && !slices.Contains(values, value):
			return nil, fmt.Errorf("the header %s is one of %s, not %s", name, strings.Join(values, ", "), strconv.Quote(value))
		}
	}
	for _, path := range []*string{&f.TLS.CertFile, &f.TLS.KeyFile, &f.TLS.CAFile} {
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(dir, *path)
		}
	}
	return f, nil
}

// checkKeys refuses a key that is no word. The decoder passes over a key that is null, and what stands for it: of users whose
// only one has no name nothing would be left, and everybody would come in.
func checkKeys(n *yaml.Node) error {
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 && (child.Kind != yaml.ScalarNode || child.ShortTag() == "!!null") {
			return fmt.Errorf("line %d: a key without a name", child.Line)
		}
		if err := checkKeys(child); err != nil {
			return err
		}
	}
	return nil
}

// sections are how the types are called in the file.
var sections = strings.NewReplacer(
	"type webconfig.File", "a web configuration", "type webconfig.TLS", "tls_server_config", "type webconfig.HTTP", "http_server_config",
	"type webconfig.Rate", "rate_limit", "webconfig.File", "a web configuration", "webconfig.TLS", "tls_server_config",
	"webconfig.HTTP", "http_server_config", "webconfig.Rate", "rate_limit",
)

// inOneLine writes what YAML found wrong.
func inOneLine(err error) error {
	if e, ok := errors.AsType[*yaml.TypeError](err); ok {
		return errors.New(sections.Replace(strings.Join(e.Errors, "; ")))
	}
	return err
}

// WantsPassword reports whether every request has to bring one.
func (f *File) WantsPassword() bool { return len(f.Users) > 0 }

// WantsCertificate reports whether every connection has to show a certificate of an authority that the file names: without
// one any public certificate would do.
func (f *File) WantsCertificate() bool {
	return f.TLS.ClientAuth == verifyAll && (f.TLS.ClientCA != "" || f.TLS.CAFile != "")
}

// HasTLS reports whether there is a certificate to serve by.
func (f *File) HasTLS() bool { return f.TLS.Cert != "" || f.TLS.CertFile != "" }

// checkUsers says which user nobody can log in as.
func (f *File) checkUsers() error {
	for user, hash := range f.Users {
		if _, err := bcrypt.Cost([]byte(hash)); err != nil {
			return fmt.Errorf("basic_auth_users: what stands for %s is no bcrypt hash; htpasswd -nBC 10 writes one", strconv.Quote(user))
		}
	}
	return nil
}

// named decodes one of some names.
func named[V any](n *yaml.Node, what string, values map[string]V) (v V, err error) {
	var name string
	if err := n.Decode(&name); err != nil {
		return v, err
	}
	v, ok := values[name]
	if !ok {
		return v, fmt.Errorf("line %d: there is no %s %s", n.Line, what, strconv.Quote(name))
	}
	return v, nil
}

type (
	version  uint16
	cipher   uint16
	curve    tls.CurveID
	interval time.Duration
)

// UnmarshalYAML takes the name of a version of TLS.
func (v *version) UnmarshalYAML(n *yaml.Node) (err error) {
	*v, err = named(n, "version of TLS", map[string]version{
		"TLS10": tls.VersionTLS10, "TLS11": tls.VersionTLS11, "TLS12": tls.VersionTLS12, "TLS13": tls.VersionTLS13,
	})
	return err
}

// UnmarshalYAML takes the name of a cipher suite that is not known to be weak.
func (c *cipher) UnmarshalYAML(n *yaml.Node) (err error) {
	strong := map[string]cipher{}
	for _, s := range tls.CipherSuites() {
		strong[s.Name] = cipher(s.ID)
	}
	*c, err = named(n, "cipher suite", strong)
	return err
}

// UnmarshalYAML takes the name of a curve.
func (c *curve) UnmarshalYAML(n *yaml.Node) (err error) {
	*c, err = named(n, "curve", map[string]curve{
		"CurveP256": curve(tls.CurveP256), "CurveP384": curve(tls.CurveP384), "CurveP521": curve(tls.CurveP521), "X25519": curve(tls.X25519),
	})
	return err
}

// UnmarshalYAML takes a duration, and a number of nanoseconds, as Prometheus does.
func (i *interval) UnmarshalYAML(n *yaml.Node) error {
	var plain int64
	if err := n.Decode(&plain); err == nil {
		*i = interval(plain)
		return nil
	}
	var d time.Duration
	err := n.Decode(&d)
	*i = interval(d)
	return err
}
