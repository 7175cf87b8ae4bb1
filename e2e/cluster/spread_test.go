package cluster

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/e2e/kit"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// hurried: all pods are replaced at once, first with observe and within a minute with enforce: the DaemonSet's
// controller does not wait when minReadySeconds rises. enforceSpread does: no second node parks before the first has
// proved that its pod was dead. It is the last scenario, since the second node's log is followed from here on.
func hurried(t *testing.T, c *cluster) {
	c.nodes[1].logToFile(t)
	const apart = 40 * time.Second // a confirm of 20 s, and the looks before and after it
	first, second, began := c.drawn(t, apart)
	for _, d := range []drawn{first, second} {
		d.node.dead(t, d.uid, unmounted)
	}
	parked := func(d drawn) time.Time {
		eventually(t, time.Until(d.from)+2*patience, func() string {
			all := d.node.records(t, d.uid)
			return missing(d.node.kinds(t, d.uid)[string(policy.KindParked)], "%s is not parked: %s", d.uid, kit.Texts(all))
		})
		return d.node.recordedAt(t, d.uid, policy.KindParked)
	}
	at := parked(first)
	first.node.waitRecord(t, first.uid, policy.KindRemoved, "")
	proved := first.node.recordedAt(t, first.uid, policy.KindRemoved)
	next := parked(second)
	if at.Before(first.from) || next.Before(second.from) || next.Before(proved) {
		t.Errorf("%s, which enforces from %s, parked at %s and proved at %s that its pod was dead; %s, from %s, parked at %s",
			first.node.name, first.from, at, proved, second.node.name, second.from, next)
	}
	shown = append(shown, fmt.Sprintf("observe, then enforce at 0 s: %s parked at %.0f s, proved at %.0f s; %s parked at %.0f s",
		first.node.name, at.Sub(began).Seconds(), proved.Sub(began).Seconds(), second.node.name, next.Sub(began).Seconds()))
	c.upgrade(t)
	c.rolledOut(t)
}

// drawn is a node, the time from which its daemon enforces, and its pod that will be dead.
type drawn struct {
	node *node
	from time.Time
	uid  string
}

// drawn makes all daemons observe and enforce again until their random parts of enforceSpread are that far apart:
// with many nodes the first ones are, with two nodes they may not be.
func (c *cluster) drawn(t *testing.T, apart time.Duration) (first, second drawn, began time.Time) {
	t.Helper()
	for range 20 {
		c.upgrade(t, "mode=observe", "maxUnavailable=2")
		c.rolledOut(t)
		began = time.Now()
		c.upgrade(t, "mode=enforce", "minReadySeconds=1200", "enforceSpread=2m40s")
		a, b := c.enforcesFrom(t, c.nodes[0], began), c.enforcesFrom(t, c.nodes[1], began)
		if took := time.Since(began); took > time.Minute {
			t.Fatalf("the pods were replaced within %s", took)
		}
		if b.from.Before(a.from) {
			a, b = b, a
		}
		// The first daemon also needs time before it enforces, for the pods that will be dead.
		if b.from.Sub(a.from) >= apart && time.Until(a.from) > 15*time.Second {
			return a, b, began
		}
	}
	t.Fatal("the daemons enforce at nearly the same time, however often they draw")
	return first, second, began
}

// enforcesFrom waits for a daemon of the node that was started after that time, and returns when it begins to
// enforce. To enforce at once is an error.
func (c *cluster) enforcesFrom(t *testing.T, n *node, after time.Time) drawn {
	t.Helper()
	d := drawn{node: n, uid: newUID(t)}
	c.kubectlEventually(t, "the enforcing daemon of "+n.name, func() string {
		all := c.pods(t, namespace, selector+",app.kubernetes.io/component=node")
		for _, p := range all {
			if p.Spec.NodeName != n.name || !p.ready() || p.Metadata.CreationTimestamp.Before(after.Truncate(time.Second)) {
				continue
			}
			_, body := (&daemon{node: n, c: c}).get(t, http.MethodGet, "/readyz")
			_, from, ok := strings.Cut(body, "enforces from ")
			if !ok {
				t.Fatalf("%s enforces at once: %s", n.name, body)
			}
			from, _, _ = strings.Cut(from, " ")
			at, err := time.Parse(time.RFC3339, from)
			if err != nil {
				t.Fatal(err)
			}
			d.from = at
			return ""
		}
		return fmt.Sprintf("%+v", all)
	})
	return d
}

// recordedAt returns the time of the first record of that kind about the pod.
func (n *node) recordedAt(t *testing.T, uid string, kind policy.Kind) time.Time {
	t.Helper()
	for _, e := range n.records(t, uid) {
		if e.Get("ORPHAN_REAPER_KIND") == string(kind) {
			micros, err := strconv.ParseInt(e.Get("__REALTIME_TIMESTAMP"), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return time.UnixMicro(micros)
		}
	}
	t.Fatalf("%s has no record %s of %s", n.name, kind, uid)
	return time.Time{}
}

// logToFile makes the node's kubelet log to a file like that of the first node, so that its daemon receives the log.
func (n *node) logToFile(t *testing.T) {
	t.Helper()
	n.log = "/var/lib/kubelet/kubelet.log"
	n.withoutKubelet(t, func() {
		n.Run(t, "sh", "-c", "mkdir -p /run/systemd/system/kubelet.service.d && printf '[Service]\\nStandardError=append:%s\\n' "+n.log+
			" >/run/systemd/system/kubelet.service.d/log.conf && systemctl daemon-reload")
	})
}
