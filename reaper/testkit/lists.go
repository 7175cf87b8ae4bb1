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

// CertOf returns the certificate of the server as PEM.
func CertOf(s *httptest.Server) string { return PEM("CERTIFICATE", s.Certificate().Raw) }

// ConfigOf returns client-go's configuration for the server.
func ConfigOf(s *httptest.Server, token string) *rest.Config {
	return &rest.Config{Host: s.URL, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: []byte(CertOf(s))}}
}

// TLSServer starts a server with TLS. If client is a certificate, it accepts only clients with that certificate.
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

// File writes a file in a temporary directory and returns its path.
func File(t *testing.T, name, text string) string {
	t.Helper()
	return WriteText(t, filepath.Join(t.TempDir(), name), text)
}

// PortOf returns the port of a server.
func PortOf(t *testing.T, s *httptest.Server) string {
	t.Helper()
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	Must(t, err)
	return port
}

// Later is when the tests' valid certificates expire.
var Later = Noon.AddDate(50, 0, 0)

// Pods in lists: one that runs here, one that does not, and one that only the lists have.
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

// Answer answers each request with a JSON text.
func Answer(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(text))
	}
}

// Refuse answers each request with an error of an API server.
func Refuse(code int, message string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"` + message + `","items":[]}`))
	}
}

// Serve answers by path. /metrics has SomeMetrics unless paths has it; other paths are not found.
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

// MirrorPod is a static pod as the kubelet lists it once the API server has its mirror pod: it has the mirror's UID, and the
// static UID in an annotation. OwnedPod mentions the UID of another pod.
const (
	MirrorPod = `{"metadata":{"uid":"11111111-2222-4333-8444-555555555555","annotations":{"kubernetes.io/config.hash":"` +
		string(StaticUID) + `"}},"spec":{"x":[1,{}]}}`
	OwnedPod  = `{"metadata":{"uid":"99999999-2222-4333-8444-555555555555","ownerReferences":[{"uid":"` + OtherStatic + `"}]}}`
	PlainPod  = `{"metadata":{"name":"web","uid":"` + string(APIUID) + `","annotations":null},"status":{}}`
	EmptyList = `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":null}`
)

// ListOf returns a kubelet's list of pods.
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

// MetadataOf returns an API server's list of the pods' metadata; more is its continue token.
func MetadataOf(more string, pods ...string) string {
	return `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"7","continue":"` + more + `"},"items":[` +
		strings.Join(pods, ",") + "]}\n"
}

// The UIDs of two static pods and of a pod from the API server, and a manifest.
const (
	StaticUID    = parsers.PodUID("7f8e47b71a845b4eb634a44a94e20069")
	OtherStatic  = "541dfae681928ae5ecce3afd849bc260"
	APIUID       = parsers.PodUID("2c9a1c3e-5f0e-4c39-9d3b-0d6a1e9f6b11")
	EtcdManifest = "apiVersion: v1\nkind: Pod\nmetadata: {name: etcd, namespace: kube-system}\n"
)

// SomeMetrics are the gauges of a kubelet that runs pods.
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

// Noon is the current time in tests.
var Noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
