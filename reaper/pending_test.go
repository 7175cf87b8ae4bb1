package reaper

import (
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/reported"
)

// TestPendingLiving: lines that name pods that live buy next to no looks, however many pods they
// name; and a pod of which it is new that it lives no more is looked at.
func TestPendingLiving(t *testing.T) {
	const pods = 60
	alive := policy.Verdict{Decision: policy.Keep, Why: []policy.Why{{Reason: policy.ReasonCgroup}}}
	p := pending{gap: minGap}
	rep := Report{Next: time.Hour}
	for i := range pods {
		rep.Pods = append(rep.Pods, policy.Judged{Evidence: policy.Evidence{UID: uidOf(i)}, Verdict: alive})
	}
	now := 20 * time.Hour
	p.lookEnded(rep, nil, now)
	looks := 0
	look := func() {
		looks++
		p.lookEnded(rep, p.take(), now)
	}
	for s := range 3600 {
		now += time.Second
		p.sighted(reported.Claim{At: policy.Instant{Boot: now}, Sighting: parsers.Sighting{UID: uidOf(s % pods)}})
		if p.due <= now {
			look()
		}
	}
	// After 10, 20 and 40 s, and then every minute.
	if looks > 65 {
		t.Errorf("an hour of forged lines bought %d looks", looks)
	}
	// One of them dies. Once a look has found that, lines on the others count as before.
	rep.Pods[0].Why = []policy.Why{{Reason: policy.ReasonHold}}
	for before := looks; looks == before; {
		if now += time.Second; now > 22*time.Hour {
			t.Fatal("a pod that died is never looked at")
		}
		p.sighted(reported.Claim{At: policy.Instant{Boot: now}, Sighting: parsers.Sighting{UID: uidOf(0)}})
		if p.due <= now {
			look()
		}
	}
	if p.alive.next > now {
		t.Errorf("a pod that died leaves the others put off until %s", p.alive.next-now)
	}
}
