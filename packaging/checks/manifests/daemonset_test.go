package manifests

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

const hostToContainer = corev1.MountPropagationHostToContainer

// rights is the whole security context of the daemon.
var rights = &corev1.SecurityContext{
	RunAsUser: new(int64(0)), RunAsGroup: new(int64(0)),
	Privileged: new(false), AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
	Capabilities: &corev1.Capabilities{
		Drop: []corev1.Capability{"ALL"},
		Add:  []corev1.Capability{"DAC_OVERRIDE", "FOWNER", "SYS_PTRACE", "SYS_CHROOT"},
	},
	SeccompProfile:  &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	AppArmorProfile: &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined},
	SELinuxOptions:  &corev1.SELinuxOptions{Type: "spc_t", Level: "s0"},
}

// TestDaemonSet: with all values helm finds nothing, and each node has one daemon with four capabilities, without privileges
// and without a right in the API, which sees later mounts of the node and creates only its state directory there.
func TestDaemonSet(t *testing.T) {
	program := built(t)
	for name, args := range values(t) {
		t.Run(name, func(t *testing.T) {
			_, err := helm(t, append([]string{"lint", "--strict", "--kube-version", "1.34.0", chart}, args...)...)
			must(t, err)
			all := rendered(t, args...)
			set := only[*appsv1.DaemonSet](t, all)
			pod := &set.Spec.Template.Spec
			if len(pod.Containers) != 1 || pod.InitContainers != nil || !pod.HostPID || !pod.HostNetwork || pod.HostIPC || pod.SecurityContext != nil {
				t.Errorf("%+v", pod)
			}
			if got := pod.Containers[0].SecurityContext; !reflect.DeepEqual(got, rights) {
				t.Errorf("the rights are %+v", got)
			}
			mounts(t, pod)
			probed(t, &pod.Containers[0])
			update := set.Spec.UpdateStrategy.RollingUpdate
			if want := map[bool]string{true: "2", false: "1"}[name == "all"]; update.MaxUnavailable.String() != want || update.MaxSurge.String() != "0" {
				t.Errorf("an update replaces %s nodes, with %s more pods", update.MaxUnavailable, update.MaxSurge)
			}
			accounts(t, all, pod)
			accepted(t, program, &set.Spec.Template)
		})
	}
}

// mounts: each directory of the node follows its mounts and has the same path in the pod; only what is changed is writable; no
// token is mounted.
func mounts(t *testing.T, pod *corev1.PodSpec) {
	t.Helper()
	from := map[string]corev1.VolumeSource{}
	for _, v := range pod.Volumes {
		from[v.Name] = v.VolumeSource
	}
	for _, m := range pod.Containers[0].VolumeMounts {
		host := from[m.Name].HostPath
		if host == nil {
			if p := from[m.Name].Projected; m.Name != "config" || !m.ReadOnly || p == nil || slices.ContainsFunc(p.Sources, func(s corev1.VolumeProjection) bool { return s.ServiceAccountToken != nil }) {
				t.Errorf("%+v is mounted", m)
			}
			continue
		}
		if m.MountPropagation == nil || *m.MountPropagation != hostToContainer || m.MountPath != host.Path {
			t.Errorf("%+v is not as on the node", m)
		}
		if writes := slices.Contains([]string{"kubelet", "state", "cni"}, m.Name); m.ReadOnly == writes {
			t.Errorf("%s: read-only is %t", m.Name, m.ReadOnly)
		}
		if creates := *host.Type == corev1.HostPathDirectoryOrCreate; creates != (m.Name == "state") || !creates && *host.Type != corev1.HostPathDirectory {
			t.Errorf("%s is a %s", m.Name, *host.Type)
		}
	}
	if len(pod.Volumes) != len(pod.Containers[0].VolumeMounts) {
		t.Errorf("volumes %+v, mounts %+v", pod.Volumes, pod.Containers[0].VolumeMounts)
	}
}

// probed: the kubelet asks the listener of the probes, which no other process of the network reaches, and never restarts.
func probed(t *testing.T, c *corev1.Container) {
	t.Helper()
	probe := c.ReadinessProbe.HTTPGet
	at := slices.IndexFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == probe.Port.StrVal })
	if at < 0 || c.LivenessProbe != nil || c.StartupProbe != nil || probe.Path != "/readyz" || probe.Host != "127.0.0.1" || probe.Scheme == corev1.URISchemeHTTPS {
		t.Fatalf("%+v, %+v", c.ReadinessProbe, c.Ports)
	}
	if want := "--web-listen-address=probes=127.0.0.1:" + itoa(c.Ports[at].ContainerPort); !slices.Contains(c.Args, want) {
		t.Errorf("%v has no %s", c.Args, want)
	}
	for _, p := range c.Ports { // a second pod on a node waits for the first one to go
		if p.HostPort != p.ContainerPort {
			t.Errorf("%+v", p)
		}
	}
}

