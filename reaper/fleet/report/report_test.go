package report

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

func uidOf(i int) parsers.PodUID {
	return parsers.PodUID(fmt.Sprintf("%08x-0000-4000-8000-%012x", i, i))
}

// goodNode is a node on which the daemon may enforce.
func goodNode() policy.Node {
	yes := policy.Fact{Truth: policy.Yes}
	return policy.Node{Kubelet: yes, MayEnforce: yes, Agrees: yes}
}

// passWith returns a pass over pods, each with a decision and its reasons.
func passWith(verdicts ...policy.Verdict) *Pass {
	p := &Pass{Number: 3, Look: policy.Look{At: policy.Instant{Wall: time.Unix(1e9, 0)}, Node: goodNode()}}
	for i, v := range verdicts {
		p.Pods = append(p.Pods, policy.Judged{Evidence: policy.Evidence{UID: uidOf(i), Namespace: "shop", PodName: fmt.Sprint("pod-", i)}, Verdict: v})
	}
	return p
}

func because(d policy.Decision, r policy.Reason) policy.Verdict {
	return policy.Verdict{Decision: d, Why: []policy.Why{{Reason: r, Detail: "seen"}}}
}

func TestReport(t *testing.T) {
	p := passWith(
		policy.Verdict{Decision: policy.Reap},
		because(policy.Wait, policy.ReasonHold),
		because(policy.Keep, policy.ReasonSandbox), // a living pod
		because(policy.Keep, policy.ReasonMounted),
		because(policy.Keep, policy.ReasonRestored),
	)
	parked, remade := because(policy.Wait, policy.ReasonConfirm), because(policy.Keep, policy.ReasonRemade)
	parked.Stage, remade.Stage = policy.InQuarantine, policy.InQuarantine
	p.Pods = append(p.Pods,
		policy.Judged{Evidence: policy.Evidence{Name: "backup"}, Verdict: because(policy.Keep, policy.ReasonInvalidUID)},
		policy.Judged{Evidence: policy.Evidence{UID: uidOf(8), Entry: "e8"}, Verdict: parked},
		policy.Judged{Evidence: policy.Evidence{UID: uidOf(9), Entry: "e9"}, Verdict: remade})
	p.Entries = []policy.EntryState{
		{Phase: policy.PhaseParked, Left: []policy.Residue{{Class: contents.ClassData, Bytes: 4096}}},
		{Phase: policy.PhaseGone},
	}
	r := New(Report{Node: "n1", Version: "v1"}, p)
	want := Counts{PodDirectories: 6, Reap: 1, Wait: 2, Keep: 3, NeedsPerson: 3, Quarantine: 1, QuarantineBytes: 4096}
	if r.Counts != want {
		t.Errorf("%+v, want %+v", r.Counts, want)
	}
	var order []string
	for _, p := range r.Pods {
		order = append(order, string(p.Verdict)+" "+p.UID[7:8])
	}
	if want := []string{"keep 3", "keep 9", "keep 4", "wait 1", "wait 8", "reap 0"}; !slices.Equal(order, want) {
		t.Errorf("%q, want those that need the operator first: %q", order, want)
	}
	if r.Node != "n1" || r.Mode != "enforce" || len(r.Missing) != 0 || r.More != 0 || r.Look != 3 {
		t.Errorf("%+v", r)
	}
	p.Observe, p.Look.Node.MayEnforce = true, policy.Fact{Detail: "no CAP_SYS_PTRACE"}
	if r := New(Report{}, p); r.Mode != "observe" || len(r.Missing) != 1 || !strings.Contains(r.Missing[0], "no CAP_SYS_PTRACE") {
		t.Errorf("%s, %q", r.Mode, r.Missing)
	}
}

// TestObservedCounts checks that what mode enforce would remove counts as reap, while the pod's own verdict is keep.
func TestObservedCounts(t *testing.T) {
	p := passWith(
		because(policy.Keep, policy.ReasonObserve),
		policy.Verdict{Decision: policy.Keep, Why: []policy.Why{{Reason: policy.ReasonKubeletHolds}, {Reason: policy.ReasonObserve}}},
		because(policy.Keep, policy.ReasonNamespaces),
	)
	p.Observe = true
	r := New(Report{}, p)
	if want := (Counts{PodDirectories: 3, Reap: 1, Keep: 2, NeedsPerson: 2}); r.Counts != want {
		t.Errorf("%+v, want %+v", r.Counts, want)
	}
	for _, pod := range r.Pods {
		if pod.Verdict != policy.Keep {
			t.Errorf("%+v", pod)
		}
	}
}

// TestReportIsBounded checks that the report is bounded, whatever files and names are on the node.
func TestReportIsBounded(t *testing.T) {
	long := strings.Repeat("ä\x1b[2J", 10_000)
	var verdicts []policy.Verdict
	for range 20_000 {
		v := policy.Verdict{Decision: policy.Keep}
		for range 40 {
			v.Why = append(v.Why, policy.Why{Reason: policy.ReasonMounted, Detail: long})
		}
		verdicts = append(verdicts, v)
	}
	p := passWith(verdicts...)
	for i := range p.Pods {
		p.Pods[i].PodName, p.Pods[i].Namespace = long, long
	}
	for range 10_000 {
		p.Look.Errors = append(p.Look.Errors, long)
	}
	p.Look.Node.Agrees = policy.Fact{Detail: long}
	r := New(Report{}, p)
	text, err := json.MarshalIndent(r, "", "  ")
	testkit.Must(t, err)
	if len(text) > 300<<10 {
		t.Errorf("the report has %d bytes", len(text))
	}
	if !utf8.Valid(text) || strings.Contains(string(text), `\u001b[`) || strings.Contains(string(text), `\ufffd`) {
		t.Error("the report has a control character or a cut rune")
	}
	if len(r.Pods) != mostPods || r.More != 20_000-mostPods || r.Counts.Keep != 20_000 {
		t.Errorf("%d pods, %d more, %d kept", len(r.Pods), r.More, r.Counts.Keep)
	}
}

// TestReportOfNothing checks that lists are never null.
func TestReportOfNothing(t *testing.T) {
	text, err := json.Marshal(New(Report{}, &Pass{}))
	testkit.Must(t, err)
	if strings.Contains(string(text), "null") {
		t.Errorf("%s", text)
	}
}
