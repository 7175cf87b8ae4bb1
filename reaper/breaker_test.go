package reaper

import (
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// remade is a node on which a pod goes back because of a late mount and finds that its kubelet has made a new
// directory in the meantime.
func remade(used policy.Truth) (*fakeNode, policy.Rules) {
	n := newFakeNode()
	n.add(1, nil)
	n.scans[uidOf(1)] = policy.Fact{Truth: policy.Yes, Detail: "mounted at the last moment"}
	n.remakes = map[parsers.PodUID]policy.Truth{uidOf(1): used}
	return n, atOnce()
}

// TestBreakerCutOff kills the process before every step of a pass in which a pod that goes back meets a new directory
// of the same name. After the next start the breaker is open, although only the disk shows by then that the pod
// lived.
func TestBreakerCutOff(t *testing.T) {
	for _, used := range []policy.Truth{policy.No, policy.Yes} {
		exchanged := 0
		for cut, more := 1, true; more; cut++ {
			n, rules := remade(used)
			n.cutAt = cut
			more = killed(func() { mustPass(t, n.reaper(t, rules), n.claim(1)) })
			met := n.met
			n.cutAt, n.scans, n.remakes = 0, nil, nil
			mustPass(t, n.reaper(t, rules))
			if met && !n.BreakerOpen() {
				t.Errorf("used %s: cut at %d, the breaker is closed: %v", used, cut, n.kinds(uidOf(1)))
			}
			if met {
				exchanged++
			}
		}
		if exchanged < 3 {
			t.Errorf("used %s: only %d cuts came after the two directories met", used, exchanged)
		}
	}
}

// TestBreakerDiskFull checks that the disk may be full at any single write to the ledger: once a living pod went
// back, nothing more is removed, also after a restart. The put-back itself removes the sign of life that the next
// look would need, so the record must not get lost.
func TestBreakerDiskFull(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		for fullAt, writes := 1, 1; fullAt <= writes; fullAt++ {
			n := newFakeNode()
			rules := noHold()
			r := n.reaper(t, rules)
			n.add(1, nil)
			other := n.add(2, nil)
			mustPass(t, r, n.claim(1))
			for entry, p := range n.quarantine {
				if strings.HasPrefix(entry, string(uidOf(1))) {
					p.facts = map[policy.FactName]policy.Truth{policy.FactSandbox: policy.Yes}
				}
			}
			n.appends, n.fullAt = 0, fullAt
			for range 5 {
				mustPass(t, r)
				n.pass(rules.Confirm)
				if restarted {
					r = n.reaper(t, rules)
				}
			}
			writes = n.appends
			if n.pods[uidOf(1)] == nil || !n.BreakerOpen() || other.files != 3 {
				t.Errorf("full at %d, restarted %t: breaker open %t, %d of 3 files remain",
					fullAt, restarted, n.BreakerOpen(), other.files)
			}
		}
	}
}

// TestBreakerKnownInMemory checks that the breaker is open in memory as long as the ledger cannot be written,
// although its cause shows only once, and that the record follows as soon as it can be written.
func TestBreakerKnownInMemory(t *testing.T) {
	n := newFakeNode()
	rules := noHold()
	r := n.reaper(t, rules)
	mustPass(t, r)
	n.add(1, nil)
	mustPass(t, r, n.claim(1))
	n.pass(rules.Confirm / 2)
	n.signs = map[parsers.PodUID]map[policy.FactName]policy.Truth{uidOf(1): {policy.FactCgroup: policy.Yes}}
	n.ledgerErr = errFull
	if rep := mustPass(t, r); !rep.Stopped || len(rep.Look.Errors) == 0 {
		t.Fatalf("stopped %t, errors %v", rep.Stopped, rep.Look.Errors)
	}
	n.signs, n.ledgerErr = nil, nil
	n.pass(rules.Confirm)
	if rep := mustPass(t, r); !rep.Stopped || !n.BreakerOpen() || len(n.quarantine) != 1 {
		t.Errorf("stopped %t, breaker open %t, quarantine %v", rep.Stopped, n.BreakerOpen(), n.quarantine)
	}
	for i, rec := range n.records {
		if rec.Kind == policy.KindBreaker && (i > 0 && n.records[i-1].Kind == policy.KindBreaker || rec.At == (policy.Instant{}) || rec.UID != uidOf(1)) {
			t.Errorf("record %d: %+v", i, rec)
		}
	}
}

// TestBreakerStopsTheSameLook checks that nothing of any other pod is removed in the look in which a pod that goes
// back meets a new directory, neither in the same batch nor in a later one.
func TestBreakerStopsTheSameLook(t *testing.T) {
	for _, pods := range []int{3, 2*policy.BatchSize + 10} {
		n := newFakeNode()
		rules := noHold()
		rules.MaxPerLook = 0
		r := n.reaper(t, rules)
		var all []*fakePod
		for i := range pods {
			all = append(all, n.add(i, nil))
		}
		mustPass(t, r, n.claim(1))
		all[1].facts = map[policy.FactName]policy.Truth{policy.FactStaged: policy.Yes}
		n.remakes = map[parsers.PodUID]policy.Truth{uidOf(1): policy.Yes}
		n.pass(rules.Confirm)
		mustPass(t, r)
		if !n.met || !n.BreakerOpen() {
			t.Fatalf("directories met %t, breaker open %t", n.met, n.BreakerOpen())
		}
		for i, p := range all {
			if p.files != 3 {
				t.Errorf("of %d pods: %d of 3 files of pod %d remain", pods, p.files, i)
				break
			}
		}
	}
}

