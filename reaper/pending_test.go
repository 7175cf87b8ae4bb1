package reaper

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
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
			s.UID, s.Volume = parsers.PodUID(uidOf(n%7)), fmt.Sprintf("%0256d", n)
			p.sighted(policy.Claim{Sighting: s, At: at})
		}
		own := policy.Claim{At: at, Sighting: parsers.Sighting{UID: uidOf(1), Trusted: true, Whole: true, PID: 3416}}
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
