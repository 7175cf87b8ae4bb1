package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/e2e/kit"
)

const (
	namespace = "orphan-reaper"
	selector  = "app.kubernetes.io/name=orphan-reaper"
)

// values are the chart's. No image is pulled here. The schema refuses such short times, so it is not asked.
const values = `image: {repository: orphan-reaper, tag: ` + imageTag + `, pullPolicy: Never}
config: {hold: 5s, confirm: 20s}
web: {enabled: true, secret: web}
sweep: {schedule: "@yearly"}
`

// release installs or upgrades the chart as docs/install.md describes.
func (c *cluster) release(t *testing.T, mode string) {
	t.Helper()
	file := lay(t, place+"/values.yaml", values+"mode: "+mode+"\n")
	command(t, helm, "--kubeconfig", c.admin, "upgrade", "--install", "orphan-reaper", chart, "--namespace", namespace,
		"--values", file, "--skip-schema-validation")
}

// makeSecret creates the Secret of the values, with the keys that the chart's notes name, and returns the flags of fleet.
func (c *cluster) makeSecret(t *testing.T) (flags []string) {
	t.Helper()
	crt, key := c.ca.sign(t, "web", "orphan-reaper", nil, "orphan-reaper.orphan-reaper.svc")
	// The password is "secret", at bcrypt's lowest cost.
	web := lay(t, c.ca.file("web.yaml"), "tls_server_config: {cert_file: tls.crt, key_file: tls.key}\n"+
		"basic_auth_users: {fleet: $2y$04$scKiezGA.qUEoByWtLxGh.GutsqWc1/wl94T1rEnmU8K.9HSplA8G}\n")
	password := lay(t, c.ca.file("password"), "secret")
	c.kubectl(t, "--namespace", namespace, "create", "secret", "generic", "web", "--from-literal=username=fleet", "--from-file=password="+password,
		"--from-file=web.yaml="+web, "--from-file=tls.crt="+crt, "--from-file=tls.key="+key, "--from-file=ca.crt="+c.ca.file("ca.crt"))
	return []string{
		"--service", namespace + "/orphan-reaper", "--kubeconfig", c.admin, "--ca", c.ca.file("ca.crt"), "--user", "fleet", "--password-file", password, "-o", "json",
	}
}

// fleet is the part of fleet list -o json that the suite reads.
type fleet struct {
	Sums  struct{ Nodes, Failed, Observe, Breakers int }
	Nodes []struct {
		Node, Mode, Error string
		Breaker           bool
	}
}

// fleetList asks all nodes. Exit code 3 asks for an operator.
func (c *cluster) fleetList(t *testing.T) (f fleet) {
	t.Helper()
	cmd := exec.Command(program, append([]string{"fleet", "list"}, c.fleetFlags...)...)
	cmd.Env = []string{"HOME=" + place}
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if code := cmd.ProcessState.ExitCode(); code != 0 && code != 3 || json.Unmarshal(out, &f) != nil {
		t.Fatalf("fleet list: %v: %s", err, out)
	}
	return f
}

// rollout is the part of a DaemonSet's status that the suite reads.
type rollout struct {
	Metadata struct{ Generation int }
	Status   struct {
		ObservedGeneration, DesiredNumberScheduled, UpdatedNumberScheduled, NumberAvailable int
	}
}

func (c *cluster) rollout(t *testing.T) (r rollout) {
	t.Helper()
	out := c.kubectl(t, "--namespace", namespace, "get", "daemonset", "orphan-reaper", "-o", "json")
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// done reports whether each node has a ready pod of the newest template.
func (r rollout) done(nodes int) bool {
	return r.Status.ObservedGeneration == r.Metadata.Generation && r.Status.DesiredNumberScheduled == nodes &&
		r.Status.UpdatedNumberScheduled == nodes && r.Status.NumberAvailable == nodes
}

// state describes the daemons, for a failure.
func (c *cluster) state() string {
	pods, _ := c.try("--namespace", namespace, "get", "pods", "-o", "wide")
	logs, _ := c.try("--namespace", namespace, "logs", "--selector", selector, "--tail=5", "--prefix")
	events, _ := c.try("--namespace", namespace, "get", "events", "--field-selector=type=Warning")
	return strings.Join([]string{pods, logs, events}, "\n")
}

// exec runs the program in the pod of a node, as an operator does, and returns its output.
func (c *cluster) exec(t *testing.T, n *node, args ...string) (string, error) {
	t.Helper()
	all := c.pods(t, namespace, selector)
	i := slices.IndexFunc(all, func(p pod) bool { return p.Spec.NodeName == n.name && p.Metadata.DeletionTimestamp == "" })
	if i < 0 {
		t.Fatalf("%s has no daemon: %s", n.name, c.state())
	}
	return c.try(append([]string{"--namespace", namespace, "exec", all[i].Metadata.Name, "--", "/orphan-reaper"}, args...)...)
}

// sweep runs the CronJob by hand, and returns its pod's output and whether the Job succeeded.
func (c *cluster) sweep(t *testing.T, name string) (out string, succeeded bool) {
	t.Helper()
	c.kubectl(t, "--namespace", namespace, "create", "job", "--from=cronjob/orphan-reaper-sweep", name)
	eventually(t, patience, func() string {
		ended, err := c.try("--namespace", namespace, "get", "job", name, "-o", `jsonpath={range .status.conditions[?(@.status=="True")]}{.type} {end}`)
		succeeded = strings.Contains(ended, "Complete")
		return missing(err == nil && (succeeded || strings.Contains(ended, "Failed")), "the Job %s: %q %v\n%s", name, ended, err, c.state())
	})
	return c.kubectl(t, "--namespace", namespace, "logs", "job/"+name), succeeded
}

// podsReachNodes adds routes from the nodes to the pods of the others, as a cluster's network does.
func (c *cluster) podsReachNodes(t *testing.T) {
	t.Helper()
	for _, n := range c.nodes {
		for _, other := range c.nodes {
			if other != n {
				command(t, "nsenter", "--target", strconv.Itoa(n.Leader), "--net", "ip", "route", "replace", other.pods, "via", other.address)
			}
		}
	}
}

// records returns the daemon's records of the pod in the node's journal, oldest first.
func (n *node) records(t *testing.T, uid string) []kit.Event {
	t.Helper()
	out, err := n.Try("journalctl", "--no-pager", "--quiet", "--all", "--output=json", "--identifier=orphan-reaper", "ORPHAN_REAPER_POD_UID="+uid)
	if err != nil && out != "" {
		t.Fatal(err)
	}
	return kit.ParseEvents(t, out)
}

// recorded reports whether the node's journal has a record of that kind about the pod, with the reason, if any.
func (n *node) recorded(t *testing.T, uid, kind, reason string) bool {
	t.Helper()
	return slices.ContainsFunc(n.records(t, uid), func(e kit.Event) bool { return e.Is(kind, reason) })
}

// waitRecord waits for such a record.
func (n *node) waitRecord(t *testing.T, uid, kind, reason string) {
	t.Helper()
	eventually(t, patience, func() string {
		return missing(n.recorded(t, uid, kind, reason), "%s: no record %s %s of %s: %s", n.name, kind, reason, uid, kit.Texts(n.records(t, uid)))
	})
}

// uid returns a pod UID that no pod has.
func uid(number int) string { return fmt.Sprintf("5ca1ab1e-0000-4000-8000-%012d", number) }
