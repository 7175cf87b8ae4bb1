package reaper

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/heard"
)

func sandboxRules() policy.Rules {
	r := testRules
	r.RemoveSandboxes = true
	return r
}

// TestSandboxStory follows a pod whose sandboxes the runtime has forgotten to remove: a hold,
// the runtime is asked, a hold of its own without them, and only then the directory.
func TestSandboxStory(t *testing.T) {
	n := newFakeNode()
	p := n.add(1, nil)
	p.boxes = 2
	r := n.reaper(t, sandboxRules())
	rep := mustPass(t, r, n.claim(1))
	if v := rep.Verdicts[0]; v.Decision != policy.Wait || rep.Next != testRules.Hold || !rep.Pending || n.asked != 0 {
		t.Fatalf("first look: %+v, next %s", v, rep.Next)
	}
	n.pass(rep.Next)
	rep = mustPass(t, r, n.claim(1))
	if n.asked != 2 || p.boxes != 0 || n.pods[uidOf(1)] != p || rep.Next != 0 || !rep.Pending {
		t.Fatalf("after the hold: asked %d, next %s: %+v", n.asked, rep.Next, rep.Outcomes)
	}
	rep = mustPass(t, r, n.claim(1))
	if v := rep.Verdicts[0]; v.Decision != policy.Wait || !v.For(policy.ReasonHold) || rep.Next != testRules.Hold {
		t.Fatalf("without them: %+v, next %s", v, rep.Next)
	}
	n.pass(rep.Next)
	if mustPass(t, r, n.claim(1)); n.pods[uidOf(1)] != nil || len(n.quarantine) != 1 {
		t.Errorf("pods %v, quarantine %v", n.pods, n.quarantine)
	}
	want := []policy.Kind{
		policy.KindKept, policy.KindRemovingSandbox, policy.KindRemovingSandbox, policy.KindRemovedSandbox, policy.KindRemovedSandbox,
		policy.KindKept, policy.KindParking, policy.KindParked,
	}
	if got := n.kinds(uidOf(1)); !slices.Equal(got, want) {
		t.Errorf("told %v, want %v", got, want)
	}
}

// TestSandboxOfNoDirectory: what only the runtime has goes the same way, and its hold
// survives a restart of the daemon.
func TestSandboxOfNoDirectory(t *testing.T) {
	n := newFakeNode()
	n.forgotten = map[parsers.PodUID]*fakePod{uidOf(7): {boxes: 1}}
	mustPass(t, n.reaper(t, sandboxRules()))
	n.pass(testRules.Hold)
	rep := mustPass(t, n.reaper(t, sandboxRules()))
	if n.asked != 1 || len(n.forgotten) != 0 || len(n.quarantine) != 0 {
		t.Errorf("asked %d, left %v: %+v", n.asked, n.forgotten, rep.RuntimeOnly)
	}
}

// TestSandboxGated: nothing is asked for without the setting, in mode observe, with the
// breaker open, in a dry run, or without an intent in the ledger; and the pod is told of.
func TestSandboxGated(t *testing.T) {
	for name, change := range map[string]func(*fakeNode, *policy.Rules, *Options){
		"setting": func(_ *fakeNode, r *policy.Rules, _ *Options) { r.RemoveSandboxes = false },
		"observe": func(_ *fakeNode, r *policy.Rules, _ *Options) { r.Observe = true },
		"breaker": func(n *fakeNode, _ *policy.Rules, _ *Options) {
			n.records = []policy.Record{{Seq: 1, Kind: policy.KindBreaker}}
		},
		"namespace":  func(n *fakeNode, _ *policy.Rules, _ *Options) { n.node.MayEnforce.Truth = policy.No },
		"contradict": func(n *fakeNode, _ *policy.Rules, _ *Options) { n.node.Agrees.Truth = policy.No },
		"ledger":     func(n *fakeNode, _ *policy.Rules, _ *Options) { n.ledgerErr = errors.New("no space left on device") },
		"dry run":    func(_ *fakeNode, _ *policy.Rules, o *Options) { o.DryRun = true },
	} {
		n := newFakeNode()
		n.add(1, nil).boxes = 1
		n.forgotten = map[parsers.PodUID]*fakePod{uidOf(7): {boxes: 1}}
		rules, opt := sandboxRules(), Options{Claims: []heard.Claim{n.claim(1)}}
		rules.Hold, rules.Confirm = 0, 0
		change(n, &rules, &opt)
		rep, err := n.reaper(t, rules).Pass(t.Context(), opt)
		if err != nil {
			t.Fatal(err)
		}
		if n.asked != 0 || n.pods[uidOf(1)] == nil {
			t.Errorf("%s: asked %d times", name, n.asked)
		}
		orphaned := name != "setting" // there the kubelet gets its time first
		if rep.Verdicts[0].For(policy.ReasonSandboxOrphaned) != orphaned || rep.RuntimeOnly[0].For(policy.ReasonSandboxOrphaned) != orphaned {
			t.Errorf("%s: %+v, %+v", name, rep.Verdicts[0], rep.RuntimeOnly[0])
		}
	}
}

