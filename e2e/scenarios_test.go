package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// plant makes one leftover of the table's kind with a UID of its own.
func (n *node) plant(t *testing.T, name, uid string) orphan {
	t.Helper()
	i := slices.IndexFunc(kinds, func(k leftover) bool { return k.name == name })
	if i < 0 {
		t.Fatalf("unknown kind of leftover %q", name)
	}
	return n.make(t, kinds[i], uid)
}

// make makes the leftover beside the pods directory and moves it there at once, mounts included: a kubelet's
// housekeeping would remove a partial one.
func (n *node) make(t *testing.T, k leftover, uid string) orphan {
	t.Helper()
	o := orphan{t: t, n: n, dir: filepath.Join(mkdir(t, filepath.Join(n.root, "planting")), uid), canary: mkdir(t, filepath.Join(n.dir, "canaries", uid))}
	plantCanaries(t, o.canary)
	k.make(o)
	made := o.dir
	o.dir = filepath.Join(n.pods, uid)
	if err := os.Rename(made, o.dir); err != nil {
		t.Fatal(err)
	}
	return o
}

// Two kinds that the scenarios use: one without residue, one that is data.
const (
	skeleton = "CSI: vol_data.json, no `mount/`"
	dataFile = "a file as a volume"
)

// returning: a static pod whose UID is in hold comes back with its manifest. The released directory is then a living
// pod's again, with all its content.
func returning(t *testing.T, n *node) {
	p := pod{
		uid: n.uid("5a11fe00-0000-4000-8000-0000000000b_"), name: "returning",
		spec: `volumes: [{name: data, emptyDir: {}}]`, mounts: `[{name: data, mountPath: /data}]`, dirs: `/data`,
		files: []string{"volumes/kubernetes.io~empty-dir/data"},
	}
	o := n.plant(t, dataFile, p.uid)
	d := n.reap(t, "--hold", "30s")
	d.waitRecord(t, 30*time.Second, p.uid, "it waits for the hold", keptFor(policy.ReasonHold))
	d.forget()
	n.run(t, p)
	eventually(t, 30*time.Second, func() string { return n.beating(p) })
	n.forge(t, p.uid)
	lives := func(r policy.Record) bool {
		return r.Decision == policy.Keep && (keptFor(policy.ReasonCgroup)(r) || keptFor(policy.ReasonSandbox)(r) || keptFor(policy.ReasonContainer)(r))
	}
	d.waitRecord(t, 60*time.Second, p.uid, "it lives", lives)
	throughout(t, 5*time.Second, func() string { return n.beating(p) })
	if got, err := os.ReadFile(filepath.Join(o.dir, "volumes", nfs, "vol")); err != nil || string(got) != "a user's" {
		t.Errorf("the earlier content: %q, %v", got, err)
	}
	for _, r := range d.of(p.uid) {
		if r.Kind != policy.KindKept {
			t.Errorf("%s: %s", r.Kind, r.Text)
		}
	}
	if err := os.Remove(filepath.Join(n.dir, "manifests", p.name+".yaml")); err != nil {
		t.Fatal(err)
	}
	eventually(t, 30*time.Second, func() string { return missing(len(n.tasks()) == 4, "containers: %q", n.tasks()) })
	o.remove(filepath.Join(o.dir, "volumes", nfs, "vol"))
	eventually(t, 20*time.Second, func() string { return missing(!exists(o.dir), "the kubelet has not removed %s", o.dir) })
}

