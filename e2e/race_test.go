package e2e

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// racing: a process mounts and unmounts a user's directory in orphans so fast that many mounts are made after the
// look that found none, and move along when their pod is parked; first in the host's mount namespace, then in one
// that only the process sees. Such a pod is put back. When the process ends, all are removed, and no user file is
// lost.
func racing(t *testing.T, n *node) {
	d := n.reap(t, "--hold", "0s")
	for i, enter := range [][]string{nil, {"unshare", "--mount", "--propagation", "private"}} {
		n.race(t, d, fmt.Sprintf("0badf00d-70%02x-4000-8000-", i), enter)
	}
}

// enoughRaces is the number of mounts that must fall between a look and a rename.
const enoughRaces = 3

func (n *node) race(t *testing.T, d *daemon, prefix string, enter []string) {
	canaries := mkdir(t, filepath.Join(n.dir, "canaries", prefix))
	plantCanaries(t, canaries)
	t.Cleanup(func() { checkCanaries(t, canaries) })
	d.forget()
	// orphan-reaper would remove everything else in these pods, below containers/.
	toggle := launch(t, "toggle", filepath.Join(n.dir, "toggle"+prefix+".log"), append(enter,
		filepath.Join(n.host.dir, "toggle"), canaries, filepath.Join(n.pods, prefix+"*", "containers", "app", "bound"))...)
	t.Cleanup(func() { toggle.end(t) })
	raced := func() int {
		count := 0
		for _, r := range d.records() {
			if r.Kind == policy.KindPutBack && slices.ContainsFunc(r.Why, func(w policy.Why) bool { return w.Reason == policy.ReasonMounted }) {
				count++
			}
		}
		return count
	}
	var planted []orphan
	eventually(t, 3*time.Minute, func() string {
		if !toggle.Running() {
			t.Fatalf("toggle ended: %s", toggle.Tail(3))
		}
		// Each new name causes a look at all pods.
		uid := n.uid(fmt.Sprintf("%s%011x_", prefix, len(planted)))
		planted = append(planted, n.make(t, leftover{make: func(o orphan) {
			o.file(volData, "volumes", csi, "pvc-e2e", "vol_data.json")
			o.at("containers", "app", "bound")
		}}, uid))
		n.forge(t, uid)
		return missing(raced() >= enoughRaces, "%d mounts between look and rename, with %d orphans", raced(), len(planted))
	})
	toggle.signal(unix.SIGTERM)
	eventually(t, time.Minute, func() string { return missing(!toggle.Running(), "it is still mounted somewhere") })
	t.Logf("%s mounts, %d of them between look and rename, with %d orphans", toggle.Tail(1), raced(), len(planted))
	eventually(t, 6*time.Minute, func() string {
		gone := map[string]bool{}
		for _, r := range d.records() {
			if r.Kind == policy.KindRemoved {
				gone[string(r.UID)] = true
			}
		}
		return missing(len(gone) == len(planted), "%d of %d are removed", len(gone), len(planted))
	})
	for _, r := range d.records() {
		if r.Kind == policy.KindBreaker || r.Kind == policy.KindConflict || r.Kind == policy.KindFailed {
			t.Errorf("%s: %s", r.Kind, r.Text)
		}
	}
}
