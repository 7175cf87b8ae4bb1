package manifests

import (
	"fmt"
	"maps"
	"os/exec"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"
)

// TestLint: helm finds nothing, whatever the values.
func TestLint(t *testing.T) {
	for name, args := range values(t) {
		if _, err := tool(t, "HELM", append([]string{"lint", "--strict", "--kube-version", "1.34.0", chart}, args...)...); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// granted has the rules of each role that the chart may have, by what follows the release's name.
var granted = map[string][]rbacv1.PolicyRule{
	"": {{APIGroups: []string{""}, Resources: []string{"nodes/pods", "nodes/metrics", "nodes/healthz"}, Verbs: []string{"get"}}},
}

// TestRights: with all values every pod has the security context of docs/fleet.md, mounts what it lists and
// sees later mounts of the node, and the account may only ask the kubelet.
func TestRights(t *testing.T) {
	var documented corev1.SecurityContext
	must(t, yaml.UnmarshalStrict([]byte(block(t, "securityContext")), &documented))
	for name, args := range values(t) {
		all := rendered(t, args...)
		sets := kinds[*appsv1.DaemonSet](all)
		if len(sets) == 0 {
			t.Errorf("%s: no DaemonSet", name)
		}
		for _, set := range sets {
			pod := &set.Spec.Template.Spec
			if len(pod.Containers) != 1 || pod.InitContainers != nil || !pod.HostPID || !pod.HostNetwork || pod.HostIPC || pod.SecurityContext != nil {
				t.Errorf("%s: %+v", name, pod)
			}
			if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
				t.Errorf("%s: the account's token is mounted by itself", name)
			}
			c := pod.Containers[0]
			context := c.SecurityContext
			want := documented.DeepCopy()
			if name == "least" {
				want.Capabilities.Add = want.Capabilities.Add[:3]
			}
			want.AppArmorProfile = context.AppArmorProfile // which profiles a node has is its owner's
			if !reflect.DeepEqual(context, want) {
				t.Errorf("%s has %+v, and docs/fleet.md has %+v", name, context, want)
			}
			mounts(t, name, pod)
		}
		for _, role := range kinds[*rbacv1.ClusterRole](all) {
			if want := granted[strings.TrimPrefix(role.Name, release(name))]; !reflect.DeepEqual(role.Rules, want) || role.AggregationRule != nil {
				t.Errorf("%s: %s: %+v", name, role.Name, role.Rules)
			}
		}
		for _, role := range kinds[*rbacv1.Role](all) {
			if role.Name == "orphan-reaper-sweep" || role.Name == "reaper-scc" {
				continue // see TestSweep and TestOpenShift
			}
			t.Errorf("%s: %s in %s: %+v", name, role.Name, role.Namespace, role.Rules)
		}
		bound(t, name, all)
		for _, account := range kinds[*corev1.ServiceAccount](all) {
			if account.AutomountServiceAccountToken == nil || *account.AutomountServiceAccountToken || len(account.Secrets) > 0 {
				t.Errorf("%s: %+v", name, account)
			}
		}
	}
}

// bound: each role is bound to the one account that it is for.
func bound(t *testing.T, name string, all []metav1.Object) {
	t.Helper()
	check := func(binding string, to rbacv1.RoleRef, subjects []rbacv1.Subject) {
		account := rbacv1.Subject{Kind: "ServiceAccount", Name: release(name), Namespace: "orphan-reaper"}
		if to.Name == "orphan-reaper-sweep" {
			account.Name += "-sweep" // the Job's account, and not the daemons'
		}
		if to.Name != binding || !reflect.DeepEqual(subjects, []rbacv1.Subject{account}) {
			t.Errorf("%s: %s gives %s to %+v", name, binding, to.Name, subjects)
		}
	}
	for _, b := range kinds[*rbacv1.ClusterRoleBinding](all) {
		check(b.Name, b.RoleRef, b.Subjects)
	}
	for _, b := range kinds[*rbacv1.RoleBinding](all) {
		check(b.Name, b.RoleRef, b.Subjects)
		if b.Namespace != "orphan-reaper" {
			t.Errorf("%s: %s is in %s", name, b.Name, b.Namespace)
		}
	}
}

// release is the name of the objects that a file of values renders.
func release(values string) string {
	return map[bool]string{true: "reaper", false: "orphan-reaper"}[values == "extras"]
}

// mounts: every directory of the node is one of docs/fleet.md, follows the node's mounts, and has the same path in the pod as
// on the node; what else is mounted is the token and the web configuration.
func mounts(t *testing.T, name string, pod *corev1.PodSpec) {
	t.Helper()
	doc := block(t, "directories")
	from := map[string]corev1.VolumeSource{}
	for _, v := range pod.Volumes {
		from[v.Name] = v.VolumeSource
	}
	unused := maps.Clone(from)
	for _, m := range pod.Containers[0].VolumeMounts {
		source := from[m.Name]
		delete(unused, m.Name)
		if source.HostPath == nil {
			if !m.ReadOnly || source.Projected == nil && source.Secret == nil && source.ConfigMap == nil {
				t.Errorf("%s mounts %+v", name, m)
			}
			continue
		}
		if m.MountPropagation == nil || *m.MountPropagation != corev1.MountPropagationHostToContainer || m.MountPath != source.HostPath.Path {
			t.Errorf("%s: %+v is not as on the node", name, m)
		}
		access := "read and written"
		if m.ReadOnly {
			access = "read only"
		}
		if want := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(m.Name) + `: ` + access); !want.MatchString(doc) {
			t.Errorf("%s: docs/fleet.md does not have that %s is %s", name, m.Name, access)
		}
	}
	if len(unused) > 0 {
		t.Errorf("%s: volumes that are not mounted: %v", name, unused)
	}
}

