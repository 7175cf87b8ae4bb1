package confine

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
)

// TestOwnThread checks that each batch has a thread of its own, never the first one, so that its Landlock rules
// restrict nothing else.
func TestOwnThread(t *testing.T) {
	seen := map[int]bool{}
	for range 20 {
		tid := make(chan int)
		bounded.OnOwnThread(func() { tid <- unix.Gettid() })
		id := <-tid
		if id == unix.Getpid() || id == unix.Gettid() && seen[id] {
			t.Fatalf("thread %d is the first one or was used before", id)
		}
		seen[id] = true
	}
}

// TestHandled checks that a ruleset has only rights that the kernel's Landlock version knows.
func TestHandled(t *testing.T) {
	const first = 0x1fff // all rights of Linux 5.13
	for abi, handled := range map[int]uint64{
		-1: 0, 0: 0, 1: 0, 2: first | 0x2000, 3: first | 0x2000 | 0x4000, 4: first | 0x2000 | 0x4000,
		5: first | 0x2000 | 0x4000 | 0x8000, 7: first | 0x2000 | 0x4000 | 0x8000, 99: first | 0x2000 | 0x4000 | 0x8000,
	} {
		if got := handledBy(abi); got != handled {
			t.Errorf("ABI %d: %#x, want %#x", abi, got, handled)
		}
	}
}
