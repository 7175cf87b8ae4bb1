package removal

import (
	"os"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

const envCutOff = "REMOVAL_TEST_CUT_OFF"

func TestMain(m *testing.M) {
	if os.Getenv(envCutOff) != "" {
		os.Exit(cutOffHelper())
	}
	testkit.Main(m)
}

// granted is the gate's permit on a healthy node.
var granted = policy.Standing{Node: policy.Node{MayEnforce: policy.Fact{Truth: policy.Yes}, Agrees: policy.Fact{Truth: policy.Yes}}}.Gate()

// TestNoPermit checks that nothing is moved, made or removed without a permit, which only the gate returns.
func TestNoPermit(t *testing.T) {
	tr := newTree(t, "file volumes/kubernetes.io~csi/db/mount/data 10")
	r := tr.open(false)
	before := testkit.Listing(t, tr.Root)
	a := tr.parkAction(uidA)
	for _, o := range r.Execute(t.Context(), policy.Permit{}, policy.Batch{Actions: []policy.Action{a}}) {
		want(t, o, policy.Refused, policy.ReasonRemoval)
	}
	r.Execute(t.Context(), policy.Permit{}, policy.Batch{})
	if after := testkit.Listing(t, tr.Root); strings.Join(before, "|") != strings.Join(after, "|") {
		t.Errorf("the listing changed from %q to %q", before, after)
	}
}
