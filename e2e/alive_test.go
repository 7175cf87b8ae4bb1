package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/cri/fakecri"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

const (
	stopSignal = unix.SIGSTOP
	contSignal = unix.SIGCONT
)

// waitingPod is a pod that gets no further than its directories, because one of its volumes is missing. It has a
// cgroup and neither sandbox, container nor mount: with an orphan's log line it looks dead to a program that trusts
// logs.
func (n *node) waitingPod(t *testing.T) pod {
	t.Helper()
	return pod{
		uid: n.uid("5a11fe00-0000-4000-8000-00000000003_"), name: "waiting",
		spec:   `volumes: [{name: data, emptyDir: {}}, {name: late, hostPath: {type: Directory, path: ` + n.late() + `}}]`,
		mounts: `[{name: data, mountPath: /data}, {name: late, mountPath: /late}]`, dirs: `/data, /late`,
		files: []string{"volumes/kubernetes.io~empty-dir/data"},
	}
}

func (n *node) late() string { return filepath.Join(n.dir, "late") }

// alive misleads every sensor: the runtime is another one, the cgroups are another tree, the kubelet's log is forged,
// and the pod comes from a source without a manifest, so a pod that cannot start is parked. When the kubelet creates
// its directory again, it is put back with all its files, the new one becomes a conflict, and nothing more is removed
// until the operator decides.
func alive(t *testing.T, n *node) {
	p := n.stubbornPod()
	n.serve(p)
	t.Cleanup(func() { n.serve() })
	user := filepath.Join(n.pods, p.uid, "volumes", emptyDir, "data", "user")
	eventually(t, 60*time.Second, func() string {
		return missing(exists(filepath.Dir(user)), "the kubelet has not made the directory")
	})
	write(t, user, "a user's")
	d := n.reap(t, append(n.lies(t), "--confirm", (confirm+20*time.Second).String())...)
	// The line counts as new only once the daemon follows the log.
	eventually(t, 60*time.Second, func() string {
		n.forge(t, p.uid)
		time.Sleep(time.Second)
		records := d.of(p.uid)
		// Since 1.33 the kubelet stores which pods it has admitted. That outweighs the forged report.
		return missing(slices.ContainsFunc(records, kind(policy.KindParked)), "the false facts have no effect")
	})
	putBack(t, n, d, p.uid)
	if b, err := os.ReadFile(user); err != nil || string(b) != "a user's" {
		t.Errorf("the user's file: %q, %v", b, err)
	}
	d.end(t)
	tasks := len(n.tasks())
	n.serve()
	eventually(t, 60*time.Second, func() string {
		return missing(len(n.tasks()) < tasks && !exists(filepath.Join(n.pods, p.uid)), "the kubelet has not taken the pod down")
	})
}

// stubbornPod has a sandbox and no container: its image does not exist. The kubelet retries every 10 to 15 s
// (backOffPeriod with jitter) and makes a missing pod directory again each time. (It waits 2 min 3 s and the back-off
// for a missing volume: podAttachAndMountTimeout in pkg/kubelet/volumemanager.)
func (n *node) stubbornPod() pod {
	return pod{
		uid: n.uid("5a11fe00-0000-4000-8000-0000000000c_"), name: "stubborn", image: "orphan-reaper.invalid/nowhere:1",
		spec: `volumes: [{name: data, emptyDir: {}}]`, mounts: `[{name: data, mountPath: /data}]`, dirs: `/data`,
	}
}

// lies makes a runtime that lists one unrelated pod, and a cgroup tree without the pod of the scenario. The
// tree has the waiting pod, which would otherwise be parked, too, since its kubelet objects too late.
func (n *node) lies(t *testing.T) (flags []string) {
	t.Helper()
	dir := mkdir(t, filepath.Join(n.dir, "lies"))
	mkdir(t, filepath.Join(dir, "cgroup", "kubepods", "besteffort", "pod"+n.waitingPod(t).uid))
	runtime, err := fakecri.Start(t.Context(), filepath.Join(dir, "sock"), fakecri.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(runtime.Close)
	const other = "77777777-0000-4000-8000-000000000077"
	runtime.SetPods(fakecri.Pod{UID: other, Namespace: "lies", Name: "other", Running: 1})
	mkdir(t, filepath.Join(dir, "cgroup", "kubepods", "besteffort", "pod"+other))
	// The kubelet's configuration file is no longer the one of its start: it lacks the port of its pod list, the path
	// of its manifests and its runtime.
	config := filepath.Join(n.dir, "kubelet.yaml")
	original, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { write(t, config, string(original)) })
	write(t, config, strings.NewReplacer("readOnlyPort: "+n.readOnly, "readOnlyPort: 0",
		filepath.Join(n.dir, "manifests"), mkdir(t, filepath.Join(dir, "manifests")), n.endpoint, filepath.Join(dir, "sock")).Replace(string(original)))
	endpoint := runtime.Endpoint()
	if n.minor(t) < 27 { // its runtime is a flag, and the socket of that name is another one now
		if err := os.Symlink(filepath.Join(dir, "sock"), n.socket("lies")); err != nil {
			t.Fatal(err)
		}
		n.use(t, "lies")
		t.Cleanup(func() { n.use(t, engine) })
		endpoint = "unix://" + n.endpoint
	}
	if n.minor(t) >= 37 { // its own list does not respond either
		rename(t, n.podsSocket(), n.podsSocket()+".away")
		t.Cleanup(func() { rename(t, n.podsSocket()+".away", n.podsSocket()) })
	}
	return []string{"--runtime-endpoint", endpoint, "--cgroup-root", filepath.Join(dir, "cgroup")}
}

// putBack checks what follows when the kubelet creates the directory of a parked pod again.
func putBack(t *testing.T, n *node, d *daemon, uid string) {
	t.Helper()
	parked := d.waitRecord(t, time.Second, uid, "it is parked", kind(policy.KindParked))
	eventually(t, confirm, func() string {
		return missing(exists(filepath.Join(n.pods, uid)), "the kubelet has not made the directory again")
	})
	t.Logf("the kubelet created the directory again after %s", time.Since(parked.At.Wall).Round(time.Second))
	d.waitRecord(t, confirm+40*time.Second, uid, "it is put back", func(r policy.Record) bool {
		return r.Kind == policy.KindPutBack && slices.ContainsFunc(r.Why, func(w policy.Why) bool { return w.Reason == policy.ReasonRemade })
	})
	d.waitRecord(t, 10*time.Second, uid, "what the kubelet made anew is set aside", kind(policy.KindConflict))
	d.waitRecord(t, 10*time.Second, uid, "the breaker opens", kind(policy.KindBreaker))

	d.waitMetric(t, "breaker_open 1")

	dead := n.uid("2badf00d-0000-4000-8000-00000000e24_")
	o := n.plant(t, skeleton, dead)
	d.waitRecord(t, 60*time.Second, dead, "the breaker keeps it", keptFor(policy.ReasonBreaker))
	var list struct{ Quarantine []entry }
	if err := json.Unmarshal([]byte(d.command(t, "quarantine", "list", "-o", "json")), &list); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(list.Quarantine, func(e entry) bool { return e.UID == uid && e.Phase == string(policy.PhaseConflict) }) {
		t.Errorf("in quarantine: %+v", list.Quarantine)
	}
	o.remove(filepath.Join(o.dir, "volumes", csi, "pvc-e2e", "vol_data.json"))
	eventually(t, 20*time.Second, func() string { return missing(!exists(o.dir), "the kubelet has not removed %s", o.dir) })
}