// block returns the code block of docs/fleet.md that begins with "# NAME".
func block(t *testing.T, name string) string {
	t.Helper()
	_, text, ok := strings.Cut(read(t, fleetDoc), "```yaml\n# "+name+"\n")
	if !ok {
		t.Fatalf("docs/fleet.md has no block %s", name)
	}
	text, _, _ = strings.Cut(text, "```")
	return text
}

// TestNever: no values render an object that is never needed.
func TestNever(t *testing.T) {
	never := regexp.MustCompile(`privileged: true|nodes/proxy|nodes/exec|pods/|resources: \[[^\]]*\bsecrets|resources: \[([^\]]*[ ,])?pods|` +
		`SYS_ADMIN|hostIPC: true|Bidirectional|"\*"|\[\*\]|image: [^\n/]*[.:][^\n/]*/`) // the last one: a registry's host
	texts := map[string]string{}
	for name, args := range values(t) {
		text, err := template(t, args...)
		must(t, err)
		texts[name] = text
	}
	for name, text := range texts {
		if found := never.FindString(text); found != "" {
			t.Errorf("%s has %s", name, found)
		}
	}
	for _, bad := range []string{
		"privileged: true", "resources: [nodes/proxy]", "resources: [nodes, pods]", "resources: [secrets]", "image: example.invalid/b:1",
	} {
		if !never.MatchString(bad) {
			t.Errorf("%s would not be found", bad)
		}
	}
}

// TestPodSecurity: the pods violate exactly those rules of Pod Security's baseline that docs/fleet.md lists.
func TestPodSecurity(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	must(t, err)
	set := kinds[*appsv1.DaemonSet](rendered(t))[0]
	var documented []string
	must(t, yaml.UnmarshalStrict([]byte(block(t, "baseline")), &documented))
	var lacks []string
	baseline := api.LevelVersion{Level: api.LevelBaseline, Version: api.LatestVersion()}
	for _, r := range evaluator.EvaluatePod(baseline, &set.Spec.Template.ObjectMeta, &set.Spec.Template.Spec) {
		if !r.Allowed {
			lacks = append(lacks, r.ForbiddenReason)
		}
	}
	slices.Sort(lacks)
	slices.Sort(documented)
	if !slices.Equal(lacks, documented) {
		t.Errorf("baseline forbids %q, and docs/fleet.md has %q", lacks, documented)
	}
	namespaces := kinds[*corev1.Namespace](rendered(t, "--set", "namespaceManifest=true"))
	if len(namespaces) != 1 || namespaces[0].Labels["pod-security.kubernetes.io/enforce"] != "privileged" {
		t.Errorf("want one namespace for privileged pods: %+v", namespaces)
	}
}

