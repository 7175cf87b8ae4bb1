package removal

import (
	"context"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

const (
	uidA = testkit.PodA
	uidB = testkit.PodB
	// entryA is uidA's entry in quarantine.
	entryA = string(uidA) + ".1"
)

// tree is a kubelet's root directory on which a Remover works.
type tree struct{ *testkit.Tree }

func newTree(tb testing.TB, specs ...string) *tree {
	tb.Helper()
	return &tree{testkit.NewTree(tb, specs...)}
}

func newTreeAt(tb testing.TB, base string, specs ...string) *tree {
	tb.Helper()
	return &tree{testkit.NewTreeAt(tb, base, specs...)}
}

func (tr *tree) open(noOpenat2 bool) *Remover {
	tr.T.Helper()
	r, err := Open(Config{PodsDir: tr.Pods, NoOpenat2: noOpenat2, Used: unused})
	tr.Must(err)
	return r
}

// unused reports that no process uses a directory.
func unused(context.Context, parsers.PodUID, policy.Instant) policy.Fact {
	return policy.Fact{Truth: policy.No}
}

func idAt(tb testing.TB, path string) policy.DirID {
	tb.Helper()
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &st); err != nil {
		tb.Fatal(err)
	}
	return beneath.DirID(&st)
}

func (tr *tree) parkAction(uid parsers.PodUID) policy.Action {
	tr.T.Helper()
	return policy.Action{
		Kind: policy.Park, UID: uid, Entry: string(uid) + ".1", ID: idAt(tr.T, tr.Pods+"/"+string(uid)),
		Manifest: []byte(`{"uid":"` + string(uid) + `"}`),
	}
}

func run(tb testing.TB, r *Remover, actions ...policy.Action) []policy.Outcome {
	tb.Helper()
	out := r.Execute(context.Background(), granted, policy.Batch{Actions: actions})
	if len(out) != len(actions) {
		tb.Fatalf("%d outcomes for %d actions", len(out), len(actions))
	}
	return out
}

func run1(tb testing.TB, r *Remover, a policy.Action) policy.Outcome {
	tb.Helper()
	return run(tb, r, a)[0]
}

// parked parks uidA and returns the action.
func (tr *tree) parked(r *Remover) policy.Action {
	tr.T.Helper()
	a := tr.parkAction(uidA)
	if o := run1(tr.T, r, a); o.Result != policy.Done {
		tr.T.Fatalf("not parked: %+v", o)
	}
	return a
}

func want(tb testing.TB, o policy.Outcome, result policy.Result, reason policy.Reason) {
	tb.Helper()
	if o.Result != result {
		tb.Fatalf("result %s, want %s: %+v %s", o.Result, result, o.Why, o.Err)
	}
	if reason != "" && (len(o.Why) == 0 || o.Why[0].Reason != reason || o.Err == "") {
		tb.Fatalf("why %+v (%s), want %s", o.Why, o.Err, reason)
	}
	if reason == "" && len(o.Why) != 0 {
		tb.Fatalf("unexpected why %+v", o.Why)
	}
}