// remadeNode has a kubelet that makes the directory of a pod again in the moment in which it is parked.
type remadeNode struct {
	*fakeNode
	pod int
}

func (n remadeNode) Still(ctx context.Context, pods []policy.Evidence) []policy.Evidence {
	if n.pods[uidOf(n.pod)] == nil {
		p := n.add(n.pod, nil)
		p.used, p.id.Ino = policy.Yes, 99
	}
	return n.fakeNode.Still(ctx, pods)
}

// TestSandboxStopped: what opens the breaker in a pass stops the removal of sandboxes that the same
// pass has planned.
func TestSandboxStopped(t *testing.T) {
	n := newFakeNode()
	n.add(1, nil)
	n.scans[uidOf(1)] = policy.Fact{Truth: policy.Yes, Detail: "mounted at the last moment"}
	n.forgotten = map[parsers.PodUID]*fakePod{uidOf(7): {boxes: 1}}
	rules := sandboxRules()
	rules.Hold, rules.Confirm = 0, 0
	r := n.reaper(t, rules)
	r.memory.Proven = true
	r.Prober = remadeNode{n, 1}
	mustPass(t, r, n.claim(1))
	if !n.BreakerOpen() || n.asked != 0 {
		t.Errorf("breaker open: %v, the runtime was asked %d times", n.BreakerOpen(), n.asked)
	}
}

// TestFirstNotProved: the first pod cannot be stripped. Until it can, no other is parked, and the
// runtime removes no sandbox.
func TestFirstNotProved(t *testing.T) {
	n := newFakeNode()
	n.add(1, nil)
	rules := sandboxRules()
	rules.Hold = 0
	r := n.reaper(t, rules)
	mustPass(t, r, n.claim(1))
	other := n.add(2, nil)
	n.forgotten = map[parsers.PodUID]*fakePod{uidOf(7): {boxes: 1}}
	n.stays = true
	n.pass(rules.Confirm)
	mustPass(t, r, n.claim(2))
	if n.pods[uidOf(2)] != other || n.asked != 0 || r.memory.Proven {
		t.Fatalf("pods %v, the runtime was asked %d times", n.pods, n.asked)
	}
	n.stays = false
	n.pass(time.Hour)
	mustPass(t, r, n.claim(2))
	if n.pods[uidOf(2)] != nil || n.asked == 0 {
		t.Errorf("after the first proved dead: pods %v, the runtime was asked %d times", n.pods, n.asked)
	}
}