// TestSets: a node has one daemon, whatever its labels, and an update replaces the old one first.
func TestSets(t *testing.T) {
	for name, args := range values(t) {
		sets := kinds[*appsv1.DaemonSet](rendered(t, args...))
		for _, set := range sets {
			update := set.Spec.UpdateStrategy.RollingUpdate
			if onDelete := set.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType; onDelete != (name == "extras") || onDelete != (update == nil) {
				t.Errorf("%s: %+v", name, set.Spec.UpdateStrategy)
			} else if onDelete {
				continue
			}
			if update.MaxSurge.String() != "0" || update.MaxUnavailable.String() != map[bool]string{true: "1", false: "10%"}[name == "enforce-tls"] {
				t.Errorf("%s: %+v", name, update)
			}
			c := set.Spec.Template.Spec.Containers[0]
			if p := c.Ports[0]; len(c.Ports) != 1 || p.HostPort != p.ContainerPort { // a second pod waits for the first one to go
				t.Errorf("%s: %+v", name, c.Ports)
			}
			if !maps.Equal(set.Spec.Selector.MatchLabels, picked(set.Spec.Template.Labels, set.Spec.Selector.MatchLabels)) {
				t.Errorf("%s does not select its own pods", name)
			}
			if got := c.Args[:2]; !slices.Equal(got, []string{"run", "--mode=" + mode(name, set)}) {
				t.Errorf("%s: %v", name, got)
			}
		}
		if name != "label" {
			if len(sets) != 1 || (sets[0].Spec.Template.Spec.Affinity == nil) != (name == "extras") {
				t.Errorf("%s: %d DaemonSets, affinity %v", name, len(sets), sets[0].Spec.Template.Spec.Affinity)
			}
			continue
		}
		rest, chosen := sets[0], sets[1]
		if maps.Equal(rest.Spec.Selector.MatchLabels, chosen.Spec.Selector.MatchLabels) {
			t.Errorf("both select %v", rest.Spec.Selector.MatchLabels)
		}
		for set, want := range map[*appsv1.DaemonSet]corev1.NodeSelectorOperator{rest: corev1.NodeSelectorOpNotIn, chosen: corev1.NodeSelectorOpIn} {
			if got := asked(set); len(got) != 3 || got[2].Key != "orphan-reaper/mode" || got[2].Operator != want || got[0].Operator != corev1.NodeSelectorOpNotIn {
				t.Errorf("%s is on nodes with %+v", set.Name, got)
			}
		}
	}
}

// TestAffinity: in mode label each term of the user's affinity asks for the label too, and a user's own affinity keeps its other parts.
func TestAffinity(t *testing.T) {
	const terms = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
	sets := kinds[*appsv1.DaemonSet](rendered(t, "--set", "mode=label", "--set-json", terms+`=[{"matchExpressions":[{"key":"a","operator":"Exists"}]},`+
		`{"matchFields":[{"key":"metadata.name","operator":"In","values":["n"]}]}]`, "--set-json",
		`affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution=[{"weight":1,"preference":{"matchExpressions":[{"key":"b","operator":"Exists"}]}}]`))
	for _, set := range sets {
		node := set.Spec.Template.Spec.Affinity.NodeAffinity
		if len(node.PreferredDuringSchedulingIgnoredDuringExecution) != 1 {
			t.Errorf("%s prefers %+v", set.Name, node.PreferredDuringSchedulingIgnoredDuringExecution)
		}
		for i, term := range node.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
			n := len(term.MatchExpressions)
			if n != 2-i || term.MatchExpressions[n-1].Key != "orphan-reaper/mode" || len(term.MatchFields) != i {
				t.Errorf("%s: term %d is %+v", set.Name, i, term)
			}
		}
	}
	for _, set := range kinds[*appsv1.DaemonSet](rendered(t, "--set", "mode=label", "--set-json", "affinity.nodeAffinity=null")) {
		if got := asked(set); len(got) != 1 || got[0].Key != "orphan-reaper/mode" {
			t.Errorf("%s is on nodes with %+v", set.Name, got)
		}
	}
}

func mode(name string, set *appsv1.DaemonSet) string {
	if name == "enforce-tls" || strings.HasSuffix(set.Name, "-enforce") {
		return "enforce"
	}
	return "observe"
}

// asked are the expressions of a DaemonSet's first term.
func asked(set *appsv1.DaemonSet) []corev1.NodeSelectorRequirement {
	return set.Spec.Template.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchExpressions
}

// picked are those labels whose keys the selector has.
func picked(labels, selector map[string]string) map[string]string {
	some := map[string]string{}
	for key := range selector {
		some[key] = labels[key]
	}
	return some
}

