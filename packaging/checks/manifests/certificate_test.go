package manifests

import (
	"crypto/tls"
	"crypto/x509"
	"reflect"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// certificate and issuer are the parts of cert-manager.io/v1 that the chart sets, by cert-manager's names of the fields.
type certificate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		IsCA       bool      `json:"isCA"`
		CommonName string    `json:"commonName"`
		SecretName string    `json:"secretName"`
		DNSNames   []string  `json:"dnsNames"`
		Duration   string    `json:"duration"`
		Usages     []string  `json:"usages"`
		IssuerRef  issuerRef `json:"issuerRef"`
		PrivateKey struct {
			Algorithm string `json:"algorithm"`
			Size      int    `json:"size"`
		} `json:"privateKey"`
	} `json:"spec"`
}

type issuerRef struct {
	Name  string `json:"name"`
	Kind  string `json:"kind"`
	Group string `json:"group"`
}

type issuer struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		SelfSigned *struct{} `json:"selfSigned"`
		CA         *struct {
			SecretName string `json:"secretName"`
		} `json:"ca"`
	} `json:"spec"`
}

// served returns the names of the Secret and the ConfigMap that are mounted for TLS.
func served(t *testing.T, all []metav1.Object) (names []string) {
	t.Helper()
	for _, v := range kinds[*appsv1.DaemonSet](all)[0].Spec.Template.Spec.Volumes {
		if v.Name != "web" {
			continue
		}
		for _, s := range v.Projected.Sources {
			if s.Secret != nil {
				names = append(names, s.Secret.Name)
			} else {
				names = append(names, s.ConfigMap.Name)
			}
		}
	}
	return names
}

// TestCertificateByHelm: the authority in the Secret has signed the certificate, for the one name, and the daemon's web configuration
// and Prometheus use it.
func TestCertificateByHelm(t *testing.T) {
	all := rendered(t, "--values", chart+"/ci/certificate-values.yaml", "--set", "sweep.tlsServerName=nodes.example")
	secret := kinds[*corev1.Secret](all)[0]
	if got := served(t, all); !slices.Equal(got, []string{secret.Name, "orphan-reaper-web"}) {
		t.Errorf("mounted: %v, rendered: %s", got, secret.Name)
	}
	pair, err := tls.X509KeyPair(secret.Data["tls.crt"], secret.Data["tls.key"])
	must(t, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(secret.Data["ca.crt"])
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: "nodes.example"}); err != nil {
		t.Error(err)
	}
	if len(secret.Data) != 3 || strings.Contains(string(secret.Data["ca.crt"]), "PRIVATE") {
		t.Error("the Secret has more than the certificates and the daemon's key")
	}
	scrape := kinds[*monitoringv1.ServiceMonitor](all)[0].Spec.Endpoints[0]
	if ca := scrape.TLSConfig.CA.Secret; scrape.Scheme.String() != "https" || *scrape.TLSConfig.ServerName != "nodes.example" || ca.Name != secret.Name || ca.Key != "ca.crt" {
		t.Errorf("Prometheus asks by %+v", scrape)
	}
	if text := kinds[*corev1.ConfigMap](all)[0].Data["web.yaml"]; strings.Count(text, "/etc/orphan-reaper/web/tls.") != 2 {
		t.Error(text)
	}
}

// TestCertManager: without a configured issuer the chart has cert-manager make an authority; in both cases the
// daemons use the issued certificate.
func TestCertManager(t *testing.T) {
	const set = "web.certificate=cert-manager"
	all := rendered(t, "--set", set)
	certificates, issuers := kinds[*certificate](all), kinds[*issuer](all)
	if len(certificates) != 2 || len(issuers) != 2 {
		t.Fatalf("%d certificates, %d issuers", len(certificates), len(issuers))
	}
	ca, leaf, self, by := certificates[0].Spec, certificates[1].Spec, issuers[0], issuers[1]
	if !ca.IsCA || ca.IssuerRef.Name != self.Name || self.Spec.SelfSigned == nil || by.Spec.CA.SecretName != ca.SecretName || leaf.IssuerRef.Name != by.Name {
		t.Errorf("authority %+v by %+v, certificate %+v by %+v", ca, self, leaf, by)
	}
	if got := served(t, all); !slices.Equal(leaf.DNSNames, []string{"orphan-reaper"}) || leaf.IsCA || !slices.Equal(got, []string{leaf.SecretName, "orphan-reaper-web"}) {
		t.Errorf("%+v is issued, %v mounted", leaf, got)
	}
	own := rendered(t, "--set", set+",web.issuerRef.name=corporate,web.issuerRef.kind=ClusterIssuer")
	if c := kinds[*certificate](own); len(c) != 1 || len(kinds[*issuer](own)) != 0 || !reflect.DeepEqual(c[0].Spec.IssuerRef, issuerRef{"corporate", "ClusterIssuer", ""}) {
		t.Errorf("%+v", c)
	}
}

// TestHelmTest: the pod of helm test has no rights and no token, asks in the way in which the daemon listens, and is left out where it
// would need a password.
func TestHelmTest(t *testing.T) {
	for name, args := range values(t) {
		all := rendered(t, args...)
		pods := kinds[*corev1.Pod](all)
		if len(pods) != map[bool]int{false: 1}[name == "enforce-tls" || name == "sweep"] {
			t.Errorf("%s: %d pods", name, len(pods))
		}
		for _, pod := range pods {
			c := pod.Spec.Containers[0]
			if pod.Annotations["helm.sh/hook"] != "test" || *pod.Spec.AutomountServiceAccountToken || !slices.Equal(c.SecurityContext.Capabilities.Drop, []corev1.Capability{"ALL"}) ||
				c.SecurityContext.Capabilities.Add != nil || !*c.SecurityContext.ReadOnlyRootFilesystem || *c.SecurityContext.AllowPrivilegeEscalation {
				t.Errorf("%s: %+v", name, pod.Spec)
			}
			probe := kinds[*appsv1.DaemonSet](all)[0].Spec.Template.Spec.Containers[0].ReadinessProbe.HTTPGet
			secure := probe.Scheme == corev1.URISchemeHTTPS
			if secure != strings.HasPrefix(c.Args[2], "https://127.0.0.1:") || secure != (len(c.VolumeMounts) == 1) || secure != (len(c.Args) == 5) {
				t.Errorf("%s: %v, and the kubelet asks by %q", name, c.Args, probe.Scheme)
			}
			if *c.SecurityContext.RunAsUser == 0 != (name == "extras") {
				t.Errorf("%s: user %d", name, *c.SecurityContext.RunAsUser)
			}
		}
	}
}
