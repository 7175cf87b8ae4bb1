package manifests

import (
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// What some values need in order to have an effect.
const (
	passwords  = "web.expose=true,web.configSecret=web,sweep.passwordSecret=pw,"
	sweeps     = passwords + "sweep.enabled=true,"
	podMonitor = "web.expose=true,podMonitor.enabled=true,"
)

// effects has a case for each value: the value, set to something else than its default, and a text that is rendered either with it
// or without it. Both times the values of given are set, too.
var effects = []struct{ given, set, text string }{
	{"", "image.repository=tools/reaper", "image: tools/reaper:"},
	{"", "image.tag=v9", "image: orphan-reaper:v9\n"},
	{"", "image.digest=sha256:" + strings.Repeat("0a", 32), "image: orphan-reaper@sha256:0a"},
	{"", "image.pullPolicy=Never", "imagePullPolicy: Never"},
	{"", "imagePullSecrets[0].name=pull", "- name: pull\n"},
	{"", "mode=enforce", "- --mode=enforce\n"},
	{"mode=label,", "enforceLabel.key=canary", "key: canary\n"},
	{"mode=label,", "enforceLabel.value=second", "- second\n"},
	{"", "extraArgs[0]=--retention=48h", "- --retention=48h\n"},
	{"", "env[0].name=GODEBUG", "- name: GODEBUG\n"},
	{"", "extraVolumes[0].name=ca", "\n        - name: ca\n"},
	{"", "extraVolumeMounts[0].name=ca,extraVolumeMounts[0].mountPath=/ca", "- mountPath: /ca\n"},
	{"", "extraManifests[0]=kind: of {{ .Release.Name }}", "\nkind: of orphan-reaper\n"},
	{"", "extraManifests[0].kind=note", "\nkind: note\n"},
	{"", "nameOverride=nodes", "name: orphan-reaper-nodes\n"},
	{"", "fullnameOverride=nodes", "name: nodes\n"},
	{"", "commonLabels.team=nodes", "        team: nodes\n"},
	{"", "host.kubelet=/kubelet", "mountPath: /kubelet,"},
	{"", "host.runtime=/run/crio", "mountPath: /run/crio,"},
	{"", "host.cgroup=/cgroup", "- --cgroup-root=/cgroup\n"},
	{"", "host.state=/state", "- --state-dir=/state\n"},
	{"", "host.cni=/cni", "- --cni-cache-dir=/cni\n            - --cni-data-dir=/cni/networks\n"},
	{"", "host.cniConf=/conf", "- --cni-conf-dir=/conf\n"},
	{"", "host.journal=/journal", "mountPath: /journal,"},
	{"", "host.textfile=/text/", "- --metrics-file=/text/orphan-reaper.prom\n"},
	{"", "readHostJournal=false", "- SYS_CHROOT\n"},
	{"", "askKubelet=false", "- --kubelet-token-file="},
	{"", "web.port=9999", "- --web-listen-address=127.0.0.1:9999\n"},
	{"", "web.expose=true", "kind: Service\n"},
	{"", "web.configSecret=web", "secret: {name: web}"},
	{"", "web.certificate=helm", "kind: Secret\n"},
	{"web.certificate=cert-manager,", "web.issuerRef.name=corporate", "name: corporate\n"},
	{passwords, "sweep.enabled=true", "kind: CronJob\n"},
	{sweeps, "sweep.passwordSecret=other", "secret: {name: other,"},
	{sweeps, "sweep.schedule=@daily", `schedule: "@daily"`},
	{sweeps, "sweep.caSecret=ca", "secret: {name: ca,"},
	{sweeps, "sweep.tlsServerName=nodes", "- --tls-server-name=nodes\n"},
	{sweeps, "sweep.maxBreakers=7%", "- --max-breakers=7%\n"},
	{sweeps, "sweep.nodeSelector.kubernetes\\.io/os=other", "kubernetes.io/os: other\n"},
	{sweeps, "sweep.tolerations[0].operator=Exists,tolerations[0].key=x", "            - operator: Exists\n"},
	{sweeps, "sweep.resources.limits.memory=1Gi", "memory: 1Gi\n"},
	{"web.expose=true,", "podMonitor.enabled=true", "kind: PodMonitor\n"},
	{podMonitor, "podMonitor.interval=5m", "interval: 5m\n"},
	{podMonitor, "podMonitor.labels.release=prometheus", "    release: prometheus\n"},
	{podMonitor, "podMonitor.endpoint.scheme=https", "scheme: https\n"},
	{podMonitor, "podMonitor.keep[0]=up", `regex: "up"`},
	{podMonitor, "podMonitor.drop[0].metric=up,podMonitor.drop[0].label=job,podMonitor.drop[0].values[0]=x", `regex: "up;(x)"`},
	{"web.expose=true,", "serviceMonitor.enabled=true", "kind: ServiceMonitor\n"},
	{"", "prometheusRule.enabled=true", "kind: PrometheusRule\n"},
	{"prometheusRule.enabled=true,", "prometheusRule.labels.release=prometheus", "    release: prometheus\n"},
	{"prometheusRule.enabled=true,", "prometheusRule.disabled={OrphanReaperFleetSilent}", "- alert: OrphanReaperFleetSilent\n"},
	{"", "dashboard.enabled=true", "-dashboard\n"},
	{"dashboard.enabled=true,", "dashboard.labels.grafana_dashboard=x", "grafana_dashboard: x\n"},
	{"dashboard.enabled=true,", "dashboard.annotations.folder=Nodes", "    folder: Nodes\n"},
	{"", "serviceAccount.create=false", "kind: ServiceAccount\n"},
	{"", "serviceAccount.name=nodes", "serviceAccountName: nodes\n"},
	{"", "serviceAccount.annotations.team=nodes", "    team: nodes\n"},
	{"", "rbac.create=false", "kind: ClusterRoleBinding\n"},
	{"", "namespaceManifest=true", "kind: Namespace\n"},
	{"", "priorityClassName=low", "priorityClassName: low\n"},
	{"", "nodeSelector.pool=a", "        pool: a\n"},
	{"", "affinity.nodeAffinity=null", "affinity:"},
	{"", "tolerations[0].key=x", "- key: x\n"},
	{"", "updateStrategy=OnDelete", "type: OnDelete\n"},
	{"", "maxUnavailable=3", "maxUnavailable: 3,"},
	{"", "minReadySeconds=5", "minReadySeconds: 5\n"},
	{"", "revisionHistoryLimit=3", "revisionHistoryLimit: 3\n"},
	{"", "resources.limits.memory=1Gi", "memory: 1Gi\n"},
	{"", "podLabels.team=nodes", "        team: nodes\n"},
	{"", "podAnnotations.team=nodes", "        team: nodes\n"},
	{"", "appArmorProfile.type=RuntimeDefault", "type: RuntimeDefault\n"},
	{"", "seLinuxOptions.type=other_t", "type: other_t\n"},
	{"", "openshift.enabled=true", "kind: SecurityContextConstraints\n"},
}

// TestValues: each value has an effect, and a case here.
func TestValues(t *testing.T) {
	render := func(set string) string {
		text, err := template(t, "--set", strings.TrimSuffix(set, ","))
		must(t, err)
		return text
	}
	without := map[string]string{"": render("")}
	var cases []string
	for _, e := range effects {
		if without[e.given] == "" {
			without[e.given] = render(e.given)
		}
		if strings.Contains(without[e.given], e.text) == strings.Contains(render(e.given+e.set), e.text) {
			t.Errorf("%s does not change whether this is rendered: %s", e.set, e.text)
		}
		value, _, _ := strings.Cut(e.set, "=")
		value, _, _ = strings.Cut(value, "[")
		cases = append(cases, value)
	}
	var all map[string]any
	must(t, yaml.Unmarshal([]byte(read(t, chart+"/values.yaml")), &all))
	for value, inner := range all {
		paths := []string{value}
		if fields, ok := inner.(map[string]any); ok && !whole[value] && len(fields) > 0 {
			paths = nil
			for field := range fields {
				paths = append(paths, value+"."+field)
			}
		}
		for _, path := range paths {
			if !slices.ContainsFunc(cases, func(c string) bool { return c == path || strings.HasPrefix(c, path+".") }) {
				t.Errorf("%s has no case", path)
			}
		}
	}
}

// whole are the values that the chart hands on as they are: one case is enough.
var whole = map[string]bool{"resources": true, "nodeSelector": true, "affinity": true, "seLinuxOptions": true}