// TestSchema: values that the schema, or the chart, refuses, and with which error. A guard may be longer than its default.
func TestSchema(t *testing.T) {
	for set, want := range map[string]string{
		"mode=delete":                             "'observe', 'enforce', 'label'",
		"mdoe=enforce":                            "mdoe",
		"host.kubelet=var/lib/kubelet":            "/host/kubelet",
		"host.kubelet=":                           "/host/kubelet",
		"host.sock=/run/docker.sock":              "sock",
		"web.certificate=self":                    "/web/certificate",
		"web.certificate=helm,web.configSecret=x": "exclude each other",
		"web.port=80":                             "/web/port",
		"web.port=http":                           "/web/port",
		"image.digest=sha256:1":                   "/image/digest",
		"image.repository=orphan-reaper:1":        "/image/repository",
		"extraArgs[0]=retention":                  "/extraArgs/0",
		"extraArgs[0]=--mode=enforce":             "/extraArgs/0",
		"extraArgs[0]=--node-namespaces=self":     "/extraArgs/0",
		"extraArgs[0]=--hold":                     "/extraArgs/0",
		"extraArgs[0]=--hold=0s":                  "/extraArgs/0",
		"extraArgs[0]=--hold=0":                   "/extraArgs/0",
		"extraArgs[0]=--hold=0h0m":                "/extraArgs/0",
		"extraArgs[0]=--hold=1ns":                 "/extraArgs/0",
		"extraArgs[0]=--hold=0.001m":              "/extraArgs/0",
		"extraArgs[0]=--confirm=0s":               "/extraArgs/0",
		"extraArgs[0]=--api-unreachable=ignore":   "/extraArgs/0",
		"maxUnavailable=0":                        "/maxUnavailable",
		"maxUnavailable=0%":                       "/maxUnavailable",
		"readHostJournal=maybe":                   "/readHostJournal",
		"securityContext.privileged=true":         "securityContext",
		"podMonitor.enabled=true":                 "podMonitor.enabled takes web.expose=true",
		"prometheusRule.disabled={Silent}":        "/prometheusRule/disabled",
		"web.expose=true,podMonitor.enabled=true,serviceMonitor.enabled=true": "exclude each other",
		"commonLabels.app\\.kubernetes\\.io/name=x":                           "invalid propertyName",
		"env[0].name=NODE_NAME":                                               "/env/0",
		"updateStrategy=Recreate":                                             "/updateStrategy",
		"fullnameOverride=a.b":                                                "/fullnameOverride",
		"sweep.schedule=daily":                                                "/sweep/schedule",
		"sweep.tlsServerName=":                                                "/sweep/tlsServerName",
		"sweep.maxBreakers=-1":                                                "/sweep/maxBreakers",
		"sweep.enabled=true":                                                  "sweep.enabled takes web.expose=true, a web.configSecret with TLS",
		"dashboard.enable=true":                                               "enable",
		"dashboard.labels=grafana":                                            "/dashboard/labels",
		"appArmorProfile.type=none":                                           "/appArmorProfile/type",
		"seLinuxOptions.kind=spc_t":                                           "kind",
		"serviceAccount.automount=true":                                       "automount",
		"tolerations.operator=Exists":                                         "/tolerations",
		"podMonitor.keep[0]=orphan_reaper_.*":                                 "/podMonitor/keep/0",
		"podMonitor.drop[0].metric=orphan_.*":                                 "/podMonitor/drop/0",
		"rbac.rules[0].resources[0]=nodes/proxy":                              "rules",
		"enforceLabel.value=not a value":                                      "/enforceLabel/value",
	} {
		if _, err := template(t, "--set", set); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", set, err)
		}
	}
	for _, flag := range []string{"--hold=30m", "--hold=1h30m0s", "--confirm=1h", "--api-unreachable=keep", "--retention=48h"} {
		if _, err := template(t, "--set", "extraArgs[0]="+flag); err != nil {
			t.Errorf("%s: %v", flag, err)
		}
	}
}

