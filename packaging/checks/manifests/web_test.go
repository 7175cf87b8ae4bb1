package manifests

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/pod-security-admission/api"
	"sigs.k8s.io/yaml"
)

// host is the name in the certificates, which fleet --service nodes/orphan-reaper asks for.
const host = "orphan-reaper.nodes.svc"

func itoa(n int32) string { return strconv.Itoa(int(n)) }

// TestService: it names every daemon, ready or not, and no pod of the Job; its port is the one that answers over TLS.
func TestService(t *testing.T) {
	all := rendered(t, values(t)["secret"]...)
	service, set := only[*corev1.Service](t, all), only[*appsv1.DaemonSet](t, all)
	if service.Spec.ClusterIP != corev1.ClusterIPNone || !service.Spec.PublishNotReadyAddresses || len(service.Spec.Ports) != 1 || service.Spec.Ports[0].Name != "https" {
		t.Errorf("%+v", service.Spec)
	}
	selects := func(labels map[string]string) bool {
		for k, v := range service.Spec.Selector {
			if labels[k] != v {
				return false
			}
		}
		return true
	}
	job := only[*batchv1.CronJob](t, all).Spec.JobTemplate.Spec.Template
	if !selects(set.Spec.Template.Labels) || selects(job.Labels) {
		t.Errorf("%v selects %v or does not select %v", service.Spec.Selector, job.Labels, set.Spec.Template.Labels)
	}
	c := set.Spec.Template.Spec.Containers[0]
	if want := "--web-listen-address=[$(HOST_IP)]:" + itoa(service.Spec.Ports[0].Port); !slices.Contains(c.Args, want) || c.Ports[1].Name != service.Spec.Ports[0].TargetPort.StrVal {
		t.Errorf("%v has no %s, ports %+v", c.Args, want, c.Ports)
	}
}

// TestSecrets: daemon, Job and Prometheus get of each Secret only the keys that they use, whoever issues the certificate.
func TestSecrets(t *testing.T) {
	for name, from := range map[string][2]string{"secret": {"orphan-reaper-web", "orphan-reaper-web"}, "all": {"fleet", "orphan-reaper-tls"}} {
		web, cert := from[0], from[1]
		all := rendered(t, values(t)[name]...)
		if got := keys(&only[*appsv1.DaemonSet](t, all).Spec.Template.Spec); !slices.Equal(got, []string{web + " web.yaml", cert + " tls.crt", cert + " tls.key"}) {
			t.Errorf("%s: the daemon gets %q", name, got)
		}
		if got := keys(&only[*batchv1.CronJob](t, all).Spec.JobTemplate.Spec.Template.Spec); !slices.Equal(got, []string{web + " password", cert + " ca.crt"}) {
			t.Errorf("%s: the Job gets %q", name, got)
		}
		for _, c := range kinds[*certificate](all) {
			if c.Spec.SecretName != cert || !slices.Equal(c.Spec.DNSNames, []string{host}) || c.Spec.IssuerRef.Kind != "ClusterIssuer" {
				t.Errorf("%+v", c.Spec)
			}
		}
		for _, m := range kinds[*monitoringv1.ServiceMonitor](all) {
			e := m.Spec.Endpoints[0]
			if e.Scheme.String() != "https" || *e.TLSConfig.ServerName != host || e.TLSConfig.CA.Secret.Name != cert || e.BasicAuth.Password.Name != web {
				t.Errorf("%+v", e)
			}
		}
	}
}

// keys lists what a pod mounts of Secrets.
func keys(pod *corev1.PodSpec) (list []string) {
	for _, v := range pod.Volumes {
		if v.Secret != nil {
			list = append(list, "all of "+v.Secret.SecretName)
		}
		if v.Projected == nil {
			continue
		}
		for _, s := range v.Projected.Sources {
			if s.Secret == nil {
				continue
			}
			if len(s.Secret.Items) == 0 {
				list = append(list, "all of "+s.Secret.Name)
			}
			for _, i := range s.Secret.Items {
				list = append(list, s.Secret.Name+" "+i.Key)
			}
		}
	}
	return list
}

// TestSweep: Pod Security's strictest level admits the Job's pod, and the program accepts its arguments.
func TestSweep(t *testing.T) {
	job := only[*batchv1.CronJob](t, rendered(t, values(t)["secret"]...)).Spec
	pod := job.JobTemplate.Spec.Template
	if got := forbidden(t, api.LevelRestricted, &pod); got != nil {
		t.Errorf("restricted forbids %q", got)
	}
	if job.ConcurrencyPolicy != batchv1.ForbidConcurrent || *job.JobTemplate.Spec.BackoffLimit != 0 || job.Schedule != "@daily" {
		t.Errorf("%+v", job)
	}
	cmd := exec.CommandContext(t.Context(), built(t), pod.Spec.Containers[0].Args...)
	cmd.Env = []string{"HOME=" + t.TempDir()}
	out, err := cmd.CombinedOutput()
	if err == nil || cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), "cannot read the password: open /run/secrets/orphan-reaper/password") {
		t.Errorf("%v: %v\n%s", cmd.Args, err, out)
	}
}

