package poddir

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestMountUnknown checks that a pod directory of which it is unknown whether it is a mount point is unknown, and not
// a mount.
func TestMountUnknown(t *testing.T) {
	n := modes["fallback"](t)
	uid := newUID()
	n.Mkdir(n.PodDir(uid) + "/volumes")
	wantRead(t, n.read()[uid])
	d := n.open()
	testkit.Set(n.Open, "same", func(_, _ int) (bool, error) { return false, errors.New("no mount ID") })
	for _, e := range d.Names {
		a := n.Read(t.Context(), d, []Dir{n.Pod(d, e)})[0]
		wantFact(t, a.OwnMount, policy.Unknown, "no mount ID")
		wantFact(t, a.Directory, policy.Unknown, "no mount ID")
		if f := n.MadeAgain(t.Context(), d, uid); f.Truth != policy.Unknown {
			t.Errorf("made again: %+v", f)
		}
	}
}

// TestChangedIsTheLater checks that the later of birth and last change counts: the birth may be later if the clock
// was set back in between.
func TestChangedIsTheLater(t *testing.T) {
	for _, c := range []struct{ born, changed, want int64 }{{5, 9, 9}, {9, 5, 9}} {
		var a Answer
		a.identify(&unix.Statx_t{
			Mask: unix.STATX_BTIME, Btime: unix.StatxTimestamp{Sec: c.born}, Ctime: unix.StatxTimestamp{Sec: c.changed},
		})
		if a.Changed.Unix() != c.want || a.ID.Btime != c.born*1e9 {
			t.Errorf("birth %d, change %d: %v, %+v", c.born, c.changed, a.Changed.Unix(), a.ID)
		}
	}
}