// TestProbes: the kubelet asks at an address on which the daemon listens, in a way that the daemon's configuration lets through. It asks
// for readiness only: any process of the node can make it fail, and none may have the container restarted.
func TestProbes(t *testing.T) {
	for name, args := range values(t) {
		c := kinds[*appsv1.DaemonSet](rendered(t, args...))[0].Spec.Template.Spec.Containers[0]
		port := c.Ports[0]
		listens := slices.Contains(c.Args, fmt.Sprintf("--web-listen-address=127.0.0.1:%d", port.ContainerPort))
		p := c.ReadinessProbe
		ok := p.HTTPGet != nil && p.HTTPGet.Host == "127.0.0.1" && p.HTTPGet.Path == "/readyz" && p.HTTPGet.Port.StrVal == port.Name
		if name == "certificate" {
			ok = ok && p.HTTPGet.Scheme == corev1.URISchemeHTTPS
		} else {
			ok = ok && p.HTTPGet.Scheme == ""
		}
		if name == "enforce-tls" || name == "sweep" {
			ok = p.HTTPGet == nil && p.TCPSocket.Host == "127.0.0.1" && p.TCPSocket.Port.StrVal == port.Name
		}
		if !ok || !listens {
			t.Errorf("%s: ready by %+v, of %v", name, p.ProbeHandler, c.Args)
		}
		if c.LivenessProbe != nil || c.StartupProbe != nil {
			t.Errorf("%s: restarted by %+v, %+v", name, c.LivenessProbe, c.StartupProbe)
		}
		exposed := slices.ContainsFunc(c.Args, func(a string) bool { return strings.Contains(a, "$(HOST_IP)") })
		wanted := slices.Contains([]string{"label", "enforce-tls", "sweep", "certificate"}, name)
		if services := kinds[*corev1.Service](rendered(t, args...)); exposed != (len(services) == 1) || exposed != wanted {
			t.Errorf("%s: exposed %v, %d Services", name, exposed, len(services))
		}
	}
}

// TestPrometheus: the rules in the chart are those that are tested with promtool, and what is kept at the scrape is enough for them.
func TestPrometheus(t *testing.T) {
	source := read(t, chart+"/files/orphan-reaper-fleet.rules.yaml")
	all := rendered(t, values(t)["label"]...)
	rules := kinds[*monitoringv1.PrometheusRule](all)
	monitors := kinds[*monitoringv1.PodMonitor](all)
	if len(rules) != 1 || len(monitors) != 1 {
		t.Fatalf("%d rules, %d monitors", len(rules), len(monitors))
	}
	var want monitoringv1.PrometheusRuleSpec
	must(t, yaml.UnmarshalStrict([]byte(source), &want))
	if !reflect.DeepEqual(rules[0].Spec, want) {
		t.Errorf("the PrometheusRule differs from the file")
	}
	endpoint := monitors[0].Spec.PodMetricsEndpoints[0]
	kept := regexp.MustCompile(`^(?:` + endpoint.MetricRelabelConfigs[0].Regex + `)$`)
	drops := endpoint.MetricRelabelConfigs[1:]
	for _, d := range drops { // Prometheus joins the values of the labels by a semicolon
		if d.Action != "drop" || len(d.SourceLabels) != 2 || d.SourceLabels[0] != "__name__" || !strings.HasPrefix(d.Regex, "orphan_reaper_") {
			t.Errorf("it drops %+v", d)
		}
	}
	names := regexp.MustCompile(`\borphan_reaper_[a-z_]+`)
	recorded := regexp.MustCompile(`\bjob[a-z_]*:[a-z0-9_]+:[a-z0-9_]+`)
	asked := 0
	for _, r := range want.Groups[0].Rules {
		for _, name := range names.FindAllString(recorded.ReplaceAllString(r.Expr.String(), ""), -1) {
			if asked++; !kept.MatchString(name) {
				t.Errorf("the rules ask for %s, which the PodMonitor drops", name)
			}
		}
	}
	if asked < 20 || kept.MatchString("go_goroutines") {
		t.Errorf("%d names, keep %s", asked, kept)
	}
	if none := kinds[*monitoringv1.PodMonitor](rendered(t, values(t)["enforce-tls"]...)); none[0].Spec.PodMetricsEndpoints[0].MetricRelabelConfigs != nil {
		t.Error("an empty list drops something")
	}
	for i, r := range want.Groups[0].Rules {
		if r.Alert == "" {
			continue
		}
		less := kinds[*monitoringv1.PrometheusRule](rendered(t, "--set", "prometheusRule.enabled=true,prometheusRule.disabled={"+r.Alert+"}"))[0].Spec
		if !reflect.DeepEqual(less.Groups[0].Rules, slices.Delete(slices.Clone(want.Groups[0].Rules), i, i+1)) {
			t.Errorf("without %s other rules are missing, too, or it is still there", r.Alert)
		}
	}
}

