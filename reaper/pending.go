package reaper

import (
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/reported"
)

const (
	// gather is how long sightings are coalesced before the look that they ask for.
	gather = 100 * time.Millisecond
	// The time between two looks that sightings ask for is at least minGap. It doubles, up to maxGap, after each look
	// that finds nothing new: forged lines cause at most one look in 5 s.
	minGap = 250 * time.Millisecond
	maxGap = 5 * time.Second
	// Lines about a pod whose verdict stays the same cause a look after knownGap, doubled up to knownMax.
	knownGap = 10 * time.Second
	knownMax = 5 * time.Minute
	// livingMax is the longest time between two looks for lines about living pods: one of them may die meanwhile.
	livingMax = time.Minute
)

// pending collects sightings and schedules the next look. Its times are of CLOCK_BOOTTIME.
type pending struct {
	claims reported.Claims
	known  map[parsers.PodUID]*knownPod
	due    time.Duration // when to look; 0 if nothing asks for a look
	ended  time.Duration // when the last look ended
	gap    time.Duration
	// asked is true if the next look, or the last, was asked for and not caused by lines.
	asked bool
	// alive delays the looks for lines about any living pod: a pod can make the kubelet write a line about any other.
	alive knownPod
}

// absent is the verdict on a pod that the log named and no look found.
const absent = "absent"

type knownPod struct {
	verdict string
	next    time.Duration // lines about it cause no look before this
	gap     time.Duration
	lives   bool
}

// sighted adds one claim.
func (p *pending) sighted(c reported.Claim) {
	p.claims.Add(c)
	p.askFor(c)
}

// askFor schedules the look that a claim asks for.
func (p *pending) askFor(c reported.Claim) {
	s := c.Sighting
	when := max(c.At.Boot+gather, p.ended+p.gap)
	if a := p.known[s.UID]; a != nil {
		when = max(when, a.next)
		if a.lives {
			when = max(when, p.alive.next)
		}
	}
	if s.CatchUp && p.ended == 0 {
		// An old line does not hasten the first look, which waits for what the kubelet reports now.
		when = max(when, p.due)
	}
	p.ask(when)
}

// ask schedules a look no later than when.
func (p *pending) ask(when time.Duration) {
	if p.due == 0 || when < p.due {
		p.due = max(when, 1)
	}
}

// take returns the claims for a look that begins now.
func (p *pending) take() []reported.Claim {
	p.due = 0
	return p.claims.Take()
}

// lookEnded schedules the next look by the report of the one that has just ended.
func (p *pending) lookEnded(rep Report, claims []reported.Claim, now time.Duration) {
	fresh := len(rep.Outcomes) > 0
	known := make(map[parsers.PodUID]*knownPod, len(rep.Pods))
	for v := range policy.At(rep.Pods, policy.InPlace) {
		if v.UID == "" {
			continue
		}
		verdict := v.Signature()
		a := p.known[v.UID]
		if a == nil || a.verdict != verdict {
			fresh = fresh || a == nil
			a = &knownPod{verdict: verdict, gap: knownGap}
		}
		a.lives = v.Living()
		known[v.UID] = a
	}
	for _, c := range claims {
		if !c.Dropped {
			p.backOff(known, c.Sighting.UID, now)
		}
	}
	p.backOffLiving(known, claims, now)
	p.known, p.ended = known, now
	p.gap = min(max(2*p.gap, minGap), maxGap)
	if fresh || len(claims) == 0 && !p.asked {
		p.gap = minGap
	}
	p.asked = false
	p.due = 0
	p.ask(now + rep.Next)
	for c := range p.claims.All() { // that came while the look ran
		p.askFor(c)
	}
}

// backOff delays the next look for lines about a pod that a look has just seen, or not found.
func (p *pending) backOff(known map[parsers.PodUID]*knownPod, uid parsers.PodUID, now time.Duration) {
	a := known[uid]
	if a == nil {
		if a = p.known[uid]; a == nil || a.verdict != absent {
			a = &knownPod{verdict: absent, gap: knownGap}
		}
		if len(known) >= reported.MostClaims {
			return
		}
		known[uid] = a
	}
	if a.next <= now {
		a.next = now + a.gap
		most := knownMax
		if a.lives {
			most = livingMax
		}
		a.gap = min(2*a.gap, most)
	}
}

// backOffLiving delays the next look for lines about living pods if the claims name one. If such a pod has died, it ends the
// delay.
func (p *pending) backOffLiving(known map[parsers.PodUID]*knownPod, claims []reported.Claim, now time.Duration) {
	lives := false
	for _, c := range claims {
		is, was := known[c.Sighting.UID], p.known[c.Sighting.UID]
		if was != nil && was.lives && (is == nil || !is.lives) {
			p.alive = knownPod{}
			return
		}
		lives = lives || is != nil && is.lives
	}
	if lives && p.alive.next <= now {
		if p.alive.gap == 0 || now-p.alive.next > 2*knownMax {
			p.alive.gap = knownGap // the first, or it has been quiet
		}
		p.alive.next = now + p.alive.gap
		p.alive.gap = min(2*p.alive.gap, livingMax)
	}
}

// Asked is the daemon's answer to a request for a look.
type Asked struct {
	Look uint64        // the number of the look, counted from the daemon's start
	In   time.Duration // it begins within this time; 0 if it has begun
}

const (
	// askedGap is the least time from the end of a look to one that was asked for. askedCNIGap is the least time between
	// two turns of the neighbour: the CNI directories may hold 300,000 files.
	askedGap    = 10 * time.Second
	askedCNIGap = 5 * time.Minute
)

// asked answers a request for a look with the running look, or with the next one.
func (d *Daemon) asked(running bool, now time.Duration) Asked {
	if running {
		return Asked{Look: d.looks}
	}
	p, when := d.next, now
	if p.ended != 0 {
		when = max(when, p.ended+askedGap)
	}
	p.ask(when)
	p.asked = true
	if d.cniEnded != 0 {
		d.cniDue = min(d.cniDue, max(p.due, d.cniEnded+askedCNIGap))
	}
	return Asked{Look: d.looks + 1, In: max(0, p.due-now)}
}