// TestSecretCommand runs the command that the notes print: the Secret has what the chart uses, the certificate is valid for the
// Service, and nothing stays on the disk.
func TestSecretCommand(t *testing.T) {
	notes, err := helm(t, "install", "orphan-reaper", chart, "--dry-run=client", "--namespace", "nodes")
	must(t, err)
	_, text, _ := strings.Cut(notes, "\n  sh -ec '")
	text, _, ok := strings.Cut(text, "'\n")
	if !ok {
		t.Fatal(notes)
	}
	bin, out, temp := t.TempDir(), t.TempDir(), t.TempDir()
	const hash = "$2y$10$abcdefghijklmnopqrstuuA1B2C3D4E5F6G7H8I9J0K1L2M3N4O5"
	must(t, os.WriteFile(bin+"/htpasswd", []byte("#!/bin/sh\ncat >/dev/null\nprintf '%s\\n\\n' 'fleet:"+hash+"'\n"), 0o700))
	must(t, os.WriteFile(bin+"/kubectl", []byte("#!/bin/sh\nprintf '%s\\n' \"$*\" >'"+out+"/args'\ncp * '"+out+"'\n"), 0o700))
	cmd := exec.CommandContext(t.Context(), "sh", "-ec", text)
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "TMPDIR="+temp)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	read := func(name string) []byte {
		b, err := os.ReadFile(filepath.Join(out, name))
		must(t, err)
		return b
	}
	pair, err := tls.X509KeyPair(read("tls.crt"), read("tls.key"))
	must(t, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(read("tls.crt"))
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: host}); err != nil {
		t.Error(err)
	}
	var web struct {
		TLS   map[string]string `json:"tls_server_config"`
		Users map[string]string `json:"basic_auth_users"`
	}
	must(t, yaml.UnmarshalStrict(read("web.yaml"), &web))
	if web.Users["fleet"] != hash || web.TLS["cert_file"] != "tls.crt" || web.TLS["key_file"] != "tls.key" || len(read("password")) != 48 {
		t.Errorf("%+v, password %q", web, read("password"))
	}
	want := "-n nodes create secret generic orphan-reaper-web --from-literal=username=fleet --from-file=password --from-file=web.yaml " +
		"--from-file=tls.crt --from-file=tls.key --from-file=ca.crt=tls.crt\n"
	if got := string(read("args")); got != want {
		t.Errorf("kubectl %s", got)
	}
	if left, err := filepath.Glob(temp + "/*/*"); err != nil || len(left) > 0 {
		t.Errorf("%v, %v are left", err, left)
	}
}

// TestMonitoring: the rules are those that promtool tests, and the dashboard has its label.
func TestMonitoring(t *testing.T) {
	all := rendered(t, values(t)["all"]...)
	text, err := os.ReadFile(chart + "/files/orphan-reaper.rules.yaml")
	must(t, err)
	var want monitoringv1.PrometheusRuleSpec
	must(t, yaml.UnmarshalStrict(text, &want))
	rule := only[*monitoringv1.PrometheusRule](t, all)
	if got, err := yaml.Marshal(rule.Spec); err != nil || string(got) != string(marshal(t, want)) || rule.Labels["release"] != "prometheus" {
		t.Errorf("%v, %v\n%s", err, rule.Labels, got)
	}
	board := only[*corev1.ConfigMap](t, all)
	var panels struct {
		Panels []struct{ Title string } `json:"panels"`
	}
	must(t, yaml.Unmarshal([]byte(board.Data["orphan-reaper.json"]), &panels))
	if board.Labels["grafana_dashboard"] != "1" || len(panels.Panels) != 8 {
		t.Errorf("%v, %d panels", board.Labels, len(panels.Panels))
	}
}

func marshal(t *testing.T, v any) []byte {
	t.Helper()
	text, err := yaml.Marshal(v)
	must(t, err)
	return text
}

// TestImage: a tag has precedence over the digest that the packed chart has.
func TestImage(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0a", 32)
	for set, want := range map[string]string{
		"image.tag=": "orphan-reaper:0.1.0", "image.digest=" + digest: "orphan-reaper@" + digest,
		"image.digest=" + digest + ",image.tag=v9,image.repository=example/or": "example/or:v9",
	} {
		if got := only[*appsv1.DaemonSet](t, rendered(t, "--set", set)).Spec.Template.Spec.Containers[0].Image; got != want {
			t.Errorf("%s: %s, want %s", set, got, want)
		}
	}
}