// TestMonitors: a ServiceMonitor collects as a PodMonitor does; the job has the name that the alert on silent
// nodes uses.
func TestMonitors(t *testing.T) {
	const more = "web.expose=true,fullnameOverride=x,podMonitor.endpoint.scheme=https,podMonitor.labels.a=b"
	pods := kinds[*monitoringv1.PodMonitor](rendered(t, "--set", more+",podMonitor.enabled=true"))[0]
	services := kinds[*monitoringv1.ServiceMonitor](rendered(t, "--set", more+",serviceMonitor.enabled=true"))[0]
	of, as := services.Spec.Endpoints[0], pods.Spec.PodMetricsEndpoints[0]
	if !reflect.DeepEqual(of.RelabelConfigs, as.RelabelConfigs) || !reflect.DeepEqual(of.MetricRelabelConfigs, as.MetricRelabelConfigs) ||
		of.Interval != as.Interval || of.Path != as.Path || *as.Port != of.Port || of.Scheme.String() != as.Scheme.String() ||
		!maps.Equal(pods.Labels, services.Labels) || !reflect.DeepEqual(pods.Spec.Selector, services.Spec.Selector) {
		t.Errorf("the ServiceMonitor has\n%+v, and the PodMonitor\n%+v", services.Spec, pods.Spec)
	}
	job := as.RelabelConfigs[1]
	_, silent, _ := strings.Cut(read(t, chart+"/files/orphan-reaper-fleet.rules.yaml"), `up{job=~"`)
	silent, _, _ = strings.Cut(silent, `"`)
	if job.TargetLabel != "job" || job.Replacement == nil || !regexp.MustCompile(`^(?:`+silent+`)$`).MatchString(*job.Replacement) {
		t.Errorf("the job is named by %+v, and the alert uses %s", job, silent)
	}
}

// TestDashboard: the ConfigMap has the dashboard, byte for byte, and the label by which Grafana's sidecar finds it. It
// is not there by default.
func TestDashboard(t *testing.T) {
	source := read(t, chart+"/files/orphan-reaper-fleet.json")
	for name, args := range values(t) {
		maps := slices.DeleteFunc(kinds[*corev1.ConfigMap](rendered(t, args...)), func(m *corev1.ConfigMap) bool {
			return !strings.HasSuffix(m.Name, "-dashboard")
		})
		if len(maps) != map[bool]int{true: 1}[name == "label"] {
			t.Errorf("%s: %d ConfigMaps", name, len(maps))
		}
		for _, m := range maps {
			if m.Labels["grafana_dashboard"] != "1" || m.Annotations["grafana_folder"] != "Nodes" || len(m.Data) != 1 || m.Data["orphan-reaper-fleet.json"] != source {
				t.Errorf("%s: labels %v, annotations %v, %d files, or another dashboard", name, m.Labels, m.Annotations, len(m.Data))
			}
		}
	}
}

// TestFlags: the program that is built from this tree accepts the arguments of the pods, for nodes of both families.
func TestFlags(t *testing.T) {
	program := built(t)
	for name, args := range values(t) {
		for _, set := range kinds[*appsv1.DaemonSet](rendered(t, args...)) {
			c := set.Spec.Template.Spec.Containers[0]
			for _, address := range []string{"192.0.2.1", "2001:db8::1"} {
				given := []string{"config", "print", "--config=/dev/null"}
				for _, arg := range c.Args[1:] {
					for _, env := range c.Env {
						value := env.Value
						if env.ValueFrom != nil {
							value = map[string]string{"spec.nodeName": "node-1.example", "status.hostIP": address}[env.ValueFrom.FieldRef.FieldPath]
						}
						arg = strings.ReplaceAll(arg, "$("+env.Name+")", value)
					}
					given = append(given, arg)
				}
				out, err := exec.CommandContext(t.Context(), program, given...).CombinedOutput()
				if err != nil || c.Args[0] != "run" || !strings.Contains(string(out), "\nmode: "+mode(name, set)+" ") || strings.Contains(string(out), "$(") {
					t.Errorf("%s: %v\n%v\n%s", name, given, err, out)
				}
			}
		}
	}
}
