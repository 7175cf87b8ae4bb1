package reaper

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/heard"
)

// TestPendingFlood: forged lines can neither fill the memory nor push out the kubelet's own.
func TestPendingFlood(t *testing.T) {
	for name, forged := range map[string]parsers.Sighting{
		"a file's lines":         {Whole: true},
		"rests of longer ones":   {Trusted: true},
		"with the longest names": {Whole: true, Report: parsers.ReportTeardown, Path: strings.Repeat("p", 1024), Leaf: strings.Repeat("l", 1024)},
	} {
		var p pending
		at := policy.Instant{Boot: time.Hour}
		for n := range 3 * maxClaims {
			s := forged
			s.UID, s.Volume = uidOf(n%7), fmt.Sprintf("%0256d", n)
			p.sighted(heard.Claim{Sighting: s, At: at})
		}
		own := heard.Claim{At: at, Sighting: parsers.Sighting{UID: uidOf(1), Trusted: true, Whole: true, PID: 3416}}
		p.sighted(own)
		claims := p.take()
		bytes, found := 0, false
		for _, c := range claims {
			bytes += c.Size()
			found = found || c == own
		}
		if bytes > 2*maxClaimBytes || len(claims) > 2*maxClaims || !found {
			t.Errorf("%s: %d claims with %d bytes, the kubelet's own among them: %t", name, len(claims), bytes, found)
		}
		if p.room != [2]room{} {
			t.Errorf("%s: room is used by nothing: %+v", name, p.room)
		}
		p.sighted(own)
		p.sighted(own)
		if p.room[1].claims != 1 || p.room[1].bytes != own.Size() {
			t.Errorf("%s: a claim that is repeated counts again: %+v", name, p.room)
		}
	}
}

// TestPendingLiving: lines that name pods that live buy next to no looks, however many pods they
// name; and a pod of which it is new that it lives no more is looked at.
func TestPendingLiving(t *testing.T) {
	const pods = 60
	alive := policy.Verdict{Decision: policy.Keep, Why: []policy.Why{{Reason: policy.ReasonCgroup}}}
	p := pending{gap: minGap}
	rep := Report{Next: time.Hour}
	for i := range pods {
		v := alive
		v.UID = uidOf(i)
		rep.Verdicts = append(rep.Verdicts, v)
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
		p.sighted(heard.Claim{At: policy.Instant{Boot: now}, Sighting: parsers.Sighting{UID: uidOf(s % pods)}})
		if p.due <= now {
			look()
		}
	}
	// After 10, 20 and 40 s, and then every minute.
	if looks > 65 {
		t.Errorf("an hour of forged lines bought %d looks", looks)
	}
	// One of them dies. Once a look has found that, lines on the others count as before.
	rep.Verdicts[0].Why = []policy.Why{{Reason: policy.ReasonHold}}
	for before := looks; looks == before; {
		if now += time.Second; now > 22*time.Hour {
			t.Fatal("a pod that died is never looked at")
		}
		p.sighted(heard.Claim{At: policy.Instant{Boot: now}, Sighting: parsers.Sighting{UID: uidOf(0)}})
		if p.due <= now {
			look()
		}
	}
	if p.alive.next > now {
		t.Errorf("a pod that died leaves the others put off until %s", p.alive.next-now)
	}
}
