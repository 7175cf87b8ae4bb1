package decide

import (
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestNoHurry checks that a state that time alone does not end neither delays the end of a sweep nor makes the daemon
// look continuously.
func TestNoHurry(t *testing.T) {
	rules := testkit.DeadPod().Rules
	observe := rules
	observe.Observe = true
	now := policy.Instant{BootID: "b", Boot: 100 * time.Hour}
	ephemeral := []policy.EntryState{{
		Entry: "e", Phase: policy.PhaseConfirmed, Left: []policy.Residue{{Class: contents.ClassEphemeral}}, ConfirmedAt: policy.Instant{BootID: "b"},
	}}
	parked := []policy.EntryState{{Entry: "e", Phase: policy.PhaseParked, Parked: policy.Parked{At: policy.Instant{BootID: "b"}}}}
	inQuarantine := policy.Judged{Evidence: policy.Evidence{Entry: "e"}, Verdict: policy.Verdict{Stage: policy.InQuarantine}}
	looked := Ruling{Look: policy.Look{At: now}, Pods: []policy.Judged{inQuarantine}}
	young := policy.Verdict{Decision: policy.Wait, Due: 10000 * time.Hour}
	future := Ruling{Pods: []policy.Judged{{Evidence: policy.Evidence{UID: testkit.PodUID}, Verdict: young}}}
	for name, tt := range map[string]struct {
		d       Ruling
		entries []policy.EntryState
		rules   policy.Rules
		least   time.Duration
	}{
		"parked and in use":                {looked, parked, rules, lookSoon},
		"parked, mode observe":             {looked, parked, observe, lookAgain},
		"past its retention and in use":    {looked, ephemeral, rules, lookAgain},
		"past its retention, mode observe": {looked, ephemeral, observe, lookAgain},
		"changed in the future":            {future, nil, rules, lookRarely},
	} {
		if next, pending := tt.d.Next(nil, tt.entries, tt.rules, now); next < tt.least || pending {
			t.Errorf("%s: next in %s, pending %t", name, next, pending)
		}
	}
	var m Memory
	m.Ended([]policy.Outcome{{Action: policy.Action{Kind: policy.PutBack, Entry: "e"}, Result: policy.Refused}}, now)
	refused := Ruling{Memory: m}
	if next, _ := refused.Next(nil, []policy.EntryState{{Entry: "e", Phase: policy.PhasePutting}}, rules, now); next != retryStuck {
		t.Errorf("the failed put-back is retried in %s, want %s", next, retryStuck)
	}
	for range 20 {
		refused.Memory.Ended([]policy.Outcome{{Action: policy.Action{Kind: policy.PutBack, Entry: "e"}, Result: policy.Refused}}, now)
	}
	if next, _ := refused.Next(nil, []policy.EntryState{{Entry: "e", Phase: policy.PhasePutting}}, rules, now); next > retryBack {
		t.Errorf("after many refusals the put-back is retried in %s", next)
	}
	looked.Look.At.Boot = rules.Confirm - time.Second
	if next, pending := looked.Next(nil, parked, rules, now); !pending || next != 0 {
		t.Errorf("confirm time over during the pass: next in %s, pending %t", next, pending)
	}
	now.Boot, looked.Look.At.Boot = time.Minute, time.Minute
	if next, pending := looked.Next(nil, parked, rules, now); !pending || next != rules.Confirm-time.Minute {
		t.Errorf("confirm time left: next in %s, pending %t", next, pending)
	}
}
