package decide

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/reported"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

func permit(s *testkit.Scene, breaker bool) policy.Permit {
	return policy.Standing{Node: s.Node, Breaker: breaker, Rules: s.Rules}.Gate()
}

func entryOf(u parsers.PodUID, _ policy.ActionKind) string { return string(u) + ".1" }

func judge(s *testkit.Scene) policy.Judged {
	return policy.Judged{Evidence: s.Pod, Verdict: policy.Judge(s.Pod, s.Node, s.Hold, s.Rules, s.Now)}
}

// onGate returns the result of a case of testdata/gate.txtar.
func onGate(t *testing.T, in string) string {
	t.Helper()
	p, g, breaker := newPlay(), pace{proven: true}, false
	p.Node.MayEnforce.Detail = "own mount namespace"
	p.Node.Agrees.Detail = "--runtime-endpoint is another socket than the kubelet's"
	for line := range strings.Lines(in) {
		switch line = strings.TrimSpace(line); line {
		case "leaf":
			p.Pod.Facts.Set(policy.FactTeardown, policy.Yes, "test", "the kubelet's volume manager cannot tear down /v: it is not empty")
			p.Pod.Facts[policy.FactNamed].Truth, p.Pod.Facts[policy.FactAnyNamed].Truth = policy.No, policy.No
			p.Pod.Leaves = []policy.VolumeTeardown{{At: p.Ago(10 * time.Second), Leaf: testkit.Leaf}}
			p.Pod.Residue = []policy.Residue{{Path: testkit.Leaf, Class: contents.ClassData, Entries: 2}}
		case "gate breaker":
			breaker = true
		case "gate unproven":
			g.proven = false
		case "gate parked":
			g.inWork = 1
		default:
			p.do(t, line)
		}
	}
	vs := []policy.Judged{judge(p.Scene)}
	plans := moves(vs, permit(p.Scene, breaker), g, p.Rules, entryOf)
	var b strings.Builder
	fmt.Fprintf(&b, "%s plans=%d due=%s\n", vs[0].Decision, len(plans), vs[0].Due)
	if counted := policy.CountedAs(vs[0].Decision, vs[0].Why); counted != vs[0].Decision {
		fmt.Fprintln(&b, "counts as", counted)
	}
	for _, a := range plans {
		fmt.Fprintln(&b, strings.TrimSpace(fmt.Sprintf("%s %s", a.Kind, a.Leaf)))
	}
	for _, w := range vs[0].Why {
		fmt.Fprintf(&b, "%s: %s\n", w.Reason, w.Detail)
	}
	return b.String()
}

// TestGate checks that whatever stops all actions stops the parking of a dead pod and the clearing of a leaf.
func TestGate(t *testing.T) {
	const file = "testdata/gate.txtar"
	ar, err := txtar.ParseFile(file)
	if err != nil || len(ar.Files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for i := range ar.Files {
		f := &ar.Files[i]
		in, want, _ := strings.Cut(string(f.Data), "=>\n")
		t.Run(f.Name, func(t *testing.T) {
			got := onGate(t, in)
			if *update {
				f.Data = []byte(in + "=>\n" + got)
			} else if got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
	if *update {
		if err := os.WriteFile(file, txtar.Format(ar), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestClearPlan checks that each leaf has an action and an entry of its own, and that its pod counts once against
// --max-per-look.
func TestClearPlan(t *testing.T) {
	s := testkit.DeadPod()
	s.Rules.MaxPerLook = 1
	vs := []policy.Judged{
		{Evidence: s.Pod, Verdict: policy.Verdict{Decision: policy.Wait, Leaves: []string{testkit.Leaf, testkit.Leaf + "2"}}},
		{Evidence: s.Pod, Verdict: policy.Verdict{Decision: policy.Reap}},
	}
	n := 0
	plans := moves(vs, permit(s, false), pace{proven: true}, s.Rules, func(u parsers.PodUID, k policy.ActionKind) string {
		n++
		return fmt.Sprintf("%s.%d.%s", u, n, k)
	})
	if len(plans) != 2 || plans[1].Leaf != testkit.Leaf+"2" || plans[0].Entry == plans[1].Entry {
		t.Fatalf("%+v", plans)
	}
	if vs[1].Decision != policy.Wait || !vs[1].For(policy.ReasonLimit) {
		t.Errorf("beyond --max-per-look: %+v", vs[1])
	}
}

// TestRuntimeOnlyIsNeverParked checks that a pod without a directory is never parked, whatever its verdict.
func TestRuntimeOnlyIsNeverParked(t *testing.T) {
	s := testkit.DeadPod()
	s.Pod.RuntimeOnly = true
	if plans := moves([]policy.Judged{judge(s)}, permit(s, false), pace{proven: true}, s.Rules, entryOf); len(plans) != 0 {
		t.Errorf("%+v", plans)
	}
}

// TestHalfRemovedBlocksNoOther checks that a half-removed entry with an unknown fact keeps no other pod, perhaps for
// days: it was confirmed before. An entry of which the parking is uncertain does.
func TestHalfRemovedBlocksNoOther(t *testing.T) {
	for phase, want := range map[policy.Phase]int{policy.PhaseStripping: 1, policy.PhaseParked: 0, policy.PhaseParking: 0} {
		p := newPlay()
		p.do(t, "pods 1")
		p.Hold.ID = p.pods["1"].ID
		half := testkit.DeadPod().Pod
		half.UID, half.Entry = uidOf("2"), "entry"
		half.Facts[policy.FactKubeletFile].Truth = policy.Unknown
		entries := map[string]*policy.EntryState{"entry": {Entry: "entry", UID: half.UID, ID: half.ID, Phase: phase, Parked: policy.Parked{At: p.Ago(time.Hour), Kubelet: p.Node.KubeletID}}}
		memory := Memory{Holds: map[parsers.PodUID]policy.Hold{uidOf("1"): p.Hold}}
		memory.Log = reported.Log{Kubelet: p.Node.KubeletID, BootID: p.Now.BootID, Named: map[parsers.PodUID]bool{uidOf("1"): true}}
		look := policy.Look{At: p.Now, Node: p.Node, Pods: []policy.Evidence{*p.pods["1"]}, Parked: []policy.Evidence{half}}
		if phase == policy.PhaseParking { // not due
			look.Parked = nil
		}
		d := Decide(Case{Look: look, Memory: memory, Entries: entries, Rules: p.Rules})
		if got := len(d.Plan.Moves); got != want {
			t.Errorf("%s: %d parked pods, want %d; verdict %+v", phase, got, want, d.Pods[0].Verdict)
		}
	}
}
