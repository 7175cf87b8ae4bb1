package judge

import (
	"testing"
	"time"
)

// TestInstant has what counts as time: a clock that is set and a boot neither end a wait nor begin it anew.
func TestInstant(t *testing.T) {
	booted := func(i Instant, wall time.Duration) Instant {
		i.BootID, i.Boot, i.Wall = "other", time.Hour, i.Wall.Add(wall)
		return i
	}
	set := now.Add(time.Minute)
	set.Wall = set.Wall.Add(-24 * time.Hour)
	for _, test := range []struct {
		name    string
		earlier Instant
		at      Instant
		since   time.Duration
		known   bool
		age     time.Duration
	}{
		{"the same boot", now, now.Add(time.Minute), time.Minute, true, time.Minute},
		{"the clock was set back", now, set, time.Minute, true, time.Minute},
		{"the boot clock runs backwards", now.Add(time.Minute), now, 0, false, 0},
		{"no boot ID", Instant{}, Instant{Boot: time.Hour}, 0, false, time.Hour},
		{"after a boot", now, booted(now, 10*time.Minute), 0, false, 10 * time.Minute},
		{"after a boot into the past", now, booted(now, -time.Hour), 0, false, 0},
		{"after a boot into the far future", now, booted(now, 1000*time.Hour), 0, false, time.Hour},
	} {
		if test.name == "no boot ID" {
			test.at.Wall = test.earlier.Wall.Add(time.Hour)
		}
		if since, ok := test.at.Since(test.earlier); since != test.since || ok != test.known {
			t.Errorf("%s: %s, %t", test.name, since, ok)
		}
		if age := test.at.Age(test.earlier); age != test.age {
			t.Errorf("%s: age %s, want %s", test.name, age, test.age)
		}
	}
}

// TestSame has another directory with the inode of the first: the birth time distinguishes them, and the device number, which
// another boot may change, does not.
func TestSame(t *testing.T) {
	id := FileID{Dev: 1, Ino: 2, Btime: 3}
	if !id.Same(FileID{Dev: 9, Ino: 2, Btime: 3}) || id.Same(FileID{Dev: 1, Ino: 2, Btime: 4}) || id.Same(FileID{Dev: 1, Ino: 3, Btime: 3}) {
		t.Error("compared by more or less than inode and birth time")
	}
	if (FileID{}).Same(FileID{}) {
		t.Error("no directory is the same as no directory")
	}
}