// TestSandboxError: what the runtime says is shown, ends the pod's plan, and is tried again
// with the back-off of every refusal.
func TestSandboxError(t *testing.T) {
	n := newFakeNode()
	n.add(1, nil).boxes = 1
	n.runtimeErr = "the runtime cannot stop it: cni config uninitialized"
	rules := sandboxRules()
	rules.Hold, rules.Confirm = 0, 0
	r := n.reaper(t, rules)
	var tries []time.Duration
	start := n.now.Boot
	for range 120 {
		before := n.asked
		rep := mustPass(t, r, n.claim(1))
		if n.asked > before {
			tries = append(tries, n.now.Boot-start)
		} else if v := rep.Verdicts[0]; v.Decision != policy.Keep || !strings.Contains(v.Why[len(v.Why)-1].Detail, "cni config") {
			t.Fatalf("%+v", v)
		}
		if n.pods[uidOf(1)] == nil {
			t.Fatal("parked with a sandbox")
		}
		n.pass(time.Minute)
	}
	if want := []time.Duration{0, 5 * time.Minute, 15 * time.Minute, 35 * time.Minute, 75 * time.Minute}; !slices.Equal(tries, want) {
		t.Errorf("tried at %v, want %v", tries, want)
	}
	n.runtimeErr = ""
	n.pass(time.Hour)
	if mustPass(t, r, n.claim(1)); n.pods[uidOf(1)].boxes != 0 {
		t.Error("never tried again")
	}
}

// TestSandboxCutOff: killed at any step, the next start goes on from what the runtime lists.
func TestSandboxCutOff(t *testing.T) {
	for cut := 1; ; cut++ {
		n := newFakeNode()
		n.add(1, nil).boxes = 2
		n.cutAt = cut
		wasCut := sandboxStory(t, n)
		n.cutAt = 0
		for range 3 {
			sandboxStory(t, n)
		}
		if len(n.pods)+len(n.quarantine) != 0 {
			t.Fatalf("cut at %d: pods %v, quarantine %v", cut, n.pods, n.quarantine)
		}
		if !wasCut {
			if cut < 15 {
				t.Fatalf("the story has only %d steps", cut)
			}
			return
		}
	}
}

func sandboxStory(t *testing.T, n *fakeNode) (cut bool) {
	t.Helper()
	defer func() {
		if r := recover(); r != nil {
			if err, ok := r.(error); !ok || !errors.Is(err, errCut) {
				panic(r)
			}
			cut = true
		}
	}()
	r := n.reaper(t, sandboxRules())
	for range 8 {
		mustPass(t, r, n.claim(1))
		n.pass(testRules.Hold)
	}
	return false
}

// TestTerminatingRemembered: since when a pod has not been wanted outlives the daemon, and
// the next look comes when it can be told.
func TestTerminatingRemembered(t *testing.T) {
	n := newFakeNode()
	n.add(1, map[policy.FactName]policy.Truth{policy.FactSandbox: policy.Yes, policy.FactCgroup: policy.Yes})
	n.unwanted = "the kubelet's list has it not"
	rep := mustPass(t, n.reaper(t, testRules))
	if v := rep.Verdicts[0]; v.For(policy.ReasonTerminating) || !v.Living() || rep.Next != 10*time.Minute || len(n.told) != 0 {
		t.Fatalf("%+v, next %s, told %v", v, rep.Next, n.told)
	}
	n.pass(rep.Next)
	rep = mustPass(t, n.reaper(t, testRules))
	if v := rep.Verdicts[0]; !v.For(policy.ReasonTerminating) || len(n.told) != 1 {
		t.Fatalf("%+v, told %v", v, n.told)
	}
	n.unwanted = "" // it is wanted again, or its kubelet was restarted and knows better
	mustPass(t, n.reaper(t, testRules))
	n.unwanted = "the kubelet's list has it not"
	if v := mustPass(t, n.reaper(t, testRules)).Verdicts[0]; v.For(policy.ReasonTerminating) {
		t.Errorf("the time has gone on: %+v", v)
	}
}