// accounts: the daemon's account has no right and no token; the Job's may list the addresses of the daemons.
func accounts(t *testing.T, all []metav1.Object, daemon *corev1.PodSpec) {
	t.Helper()
	if *daemon.AutomountServiceAccountToken {
		t.Error("the daemon has a token")
	}
	for _, a := range kinds[*corev1.ServiceAccount](all) {
		if *a.AutomountServiceAccountToken {
			t.Errorf("%s has a token in each pod", a.Name)
		}
	}
	want := []rbacv1.PolicyRule{{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: []string{"list"}}}
	for _, r := range kinds[*rbacv1.Role](all) {
		if r.Namespace != "nodes" || !reflect.DeepEqual(r.Rules, want) {
			t.Errorf("%s in %s: %+v", r.Name, r.Namespace, r.Rules)
		}
	}
	for _, b := range kinds[*rbacv1.RoleBinding](all) {
		job := rbacv1.Subject{Kind: "ServiceAccount", Name: "orphan-reaper-sweep", Namespace: "nodes"}
		if b.Namespace != "nodes" || !reflect.DeepEqual(b.Subjects, []rbacv1.Subject{job}) || daemon.ServiceAccountName == job.Name {
			t.Errorf("%s binds %+v", b.Name, b.Subjects)
		}
	}
}

// accepted: the program accepts the settings and flags of the pod, with the values that the kubelet fills in.
func accepted(t *testing.T, program string, pod *corev1.PodTemplateSpec) {
	t.Helper()
	c, file := pod.Spec.Containers[0], filepath.Join(t.TempDir(), "config.yaml")
	must(t, os.WriteFile(file, []byte(pod.Annotations["orphan-reaper/config"]), 0o600))
	if c.Args[0] != "run" || slices.ContainsFunc(c.Args, func(a string) bool { return strings.HasPrefix(a, "--mode") }) {
		t.Errorf("%v", c.Args)
	}
	args := []string{"config", "check", "--config", file}
	for _, a := range c.Args[1:] {
		args = append(args, strings.ReplaceAll(a, "$(HOST_IP)", "2001:db8::1"))
	}
	out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
	if err != nil || strings.Contains(string(out), "$(") {
		t.Errorf("%v: %v\n%s", args, err, out)
	}
}

// TestMode: the daemon observes by default, and a change of the mode is one of the pod template, so that it rolls node by node.
func TestMode(t *testing.T) {
	config := func(args ...string) string {
		return only[*appsv1.DaemonSet](t, rendered(t, args...)).Spec.Template.Annotations["orphan-reaper/config"] + "\n"
	}
	if got := config(); !strings.Contains(got, "\nmode: observe\n") {
		t.Error(got)
	}
	if got := config("--set", "mode=enforce"); !strings.Contains(got, "\nmode: enforce\n") {
		t.Error(got)
	}
	volumes := only[*appsv1.DaemonSet](t, rendered(t)).Spec.Template.Spec.Volumes
	from := volumes[len(volumes)-1].Projected.Sources[0].DownwardAPI.Items[0]
	if from.Path != "config.yaml" || from.FieldRef.FieldPath != "metadata.annotations['orphan-reaper/config']" {
		t.Errorf("%+v", from)
	}
}

// TestPodSecurity: of Pod Security's baseline the daemon violates only these rules. A namespace needs the label privileged
// for them.
func TestPodSecurity(t *testing.T) {
	set := only[*appsv1.DaemonSet](t, rendered(t))
	got := forbidden(t, api.LevelBaseline, &set.Spec.Template)
	want := []string{
		"forbidden AppArmor profile", "host namespaces", "hostPath volumes", "hostPort", "non-default capabilities", "probe or lifecycle host", "seLinuxOptions",
	}
	if !slices.Equal(got, want) {
		t.Errorf("baseline forbids %q", got)
	}
}

// forbidden returns the reasons for which a level of Pod Security refuses the pod.
func forbidden(t *testing.T, level api.Level, pod *corev1.PodTemplateSpec) (reasons []string) {
	t.Helper()
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	must(t, err)
	for _, r := range evaluator.EvaluatePod(api.LevelVersion{Level: level, Version: api.LatestVersion()}, &pod.ObjectMeta, &pod.Spec) {
		if !r.Allowed {
			reasons = append(reasons, r.ForbiddenReason)
		}
	}
	slices.Sort(reasons)
	return reasons
}

// TestOpenShift: on OpenShift the constraints allow exactly the pod's own settings, for its account only.
func TestOpenShift(t *testing.T) {
	all := rendered(t, "--api-versions", "security.openshift.io/v1")
	pod, got := only[*appsv1.DaemonSet](t, all).Spec.Template.Spec, *only[*constraints](t, all)
	want := constraints{
		TypeMeta: got.TypeMeta, ObjectMeta: got.ObjectMeta,
		AllowPrivilegedContainer: *rights.Privileged,
		AllowPrivilegeEscalation: rights.AllowPrivilegeEscalation, DefaultAllowPrivilegeEscalation: rights.AllowPrivilegeEscalation,
		AllowHostDirVolumePlugin: true, AllowHostIPC: pod.HostIPC, AllowHostNetwork: pod.HostNetwork, AllowHostPID: pod.HostPID,
		AllowHostPorts: pod.HostNetwork, ReadOnlyRootFilesystem: *rights.ReadOnlyRootFilesystem,
		RequiredDropCapabilities: rights.Capabilities.Drop, AllowedCapabilities: rights.Capabilities.Add,
		Volumes:   []string{"hostPath", "projected"},
		RunAsUser: strategy{"MustRunAs", rights.RunAsUser}, SELinuxContext: strategy{Type: "RunAsAny"},
		SupplementalGroups: strategy{Type: "RunAsAny"}, FSGroup: strategy{Type: "RunAsAny"},
		SeccompProfiles: []string{"runtime/default"},
		Users:           []string{"system:serviceaccount:nodes:" + pod.ServiceAccountName},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the constraints are\n%+v, and the pods need\n%+v", got, want)
	}
}
