package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
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
	age(o.dir)
	made := o.dir
	o.dir = filepath.Join(n.pods, uid)
	if err := os.Rename(made, o.dir); err != nil {
		t.Fatal(err)
	}
	return o
}

// age sets the times of all below the directory back by an hour: a pod that the kubelet reports has ended some time ago.
// What cannot be changed stays as it is: mounted file systems and immutable files.
func age(dir string) {
	_ = exec.Command("find", dir, "-xdev", "-exec", "touch", "--no-dereference", "--date", "1 hour ago", "{}", "+").Run()
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
	d.awaitReason(t, p.uid, "hold")
	n.run(t, p)
	eventually(t, 30*time.Second, func() string { return n.beating(p) })
	n.forge(t, p.uid)
	d.await(t, 60*time.Second, "it lives", func(s status) bool { return s.pod(p.uid).Verdict == "alive" })
	throughout(t, 5*time.Second, func() string { return n.beating(p) })
	if got, err := os.ReadFile(filepath.Join(o.dir, "volumes", nfs, "vol")); err != nil || string(got) != "a user's" {
		t.Errorf("the earlier content: %q, %v", got, err)
	}
	d.calm(t)
	if err := os.Remove(filepath.Join(n.dir, "manifests", p.name+".yaml")); err != nil {
		t.Fatal(err)
	}
	eventually(t, 30*time.Second, func() string { return missing(len(n.tasks()) == 4, "containers: %q", n.tasks()) })
	d.end(t) // it would move what only the hold keeps
	o.remove(filepath.Join(o.dir, "volumes", nfs, "vol"))
	eventually(t, 20*time.Second, func() string { return missing(!exists(o.dir), "the kubelet has not removed %s", o.dir) })
}

// restarts: each kubelet must report the pod itself, and a kubelet that has just started has reported nothing yet. The
// time of confirm starts anew with it: no other program makes a living pod's directory again.
func restarts(t *testing.T, n *node) {
	uid := n.uid("2badf00d-0000-4000-8000-00000000e21_")
	// A starting kubelet adopts what it finds in volumes/ and nothing else, so each kubelet must report this pod
	// itself.
	o := n.plant(t, "subpath with data", uid)
	d := n.reap(t, "--hold", "8s")
	d.awaitReason(t, uid, "hold")
	n.restartKubelet(t)
	mark := n.kubelet.size()
	d.awaitMoved(t, uid)
	if n.messagesOf(uid, mark) == "" {
		t.Error("moved before the kubelet that runs has reported it")
	}
	n.restartKubelet(t)
	d.awaitCleaned(t, uid)
	d.calm(t)
	if exists(o.dir) {
		t.Error("the pod is still in the pods directory")
	}
}

// backlog: many orphans at once, of which a kubelet at its default verbosity reports the first in sorted order, and the
// next once that is gone.
func backlog(t *testing.T, n *node) {
	const many = 50
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
	s := d.await(t, confirm+40*time.Second, "nothing is left of them", func(s status) bool { return len(s.Quarantine) == 0 })
	if s.Breaker != nil {
		t.Errorf("the circuit breaker is open: %s", *s.Breaker)
	}
}

// hidden: a kubelet at its default verbosity reports the first orphan only, and that one is busy. doctor says what it
// hides and how to see the rest; at -v=5, switched without a restart, the others go after one hold.
func hidden(t *testing.T, n *node) {
	eventually(t, 30*time.Second, func() string { return missing(n.tookOver(t), "the kubelet is still taking over") })
	busy := n.plant(t, "subpath bind-mounted", n.uid("00000000-0000-4000-8000-00000000f10_"))
	t.Cleanup(func() { checkCanaries(t, busy.canary) })
	var uids []string
	for i := range 3 {
		uids = append(uids, n.uid(fmt.Sprintf("%08x-0000-4000-8000-00000000f11_", i+1)))
		n.plant(t, skeleton, uids[i])
	}
	d := n.reap(t)
	d.await(t, 60*time.Second, "three are hidden", func(s status) bool { return s.Hidden == 3 })
	if out, _, code := d.try("doctor"); code != 3 || !strings.Contains(out, "/debug/flags/v") {
		t.Errorf("doctor: %d\n%s", code, out)
	}
	n.verbosity(t, "5")
	for _, uid := range uids {
		d.awaitCleaned(t, uid)
	}
	n.verbosity(t, "2")
	busy.unmount(filepath.Join(busy.dir, "volume-subpaths", "vol", "app", "0"))
	d.look()
	eventually(t, 60*time.Second, func() string { return missing(!exists(busy.dir), "%s still exists", busy.dir) })
}

// runtimeFails: the runtime is a new one with an empty list, hangs, crashes and starts again, and hangs again while a
// pod is in quarantine. Each time nothing is removed, the reason is the runtime, and the daemon goes on by itself.
func runtimeFails(t *testing.T, n *node) {
	uid := n.uid("2badf00d-0000-4000-8000-00000000e23_")
	empty := n.startRuntime(t, "empty")
	defer empty.end(t)
	o := n.plant(t, skeleton, uid)
	d := n.reap(t, "--hold", "10s")
	refuses := func() {
		t.Helper()
		d.awaitReason(t, uid, "running")
		if !exists(o.dir) {
			t.Fatal("the directory was moved")
		}
	}
	d.awaitReason(t, uid, "hold")
	n.use(t, "empty")
	refuses()
	n.use(t, engine)
	d.look()
	n.runtime.signal(stopSignal)
	refuses()
	n.runtime.Kill()
	n.runtime = n.startRuntime(t, engine)
	d.look()
	d.awaitMoved(t, uid)
	n.runtime.signal(stopSignal)
	throughout(t, confirm+10*time.Second, func() string {
		s := d.scan(t)
		return missing(s.entry(uid).Phase == "quarantined", "a runtime that hangs decided: %+v", s.entry(uid))
	})
	n.runtime.signal(contSignal)
	d.awaitCleaned(t, uid)
	d.calm(t)
}
