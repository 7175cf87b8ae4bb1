package poddir

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestChangedIsTheLater: a file system may tell a birth after the last change, where the
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
