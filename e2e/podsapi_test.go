package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// podsAPI: the kubelet (1.37 and later) lists its pods at a socket. It has reported one orphan, so its list is
// complete and releases another one that it has not reported. A pod on the list is kept.
func podsAPI(t *testing.T, n *node) {
	if n.minor(t) < 37 {
		if exists(n.podsSocket()) {
			t.Errorf("kubelet %s lists its pods at %s: so this scenario applies to it, too", n.version, n.podsSocket())
		}
		return
	}
	reported, other := n.uid("0badf00d-b000-4000-8000-00000000001_"), n.uid("0badf00d-b000-4000-8000-00000000002_")
	n.restartWithoutURL(t)
	eventually(t, 60*time.Second, func() string { return missing(n.tookOver(t), "the kubelet is still taking over") })
	n.plant(t, skeleton, reported)
	n.plant(t, skeleton, other)
	living := n.livingPods(t)[0].uid

	d := n.reap(t, "--mode", "observe")
	eventually(t, hold+settle+60*time.Second, func() string {
		return missing(d.asks(t).facts(other).Released.Value == "yes", "the list does not release %s: %+v", other, d.asks(t).facts(other))
	})
	seen := d.asks(t)
	for uid, lists := range map[string]string{reported: "no", other: "no", living: "yes"} {
		released := map[string]string{"no": "yes", "yes": "no"}[lists]
		f := seen.facts(uid)
		if f.Lists.Value != lists || f.Released.Value != released || f.Released.Origin != "unix://"+n.podsSocket() {
			t.Errorf("%s: listed %s and released %s, got %+v", uid, lists, released, f)
		}
	}
	if !n.logged(reported+`\" found`) || n.logged(other+`\" found`) {
		t.Errorf("the kubelet should have reported %s and not %s", reported, other)
	}
	d.end(t)

	d = n.reap(t, "--confirm", briefly.String())
	for _, uid := range []string{reported, other} {
		d.waitRecord(t, hold+settle+briefly+60*time.Second, uid, "it is removed", kind(policy.KindRemoved))
	}
}

func (n *node) podsSocket() string { return filepath.Join(n.root, "pods-api", "pods-api.sock") }

// restartWithoutURL restarts the kubelet without its URL of static pods, as nearly every kubelet runs, and with it
// when the test ends.
func (n *node) restartWithoutURL(t *testing.T) {
	t.Helper()
	config := filepath.Join(n.dir, "kubelet.yaml")
	with, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	n.restartKubelet(t, func() { write(t, config, strings.Replace(string(with), "staticPodURL: "+n.url+"\n", "", 1)) })
	t.Cleanup(func() { n.restartKubelet(t, func() { write(t, config, string(with)) }) })
}