// TestSandboxSlowStart: after a start the sandboxes of one pod go, and no other's before that pod has
// shown no sign of life for the confirm time; with no pod in quarantine all the same, and on a node
// where there is none to park.
func TestSandboxSlowStart(t *testing.T) {
	n := newFakeNode()
	n.forgotten = map[parsers.PodUID]*fakePod{}
	for i := range 5 {
		n.forgotten[uidOf(i)] = &fakePod{boxes: 1}
	}
	n.add(9, nil).boxes = 1
	rules := sandboxRules()
	r := n.reaper(t, rules)
	mustPass(t, r, n.claim(9))
	n.pass(rules.Hold)
	for range 3 { // at once, and again, as after each removal
		mustPass(t, r, n.claim(9))
	}
	n.pass(rules.Confirm - time.Second)
	rep := mustPass(t, r)
	if n.asked != 1 || r.memory.Proven {
		t.Fatalf("before the first has proved dead the runtime was asked for %d", n.asked)
	}
	if rep.Next > time.Second || !rep.Pending {
		t.Fatalf("next look in %s, pending %v", rep.Next, rep.Pending)
	}
	n.pass(time.Second)
	if mustPass(t, r); n.asked != 6 || !r.memory.Proven || len(n.forgotten) != 0 {
		t.Errorf("after that: %d, left %v", n.asked, n.forgotten)
	}
}

// TestSandboxFirstGoesOn: the pod whose sandboxes went first does not wait for itself: its directory is
// parked after a hold of its own, and no other pod's before it has proved dead.
func TestSandboxFirstGoesOn(t *testing.T) {
	n := newFakeNode()
	n.add(1, nil).boxes = 1
	rules := sandboxRules()
	rules.Hold, rules.Confirm = 0, time.Hour
	r := n.reaper(t, rules)
	if mustPass(t, r, n.claim(1)); n.asked != 1 {
		t.Fatalf("asked %d times", n.asked)
	}
	n.add(0, nil) // before it in order
	n.add(2, nil)
	mustPass(t, r, n.claim(0), n.claim(1), n.claim(2))
	if len(n.pods) != 2 || n.pods[uidOf(1)] != nil {
		t.Fatalf("left %v", n.pods)
	}
	n.pass(rules.Confirm / 2)
	if mustPass(t, r); len(n.pods) != 2 {
		t.Fatalf("before it has proved dead: left %v", n.pods)
	}
	n.pass(rules.Confirm)
	mustPass(t, r)
	if mustPass(t, r); len(n.pods) != 0 {
		t.Errorf("after that: left %v", n.pods)
	}
}

// TestSandboxMadeAgain: a pod whose sandbox was removed gets another one: it was judged wrongly, and
// no other sandbox goes before a person has said so. A kubelet that restarted, or does not run, and a
// runtime that does not answer prove nothing.
func TestSandboxMadeAgain(t *testing.T) {
	start := func() (*fakeNode, *Reaper) {
		n := newFakeNode()
		n.add(1, nil).boxes = 1
		n.forgotten = map[parsers.PodUID]*fakePod{uidOf(7): {boxes: 1}}
		rules := sandboxRules()
		rules.Hold = 0
		r := n.reaper(t, rules)
		if mustPass(t, r, n.claim(1)); n.asked != 1 {
			t.Fatalf("asked %d times", n.asked)
		}
		return n, r
	}
	n, r := start()
	n.pods[uidOf(1)].facts = map[policy.FactName]policy.Truth{policy.FactSandbox: policy.Yes}
	if mustPass(t, r); !n.BreakerOpen() {
		t.Error("the pod has another sandbox, and the breaker is closed")
	}
	n.pass(time.Hour)
	if mustPass(t, r); n.asked != 1 {
		t.Errorf("the runtime was asked %d times", n.asked)
	}
	for name, change := range map[string]func(*fakeNode){
		"kubelet restarted": func(n *fakeNode) { n.node.KubeletID = policy.KubeletID{PID: 4711, Start: n.now.Boot - time.Minute} },
		"no kubelet":        func(n *fakeNode) { n.node.Kubelet.Truth = policy.No },
		"runtime":           func(n *fakeNode) { n.node.RuntimeLists.Truth = policy.Unknown },
	} {
		n, r := start()
		n.pass(time.Hour)
		change(n)
		if mustPass(t, r); n.asked != 1 || r.memory.Proven {
			t.Errorf("%s: asked %d times, proven %v", name, n.asked, r.memory.Proven)
		}
	}
	if n, r = start(); n.asked != 1 {
		t.Fatal(n.asked)
	}
	n.pass(time.Hour)
	if mustPass(t, r); n.asked != 2 || n.BreakerOpen() {
		t.Errorf("without any of that: asked %d times", n.asked)
	}
}
