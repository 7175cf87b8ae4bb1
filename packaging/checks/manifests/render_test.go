package manifests

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

const (
	root     = "../../.."
	chart    = root + "/packaging/chart"
	fleetDoc = root + "/docs/fleet.md"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	must(t, err)
	return string(text)
}

// tool runs the program that an environment variable names, without the configuration of the user.
func tool(t *testing.T, variable string, args ...string) (string, error) {
	t.Helper()
	program := os.Getenv(variable)
	if program == "" {
		t.Fatalf("%s names no program: run make lint-chart", variable)
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	home := t.TempDir()
	cmd.Env = append(os.Environ(), "HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_CACHE_HOME="+home, "HELM_DATA_HOME="+home, "KUBECONFIG=/dev/null")
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %v: %w\n%s%s", variable, args, err, &out, &said)
	}
	return out.String(), nil
}

// built returns the program of ORPHAN_REAPER_PROGRAM, or builds it.
func built(t *testing.T) string {
	t.Helper()
	if program := os.Getenv("ORPHAN_REAPER_PROGRAM"); program != "" {
		return program
	}
	program := t.TempDir() + "/orphan-reaper"
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./cmd/orphan-reaper")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// renderings keeps what template has rendered, by its arguments.
var renderings = map[string]string{}

// template renders the chart, installed into the namespace of its name.
func template(t *testing.T, args ...string) (string, error) {
	t.Helper()
	key := strings.Join(args, "\n")
	if text, ok := renderings[key]; ok {
		return text, nil
	}
	text, err := tool(t, "HELM", append([]string{"template", "orphan-reaper", chart, "--namespace", "orphan-reaper", "--kube-version", "1.34.0"}, args...)...)
	if err == nil {
		renderings[key] = text
	}
	return text, err
}

// rendered is template and decode.
func rendered(t *testing.T, args ...string) []metav1.Object {
	t.Helper()
	text, err := template(t, args...)
	must(t, err)
	return decode(t, text)
}

// fresh returns an empty value of each kind that the chart may have, and nil for any other: a webhook.
func fresh(kind string) metav1.Object {
	switch kind {
	case "apps/v1 DaemonSet":
		return new(appsv1.DaemonSet)
	case "batch/v1 CronJob":
		return new(batchv1.CronJob)
	case "v1 Pod":
		return new(corev1.Pod)
	case "v1 Secret":
		return new(corev1.Secret)
	case "cert-manager.io/v1 Certificate":
		return new(certificate)
	case "cert-manager.io/v1 Issuer":
		return new(issuer)
	case "v1 Service":
		return new(corev1.Service)
	case "v1 ConfigMap":
		return new(corev1.ConfigMap)
	case "v1 ServiceAccount":
		return new(corev1.ServiceAccount)
	case "v1 Namespace":
		return new(corev1.Namespace)
	case "rbac.authorization.k8s.io/v1 Role":
		return new(rbacv1.Role)
	case "rbac.authorization.k8s.io/v1 RoleBinding":
		return new(rbacv1.RoleBinding)
	case "rbac.authorization.k8s.io/v1 ClusterRole":
		return new(rbacv1.ClusterRole)
	case "rbac.authorization.k8s.io/v1 ClusterRoleBinding":
		return new(rbacv1.ClusterRoleBinding)
	case "security.openshift.io/v1 SecurityContextConstraints":
		return new(constraints)
	case "monitoring.coreos.com/v1 PodMonitor":
		return new(monitoringv1.PodMonitor)
	case "monitoring.coreos.com/v1 ServiceMonitor":
		return new(monitoringv1.ServiceMonitor)
	case "monitoring.coreos.com/v1 PrometheusRule":
		return new(monitoringv1.PrometheusRule)
	}
	return nil
}

// decode reads the objects of a stream; a field that Kubernetes' types do not have, and a duplicate one, is an error.
func decode(t *testing.T, stream string) []metav1.Object {
	t.Helper()
	var all []metav1.Object
	for document := range strings.SplitSeq("\n"+stream, "\n---\n") {
		var kind metav1.TypeMeta
		must(t, yaml.Unmarshal([]byte(document), &kind))
		if kind.Kind == "" {
			continue
		}
		o := fresh(kind.APIVersion + " " + kind.Kind)
		if o == nil {
			t.Fatalf("the chart may not have a %s %s", kind.APIVersion, kind.Kind)
		}
		if err := yaml.UnmarshalStrict([]byte(document), o); err != nil {
			t.Errorf("%s: %v", kind.Kind, err)
		}
		all = append(all, o)
	}
	return all
}

// kinds picks the objects of one type.
func kinds[T metav1.Object](all []metav1.Object) []T {
	var list []T
	for _, o := range all {
		if one, ok := o.(T); ok {
			list = append(list, one)
		}
	}
	return list
}

// values are the arguments for the default values and for each file of values in ci.
func values(t *testing.T) map[string][]string {
	t.Helper()
	files, err := filepath.Glob(chart + "/ci/*-values.yaml")
	must(t, err)
	if len(files) < 5 {
		t.Fatalf("%d files of values", len(files))
	}
	all := map[string][]string{"default": nil}
	for _, f := range files {
		all[strings.TrimSuffix(filepath.Base(f), "-values.yaml")] = []string{"--values", f}
	}
	return all
}
