package testkit

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

// CertOf is the certificate that the server presents.
func CertOf(s *httptest.Server) string { return PEM("CERTIFICATE", s.Certificate().Raw) }

// ConfigOf is client-go's configuration for the server.
func ConfigOf(s *httptest.Server, token string) *rest.Config {
	return &rest.Config{Host: s.URL, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: []byte(CertOf(s))}}
}

// TLSServer is a server with TLS that lets in only who has the client certificate, where one
// is named.
func TLSServer(t *testing.T, client string, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	if client != "" {
		s.TLS.ClientCAs = x509.NewCertPool()
		s.TLS.ClientCAs.AppendCertsFromPEM([]byte(client))
		s.TLS.ClientAuth = tls.RequireAndVerifyClientCert
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// File writes a file of the test's own directory.
func File(t *testing.T, name, text string) string {
	t.Helper()
	return WriteText(t, filepath.Join(t.TempDir(), name), text)
}

// PortOf is the port of a server.
func PortOf(t *testing.T, s *httptest.Server) string {
	t.Helper()
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	Must(t, err)
	return port
}

// Later is when the tests' good certificates end.
var Later = Noon.AddDate(50, 0, 0)

// The pods of these tests: one that plainly runs here, and one of which nothing but the
// lists knows.
const (
	UIDHere   = parsers.PodUID("aaaaaaaa-1111-4222-8333-444444444444")
	UIDAway   = parsers.PodUID("bbbbbbbb-1111-4222-8333-444444444444")
	UIDQuiet  = APIUID
	HerePod   = `{"metadata":{"name":"here","namespace":"a","uid":"` + string(UIDHere) + `","annotations":{"kubernetes.io/config.source":"api"}}}`
	AwayPod   = `{"metadata":{"name":"away","namespace":"a","uid":"` + string(UIDAway) + `"}}`
	QuietPod  = `{"metadata":{"name":"quiet","namespace":"a","uid":"` + string(UIDQuiet) + `","annotations":{"kubernetes.io/config.source":"api"}}}`
	StaticPod = `{"metadata":{"name":"etcd-node-1","namespace":"kube-system","uid":"` + string(StaticUID) +
		`","annotations":{"kubernetes.io/config.hash":"` + string(StaticUID) + `","kubernetes.io/config.source":"file"}}}`
	NamelessPod = `{"metadata":{"name":"quiet","namespace":"a"}}`
)

// Answer writes one text, and says what it is.
func Answer(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(text))
	}
}

// Refuse answers as an API server does.
func Refuse(code int, message string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"` + message + `","items":[]}`))
	}
}

// Serve answers by path; what is not named is not found, but for the gauges of a kubelet that
// has taken in its pods.
func Serve(paths map[string]http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch h, ok := paths[r.URL.Path]; {
		case ok:
			h(w, r)
		case r.URL.Path == "/metrics":
			Answer(SomeMetrics)(w, r)
		default:
			http.NotFound(w, r)
		}
	}
}

// MirrorPod is a static pod as the kubelet lists it once the API server has its mirror: the
// mirror's own UID, and the static one in an annotation. ownedPod mentions a UID that is
// not its own.
const (
	MirrorPod = `{"metadata":{"uid":"11111111-2222-4333-8444-555555555555","annotations":{"kubernetes.io/config.hash":"` +
		string(StaticUID) + `"}},"spec":{"x":[1,{}]}}`
	OwnedPod  = `{"metadata":{"uid":"99999999-2222-4333-8444-555555555555","ownerReferences":[{"uid":"` + OtherStatic + `"}]}}`
	PlainPod  = `{"metadata":{"name":"web","uid":"` + string(APIUID) + `","annotations":null},"status":{}}`
	EmptyList = `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":null}`
)

// ListOf is how a kubelet lists pods.
func ListOf(pods ...string) string {
	return `{"kind":"PodList","apiVersion":"v1","metadata":{"a":[{}]},"items":[` + strings.Join(pods, ",") + "]}\n"
}

// KubeconfigOf writes a kubeconfig for a server, with a user of the given lines.
func KubeconfigOf(t *testing.T, url, ca, user string) string {
	t.Helper()
	if ca != "" {
		ca = ", certificate-authority-data: " + base64.StdEncoding.EncodeToString([]byte(ca))
	}
	return File(t, "kubeconfig", `apiVersion: v1
kind: Config
preferences: {}
current-context: here
contexts:
- {name: elsewhere, context: {cluster: none, user: none}}
- {name: here, context: {cluster: c, user: u, namespace: default}}
clusters:
- {name: c, cluster: {server: "`+url+`"`+ca+`}}
users:
- {name: u, user: {`+user+`}}
`)
}

// MetadataOf is how a server answers that can leave out everything but the metadata.
func MetadataOf(more string, pods ...string) string {
	return `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"7","continue":"` + more + `"},"items":[` +
		strings.Join(pods, ",") + "]}\n"
}

// The UIDs of a static pod, of another and of a pod of the API server's, and a manifest.
const (
	StaticUID    = parsers.PodUID("7f8e47b71a845b4eb634a44a94e20069")
	OtherStatic  = "541dfae681928ae5ecce3afd849bc260"
	APIUID       = parsers.PodUID("2c9a1c3e-5f0e-4c39-9d3b-0d6a1e9f6b11")
	EtcdManifest = "apiVersion: v1\nkind: Pod\nmetadata: {name: etcd, namespace: kube-system}\n"
)

// SomeMetrics are the gauges of a kubelet that has taken in its pods.
const SomeMetrics = `# HELP kubelet_orphan_pod_cleaned_volumes [ALPHA] The total number of orphaned Pods whose volumes were cleaned in the last periodic sweep.
# TYPE kubelet_orphan_pod_cleaned_volumes gauge
kubelet_orphan_pod_cleaned_volumes 4
kubelet_orphan_pod_cleaned_volumes_errors 3
kubelet_orphan_pod_cleaned_volumes_errors_else 9
kubelet_orphaned_runtime_pods_total 1
kubelet_desired_pods{static=""} 8
kubelet_desired_pods{static="true"} 1
kubelet_active_pods{static=""} 7
kubelet_active_pods{static="true"} 1
kubelet_mirror_pods 2
kubelet_restarted_pods_total{static=""} 2
kubelet_restarted_pods_total{static="true"} 1
kubelet_working_pods{config="desired",lifecycle="sync",static=""} 5
kubelet_working_pods{config="desired",lifecycle="sync",static="true"} 1e+00 1700000000000
kubelet_working_pods{config="runtime_only",lifecycle="terminating",static="unknown"} 2
`

// Noon is the tests' time.
var Noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
