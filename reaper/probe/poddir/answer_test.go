package poddir

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestMountUnknown: where it is unknown whether a pod directory is a mount point, nothing is
// known of it, and not that it is one.
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

// TestChangedIsTheLater: a file system may have a birth after the last change, where the
// clock was set back in between.
func TestChangedIsTheLater(t *testing.T) {
	for _, c := range []struct{ born, changed, want int64 }{{5, 9, 9}, {9, 5, 9}} {
		var a Answer
		a.identify(&unix.Statx_t{
			Mask: unix.STATX_BTIME, Btime: unix.StatxTimestamp{Sec: c.born}, Ctime: unix.StatxTimestamp{Sec: c.changed},
		})
		if a.Changed.Unix() != c.want || a.ID.Btime != c.born*1e9 {
			t.Errorf("born %d, changed %d: %v, %+v", c.born, c.changed, a.Changed.Unix(), a.ID)
		}
	}
}