// restarts: a kubelet that has just started has reported nothing yet. So it must first report the pod itself. In the
// middle of the confirm time its silence about the parked pod proves nothing: the pod is put back, and goes through hold
// and confirm again.
func restarts(t *testing.T, n *node) {
	uid := n.uid("2badf00d-0000-4000-8000-00000000e21_")
	// A starting kubelet adopts what it finds in volumes/ and nothing else, so each kubelet must report this pod
	// itself.
	o := n.plant(t, "subpath with data", uid)
	d := n.reap(t, "--hold", "8s")
	d.waitRecord(t, 30*time.Second, uid, "it waits for the hold", keptFor(policy.ReasonHold))
	n.restartKubelet(t)
	mark := n.kubelet.size()
	parked := d.waitRecord(t, 60*time.Second, uid, "it is parked", kind(policy.KindParked))
	if parked.Kubelet.PID != n.kubelet.Cmd.Process.Pid || n.messagesOf(uid, mark) == "" {
		t.Errorf("parked by a report of the kubelet with PID %d, which is not the running one", parked.Kubelet.PID)
	}
	d.forget()
	n.restartKubelet(t)
	back := d.waitRecord(t, 60*time.Second, uid, "it is put back", kind(policy.KindPutBack))
	if !slices.ContainsFunc(back.Why, func(w policy.Why) bool { return w.Reason == policy.ReasonKubeletStarting }) {
		t.Errorf("put back for %v", back.Why)
	}
	d.waitRecord(t, 2*time.Minute, uid, "it is parked again", kind(policy.KindParked))
	d.waitRecord(t, confirm+40*time.Second, uid, "it is confirmed", kind(policy.KindStripped))
	for _, r := range d.records() {
		if r.Kind == policy.KindBreaker {
			t.Errorf("%s: %s", r.Kind, r.Text)
		}
	}
	if exists(o.dir) {
		t.Error("the pod is still in the pods directory")
	}
}

// backlog: many orphans at once, of which a kubelet at its default verbosity reports the first in sorted order, and the
// next once that is gone.
func backlog(t *testing.T, n *node) {
	const many = 50
	if n.verbose {
		n.restartKubelet(t)
	}
	// A starting kubelet adopts what it finds as volumes of its own, tries to tear them down, and fails: another test
	// covers that.
	eventually(t, 30*time.Second, func() string {
		return missing(n.tookOver(t), "the kubelet is still taking over")
	})
	var dirs []string
	for i := range many {
		dirs = append(dirs, n.plant(t, skeleton, n.uid(fmt.Sprintf("%08x-0000-4000-8000-0000000f00d_", i*85899345))).dir)
	}
	d := n.reap(t)
	eventually(t, hold+many*4*time.Second+confirm+30*time.Second, func() string {
		left := 0
		for _, dir := range dirs {
			if exists(dir) {
				left++
			}
		}
		return missing(left == 0, "%d of %d are left", left, many)
	})
	eventually(t, confirm+40*time.Second, func() string {
		gone := map[string]bool{}
		for _, r := range d.records() {
			if r.Kind == policy.KindRemoved {
				gone[string(r.UID)] = true
			}
		}
		return missing(len(gone) == many, "%d of %d have a record of their removal", len(gone), many)
	})
	if rest := d.scan(t).Quarantine; len(rest) > 0 {
		t.Errorf("%d entries remain in quarantine", len(rest))
	}
}

// runtimeFails: the runtime is a new one with an empty list, hangs, crashes and starts again, and hangs again while a
// pod is parked. Each time nothing is removed, the reason contains the runtime, and the daemon continues
// automatically.
func runtimeFails(t *testing.T, n *node) {
	uid := n.uid("2badf00d-0000-4000-8000-00000000e23_")
	empty := n.startRuntime(t, "empty")
	defer empty.end(t)
	o := n.plant(t, skeleton, uid)
	d := n.reap(t, "--hold", "10s")
	holds := func() {
		t.Helper()
		d.waitRecord(t, 60*time.Second, uid, "it waits for the hold", keptFor(policy.ReasonHold))
		d.forget()
	}
	refuses := func(reason policy.Reason) {
		t.Helper()
		d.waitRecord(t, 60*time.Second, uid, "it is kept: "+string(reason), keptFor(reason))
		if !exists(o.dir) {
			t.Fatal("the directory was removed")
		}
		d.forget()
	}
	holds()
	n.use(t, "empty")
	refuses(policy.ReasonRuntimeEmpty)
	n.use(t, engine)
	holds() // anew
	n.runtime.signal(stopSignal)
	refuses(policy.ReasonRuntimeUnknown)
	n.runtime.Kill()
	n.runtime = n.startRuntime(t, engine)
	// The hold only paused while the runtime did not respond.
	d.waitRecord(t, 60*time.Second, uid, "it is parked", kind(policy.KindParked))
	n.runtime.signal(stopSignal)
	throughout(t, confirm+10*time.Second, func() string {
		for _, r := range d.of(uid) {
			if r.Kind == policy.KindRemoved || r.Kind == policy.KindPutBack {
				return "a runtime that hangs decided: " + r.Text
			}
		}
		return ""
	})
	n.runtime.signal(contSignal)
	d.waitRecord(t, 90*time.Second, uid, "it is removed", kind(policy.KindRemoved))
}
