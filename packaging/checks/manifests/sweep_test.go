package manifests

import (
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// TestSweep: the Job may list the daemons' addresses and have them look, as a pod that Pod Security's strictest
// level admits; each token is valid for the daemons alone.
func TestSweep(t *testing.T) {
	for name, args := range values(t) {
		all := rendered(t, args...)
		jobs := kinds[*batchv1.CronJob](all)
		if len(jobs) != map[bool]int{true: 1}[name == "sweep"] {
			t.Errorf("%s: %d CronJobs", name, len(jobs))
		}
		if name != "sweep" {
			continue
		}
		spec := jobs[0].Spec
		if spec.ConcurrencyPolicy != batchv1.ForbidConcurrent || *spec.Suspend || *spec.JobTemplate.Spec.BackoffLimit != 0 || spec.Schedule != "17 3 * * *" {
			t.Errorf("%+v", spec)
		}
		for _, role := range kinds[*rbacv1.Role](all) {
			want := []rbacv1.PolicyRule{{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: []string{"list"}}}
			if role.Name != "orphan-reaper-sweep" || role.Namespace != "orphan-reaper" || !reflect.DeepEqual(role.Rules, want) {
				t.Errorf("%s in %s: %+v", role.Name, role.Namespace, role.Rules)
			}
		}
		template := spec.JobTemplate.Spec.Template
		restricted(t, &template)
		for _, service := range kinds[*corev1.Service](all) {
			if picked := picked(template.Labels, service.Spec.Selector); reflect.DeepEqual(picked, service.Spec.Selector) {
				t.Errorf("the Service selects the Job's pod as a daemon: %v", picked)
			}
		}
		sources := map[string]corev1.VolumeProjection{}
		for _, v := range template.Spec.Volumes {
			for _, s := range v.Projected.Sources {
				if s.ServiceAccountToken != nil {
					sources[v.Name] = s
				}
				if s.Secret != nil && (s.Secret.Name != "orphan-reaper-ca" || len(s.Secret.Items) != 1 || s.Secret.Items[0].Key != "ca.crt") {
					t.Errorf("of a Secret it gets %+v", s.Secret)
				}
			}
		}
		if sources["daemons"].ServiceAccountToken.Audience != "orphan-reaper" || sources["api"].ServiceAccountToken.Audience != "" || len(sources) != 2 {
			t.Errorf("%+v", sources)
		}
	}
}

// restricted checks that Pod Security's level restricted admits the pod.
func restricted(t *testing.T, pod *corev1.PodTemplateSpec) {
	t.Helper()
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	must(t, err)
	level := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	results := evaluator.EvaluatePod(level, &pod.ObjectMeta, &pod.Spec)
	for _, r := range results {
		if !r.Allowed {
			t.Errorf("restricted forbids %s: %s", r.ForbiddenReason, r.ForbiddenDetail)
		}
	}
	context := pod.Spec.Containers[0].SecurityContext
	if len(results) == 0 || !*context.ReadOnlyRootFilesystem || *pod.Spec.SecurityContext.RunAsUser == 0 || *pod.Spec.AutomountServiceAccountToken {
		t.Errorf("%d results, %+v", len(results), pod.Spec)
	}
}

// TestSweepByHand: without a schedule the CronJob is there and never starts by itself; without a Secret of its own the authority comes from the
// daemons', and their key does not.
func TestSweepByHand(t *testing.T) {
	args := append(slices.Clone(values(t)["sweep"]), "--set", "sweep.schedule=,sweep.caSecret=")
	spec := kinds[*batchv1.CronJob](rendered(t, args...))[0].Spec
	if !*spec.Suspend || spec.Schedule == "" {
		t.Errorf("%+v", spec)
	}
	for _, v := range spec.JobTemplate.Spec.Template.Spec.Volumes {
		for _, s := range v.Projected.Sources {
			if s.Secret != nil && (s.Secret.Name != "orphan-reaper-web" || len(s.Secret.Items) != 1 || s.Secret.Items[0].Key != "ca.crt") {
				t.Errorf("of a Secret it gets %+v", s.Secret)
			}
		}
	}
}

// TestReviewsAlone: a daemon that asks nothing else has its token and the API server's authority all the same.
func TestReviewsAlone(t *testing.T) {
	args := append(slices.Clone(values(t)["sweep"]), "--set", "askKubelet=false")
	pod := kinds[*appsv1.DaemonSet](rendered(t, args...))[0].Spec.Template.Spec
	if !slices.Contains(pod.Containers[0].Args, "--web-token-review=in-cluster") {
		t.Errorf("%v", pod.Containers[0].Args)
	}
	mounted := slices.ContainsFunc(pod.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool {
		return m.Name == "token" && m.MountPath == "/var/run/secrets/kubernetes.io/serviceaccount"
	})
	there := slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool {
		return v.Name == "token" && len(v.Projected.Sources) == 2 && v.Projected.Sources[1].ConfigMap.Name == "kube-root-ca.crt"
	})
	if !mounted || !there {
		t.Errorf("mounted: %t, with the authority: %t", mounted, there)
	}
}

// TestSweepFlags: the program of this tree accepts the arguments of the Job.
func TestSweepFlags(t *testing.T) {
	program := built(t)
	c := kinds[*batchv1.CronJob](rendered(t, values(t)["sweep"]...))[0].Spec.JobTemplate.Spec.Template.Spec.Containers[0]
	cmd := exec.CommandContext(t.Context(), program, c.Args...)
	cmd.Env = []string{"HOME=" + t.TempDir()}
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "no API server is named") {
		t.Errorf("%v: %v\n%s", c.Args, err, out)
	}
}
