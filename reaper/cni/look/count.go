package look

import (
	"context"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/progress"
)

// count tells who waits for the sweep how many files there are, by one more listing of each directory.
// In the daemon nobody waits, and nothing is listed. A directory
// that cannot be listed, or not within the guard's patience, counts as empty, and is told when it is read.
func (s *Sweep) count(ctx context.Context) {
	work := progress.From(ctx)
	if work == nil {
		return
	}
	for _, d := range s.dirs {
		n, _ := bounded.Do(ctx, s.r.Guard, "cni count "+d.path, func() (n int64) {
			fd, err := openDirectory(s.r.Open, d)
			if err != nil {
				return 0
			}
			defer beneath.Close(fd)
			names := beneath.NamesOf(fd, make([]byte, 32<<10))
			for ctx.Err() == nil {
				e, ok, err := names.Next()
				if !ok || err != nil {
					return n
				}
				if !skips(d, e) {
					n++
				}
			}
			return n
		})
		work.Expect(n)
	}
}
