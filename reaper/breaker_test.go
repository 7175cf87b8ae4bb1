package reaper

import (
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// remade is a node on which a pod goes back for another reason than a sign of life, a mount that came
// late, and meets a directory that its kubelet made meanwhile.
func remade(used policy.Truth) (*fakeNode, policy.Rules) {
	n := newFakeNode()
	n.add(1, nil)
	n.scans[uidOf(1)] = policy.Fact{Truth: policy.Yes, Detail: "mounted at the last moment"}
	n.remakes = map[parsers.PodUID]policy.Truth{uidOf(1): used}
	return n, atOnce()
}

// TestBreakerCutOff kills the process before every single step of a pass in which a pod that goes back
// meets a directory that was made again. Whatever it was cut at, after the next start the breaker is
// open: that the pod lived is known from the disk alone by then.
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
				t.Errorf("used %s: cut at %d, and the breaker is closed: %v", used, cut, n.kinds(uidOf(1)))
			}
			if met {
				exchanged++
			}
		}
		if exchanged < 3 {
			t.Errorf("used %s: it was cut after the two had met only %d times", used, exchanged)
		}
	}
}

// TestBreakerDiskFull: the disk is full at one single write to the ledger. Whichever it was, and also
// where the process is started anew after that pass, nothing more goes once a pod went back since it
// lives. What lets the next look see no sign of that is the put-back itself.
func TestBreakerDiskFull(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		for fullAt, writes := 1, 1; fullAt <= writes; fullAt++ {
			n := newFakeNode()
			rules := noHold()
			r := n.reaper(t, rules)
			r.memory.Proven = true
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
				t.Errorf("full at %d, restarted %t: breaker open %t, %d of 3 files are left of the other", fullAt, restarted, n.BreakerOpen(), other.files)
			}
		}
	}
}

// TestBreakerKnownInMemory: as long as the ledger cannot be written the breaker is open all the same,
// also where what opened it was seen only once, and it is written as soon as that can be.
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
		t.Fatalf("stopped %t, told %v", rep.Stopped, rep.Look.Errors)
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

// TestBreakerStopsTheSameLook: a pod that goes back for a reason that opens no breaker meets a directory
// that was made again. Nothing of the others goes in the same look, whether they would have been in
// the same batch or in a later one.
func TestBreakerStopsTheSameLook(t *testing.T) {
	for _, pods := range []int{3, 2*policy.BatchSize + 10} {
		n := newFakeNode()
		rules := noHold()
		rules.MaxPerLook = 0
		r := n.reaper(t, rules)
		r.memory.Proven = true
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
			t.Fatalf("met %t, breaker open %t", n.met, n.BreakerOpen())
		}
		for i, p := range all {
			if p.files != 3 {
				t.Errorf("of %d pods: %d of 3 files of pod %d are left", pods, p.files, i)
				break
			}
		}
	}
}

// TestBreakerWhileParking: a pod of which the kubelet makes a directory twice while the first is being
// parked lives. No more pods are parked in that look, and none of those that were is stripped.
func TestBreakerWhileParking(t *testing.T) {
	n := newFakeNode()
	rules := noHold()
	rules.MaxPerLook = 0
	r := n.reaper(t, rules)
	r.memory.Proven = true
	var all []*fakePod
	for i := range policy.BatchSize + 10 {
		all = append(all, n.add(i, nil))
	}
	n.crowded = uidOf(1)
	mustPass(t, r, n.claim(1))
	if len(n.pods) != 11 || !n.BreakerOpen() {
		t.Errorf("%d pods are left, breaker open %t", len(n.pods), n.BreakerOpen())
	}
	n.pass(rules.Confirm)
	mustPass(t, r)
	if p := all[2]; p.files != 3 || n.pods[uidOf(2)] == p {
		t.Errorf("%d of 3 files are left of what was parked before", p.files)
	}
}

// TestBreakerWhereUseIsUnknown: a pod that goes back met a directory that was made again, and nobody
// knows whether it is used. It is tried again and again; the breaker opens at the first time, and a
// person's word to go on holds until more is known.
func TestBreakerWhereUseIsUnknown(t *testing.T) {
	n, rules := remade(policy.Unknown)
	r := n.reaper(t, rules)
	mustPass(t, r, n.claim(1))
	if !n.met || !n.BreakerOpen() {
		t.Fatalf("met %t, breaker open %t", n.met, n.BreakerOpen())
	}
	resume(t, r)
	n.scans = nil
	n.pods[uidOf(1)].facts = map[policy.FactName]policy.Truth{policy.FactSandbox: policy.Yes}
	tries := len(n.records)
	n.pass(time.Hour)
	mustPass(t, r)
	if n.BreakerOpen() || len(n.records) == tries {
		t.Errorf("breaker open %t, %d records more", n.BreakerOpen(), len(n.records)-tries)
	}
	n.pods[uidOf(1)].used = policy.Yes
	n.pass(time.Hour)
	mustPass(t, r)
	if !n.BreakerOpen() {
		t.Error("it is used, and the breaker is closed")
	}
}

// TestBreakerCutOffAfterTheRename kills the process before every single step, and within each write, of a pass in which
// a pod comes to life right after its rename. Whatever it was cut at, the pod goes back and the breaker is open: once
// the pod is back, no look shows that it was judged wrongly.
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
		t.Errorf("it was cut only %d times after the rename", moved)
	}
}

// TestBreakerCutOffWhileFrozen kills the process within the write that freezes what lies in quarantine of a pod that
// lives again. The entry is inspected no more once it is frozen, so the breaker must be there first.
func TestBreakerCutOffWhileFrozen(t *testing.T) {
	for cut, more := 1, true; more; cut++ {
		n, rules := newFakeNode(), atOnce()
		n.add(1, nil).data = true
		mustPass(t, n.reaper(t, rules), n.claim(1))
		mustPass(t, n.reaper(t, rules))
		if len(n.quarantine) != 1 || n.BreakerOpen() {
			t.Fatal("it is not held")
		}
		n.signs = map[parsers.PodUID]map[policy.FactName]policy.Truth{uidOf(1): {policy.FactSandbox: policy.Yes}}
		n.cutAt = n.steps + cut
		more = killed(func() { mustPass(t, n.reaper(t, rules)) })
		n.cutAt = 0
		mustPass(t, n.reaper(t, rules))
		if !n.BreakerOpen() {
			t.Errorf("cut at %d, and the breaker is closed: %v", cut, n.kinds(uidOf(1)))
		}
	}
}
