package quiet

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/heard"
)

// Housekeeping is how often a kubelet names an orphan: housekeepingPeriod of every release.
const Housekeeping = 2 * time.Second

const (
	// fewestRuns is the shortest silence that counts, whatever the confirm time: five housekeeping runs.
	fewestRuns = 5 * Housekeeping
	// teardownSilence is longer than the longest time between two tries to tear a volume down.
	teardownSilence = 5 * time.Minute
	// insists is for how long a kubelet has to name a pod whose directory is gone until that is told.
	insists = 10 * time.Minute
	// between is the least time between two records. What stops meanwhile is told together.
	between = time.Minute
	// mostPods bounds the pods that are counted. A kubelet has a few thousand directories at the most.
	mostPods = 4096
	// mostDays bounds the table, some 60 bytes a day.
	mostDays = 400
	// mostNamed is how many pods a record about several of them names.
	mostNamed = 16
)

// Memory holds the lines about each pod that has a directory, or had one until a moment ago. It is
// kept across restarts, the kubelet's too. The zero value is ready.
type Memory struct {
	Pods map[parsers.PodUID]Said `json:"pods,omitempty"`
	// Told is when a record last told that a message stopped.
	Told policy.Instant `json:"told,omitzero"`
	// Days has what such records told, the oldest first, one for each day on which one did.
	Days []Day `json:"days,omitempty"`
}

// Said is what the kubelet has said of one pod.
type Said struct {
	policy.PodName

	Lines int64          `json:"lines"`
	Last  policy.Instant `json:"last"` // when the last of them was written
	// Named is true where one of the lines named the pod as an orphan. Teardown is true where the last
	// one was about a volume that cannot be torn down.
	Named    bool `json:"named,omitempty"`
	Teardown bool `json:"teardown,omitempty"`
	// Taken is true where something of the pod was moved to quarantine.
	Taken bool `json:"taken,omitempty"`
	// Gone is since when there is no directory, as far as looks have seen; zero while there is one.
	Gone policy.Instant `json:"gone,omitzero"`
}

// Day sums up the messages that stopped on one day of UTC.
type Day struct {
	Day   string    `json:"day"`   // 2006-01-02
	First time.Time `json:"first"` // when the first of them stopped
	Pods  int64     `json:"pods"`
	Lines int64     `json:"lines"`
}

// Clone returns a copy that can be changed without changing m.
func (m *Memory) Clone() Memory {
	c := *m
	c.Pods, c.Days = maps.Clone(m.Pods), slices.Clone(m.Days)
	return c
}

// Hear counts the lines of claims. They have to be evident, and about pods that this node has.
func (m *Memory) Hear(claims []heard.Claim) {
	for _, c := range claims {
		uid, at := c.Sighting.UID, c.Written()
		s, known := m.Pods[uid]
		again := c.Sighting.CatchUp && !at.Wall.After(s.Last.Wall) // read before a restart, and counted
		if c.Lines == 0 || again || !known && len(m.Pods) >= mostPods {
			continue
		}
		if m.Pods == nil {
			m.Pods = map[parsers.PodUID]Said{}
		}
		teardown := c.Sighting.Report == parsers.ReportTeardown
		if later(at, s.Last) {
			s.Last, s.Teardown = at, teardown
		}
		s.Lines += int64(c.Lines)
		s.Named = s.Named || !teardown
		m.Pods[uid] = s
	}
}

// later reports whether one line was written after another: by the clock that nobody can set, within
// one boot.
func later(line, than policy.Instant) bool {
	if line.BootID != "" && line.BootID == than.BootID {
		return line.Boot > than.Boot
	}
	return line.Wall.After(than.Wall)
}

// See takes in which pods have a directory, by a look at all of them. A pod that is gone is forgotten
// where the kubelet never named it as an orphan and nothing of it was taken: its volumes were torn
// down after all, which is no news.
func (m *Memory) See(pods []policy.Evidence, at policy.Instant) {
	here := make(map[parsers.PodUID]*policy.Evidence, len(m.Pods))
	for i := range pods {
		if _, ok := m.Pods[pods[i].UID]; ok {
			here[pods[i].UID] = &pods[i]
		}
	}
	for uid, s := range m.Pods {
		e := here[uid]
		switch {
		case e != nil:
			s.Gone = policy.Instant{}
			if e.PodName != "" {
				s.PodName = policy.PodName{Namespace: e.Namespace, Name: e.PodName}
			}
		case !s.Named && !s.Taken:
			delete(m.Pods, uid)
			continue
		case s.Gone.BootID != at.BootID:
			s.Gone = at
		}
		m.Pods[uid] = s
	}
}

