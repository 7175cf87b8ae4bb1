package decide

import (
	"strconv"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// Quarantine is what is known of whether the quarantine is the one in which the ledger's
// entries lie. The zero value knows nothing.
type Quarantine struct {
	Known      int          // how many entries the ledger has
	Remembered bool         // where they lay was written down; an older program did not
	Path       policy.Truth // is its path what was written down?
	Dir        policy.Truth // is the directory that it lies in the one that was written down?
	Found      policy.Truth // does any of the entries lie in it?
}

// Same reports whether to work with the quarantine. In another one none of the entries would be
// found, so each would be written off as gone: a parked pod would never be put back. No one need
// have changed a setting for that:
//
//   - Where the root directory is left to the kubelet and none runs yet, as at the boot of a node
//     whose kubelet is started late (k0s, microk8s), its path is a guess.
//   - The kubelet's root directory is on a disk of its own that is not mounted yet, and a kubelet
//     that was faster has made a pods directory below the mount point.
//
// One entry that is found shows that the quarantine is the right one, also after a move to another
// disk. An empty quarantine in the same directory is no doubt: somebody has emptied it.
func (q Quarantine) Same() bool {
	return q.Known == 0 || !q.Remembered || q.Path != policy.No && (q.Path == policy.Yes || q.Dir == policy.Yes || q.Found == policy.Yes)
}

// InWork lists the quarantine entries that a pass may take further, and those that rest:
// their pods may live again for as long as anything of them is left.
func InWork(all map[string]*policy.EntryState, r policy.Rules, now policy.Instant, pressed bool) []policy.EntryState {
	var in []policy.EntryState
	for _, e := range policy.Listed(all) {
		e.Rests = !policy.Due(e, r, now, pressed)
		if !e.Rests || e.Phase == policy.PhaseConfirmed {
			in = append(in, e)
		}
	}
	return in
}

// freeEntry names a pod in quarantine: by the time, or by the next number that no entry has.
// The clock may have been set back, and a pod may come twice in one second; an intent under
// the name of another entry would take its place in the ledger.
func freeEntry(uid parsers.PodUID, kind policy.ActionKind, at int64, taken func(string) bool) string {
	suffix := ""
	if kind == policy.Clear {
		suffix = policy.LeafSuffix
	}
	for ; ; at++ {
		name := string(uid) + "." + strconv.FormatInt(at, 10) + suffix
		if !taken(name) {
			return name
		}
	}
}
