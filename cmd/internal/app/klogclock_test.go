package app

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestKlogClock: klog's times are dated by their distance from the end of the log, whatever the zone of the writer is.
func TestKlogClock(t *testing.T) {
	const line = ` 812 kubelet_volumes.go:263] "There were many similar errors."`
	path := filepath.Join(t.TempDir(), "kubelet.log")
	testkit.Must(t, os.WriteFile(path, []byte("I0101 00:10:00.000000"+line+"\nanother program\n"), 0o600))
	written := time.Date(2027, 1, 1, 8, 0, 0, 0, time.UTC)
	testkit.Must(t, os.Chtimes(path, written, written))
	c := klogClockOf(path)
	for text, ago := range map[string]time.Duration{
		"E0101 00:09:58.000000":                            2 * time.Second,
		"Jan  1 00:00:00 n kubelet[812]: E0101 00:00:00.5": 10*time.Minute - 500*time.Millisecond,
		"E1231 23:10:00.000000":                            time.Hour,
	} {
		if got := c.date([]byte(text + line)); !got.Equal(written.Add(-ago)) {
			t.Errorf("%s: %s, want %s before %s", text, got, ago, written)
		}
	}
	for _, text := range []string{"", "orphaned pod", "E0101 00:09:58.000000 no header", "E1341 00:09:58.000000" + line} {
		if got := c.date([]byte(text)); !got.IsZero() {
			t.Errorf("%s: %s", text, got)
		}
	}
	if got := klogClockOf(filepath.Dir(path)).date([]byte("E0101 00:09:58.000000" + line)); !got.IsZero() {
		t.Errorf("a log that could not be read: %s", got)
	}
}
