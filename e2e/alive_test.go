package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/fakecri"
)

const (
	stopSignal = unix.SIGSTOP
	contSignal = unix.SIGCONT
)

// waitingPod never gets further than its directories: a volume of it is not there. It has
// a cgroup, and neither sandbox, nor container, nor mount; the log line of an orphan is
// all that it takes to look dead to anyone who believes a log.
func (n *node) waitingPod(t *testing.T) pod {
	t.Helper()
	return pod{
		uid: "5a11fe00-0000-4000-8000-00000000003a", name: "waiting",
		spec:   `volumes: [{name: data, emptyDir: {}}, {name: late, hostPath: {type: Directory, path: ` + n.late() + `}}]`,
		mounts: `[{name: data, mountPath: /data}, {name: late, mountPath: /late}]`, dirs: `/data, /late`,
		files: []string{"volumes/kubernetes.io~empty-dir/data"},
	}
}

func (n *node) late() string { return filepath.Join(n.dir, "late") }

// alive: every fact lies. The runtime is another one, the cgroups are another tree, and the
// kubelet's log is forged; so a pod that merely waits for a volume is parked. The kubelet
// makes its directory again: it is put back with all its files, the new one is set aside,
// and nothing more is taken until a person says so.
func alive(t *testing.T, n *node) {
	lies := mkdir(t, filepath.Join(n.dir, "lies"))
	mkdir(t, filepath.Join(lies, "cgroup", "kubepods", "burstable"))
	runtime, err := fakecri.Start(t.Context(), filepath.Join(lies, "sock"), fakecri.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(runtime.Close)
	runtime.SetPods(fakecri.Pod{UID: "77777777-0000-4000-8000-000000000077", Namespace: "lies", Name: "other", Running: 1})

	p := n.waitingPod(t)
	user := filepath.Join(n.pods, p.uid, p.files[0], "user")
	write(t, user, "a user's")
	d := n.reap(t, "--runtime-endpoint", runtime.Endpoint(), "--cgroup-root", filepath.Join(lies, "cgroup"))
	// The line is read as it is written once the daemon follows the log.
	eventually(t, 60*time.Second, func() string {
		n.forge(t, p.uid)
		time.Sleep(time.Second)
		for _, r := range d.of(p.uid) {
			if r.Kind == policy.KindParked || keptFor(policy.ReasonKubeletFile)(r) {
				return ""
			}
		}
		return "nothing believes the lies"
	})
	if slices.ContainsFunc(d.of(p.uid), keptFor(policy.ReasonKubeletFile)) {
		// Since 1.33 the kubelet writes down which pods it has admitted: one fact that nobody
		// has forged here keeps the pod.
		throughout(t, hold+confirm, func() string { return missing(exists(user), "the pod was taken") })
		return
	}
	eventually(t, 30*time.Second, func() string {
		return missing(exists(filepath.Join(n.pods, p.uid)), "the kubelet has not made the directory again")
	})
	d.tells(t, confirm+40*time.Second, p.uid, "it is put back", kind(policy.KindPutBack))
	d.tells(t, 10*time.Second, p.uid, "what the kubelet made anew is set aside", kind(policy.KindConflict))
	d.tells(t, 10*time.Second, p.uid, "the breaker opens", kind(policy.KindBreaker))
	if b, err := os.ReadFile(user); err != nil || string(b) != "a user's" {
		t.Errorf("the user's file: %q, %v", b, err)
	}

	const dead = "2badf00d-0000-4000-8000-00000000e2e4"
	o := n.plant(t, skeleton, dead)
	d.tells(t, 60*time.Second, dead, "the breaker keeps it", keptFor(policy.ReasonBreaker))
	d.end(t)
	var list struct{ Quarantine []entry }
	if err := json.Unmarshal([]byte(d.command(t, "quarantine", "list", "-o", "json")), &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Quarantine) != 1 || list.Quarantine[0].UID != p.uid || list.Quarantine[0].Phase != string(policy.PhaseConflict) {
		t.Errorf("in quarantine: %+v", list.Quarantine)
	}
	o.remove(filepath.Join(o.dir, "volumes", csi, "pvc-e2e", "vol_data.json"))
}

// arrives: what the pod waited for is there at last, and it starts with the files that it
// had all along.
func arrives(t *testing.T, n *node, p pod) {
	t.Helper()
	user := filepath.Join(n.pods, p.uid, p.files[0], "user")
	known := exists(user)
	mkdir(t, n.late())
	// The kubelet waits up to 2 min and 2 s between two tries of a mount that fails.
	eventually(t, 3*time.Minute, func() string { return n.beating(p) })
	if known && !exists(user) {
		t.Error("the user's file is lost")
	}
}
