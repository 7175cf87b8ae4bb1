package reaper

import (
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/reported"
)

// TestPendingLiving checks that lines about living pods cause few looks, however many pods they name, and that a pod
// that has died since is inspected.
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
	// A look comes after 10, 20 and 40 s, and then once a minute.
	if looks > 65 {
		t.Errorf("an hour of forged lines caused %d looks", looks)
	}
	// One of them dies. After the look that finds this, lines about the others count as before.
	rep.Pods[0].Why = []policy.Why{{Reason: policy.ReasonHold}}
	for before := looks; looks == before; {
		if now += time.Second; now > 22*time.Hour {
			t.Fatal("a pod that died is never inspected")
		}
		p.sighted(reported.Claim{At: policy.Instant{Boot: now}, Sighting: parsers.Sighting{UID: uidOf(0)}})
		if p.due <= now {
			look()
		}
	}
	if p.alive.next > now {
		t.Errorf("a pod that died delays the others until %s", p.alive.next-now)
	}
}
