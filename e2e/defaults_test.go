package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestDefaults measures how long a kubelet complains with the default settings, of one pod that really ran and of
// several (DEFAULT_PODS, a hundred in make defaults), from its first complaint to its last. Each time the daemon has
// just been started. No line is forged.
func TestDefaults(t *testing.T) {
	t.Parallel()
	backlog := defaultBacklog
	if text := os.Getenv("DEFAULT_PODS"); text != "" {
		var err error
		if backlog, err = strconv.Atoi(text); err != nil {
			t.Fatalf("DEFAULT_PODS: %v", err)
		}
	}
	for i, version := range versions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			n := newNode(t, machine, version, 5-i)
			n.restartWithoutURL(t) // reports one orphan per housekeeping run, as by default
			started := time.Now()
			living := n.livingPods(t)
			for _, p := range living {
				n.run(t, p)
			}
			one, many := n.backlogPods(t, 0, 1), n.backlogPods(t, 1, backlog)
			eventually(t, 5*time.Minute, func() string {
				for _, p := range slices.Concat(one, many) {
					if m := n.beating(p); m != "" {
						return m
					}
				}
				return ""
			})
			t.Logf("%d pods run after %s", len(one)+len(many), time.Since(started).Round(time.Second))
			for _, c := range []struct {
				name   string
				pods   []pod
				within time.Duration
			}{
				{"one", one, 2 * time.Minute},
				{"a backlog", many, 6 * time.Minute},
			} {
				t.Run(c.name, func(t *testing.T) { n.silenced(t, c.pods, c.within) })
			}
		})
	}
}

// defaultBacklog is the number of pods that end at once: a hundred running pods would slow down all other tests.
const defaultBacklog = 10

// silence is the time without a message after which a kubelet counts as silent.
const silence = 20 * time.Second

// backlogPods runs pods that will be found dead.
func (n *node) backlogPods(t *testing.T, from, count int) []pod {
	t.Helper()
	var all []pod
	for i := from; i < from+count; i++ {
		p := pod{
			uid: n.uid(fmt.Sprintf("%08x-0000-4000-8000-00000000de0_", 0x01000000*(i+1))), name: fmt.Sprintf("backlog-%d", i),
			spec:   `hostNetwork: true, volumes: [{name: data, emptyDir: {}}]`,
			mounts: `[{name: data, mountPath: /data}]`, dirs: `/data`, files: []string{filepath.Join("volumes", emptyDir, "data")},
		}
		n.run(t, p)
		all = append(all, p)
	}
	return all
}

// silenced ends the pods and leaves in each a file that the kubelet cannot remove; it fails if the kubelet
// reports one of them more than within after the first.
func (n *node) silenced(t *testing.T, pods []pod, within time.Duration) {
	t.Helper()
	d := n.start(t)
	of := map[string]bool{}
	mark := n.kubelet.size()
	for _, p := range pods {
		of[p.uid] = true
		data := filepath.Join(mkdir(t, filepath.Join(n.pods, p.uid, "volumes", csi, "pv-1")), "vol_data.json")
		write(t, data, volData)
		ageFile(t, data) // the kubelet wrote it when the pod started
		if err := os.Remove(filepath.Join(n.dir, "manifests", p.name+".yaml")); err != nil {
			t.Fatal(err)
		}
	}
	var first, last time.Time
	lines, named := 0, map[string]bool{}
	limit := within + 10*time.Minute // measures by how much the limit is missed
	for began := time.Now(); ; time.Sleep(time.Second) {
		for _, line := range n.kubelet.since(mark) {
			mark += int64(len(line)) + 1
			if m := namedUID.FindStringSubmatch(line); m != nil && of[m[1]] {
				if lines++; first.IsZero() {
					first = time.Now()
				}
				last, named[m[1]] = time.Now(), true
			}
		}
		left := 0
		for uid := range of {
			if exists(filepath.Join(n.pods, uid)) {
				left++
			}
		}
		if left == 0 && time.Since(last) > silence {
			break
		}
		if time.Since(began) > limit {
			t.Errorf("%d of %d remain after %s", left, len(pods), limit)
			break
		}
	}
	if lines == 0 {
		t.Fatal("the kubelet complained of no pod, so the run proves nothing")
	}
	for i, e := range d.scan(t).Quarantine {
		if i < 10 {
			t.Logf("moved %s after the first complaint: %s", e.MovedAt.Wall.Sub(first).Round(time.Second), e.UID)
		}
	}
	took := last.Sub(first).Round(time.Second)
	t.Logf("%d pods that ran beside %s: complaints for %s, %d lines, %d pods named", len(pods), n.version, took, lines, len(named))
	if took > within {
		t.Errorf("the kubelet complained for %s, should be at most %s:\n%s", took, within, d.Tail(20))
	}
}

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

func (n *node) podsSocket() string { return filepath.Join(n.root, "pods-api", "pods-api.sock") }

var namedUID = regexp.MustCompile(`err="orphaned pod \\"([0-9a-f-]*)\\" found`)
