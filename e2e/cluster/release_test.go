package cluster

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/e2e/kit"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// Where the chart is, and the tags of the image before and after an upgrade.
const (
	chart     = "../../packaging/chart"
	namespace = "orphan-reaper"
	tagBefore = "before"
	tagAfter  = "after"
	selector  = "app.kubernetes.io/name=orphan-reaper"
)

// values are the chart's values; no image is pulled here.
const values = `image: {repository: orphan-reaper, tag: ` + tagBefore + `, pullPolicy: Never}
mode: enforce
maxUnavailable: 1
minReadySeconds: 2
`

// short are short times. The chart's schema refuses them, so it is skipped with them.
const short = "extraArgs: [--hold=5s, --confirm=20s]\n"

// install installs the chart as docs/fleet.md describes, and waits until its pods are ready.
func (c *cluster) install(t *testing.T) {
	t.Helper()
	c.kubectl(t, "create", "namespace", namespace)
	c.kubectl(t, "label", "namespace", namespace, "pod-security.kubernetes.io/enforce=privileged")
	c.helm(t, "install", values)
	c.rolledOut(t)
}

// upgrade runs helm upgrade with short times and the given values.
func (c *cluster) upgrade(t *testing.T, set ...string) {
	t.Helper()
	args := []string{"--skip-schema-validation"}
	for _, s := range set {
		args = append(args, "--set", s)
	}
	c.helm(t, "upgrade", values+short, args...)
}

func (c *cluster) helm(t *testing.T, verb, values string, args ...string) {
	t.Helper()
	file := lay(t, place+"/values.yaml", values)
	command(t, append([]string{helm, "--kubeconfig", c.admin, verb, "orphan-reaper", chart, "--namespace", namespace, "--values", file}, args...)...)
}

// helmTest runs helm test: a pod asks the daemon of its node to look.
func (c *cluster) helmTest(t *testing.T) {
	t.Helper()
	out := command(t, helm, "--kubeconfig", c.admin, "test", "orphan-reaper", "--namespace", namespace, "--logs", "--timeout", "60s")
	if !strings.Contains(out, "1 of 1 node look now.") {
		t.Errorf("helm test: %s", out)
	}
}

func (c *cluster) rolledOut(t *testing.T) {
	t.Helper()
	c.kubectlEventually(t, "the rollout", func() string {
		_, err := c.try("--namespace", namespace, "rollout", "status", "daemonset/orphan-reaper", "--timeout=10s")
		if err != nil {
			logs, _ := c.try("--namespace", namespace, "logs", "--selector", selector, "--tail=5", "--prefix")
			events, _ := c.try("--namespace", namespace, "get", "events", "--field-selector=type=Warning")
			return fmt.Sprintf("%v\n%s\n%s", err, logs, events)
		}
		return ""
	})
}

type daemon struct {
	*node

	c   *cluster
	pod pod
}

func (c *cluster) daemon(t *testing.T, n *node) *daemon {
	t.Helper()
	d := &daemon{node: n, c: c}
	c.kubectlEventually(t, "the daemon of "+n.name, func() string {
		for _, p := range c.pods(t, namespace, selector) {
			if p.Spec.NodeName == n.name && p.ready() {
				d.pod = p
				return ""
			}
		}
		return "no pod is ready"
	})
	return d
}

// report is the part of scan -o json that the suite reads.
type report struct {
	Pods       []scannedPod
	Quarantine []struct{ UID, Entry, Phase string }
	Errors     []string
}

type scannedPod struct {
	UID     string
	Verdict string
	Reasons []string
	Facts   map[string]struct{ Value, Origin, Detail string }
}

// pod returns the report's row of one pod.
func (r report) pod(t *testing.T, uid string) scannedPod {
	t.Helper()
	i := slices.IndexFunc(r.Pods, func(p scannedPod) bool { return p.UID == uid })
	if i < 0 {
		t.Fatalf("the report has no pod %s: %+v", uid, r)
	}
	return r.Pods[i]
}

func (d *daemon) scan(t *testing.T) report {
	t.Helper()
	out, err := d.c.try("--namespace", namespace, "exec", d.pod.Metadata.Name, "--",
		"/orphan-reaper", "scan", "-o", "json", "--kubelet-token-file", "/run/secrets/orphan-reaper/token")
	return parse(t, out, err)
}

