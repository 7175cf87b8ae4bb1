package policy

import (
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
)

func whyOf(reasons []Reason) (why []Why) {
	for _, r := range reasons {
		why = append(why, Why{Reason: r})
	}
	return why
}

// TestOutlook checks that exit code 3 is for a pod that is kept, does not live and was not kept on request.
func TestOutlook(t *testing.T) {
	for _, c := range []struct {
		decision Decision
		reasons  []Reason
		want     Outlook
	}{
		{Reap, nil, OutlookQuiet},
		{Reap, []Reason{ReasonWaived}, OutlookQuiet},
		{Wait, []Reason{ReasonHold, ReasonYoung, ReasonInUse}, OutlookQuiet},
		{Keep, []Reason{ReasonMounted}, OutlookPerson},
		{Keep, []Reason{ReasonMounted, ReasonSandbox}, OutlookAlive},
		{Keep, []Reason{ReasonSandbox, ReasonMounted}, OutlookAlive},
		{Keep, []Reason{ReasonCgroup, ReasonKubeletUnknown}, OutlookAlive},
		{Keep, []Reason{ReasonContainer}, OutlookAlive},
		{Keep, []Reason{ReasonKubeletUnknown, ReasonKubeletLists}, OutlookAlive},
		{Keep, []Reason{ReasonNotReported}, OutlookQuiet},
		{Keep, []Reason{ReasonNotReported, ReasonYoung}, OutlookQuiet},
		{Keep, []Reason{ReasonNotReported, ReasonMounted}, OutlookPerson},
		{Keep, []Reason{ReasonNotReported, ReasonCgroup}, OutlookAlive},
		{Keep, []Reason{ReasonCgroup, ReasonTerminating, ReasonSandbox}, OutlookPerson},
		{Keep, []Reason{ReasonObserve}, OutlookQuiet},
		{Keep, []Reason{ReasonWaived, ReasonObserve}, OutlookQuiet},
		{Keep, []Reason{ReasonRestored}, OutlookQuiet},
		{Keep, []Reason{ReasonRestored, ReasonStaged}, OutlookPerson},
		// A restore changes the directory, so it is young.
		{Keep, []Reason{ReasonRestored, ReasonYoung}, OutlookQuiet},
		{Keep, []Reason{ReasonKubeletStarting, ReasonRestored, ReasonHold}, OutlookQuiet},
		{Keep, []Reason{ReasonRestored, ReasonYoung, ReasonMounted}, OutlookPerson},
		{Keep, []Reason{ReasonYoung}, OutlookPerson}, // unknown age
		{Keep, []Reason{ReasonInvalidUID}, OutlookPerson},
		{Keep, []Reason{ReasonBreaker}, OutlookPerson},
		{Keep, []Reason{"a-reason-of-a-newer-program"}, OutlookPerson},
	} {
		if got := OutlookOf(c.decision, whyOf(c.reasons)); got != c.want {
			t.Errorf("%s %v: %d, want %d", c.decision, c.reasons, got, c.want)
		}
	}
}

// TestCountedAs checks that a pod counts as removable if only mode observe keeps it, and in no other case.
func TestCountedAs(t *testing.T) {
	for _, c := range []struct {
		decision Decision
		reasons  []Reason
		want     Decision
	}{
		{Keep, []Reason{ReasonObserve}, Reap},
		{Keep, []Reason{ReasonWaived, ReasonObserve}, Reap},
		{Keep, []Reason{ReasonKubeletHolds, ReasonObserve}, Keep},
		{Keep, []Reason{ReasonWaived}, Keep},
		{Keep, []Reason{ReasonBreaker}, Keep},
		{Keep, []Reason{ReasonNamespaces}, Keep},
		{Keep, []Reason{ReasonContradiction}, Keep},
		{Keep, nil, Keep},
		{Wait, []Reason{ReasonHold}, Wait},
		{Reap, nil, Reap},
		{Reap, []Reason{ReasonWaived}, Reap},
	} {
		if got := CountedAs(c.decision, whyOf(c.reasons)); got != c.want {
			t.Errorf("%s %v counts as %s, want %s", c.decision, c.reasons, got, c.want)
		}
	}
}

// TestNeedsPerson checks that a state that ends by itself does not ask for the operator.
func TestNeedsPerson(t *testing.T) {
	data, ephemeral := []Residue{{Class: contents.ClassEphemeral}, {Class: contents.ClassData}}, []Residue{{Class: contents.ClassEphemeral}}
	for _, c := range []struct {
		r    Record
		want bool
	}{
		{Record{Kind: KindKept, Decision: Keep, Why: []Why{{Reason: ReasonMounted}}}, true},
		{Record{Kind: KindKept, Decision: Keep, Why: []Why{{Reason: ReasonMounted}, {Reason: ReasonCgroup}}}, false},
		{Record{Kind: KindKept, Decision: Wait, Why: []Why{{Reason: ReasonHold}}}, false},
		{Record{Kind: KindStripped, Left: data}, true},
		{Record{Kind: KindStripped, Left: ephemeral}, false},
		{Record{Kind: KindStripped, Left: []Residue{{Class: contents.ClassEphemeral, Partial: true}}}, false},
		{Record{Kind: KindStripped, Left: []Residue{{Class: contents.ClassData, Partial: true}}}, true},
		{Record{Kind: KindStripped, Left: []Residue{{Class: contents.ClassSkeleton, Partial: true}}}, true},
		{Record{Kind: KindCleared}, true},
		{Record{Kind: KindConflict}, true},
		{Record{Kind: KindFailed}, true},
		{Record{Kind: KindBreaker}, true},
		{Record{Kind: KindParked}, false},
		{Record{Kind: KindPutBack}, false},
		{Record{Kind: KindRemoved}, false},
	} {
		if got := c.r.NeedsPerson(); got != c.want {
			t.Errorf("%+v: %v, want %v", c.r, got, c.want)
		}
	}
}
