package manifests

import (
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// TestSweep: the Job may list the daemons' addresses and have them look, as a pod that Pod Security's strictest
// level admits; of each Secret it gets only what it needs.
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
		tokens := 0
		for _, v := range template.Spec.Volumes {
			for _, s := range v.Projected.Sources {
				if s.ServiceAccountToken != nil {
					tokens++
				}
			}
		}
		if got := secrets(&template); !slices.Equal(got, []string{"orphan-reaper-sweeper password", "orphan-reaper-ca ca.crt"}) || tokens != 1 {
			t.Errorf("of Secrets it gets %q, and %d tokens", got, tokens)
		}
	}
}

// secrets lists what the pod mounts of Secrets: the Secret and the key.
func secrets(pod *corev1.PodTemplateSpec) (list []string) {
	for _, v := range pod.Spec.Volumes {
		for _, s := range v.Projected.Sources {
			if s.Secret == nil {
				continue
			}
			for _, i := range s.Secret.Items {
				list = append(list, s.Secret.Name+" "+i.Key)
			}
		}
	}
	return list
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
	if got := secrets(&spec.JobTemplate.Spec.Template); !slices.Equal(got, []string{"orphan-reaper-sweeper password", "orphan-reaper-web ca.crt"}) {
		t.Errorf("of Secrets it gets %q", got)
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