// TestBreakerWhileParking checks that a look parks no more pods and strips none after the kubelet has made a
// directory again while it was being parked: that pod lives, so the other verdicts are in doubt.
func TestBreakerWhileParking(t *testing.T) {
	n := newFakeNode()
	rules := noHold()
	rules.MaxPerLook = 0
	r := n.reaper(t, rules)
	var all []*fakePod
	for i := range policy.BatchSize + 10 {
		all = append(all, n.add(i, nil))
	}
	n.crowded = uidOf(1)
	mustPass(t, r, n.claim(1))
	if len(n.pods) != 11 || !n.BreakerOpen() {
		t.Errorf("%d pods in place, breaker open %t", len(n.pods), n.BreakerOpen())
	}
	n.pass(rules.Confirm)
	mustPass(t, r)
	if p := all[2]; p.files != 3 || n.pods[uidOf(2)] == p {
		t.Errorf("%d of 3 files remain of the pods parked before", p.files)
	}
}

// TestBreakerWhereUseIsUnknown checks that the breaker opens if a pod that goes back meets a new directory whose use
// cannot be read. The put-back is retried, but after the operator's "resume" only a proven use opens the breaker
// again.
func TestBreakerWhereUseIsUnknown(t *testing.T) {
	n, rules := remade(policy.Unknown)
	r := n.reaper(t, rules)
	mustPass(t, r, n.claim(1))
	if !n.met || !n.BreakerOpen() {
		t.Fatalf("directories met %t, breaker open %t", n.met, n.BreakerOpen())
	}
	resume(t, r)
	n.scans = nil
	n.pods[uidOf(1)].facts = map[policy.FactName]policy.Truth{policy.FactSandbox: policy.Yes}
	tries := len(n.records)
	n.pass(time.Hour)
	mustPass(t, r)
	if n.BreakerOpen() || len(n.records) == tries {
		t.Errorf("breaker open %t, %d new records", n.BreakerOpen(), len(n.records)-tries)
	}
	n.pods[uidOf(1)].used = policy.Yes
	n.pass(time.Hour)
	mustPass(t, r)
	if !n.BreakerOpen() {
		t.Error("the new directory is in use and the breaker is closed")
	}
}

// TestBreakerCutOffAfterTheRename kills the process before every step and within every write of a pass in which a pod
// comes to life right after its rename. The pod goes back and the breaker is open wherever the cut was: once the pod
// is back, no look shows that it was judged wrongly.
func TestBreakerCutOffAfterTheRename(t *testing.T) {
	moved := 0
	for cut, more := 1, true; more; cut++ {
		n, rules := newFakeNode(), noHold()
		n.add(1, nil)
		lives := false
		n.still = func() {
			for _, p := range n.quarantine {
				p.facts, lives = map[policy.FactName]policy.Truth{policy.FactCgroup: policy.Yes}, true
			}
		}
		n.cutAt = cut
		more = killed(func() { mustPass(t, n.reaper(t, rules), n.claim(1)) })
		n.cutAt = 0
		if !lives {
			continue
		}
		moved++
		mustPass(t, n.reaper(t, rules))
		if n.pods[uidOf(1)] == nil || !n.BreakerOpen() {
			t.Errorf("cut at %d: back %t, breaker open %t: %v", cut, n.pods[uidOf(1)] != nil, n.BreakerOpen(), n.kinds(uidOf(1)))
		}
	}
	if moved < 4 {
		t.Errorf("only %d cuts came after the rename", moved)
	}
}

// TestBreakerCutOffWhileFrozen kills the process within the write that freezes the entry of a pod that lives again.
// The breaker must be written first, because no look inspects a frozen entry.
func TestBreakerCutOffWhileFrozen(t *testing.T) {
	for cut, more := 1, true; more; cut++ {
		n, rules := newFakeNode(), atOnce()
		n.add(1, nil).data = true
		mustPass(t, n.reaper(t, rules), n.claim(1))
		mustPass(t, n.reaper(t, rules))
		if len(n.quarantine) != 1 || n.BreakerOpen() {
			t.Fatal("the entry is not held in quarantine")
		}
		n.signs = map[parsers.PodUID]map[policy.FactName]policy.Truth{uidOf(1): {policy.FactSandbox: policy.Yes}}
		n.cutAt = n.steps + cut
		more = killed(func() { mustPass(t, n.reaper(t, rules)) })
		n.cutAt = 0
		mustPass(t, n.reaper(t, rules))
		if !n.BreakerOpen() {
			t.Errorf("cut at %d, the breaker is closed: %v", cut, n.kinds(uidOf(1)))
		}
	}
}
