package ledger

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// bootIDFile has a random number that changes at each boot (random(4)).
const bootIDFile = "/proc/sys/kernel/random/boot_id"

// Clock returns the time of the wall clock and of CLOCK_BOOTTIME, which includes time in suspend and cannot be set
// (clock_gettime(2)). It is the only clock of the program.
type Clock struct{ bootID string }

// NewClock returns a Clock with the current boot ID.
func NewClock() (Clock, error) {
	b, err := os.ReadFile(bootIDFile)
	if err != nil {
		return Clock{}, fmt.Errorf("cannot read the boot ID: %w", err)
	}
	return Clock{bootID: strings.TrimSpace(string(b))}, nil
}

// Now returns the current time. If CLOCK_BOOTTIME cannot be read, it omits the boot ID, so that policy computes no
// duration from the instant and waits.
func (c Clock) Now() judge.Instant {
	// In UTC and without Go's monotonic reading, an instant is equal after it was saved and loaded.
	now := judge.Instant{Wall: time.Now().UTC().Round(0), BootID: c.bootID} //nolint:forbidigo // state owns the clock: everything else gets an Instant from here
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) != nil {
		now.BootID = ""
		return now
	}
	now.Boot = time.Duration(ts.Nano())
	return now
}
