package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// taken is the fate of a leftover that a kubelet finds at its start.
type taken string

const (
	// It becomes a volume again: the volume manager tries forever to remove the directory, and never reports the pod.
	stuck taken = "its volume manager tries for ever"
	// It does not: the tear-down is tried once, and the pod is reported later.
	once taken = "tried once"
	// The plugin itself removes the leftover.
	itself taken = "the kubelet removes it"
)

// heldKinds are leftovers with a user's file in a volume that is not mounted.
var heldKinds = []struct {
	name, uid, volume string
	taken             taken
}{
	{"NFS", "0badf00d-5000-4000-8000-00000000010_", nfs + "/vol", stuck},
	{"local volume", "0badf00d-5000-4000-8000-00000000011_", "kubernetes.io~local-volume/pv", once},
	{"CSI without its driver", "0badf00d-5000-4000-8000-00000000012_", csi + "/pvc-e2e/mount", once},
	{"iSCSI", "0badf00d-5000-4000-8000-00000000013_", "kubernetes.io~iscsi/vol", once},
	{"FC", "0badf00d-5000-4000-8000-00000000014_", "kubernetes.io~fc/vol", once},
	{"emptyDir", "0badf00d-5000-4000-8000-00000000015_", emptyDir + "/vol", itself},
}

// held: leftovers that a kubelet finds at its start. A pod that its volume manager holds is never parked: only the
// content of the directory that the kubelet cannot remove is moved to quarantine, and the kubelet does the rest.
func held(t *testing.T, n *node) {
	// A 1.24 kubelet fails in umount(8), "not mounted", whatever the NFS volume contains. Clearing would not help, so
	// nothing is cleared.
	clears, heldKinds := n.minor(t) > 24, heldKinds
	if !clears {
		heldKinds = heldKinds[1:]
	}
	d := n.reap(t)
	n.restartKubelet(t, func() {
		for _, k := range heldKinds {
			n.make(t, leftover{make: func(o orphan) {
				if strings.HasPrefix(k.volume, csi) {
					o.file(volData, "volumes", csi, "pvc-e2e", "vol_data.json")
				}
				o.file(canary, append([]string{"volumes"}, strings.Split(k.volume+"/data", "/")...)...)
			}}, n.uid(k.uid))
		}
	})
	nfsUID := n.uid(heldKinds[0].uid)
	var cleared policy.Record
	if clears {
		cleared = d.waitRecord(t, 60*time.Second, nfsUID, "it is cleared", kind(policy.KindCleared))
		if tries := n.tearDowns(nfsUID, "failed"); tries < 3 {
			t.Errorf("the kubelet has tried %d times", tries)
		}
	}
	eventually(t, 4*time.Minute, func() string {
		for _, k := range heldKinds {
			if dir := filepath.Join(n.pods, n.uid(k.uid)); exists(dir) {
				return k.name + ": " + dir + " still exists: " + n.messagesOf(n.uid(k.uid), n.started)
			}
		}
		return ""
	})
	if clears && n.tearDowns(nfsUID, "succeeded") != 1 {
		t.Errorf("the kubelet did not finish the removal: %s", n.kubelet.Tail(3))
	}
	for _, k := range heldKinds {
		uid, entry := n.uid(k.uid), ""
		for _, r := range d.of(uid) {
			switch r.Kind {
			case policy.KindCleared:
				entry = r.Entry
			case policy.KindParked:
				entry = r.Entry
				if k.taken == stuck {
					t.Errorf("%s was parked: %s", k.name, r.Text)
				}
			}
		}
		data, err := os.ReadFile(filepath.Join(n.root, "orphan-reaper", entry, "volumes", k.volume, "data"))
		if kept := err == nil && string(data) == canary; kept != (k.taken != itself) {
			t.Errorf("%s: in quarantine as %q: %q, %v", k.name, entry, data, err)
		}
		if says := n.tearDowns(uid, "failed"); (says > 1) != (k.taken == stuck) {
			t.Errorf("%s: the kubelet has failed to tear it down %d times", k.name, says)
		}
	}

	if !clears {
		return
	}
	// The operator restores it. The pod is gone by now, so it becomes a pod's directory.
	d.command(t, "quarantine", "restore", nfsUID)
	back := filepath.Join(n.pods, nfsUID)
	if data, err := os.ReadFile(filepath.Join(back, cleared.Leaf, "data")); err != nil || string(data) != canary {
		t.Errorf("restored: %q, %v", data, err)
	}
	d.waitRecord(t, 60*time.Second, nfsUID, "it is kept from now on", keptFor(policy.ReasonRestored))
	if err := os.RemoveAll(back); err != nil {
		t.Error(err)
	}
}

// tearDowns counts the running kubelet's messages about tearing down the one volume of a pod.
func (n *node) tearDowns(uid, how string) int {
	count := 0
	for _, line := range n.kubelet.since(n.started) {
		if strings.Contains(line, uid) && strings.Contains(line, "UnmountVolume.TearDown "+how) {
			count++
		}
	}
	return count
}
