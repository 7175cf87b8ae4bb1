package decide

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
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
	p, breaker := newPlay(), false
	p.Node.MayEnforce.Detail = "own mount namespace"
	p.Node.Agrees.Detail = "--runtime-endpoint is another socket than the kubelet's"
	for line := range strings.Lines(in) {
		switch line = strings.TrimSpace(line); line {
		case "gate breaker":
			breaker = true
		default:
			p.do(t, line)
		}
	}
	vs := []policy.Judged{judge(p.Scene)}
	plans := moves(vs, permit(p.Scene, breaker), p.Rules, entryOf)
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
	plans := moves(vs, permit(s, false), s.Rules, func(u parsers.PodUID, k policy.ActionKind) string {
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
	if plans := moves([]policy.Judged{judge(s)}, permit(s, false), s.Rules, entryOf); len(plans) != 0 {
		t.Errorf("%+v", plans)
	}
}