// Took notes that something of the pod was moved to quarantine, and whether that was its directory.
func (m *Memory) Took(uid parsers.PodUID, whole bool, at policy.Instant) {
	s, ok := m.Pods[uid]
	if !ok {
		return
	}
	s.Taken = true
	if whole {
		s.Gone = at
	}
	m.Pods[uid] = s
}

// Due returns the records of what has stopped and what has not, and the memory once they are written.
// Where there is none, next is after how long there may be one, or 0.
func (m *Memory) Due(r policy.Rules, now policy.Instant) (records []policy.Record, after Memory, next time.Duration) {
	var ended, going []parsers.PodUID
	for _, uid := range slices.Sorted(maps.Keys(m.Pods)) {
		s := m.Pods[uid]
		switch left, ok := s.left(r, now); {
		case !ok:
		case s.insists():
			going = append(going, uid)
		case left <= 0:
			ended = append(ended, uid)
		default:
			next = cmp.Or(min(next, left), left)
		}
	}
	if len(ended)+len(going) == 0 {
		return nil, *m, next
	}
	if since, ok := now.Since(m.Told); ok && since < between {
		return nil, *m, between - since
	}
	after = m.Clone()
	after.Told = now
	if len(ended) > 0 {
		records = append(records, m.stopped(ended, now))
		after.add(m, ended)
	}
	for _, uid := range going {
		s := m.Pods[uid]
		records = append(records, policy.Record{
			Kind: policy.KindStillNamed, At: now, UID: uid, Namespace: s.Namespace, PodName: s.Name, Lines: s.Lines, LastLine: s.Last.Wall, Gone: s.Gone.Wall,
		})
		delete(after.Pods, uid)
		break // the kubelet names one at a time
	}
	return records, after, 0
}

// left is for how long there must be no line until the message has stopped; false while the pod has a
// directory, or where it is not known since when there is none.
func (s *Said) left(r policy.Rules, now policy.Instant) (time.Duration, bool) {
	silent, ok := now.Since(s.Gone)
	if !ok {
		return 0, false
	}
	if said, ok := now.Since(s.Last); ok {
		silent = min(silent, said)
	}
	enough := max(r.Confirm, fewestRuns)
	if s.Teardown {
		enough = max(enough, teardownSilence)
	}
	return enough - silent, true
}

// insists reports whether the kubelet named the pod long after its directory was gone.
func (s *Said) insists() bool {
	since, ok := s.Last.Since(s.Gone)
	return ok && !s.Teardown && since >= insists
}

// stopped is the one record of all messages that have stopped.
func (m *Memory) stopped(ended []parsers.PodUID, now policy.Instant) policy.Record {
	rec := policy.Record{Kind: policy.KindQuiet, At: now}
	for _, uid := range ended {
		s := m.Pods[uid]
		rec.Lines += s.Lines
		if s.Last.Wall.After(rec.LastLine) {
			rec.LastLine = s.Last.Wall
		}
		if name := policy.FullName(s.Namespace, s.Name); len(rec.Pods) < mostNamed && len(ended) > 1 {
			rec.Pods = append(rec.Pods, cmp.Or(name, string(uid)))
		}
	}
	if rec.PodCount = int64(len(ended)); len(ended) == 1 {
		s := m.Pods[ended[0]]
		rec.UID, rec.Namespace, rec.PodName = ended[0], s.Namespace, s.Name
	}
	return rec
}

// add counts the pods among those of their day, and forgets them.
func (m *Memory) add(was *Memory, ended []parsers.PodUID) {
	for _, uid := range ended {
		s := was.Pods[uid]
		delete(m.Pods, uid)
		at := s.Last.Wall.UTC()
		i, found := slices.BinarySearchFunc(m.Days, at.Format(time.DateOnly), func(d Day, day string) int { return cmp.Compare(d.Day, day) })
		if !found {
			m.Days = slices.Insert(m.Days, i, Day{Day: at.Format(time.DateOnly), First: at})
		}
		d := &m.Days[i]
		d.Pods++
		d.Lines += s.Lines
		if at.Before(d.First) {
			d.First = at
		}
	}
	if more := len(m.Days) - mostDays; more > 0 {
		m.Days = slices.Delete(m.Days, 0, more)
	}
}
