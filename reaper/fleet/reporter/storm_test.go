package reporter

import (
	"container/heap"
	"math/rand/v2"
	"testing"
	"time"
)

// storm is an API server that writes one report after another, with 5,000 writers, in virtual time. It refuses what
// finds more than queue requests before it, and asks for a second of patience, as priority and fairness does.
type storm struct {
	cost  time.Duration // of one write
	queue int

	now, idle    time.Time // when the last of what is queued is done
	done         int
	refused      int
	busy         time.Duration
	longest      time.Duration // a write took
	events       moments
	firstWritten map[int]time.Time
}

// moment is when a node does something.
type moment struct {
	at   time.Time
	node int
	act  func(s *storm, node int)
}

type moments []moment

func (m moments) Len() int           { return len(m) }
func (m moments) Less(i, j int) bool { return m[i].at.Before(m[j].at) }
func (m moments) Swap(i, j int)      { m[i], m[j] = m[j], m[i] }
func (m *moments) Push(x any) {
	one, _ := x.(moment)
	*m = append(*m, one)
}

func (m *moments) Pop() any {
	last := (*m)[len(*m)-1]
	*m = (*m)[:len(*m)-1]
	return last
}

// run has all nodes change at the same moment, and each again every 10 s for a while.
func (s *storm) run(nodes int, lasts time.Duration, random *rand.Rand) {
	start := time.Unix(1e9, 0)
	s.idle, s.firstWritten = start, map[int]time.Time{}
	plans, asked := make([]*schedule, nodes), make([]time.Time, nodes) // asked: when the request that is under way began
	var ask, change func(s *storm, node int)
	plan := func(node int) {
		if due := plans[node].due; !due.IsZero() {
			heap.Push(&s.events, moment{due, node, ask})
		}
	}
	change = func(s *storm, node int) {
		was := plans[node].due
		plans[node].published(s.now, true)
		if !plans[node].due.Equal(was) {
			plan(node)
		}
		if s.now.Sub(start) < lasts {
			heap.Push(&s.events, moment{s.now.Add(10 * time.Second), node, change})
		}
	}
	end := func(s *storm, node int) {
		plans[node].written(s.now, s.now.Sub(asked[node]))
		s.longest, s.done = max(s.longest, s.now.Sub(asked[node])), s.done+1
		if s.firstWritten[node].IsZero() {
			s.firstWritten[node] = s.now
		}
		asked[node] = time.Time{}
	}
	ask = func(s *storm, node int) {
		switch waits := s.idle.Sub(s.now); {
		case !asked[node].IsZero() || !plans[node].due.Equal(s.now):
		case waits > time.Duration(s.queue)*s.cost:
			s.refused++
			plans[node].failed(s.now, time.Second)
			plan(node)
		default:
			asked[node] = s.now
			s.idle = s.now.Add(max(0, waits) + s.cost)
			s.busy += s.cost
			heap.Push(&s.events, moment{s.idle, node, end})
		}
	}
	for i := range nodes {
		plans[i] = &schedule{random: func(most time.Duration) time.Duration { return time.Duration(random.Int64N(int64(most) + 1)) }}
		plans[i].wrote = start.Add(-time.Hour)
		heap.Push(&s.events, moment{start, i, change})
	}
	for s.events.Len() > 0 {
		next, _ := heap.Pop(&s.events).(moment)
		s.now = next.at
		next.act(s, next.node)
	}
}

// TestStorm: 5,000 nodes whose reports change at the same moment, and then without end, leave the API server time for others. A report of
// 8 KiB costs it some 8 ms, and one that is slower than that is asked less often.
func TestStorm(t *testing.T) {
	const nodes, lasts = 5000, 10 * time.Minute
	for _, c := range []struct {
		cost         time.Duration
		share        float64       // of the API server's one core
		all, longest time.Duration // until each node has written once, and what a write took
	}{
		{8 * time.Millisecond, 0.7, 2 * time.Minute, 4 * time.Second},
		{30 * time.Millisecond, 1, 10 * time.Minute, 15 * time.Second},
	} {
		s := &storm{cost: c.cost, queue: 400}
		s.run(nodes, lasts, rand.New(rand.NewPCG(1, 2)))
		all := time.Duration(0)
		for _, at := range s.firstWritten {
			all = max(all, at.Sub(time.Unix(1e9, 0)))
		}
		share := s.busy.Seconds() / s.now.Sub(time.Unix(1e9, 0)).Seconds()
		t.Logf("%v a write: %d writes, %d refused, %.0f %% busy, a write took %v at most, all have written after %v, the last after %v",
			c.cost, s.done, s.refused, 100*share, s.longest.Round(time.Millisecond), all.Round(time.Second), s.now.Sub(time.Unix(1e9, 0)).Round(time.Second))
		if len(s.firstWritten) != nodes || share > c.share || all > c.all || s.longest > c.longest {
			t.Errorf("%v a write", c.cost)
		}
	}
}
