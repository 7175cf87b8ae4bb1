package reported

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// housekeeping is how often a kubelet names an orphan: housekeepingPeriod of every release from 1.4 to 1.36.
const housekeeping = 2 * time.Second

const (
	// fewestRuns is the shortest silence that counts: five housekeeping runs.
	fewestRuns = 5 * housekeeping
	// teardownSilence is longer than the longest time between two tries to tear a volume down.
	teardownSilence = 5 * time.Minute
	// insists is how long a kubelet has to report a pod whose directory is gone until that is recorded.
	insists = 10 * time.Minute
	// between is the least time between two records. What stops meanwhile is recorded together.
	between = time.Minute
	// mostCounted bounds the pods that are counted. A kubelet has a few thousand directories at the most.
	mostCounted = 4096
	// mostNamed is how many pods a record about several of them names.
	mostNamed = 16
)

// Messages counts the lines about each pod until the kubelet's message about it has stopped, for display. It is kept across
// restarts, the kubelet's too. The zero value is ready.
//
// A kubelet reports one orphan at a time, so silence shows nothing while the directory is there. A message has stopped once
// the directory is gone and no line came for longer than the kubelet waits between two.
type Messages struct {
	Pods map[parsers.PodUID]PodLines `json:"pods,omitempty"`
	// Recorded is when it was last recorded that a message stopped.
	Recorded policy.Instant `json:"told,omitzero"`
}

// PodLines counts the kubelet's lines about one pod.
type PodLines struct {
	policy.PodName

	Lines int64          `json:"lines"`
	Last  policy.Instant `json:"last"` // when the last of them was written
	// Named is true where one of the lines named the pod as an orphan. Teardown is true where the last
	// one was about a volume that cannot be torn down.
	Named    bool `json:"named,omitempty"`
	Teardown bool `json:"teardown,omitempty"`
	// Moved is true where something of the pod was moved to quarantine.
	Moved bool `json:"taken,omitempty"`
	// Gone is since when there is no directory, as far as looks have seen; zero while there is one.
	Gone policy.Instant `json:"gone,omitzero"`
}

// Clone returns a copy that can be changed without changing m.
func (m *Messages) Clone() Messages {
	c := *m
	c.Pods = maps.Clone(m.Pods)
	return c
}

// Count counts the lines of claims. They have to be evident, and about pods that this node has.
func (m *Messages) Count(claims ...Claim) {
	for _, c := range claims {
		uid, at := c.Sighting.UID, c.Written()
		s, known := m.Pods[uid]
		again := c.Sighting.CatchUp && !at.Wall.After(s.Last.Wall) // read before a restart, and counted
		if c.Lines == 0 || again || !known && len(m.Pods) >= mostCounted {
			continue
		}
		if m.Pods == nil {
			m.Pods = map[parsers.PodUID]PodLines{}
		}
		teardown := c.Sighting.Report == parsers.ReportTeardown
		later := at.Wall.After(s.Last.Wall)
		if at.BootID != "" && at.BootID == s.Last.BootID {
			later = at.Boot > s.Last.Boot
		}
		if later {
			s.Last, s.Teardown = at, teardown
		}
		s.Lines += int64(c.Lines)
		s.Named = s.Named || !teardown
		m.Pods[uid] = s
	}
}

// Update records which pods have a directory, by a look at all of them. A pod that is gone is forgotten if the kubelet never
// reported it as an orphan and nothing of it was moved: its volumes were torn down after all.
func (m *Messages) Update(pods []policy.Judged, at policy.Instant) {
	here := make(map[parsers.PodUID]*policy.Evidence, len(m.Pods))
	for p := range policy.At(pods, policy.InPlace) {
		here[p.UID] = &p.Evidence
	}
	for uid, s := range m.Pods {
		e := here[uid]
		switch {
		case e != nil:
			s.Gone = policy.Instant{}
			if e.PodName != "" {
				s.PodName = policy.PodName{Namespace: e.Namespace, Name: e.PodName}
			}
		case !s.Named && !s.Moved:
			delete(m.Pods, uid)
			continue
		case s.Gone.BootID != at.BootID:
			s.Gone = at
		}
		m.Pods[uid] = s
	}
}

// Moved records that something of the pod was moved to quarantine, and whether that was its directory.
func (m *Messages) Moved(uid parsers.PodUID, whole bool, at policy.Instant) {
	s, ok := m.Pods[uid]
	if !ok {
		return
	}
	s.Moved = true
	if whole {
		s.Gone = at
	}
	m.Pods[uid] = s
}

// Due returns the records of messages that have stopped, or go on without a directory, and the messages once these are
// written. If there is none, next is after how long there may be one, or 0.
func (m *Messages) Due(r policy.Rules, now policy.Instant) (records []policy.Record, after Messages, next time.Duration) {
	var ended []parsers.PodUID
	var going parsers.PodUID // the kubelet names one at a time
	for _, uid := range slices.Sorted(maps.Keys(m.Pods)) {
		s := m.Pods[uid]
		gone, ok := s.Last.Since(s.Gone)
		insisted := ok && !s.Teardown && gone >= insists
		switch left, ok := s.left(r, now); {
		case !ok || insisted && going != "":
		case insisted:
			going = uid
		case left <= 0:
			ended = append(ended, uid)
		default:
			next = cmp.Or(min(next, left), left)
		}
	}
	if len(ended) == 0 && going == "" {
		return nil, *m, next
	}
	if since, ok := now.Since(m.Recorded); ok && since < between {
		return nil, *m, between - since
	}
	after = m.Clone()
	after.Recorded = now
	if len(ended) > 0 {
		records = append(records, after.stop(ended, now))
	}
	if going != "" {
		s := m.Pods[going]
		records = append(records, policy.Record{
			Kind: policy.KindStillNamed, At: now, UID: going, Namespace: s.Namespace, PodName: s.Name, Lines: s.Lines, LastLine: s.Last.Wall, Gone: s.Gone.Wall,
		})
		delete(after.Pods, going)
	}
	return records, after, 0
}

// left is how long there must be no line until the message has stopped; false while the pod has a directory, or if it is
// not known since when there is none.
func (s *PodLines) left(r policy.Rules, now policy.Instant) (time.Duration, bool) {
	silent, ok := now.Since(s.Gone)
	if !ok {
		return 0, false
	}
	if last, ok := now.Since(s.Last); ok {
		silent = min(silent, last)
	}
	enough := max(r.Confirm, fewestRuns)
	if s.Teardown {
		enough = max(enough, teardownSilence)
	}
	return enough - silent, true
}

// stop returns the one record of all messages that have stopped, and forgets them.
func (m *Messages) stop(ended []parsers.PodUID, now policy.Instant) policy.Record {
	rec := policy.Record{Kind: policy.KindQuiet, At: now, PodCount: int64(len(ended))}
	for _, uid := range ended {
		s := m.Pods[uid]
		delete(m.Pods, uid)
		rec.Lines += s.Lines
		if s.Last.Wall.After(rec.LastLine) {
			rec.LastLine = s.Last.Wall
		}
		switch {
		case len(ended) == 1:
			rec.UID, rec.Namespace, rec.PodName = uid, s.Namespace, s.Name
		case len(rec.Pods) < mostNamed:
			rec.Pods = append(rec.Pods, cmp.Or(policy.FullName(s.Namespace, s.Name), string(uid)))
		}
	}
	return rec
}
