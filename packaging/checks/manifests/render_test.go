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
	root    = "../../.."
	chart   = root + "/packaging/chart"
	command = "./cmd/orphan-reaper"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// helm runs helm without the configuration of the user.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	program := os.Getenv("HELM")
	if program == "" {
		t.Fatal("HELM names no program: run make lint-chart")
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	home := t.TempDir()
	cmd.Env = append(os.Environ(), "HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_CACHE_HOME="+home, "HELM_DATA_HOME="+home, "KUBECONFIG=/dev/null")
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("helm %v: %w\n%s%s", args, err, &out, &stderr)
	}
	return out.String(), nil
}

// template renders the chart, installed into the namespace nodes.
func template(t *testing.T, args ...string) (string, error) {
	t.Helper()
	return helm(t, append([]string{"template", "orphan-reaper", chart, "--namespace", "nodes", "--kube-version", "1.34.0"}, args...)...)
}

// rendered returns the objects that the chart renders. A field that Kubernetes' types do not have, and a duplicate one, is an
// error, and so is an object of another kind.
func rendered(t *testing.T, args ...string) []metav1.Object {
	t.Helper()
	text, err := template(t, args...)
	must(t, err)
	var all []metav1.Object
	for document := range strings.SplitSeq("\n"+text, "\n---\n") {
		var kind metav1.TypeMeta
		must(t, yaml.Unmarshal([]byte(document), &kind))
		if kind.Kind == "" {
			continue
		}
		o := fresh(kind.APIVersion + " " + kind.Kind)
		if o == nil {
			t.Fatalf("the chart may not have a %s %s", kind.APIVersion, kind.Kind)
		}
		must(t, yaml.UnmarshalStrict([]byte(document), o))
		all = append(all, o)
	}
	return all
}

// fresh returns an empty value of each kind that the chart may have, and nil for any other.
func fresh(kind string) metav1.Object {
	switch kind {
	case "apps/v1 DaemonSet":
		return new(appsv1.DaemonSet)
	case "batch/v1 CronJob":
		return new(batchv1.CronJob)
	case "v1 Service":
		return new(corev1.Service)
	case "v1 ConfigMap":
		return new(corev1.ConfigMap)
	case "v1 ServiceAccount":
		return new(corev1.ServiceAccount)
	case "rbac.authorization.k8s.io/v1 Role":
		return new(rbacv1.Role)
	case "rbac.authorization.k8s.io/v1 RoleBinding":
		return new(rbacv1.RoleBinding)
	case "cert-manager.io/v1 Certificate":
		return new(certificate)
	case "security.openshift.io/v1 SecurityContextConstraints":
		return new(constraints)
	case "monitoring.coreos.com/v1 ServiceMonitor":
		return new(monitoringv1.ServiceMonitor)
	case "monitoring.coreos.com/v1 PrometheusRule":
		return new(monitoringv1.PrometheusRule)
	}
	return nil
}

// kinds returns the objects of one type.
func kinds[T metav1.Object](all []metav1.Object) []T {
	var list []T
	for _, o := range all {
		if one, ok := o.(T); ok {
			list = append(list, one)
		}
	}
	return list
}

// only returns the one object of a type.
func only[T metav1.Object](t *testing.T, all []metav1.Object) T {
	t.Helper()
	list := kinds[T](all)
	if len(list) != 1 {
		t.Fatalf("%d objects of type %T", len(list), *new(T))
	}
	return list[0]
}

// certificate is the part of cert-manager's type that the chart sets.
type certificate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		SecretName string   `json:"secretName"`
		DNSNames   []string `json:"dnsNames"`
		Usages     []string `json:"usages"`
		PrivateKey struct {
			Algorithm string `json:"algorithm"`
			Size      int    `json:"size"`
		} `json:"privateKey"`
		IssuerRef struct {
			Name string `json:"name"`
			Kind string `json:"kind"`
		} `json:"issuerRef"`
	} `json:"spec"`
}

// constraints is the part of security.openshift.io/v1 that the chart sets, by OpenShift's names of the fields.
type constraints struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	AllowPrivilegedContainer        bool                `json:"allowPrivilegedContainer"`
	AllowPrivilegeEscalation        *bool               `json:"allowPrivilegeEscalation"`
	DefaultAllowPrivilegeEscalation *bool               `json:"defaultAllowPrivilegeEscalation"`
	AllowHostDirVolumePlugin        bool                `json:"allowHostDirVolumePlugin"`
	AllowHostIPC                    bool                `json:"allowHostIPC"`
	AllowHostNetwork                bool                `json:"allowHostNetwork"`
	AllowHostPID                    bool                `json:"allowHostPID"`
	AllowHostPorts                  bool                `json:"allowHostPorts"`
	ReadOnlyRootFilesystem          bool                `json:"readOnlyRootFilesystem"`
	RequiredDropCapabilities        []corev1.Capability `json:"requiredDropCapabilities"`
	AllowedCapabilities             []corev1.Capability `json:"allowedCapabilities"`
	Volumes                         []string            `json:"volumes"`
	RunAsUser                       strategy            `json:"runAsUser"`
	SELinuxContext                  strategy            `json:"seLinuxContext"`
	SupplementalGroups              strategy            `json:"supplementalGroups"`
	FSGroup                         strategy            `json:"fsGroup"`
	SeccompProfiles                 []string            `json:"seccompProfiles"`
	Users                           []string            `json:"users"`
}

type strategy struct {
	Type string `json:"type"`
	UID  *int64 `json:"uid"`
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

// built returns the program of ORPHAN_REAPER_PROGRAM, or builds it.
func built(t *testing.T) string {
	t.Helper()
	if program := os.Getenv("ORPHAN_REAPER_PROGRAM"); program != "" {
		return program
	}
	program := t.TempDir() + "/orphan-reaper"
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, command)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}
