package removal

import (
	"context"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
	"github.com/orphan-reaper/orphan-reaper/reaper/progress"
	"github.com/orphan-reaper/orphan-reaper/reaper/removal/confine"
)

// expectDepth bounds how deep Expect goes; it has one descriptor open a level.
const expectDepth = 64

// Expect counts what lies in entries of the quarantine and tells it to who waits for their removal. Where nobody waits it reads nothing.
// What cannot be read is not counted, and is told when it is to be removed. It returns in bounded time, as Execute does, on a thread that
// may only read.
func (r *Remover) Expect(ctx context.Context, entries []string) {
	work := progress.From(ctx)
	if work == nil {
		return
	}
	_ = r.run.Run(ctx, func() { // without the count there is no time left to show, and no more
		h := r.openHandles(false)
		defer h.close()
		if h.quarErr != nil || r.run.Confine(confine.Grant{FD: h.quar, Rights: confine.MayRead}) != nil {
			return
		}
		for _, entry := range entries {
			work.Expect(r.countBelow(ctx, h.quar, entry, expectDepth))
		}
	})
}

// countBelow counts a directory and what lies in it.
func (r *Remover) countBelow(ctx context.Context, at int, name string, depth int) int64 {
	if ctx.Err() != nil || depth == 0 {
		return 0
	}
	fd, err := r.open.Step(at, name, beneath.ReadDir)
	if err != nil {
		return 0
	}
	defer beneath.Close(fd)
	n := int64(1)
	_ = beneath.EachName(fd, make([]byte, 32<<10), func(e beneath.Entry) bool { // what cannot be read is not counted
		if e.Kind == unix.DT_DIR {
			n += r.countBelow(ctx, fd, e.Name, depth-1)
		} else {
			n++
		}
		return true
	})
	return n
}

// count counts one entry that was removed, for the record and for who waits.
func (w *walker) count(class contents.Class, bytes int64) {
	w.tally[class].Add(policy.Tally{Entries: 1, Bytes: bytes})
	w.removals++
	w.b.work.Add(1)
}
