package sim

import (
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// number is a setting from the environment: make simulate passes SEEDS, LIVES and SEED.
func number(name string, otherwise int) int {
	if v, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return v
	}
	return otherwise
}

// TestSimulate lives through so many seeds of so many lives each. SEED is the first of them; without it, in a short run, the same are lived
// each time.
func TestSimulate(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(1600))
	first, seeds, lives := uint64(number("SEED", 1)), uint64(number("SEEDS", 1500)), number("LIVES", 10)
	failures := uint64(number("FAILURES", 10))
	var next, lived, failed atomic.Uint64
	var wg sync.WaitGroup
	began := time.Now()
	for range number("THREADS", 2) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < seeds && failed.Load() < failures; i = next.Add(1) - 1 {
				s := newScenario(first+i, lives)
				n := simulate(s, plant{}, false)
				for _, p := range n.pods {
					lived.Add(uint64(p.lives))
				}
				if n.oracle.failed != "" {
					failed.Add(1)
					small, told := s, n
					if number("SHRINK", 1) > 0 {
						small, told = shrink(s, func() plant { return plant{} })
					}
					t.Errorf("seed %d: %s\nThe shortest run that ends so:\n%s\n\nKeep it in testdata once it is mended:\n%s",
						first+i, n.oracle.failed, strings.Join(told.story, "\n"), small.text())
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d seeds from %d with %d lives in %s", next.Load()-uint64(number("THREADS", 2)), first, lived.Load(), time.Since(began).Round(time.Millisecond))
}
