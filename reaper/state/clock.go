package state

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// bootIDFile is a random number, a new one at each boot (random(4)).
const bootIDFile = "/proc/sys/kernel/random/boot_id"

// Clock returns the time of the wall clock and of CLOCK_BOOTTIME, which counts through
// suspend and cannot be set (clock_gettime(2)). It is the only clock of the library.
type Clock struct{ bootID string }

// NewClock reads the boot ID, which holds as long as the process does.
func NewClock() (Clock, error) {
	b, err := os.ReadFile(bootIDFile)
	if err != nil {
		return Clock{}, fmt.Errorf("cannot read the boot ID: %w", err)
	}
	return Clock{bootID: strings.TrimSpace(string(b))}, nil
}

// Now returns this moment. Where CLOCK_BOOTTIME cannot be read the boot ID is left out,
// so that no duration is ever computed from the instant: policy then waits.
func (c Clock) Now() policy.Instant {
	// In UTC and without Go's monotonic reading, an instant equals itself read back.
	now := policy.Instant{Wall: time.Now().UTC().Round(0), BootID: c.bootID} //nolint:forbidigo // state owns the clock: everything else gets an Instant from here
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) != nil {
		now.BootID = ""
		return now
	}
	now.Boot = time.Duration(ts.Nano())
	return now
}
