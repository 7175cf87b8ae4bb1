package reported

import (
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestUnlisted checks that a pod that the kubelet's socket omits is released only after the running kubelet has
// reported any orphan: until then it may still receive pods that live.
func TestUnlisted(t *testing.T) {
	const other = parsers.PodUID("0badf00d-0002-4aaa-8bbb-cccc00000002")
	for name, c := range map[string]struct {
		change func(*policy.Evidence, *Log, *policy.Instant)
		want   bool
	}{
		"named another":         {func(*policy.Evidence, *Log, *policy.Instant) {}, true},
		"named none":            {func(_ *policy.Evidence, h *Log, _ *policy.Instant) { h.Named, h.NamedAt = nil, nil }, false},
		"named after the list":  {func(_ *policy.Evidence, h *Log, now *policy.Instant) { h.NamedAt[other] = later(*now, time.Second) }, false},
		"an earlier kubelet":    {func(_ *policy.Evidence, h *Log, _ *policy.Instant) { h.Kubelet.PID++ }, false},
		"the list is no proof":  {func(e *policy.Evidence, _ *Log, _ *policy.Instant) { e.Unlisted = policy.Fact{} }, false},
		"another list has it":   {func(e *policy.Evidence, _ *Log, _ *policy.Instant) { e.Facts[policy.FactReleased].Truth = policy.No }, false},
		"named in another boot": {func(_ *policy.Evidence, h *Log, _ *policy.Instant) { h.NamedAt[other] = policy.Instant{BootID: "0"} }, false},
	} {
		s := testkit.DeadPod()
		e, now := s.Pod, s.Now
		e.Facts[policy.FactReleased], e.Unlisted = policy.Fact{}, policy.Fact{Truth: policy.Yes, Origin: "socket"}
		h := Log{Kubelet: s.Node.KubeletID, BootID: now.BootID, Last: now}
		h.Named, h.NamedAt = map[parsers.PodUID]bool{other: true}, map[parsers.PodUID]policy.Instant{other: later(now, -time.Minute)}
		c.change(&e, &h, &now)
		parked := e
		h.Complete(&e, s.Node, now)
		h.CompleteEntry(&parked, s.Node, policy.EntryState{}, now)
		for _, got := range []policy.Evidence{e, parked} {
			if got.Omitted != c.want || (got.Facts[policy.FactReleased].Truth == policy.Yes) != c.want {
				t.Errorf("%s: omitted %t, released %+v, want %t", name, got.Omitted, got.Facts[policy.FactReleased], c.want)
			}
		}
	}
}

func later(at policy.Instant, d time.Duration) policy.Instant {
	return policy.Instant{Wall: at.Wall.Add(d), BootID: at.BootID, Boot: at.Boot + d}
}
