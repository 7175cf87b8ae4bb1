package wire

import (
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/heard"
)

// TestGathered: of what was said the last word counts, in whatever order it was read, and a
// hint takes the place of no evidence.
func TestGathered(t *testing.T) {
	testNow := time.Date(2026, 11, 20, 3, 14, 15, 0, time.UTC)
	now := policy.Instant{Wall: testNow, Boot: 100 * time.Hour, BootID: "b"}
	line := func(ago time.Duration, change func(*parsers.Sighting)) heard.Claim {
		s := parsers.Sighting{UID: "0badf00d-0001-4aaa-8bbb-cccc00000001", PID: 42, Trusted: true, Whole: true, Time: testNow.Add(-ago)}
		change(&s)
		return heard.Claim{Sighting: s, At: before(now, s.Time)}
	}
	same := func(*parsers.Sighting) {}
	said := gathered{}
	said.add(line(time.Hour, same))
	said.add(line(2*time.Hour, same))
	said.add(line(0, func(s *parsers.Sighting) { s.Whole = false }))
	said.add(line(0, func(s *parsers.Sighting) { s.PID = 43 }))
	said.add(line(0, func(s *parsers.Sighting) { s.Trusted = false }))
	if len(said) != 4 {
		t.Fatalf("%d kinds: %+v", len(said), said)
	}
	kubelet := policy.KubeletID{PID: 42, Start: 50 * time.Hour}
	evident := 0
	for _, c := range said.claims() {
		if !c.Sighting.Trusted || !c.Evident(kubelet, policy.LogText, now) {
			continue
		}
		evident++
		if age, ok := now.Since(c.At); !ok || age != time.Hour {
			t.Errorf("the last word is %v old", age)
		}
	}
	if evident != 1 {
		t.Errorf("%d claims are the kubelet's word, want 1", evident)
	}
	if c := line(51*time.Hour, same); c.Evident(kubelet, policy.LogText, now) {
		t.Error("a word of an earlier kubelet counts")
	}
}
