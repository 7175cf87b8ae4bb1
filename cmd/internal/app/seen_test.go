package app

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/state"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestSeen: earlier holds of pods and of CNI count, and those of the daemon that has just been started do not:
// it reports a fresh installation.
func TestSeen(t *testing.T) {
	cfg := config.Config{StateDir: filepath.Join(t.TempDir(), "state")}
	says := func(what string, want, running bool) {
		t.Helper()
		if got := Seen(cfg, false); got != want {
			t.Errorf("%s: %t", what, got)
		}
		if got := Seen(cfg, true); got != running {
			t.Errorf("%s, of the daemon that runs: %t", what, got)
		}
	}
	says("no state directory", false, false)
	store, err := state.Open(cfg.StateDir, state.Options{})
	testkit.Must(t, err)
	defer closeQuietly(store)
	release, err := store.LockRun()
	testkit.Must(t, err)
	defer release()
	says("nothing was looked at", false, false)
	type memory struct {
		Holds map[parsers.PodUID]policy.Hold `json:"holds"`
		CNI   cni.Listings                   `json:"cni"`
	}
	at := func(d time.Duration) policy.Instant { return policy.Instant{Wall: time.Now().Add(d)} }
	for what, d := range map[string]time.Duration{"before": -time.Hour, "since": time.Hour} {
		testkit.Must(t, store.Save("holds", memory{Holds: map[parsers.PodUID]policy.Hold{"u": {Since: at(d)}}}))
		says("a pod "+what, true, d < 0)
		testkit.Must(t, store.Save("holds", memory{CNI: cni.Listings{Older: cni.Listing{Since: at(d)}}}))
		says("CNI "+what, true, d < 0)
	}
	testkit.Must(t, store.Save("holds", memory{}))
	says("all live", false, false)
	testkit.Must(t, store.Save("holds", "what is this"))
	says("it is no memory, so every hold begins anew", false, false)
}