// parse parses a report. err may be exit code 3, which asks for the operator.
func parse(t *testing.T, out string, err error) (r report) {
	t.Helper()
	if e := json.Unmarshal([]byte(out), &r); e != nil {
		t.Fatalf("not a report: %v, %v: %s", err, e, out)
	}
	return r
}

// phase returns the phase of the pod's entry in quarantine, or "".
func (r report) phase(uid string) string {
	for _, e := range r.Quarantine {
		if e.UID == uid {
			return e.Phase
		}
	}
	return ""
}

// records returns the daemons' records of the pod in the node's journal, oldest first.
func (n *node) records(t *testing.T, uid string) []kit.Event {
	t.Helper()
	out, err := n.Try("journalctl", "--no-pager", "--quiet", "--all", "--output=json", "--identifier=orphan-reaper", "ORPHAN_REAPER_POD_UID="+uid)
	if err != nil && out != "" {
		t.Fatal(err)
	}
	return kit.ParseEvents(t, out)
}

// waitRecord waits for a record of the pod of that kind, with the given reason, if any.
func (n *node) waitRecord(t *testing.T, uid string, kind policy.Kind, reason policy.Reason) (found kit.Event) {
	t.Helper()
	// The kubelet's garbage collection of sandboxes runs once a minute, and after a start one pod is removed
	// first, alone.
	eventually(t, 2*patience, func() string {
		all := n.records(t, uid)
		for _, e := range all {
			if e.Is(string(kind), string(reason)) {
				found = e
				return ""
			}
		}
		return fmt.Sprintf("%s: no record %s %s of %s: %s", n.name, kind, reason, uid, kit.Texts(all))
	})
	return found
}

// kinds returns the kinds of all records of the pod.
func (n *node) kinds(t *testing.T, uid string) map[string]bool {
	t.Helper()
	kinds := map[string]bool{}
	for _, e := range n.records(t, uid) {
		kinds[e.Get("ORPHAN_REAPER_KIND")] = true
	}
	return kinds
}

// get asks the daemon over HTTP, as the node's own processes can.
func (d *daemon) get(t *testing.T, method, path string) (int, string) {
	t.Helper()
	return d.ask(t, nil, "", method, "http://127.0.0.1:9477"+path, "")
}

// look makes the daemon look now.
func (d *daemon) look(t *testing.T) {
	t.Helper()
	if code, body := d.get(t, http.MethodPost, "/v1/sweep"); code != http.StatusAccepted {
		t.Fatalf("POST /v1/sweep: %d %s", code, body)
	}
}

// token returns the daemon's own token from its pod.
func (d *daemon) token(t *testing.T) string {
	t.Helper()
	return strings.TrimSpace(read(t, d.podDir(d.pod.Metadata.UID, "volumes", "kubernetes.io~projected", "token", "token")))
}

// ready: each node has a daemon that enforces, reports which logs it follows, and was never restarted. This holds
// with the chart's own times; later scenarios use short ones.
func ready(t *testing.T, c *cluster) {
	for _, n := range c.nodes {
		d := c.daemon(t, n)
		if restarts := d.pod.Status.ContainerStatuses[0].RestartCount; restarts != 0 {
			t.Errorf("%s: restarted %d times", n.name, restarts)
		}
		if code, body := d.get(t, http.MethodGet, "/readyz"); code != http.StatusOK {
			t.Errorf("%s: /readyz: %d %s", n.name, code, body)
		}
		if _, body := d.get(t, http.MethodGet, "/metrics"); !strings.Contains(body, "\norphan_reaper_enforcing 1\n") {
			t.Errorf("%s: does not enforce: %s", n.name, body)
		}
		started := n.Run(t, "journalctl", "--no-pager", "--identifier=orphan-reaper", "--output=cat", "ORPHAN_REAPER_KIND=started")
		if n.log != "" && !strings.Contains(started, n.log) {
			t.Errorf("%s: does not follow %s: %s", n.name, n.log, started)
		}
		if body := c.kubectl(t, "--namespace", namespace, "logs", d.pod.Metadata.Name); n.log == "" && !strings.Contains(body, "the journal cannot be read") {
			t.Errorf("%s: does not report that it receives no log: %s", n.name, body)
		}
	}
	c.helmTest(t)
	c.upgrade(t)
	c.rolledOut(t)
}
