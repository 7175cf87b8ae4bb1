package reaper

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/reported"
)

// fakeMounts are the mounts of the first pod of a fakeNode.
type fakeMounts struct {
	*fakeNode
	mounts  []policy.Mount
	outside policy.Fact
	busy    uint64 // the ID of the mount that is in use
	covers  uint64 // the ID of the mount that hides those below it
	tries   map[uint64]int
	// after runs after each unmount, and top is unmounted in place of the next mount.
	after func()
	top   *policy.Mount
}

func (f *fakeMounts) Mounts(context.Context, parsers.PodUID, policy.DirID) policy.PodMounts {
	return policy.PodMounts{Mounts: slices.Clone(f.mounts), Outside: f.outside, Whole: f.outside.Truth != policy.Unknown}
}

func (f *fakeMounts) Unmount(
	_ context.Context, permit policy.Permit, _ parsers.PodUID, _ policy.DirID, m policy.Mount, _ []policy.Mount,
) policy.MountOutcome {
	i := slices.IndexFunc(f.mounts, m.Is)
	covered := f.covers != m.ID && slices.ContainsFunc(f.mounts, func(o policy.Mount) bool { return o.ID == f.covers })
	if f.tries == nil {
		f.tries = map[uint64]int{}
	}
	f.tries[m.ID]++
	switch {
	case !permit.MayRemove():
		return policy.MountOutcome{Mount: m, Result: policy.Refused, Why: "no permit"}
	case i < 0 || covered:
		return policy.MountOutcome{Mount: m, Result: policy.Gone}
	case m.ID == f.busy:
		return policy.MountOutcome{Mount: m, Result: policy.Refused, Busy: true, Why: "it is in use by PID 7"}
	}
	f.step()
	if f.top == nil {
		f.mounts = slices.Delete(slices.Clone(f.mounts), i, i+1)
	}
	if f.after != nil {
		f.after()
	}
	return policy.MountOutcome{Mount: m, Result: policy.Done}
}

// mountedNode is a node with a pod that is dead except for three mounts, the first of which lies on the second.
func mountedNode(facts map[policy.FactName]policy.Truth) (*fakeNode, *fakeMounts, policy.Rules) {
	n := newFakeNode()
	all := map[policy.FactName]policy.Truth{policy.FactMounted: policy.Yes, policy.FactNamed: policy.Yes}
	maps.Copy(all, facts)
	n.add(1, all)
	rules := testRules
	return n, &fakeMounts{fakeNode: n, outside: policy.Fact{Truth: policy.No}, mounts: []policy.Mount{
		{ID: 3, Parent: 2, Path: "volumes/a/in"}, {ID: 2, Parent: 1, Path: "volumes/a"}, {ID: 4, Parent: 1, Path: "volumes/b"},
	}}, rules
}

// unmount runs the command and lets the time pass that it waits for.
func (f *fakeMounts) unmount(t *testing.T, rules policy.Rules, agree func(*Unmounting) error) (*Unmounting, error) {
	t.Helper()
	r := f.reaper(t, rules)
	return r.Unmount(t.Context(), uidOf(1), UnmountOptions{
		Unmounter: f, Claims: func() []reported.Claim { return []reported.Claim{f.claim(1)} }, Agree: agree,
		History: func(uid parsers.PodUID) (all []policy.Record, _ error) {
			for _, rec := range f.records {
				if rec.UID == uid {
					all = append(all, rec)
				}
			}
			return all, nil
		},
		Sleep: func(_ context.Context, d time.Duration) error { f.pass(d); return nil },
	})
}

func (f *fakeMounts) kinds() (kinds []policy.Kind) {
	for _, r := range f.records {
		kinds = append(kinds, r.Kind)
	}
	return kinds
}

// TestUnmount checks that after a whole hold and the operator's consent the mounts are unmounted, innermost first,
// with an intent before and the outcome after. The same command again succeeds.
func TestUnmount(t *testing.T) {
	n, f, rules := mountedNode(nil)
	began := n.now
	u, err := f.unmount(t, rules, func(shown *Unmounting) error {
		if waited, _ := n.now.Since(began); waited < rules.Hold || len(shown.Mounts.Todo()) != 3 || len(n.records) > 0 {
			t.Errorf("consent asked after %s: %+v, %d records", waited, shown.Mounts, len(n.records))
		}
		return nil
	})
	if err != nil || len(f.mounts) != 0 || len(u.Outcomes) != 3 || u.Outcomes[0].Mount.ID != 3 || u.Stopped != "" {
		t.Fatalf("unmount: %+v, %v", u, err)
	}
	if got := f.kinds(); !slices.Equal(got, []policy.Kind{policy.KindUnmounting, policy.KindUnmounted}) {
		t.Errorf("records %v", got)
	}
	u, err = f.unmount(t, rules, nil)
	if err != nil || u.Before == nil || len(f.records) != 2 {
		t.Errorf("second run: %+v, %v", u, err)
	}
}

// TestUnmountRefused checks that every reason to keep a pod in a sweep, and every doubt, keeps its mounts, too.
// Nothing is written then.
func TestUnmountRefused(t *testing.T) {
	living := map[policy.FactName]policy.Reason{
		policy.FactSandbox: policy.ReasonSandbox, policy.FactContainer: policy.ReasonContainer, policy.FactCgroup: policy.ReasonCgroup,
		policy.FactStaticPod: policy.ReasonStaticPod, policy.FactKubeletLists: policy.ReasonKubeletLists, policy.FactAPILists: policy.ReasonAPILists,
		policy.FactInUse: policy.ReasonInUse, policy.FactOwnMount: policy.ReasonOwnMount,
	}
	refused := func(name string, f *fakeMounts, rules policy.Rules, reason policy.Reason) {
		t.Helper()
		u, err := f.unmount(t, rules, func(*Unmounting) error { t.Errorf("%s: consent was asked", name); return nil })
		if !errors.Is(err, ErrRefused) || !u.Verdict.For(reason) || len(f.mounts) != 3 || len(f.records) > 0 {
			t.Errorf("%s: %+v, %v", name, u.Verdict, err)
		}
	}
	for fact, reason := range living {
		_, f, rules := mountedNode(map[policy.FactName]policy.Truth{fact: policy.Yes})
		refused(fact.String(), f, rules, reason)
	}
	for _, fact := range []policy.FactName{policy.FactSandbox, policy.FactCgroup, policy.FactStaticPod, policy.FactStaged, policy.FactContent} {
		_, f, rules := mountedNode(map[policy.FactName]policy.Truth{fact: policy.Unknown})
		u, err := f.unmount(t, rules, nil)
		if !errors.Is(err, ErrRefused) || len(f.mounts) != 3 {
			t.Errorf("%s unknown: %+v, %v", fact, u.Verdict, err)
		}
	}
	for name, outside := range map[string]policy.Fact{"elsewhere": {Truth: policy.Yes}, "unknown": {Detail: "a process hides them"}} {
		_, f, rules := mountedNode(nil)
		f.outside = outside
		if u, err := f.unmount(t, rules, nil); !errors.Is(err, ErrRefused) || len(f.mounts) != 3 {
			t.Errorf("%s: %+v, %v", name, u.Verdict, err)
		}
	}
	n, f, rules := mountedNode(nil)
	n.node.MayEnforce = policy.Fact{Truth: policy.No}
	refused("namespaces", f, rules, policy.ReasonNamespaces)
	n, f, rules = mountedNode(nil)
	n.node.Agrees = policy.Fact{Truth: policy.No}
	refused("contradiction", f, rules, policy.ReasonContradiction)
	n, f, rules = mountedNode(nil)
	if _, err := n.Append(policy.Record{Kind: policy.KindBreaker, UID: uidOf(2), At: n.now}); err != nil {
		t.Fatal(err)
	}
	if u, err := f.unmount(t, rules, nil); !errors.Is(err, ErrRefused) || !u.Verdict.For(policy.ReasonBreaker) || len(f.mounts) != 3 {
		t.Errorf("breaker open: %+v, %v", u.Verdict, err)
	}
}

// TestUnmountDoubts checks that the first doubt after an unmount ends the command, and that the finished part is
// recorded.
func TestUnmountDoubts(t *testing.T) {
	for name, come := range map[string]func(f *fakeMounts){
		"sandbox": func(f *fakeMounts) { f.pods[uidOf(1)].facts[policy.FactSandbox] = policy.Yes },
		"unknown": func(f *fakeMounts) { f.outside = policy.Fact{Detail: "a process hides them"} },
		"mounted": func(f *fakeMounts) { f.mounts = append(f.mounts, policy.Mount{ID: 9, Parent: 1, Path: "volumes/c"}) },
		"removed": func(f *fakeMounts) { f.node.Kubelet = policy.Fact{} },
	} {
		_, f, rules := mountedNode(nil)
		f.after = func() { come(f) }
		u, err := f.unmount(t, rules, nil)
		if err != nil || u.Stopped == "" || len(u.Outcomes) != 1 || len(policy.Unmounted([]policy.Mount{{ID: 2, Path: "volumes/a"}, {ID: 4, Path: "volumes/b"}}, f.mounts)) > 0 {
			t.Errorf("%s: %+v, %v", name, u, err)
		}
		last := f.records[len(f.records)-1]
		if name == "unknown" { // the intent stays open
			if last.Kind != policy.KindUnmounting || !u.Doubt || len(u.Gone()) > 0 {
				t.Errorf("%s: the last record is %+v", name, last)
			}
			continue
		}
		if last.Kind != policy.KindUnmounted || len(last.Mounts) != 1 || last.Mounts[0].ID != 3 || len(last.Why) == 0 {
			t.Errorf("%s: the last record is %+v", name, last)
		}
	}
	_, f, rules := mountedNode(nil)
	f.top = &policy.Mount{} // another mount is unmounted in its place
	if u, err := f.unmount(t, rules, nil); err != nil || !strings.Contains(u.Stopped, "still mounted") || len(u.Outcomes) != 1 || len(u.Gone()) > 0 || !u.Touched() {
		t.Errorf("wrong mount: %+v, %v", u, err)
	}
}

// TestUnmountShown checks that only the mounts that the operator saw are unmounted, and none if there are more by
// then or the operator refuses.
func TestUnmountShown(t *testing.T) {
	_, f, rules := mountedNode(nil)
	_, err := f.unmount(t, rules, func(*Unmounting) error {
		f.mounts = append(f.mounts, policy.Mount{ID: 9, Parent: 1, Path: "volumes/c"})
		return nil
	})
	if !errors.Is(err, ErrMountsChanged) || len(f.mounts) != 4 || len(f.records) > 0 {
		t.Errorf("more mounts than shown: %v, records %v", err, f.records)
	}
	_, f, rules = mountedNode(nil)
	no := errors.New("no")
	if _, err := f.unmount(t, rules, func(*Unmounting) error { return no }); !errors.Is(err, no) || len(f.mounts) != 3 || len(f.records) > 0 {
		t.Errorf("consent refused: %v, records %v", err, f.records)
	}
	_, f, rules = mountedNode(nil)
	if _, err := f.unmount(t, rules, func(*Unmounting) error {
		f.pods[uidOf(1)].facts[policy.FactCgroup] = policy.Yes
		return nil
	}); !errors.Is(err, ErrRefused) || len(f.mounts) != 3 || len(f.records) > 0 {
		t.Errorf("the pod came to life: %v, %v", err, f.records)
	}
}

// TestUnmountBusy checks that a busy mount stays with the mounts below it, that the others are unmounted, and that
// the same command continues later.
func TestUnmountBusy(t *testing.T) {
	_, f, rules := mountedNode(nil)
	f.busy = 3
	u, err := f.unmount(t, rules, nil)
	if err != nil || len(f.mounts) != 2 || !strings.Contains(u.Stopped, "PID 7") {
		t.Errorf("busy: %+v, %v", u, err)
	}
	f.busy = 0
	if u, err = f.unmount(t, rules, nil); err != nil || len(f.mounts) != 0 || u.Stopped != "" {
		t.Errorf("second run: %+v, %v", u, err)
	}
}

// TestUnmountNothing checks that a pod without mounts is an error, unless an earlier run has unmounted them.
func TestUnmountNothing(t *testing.T) {
	_, f, rules := mountedNode(nil)
	f.mounts = nil
	if _, err := f.unmount(t, rules, nil); !errors.Is(err, ErrNotMounted) {
		t.Error(err)
	}
	f.outside = policy.Fact{Detail: "it could not be read"}
	if _, err := f.unmount(t, rules, nil); err == nil || errors.Is(err, ErrNotMounted) {
		t.Error(err)
	}
}

// TestUnmountCutOff kills the command before each step and runs it again: it succeeds, and the ledger lists exactly
// the mounts that were unmounted.
func TestUnmountCutOff(t *testing.T) {
	for cut := 1; ; cut++ {
		n, f, rules := mountedNode(nil)
		n.cutAt = n.steps + cut
		if !killed(func() { _, _ = f.unmount(t, rules, nil) }) {
			if cut < 5 {
				t.Fatalf("there are only %d steps", cut)
			}
			return
		}
		n.cutAt = 0
		u, err := f.unmount(t, rules, nil)
		if err != nil || len(f.mounts) != 0 || u.Stopped != "" {
			t.Errorf("second run after a kill at step %d: %+v, %v", cut, u, err)
		}
		var gone []uint64
		open := false
		for _, rec := range f.records {
			open = rec.Kind == policy.KindUnmounting
			if rec.Kind == policy.KindUnmounted {
				for _, m := range rec.Mounts {
					gone = append(gone, m.ID)
				}
			}
		}
		slices.Sort(gone)
		if open || !slices.Equal(gone, []uint64{2, 3, 4}) {
			t.Errorf("killed at step %d: the ledger lists %v, intent open %t", cut, gone, open)
		}
	}
}

// TestUnmountClosedByAPass checks that the daemon's next pass closes the intent of a killed command if the pod has no
// mounts any more or the node has booted since. If mounts remain, only the same command can find out which went.
func TestUnmountClosedByAPass(t *testing.T) {
	for _, c := range []struct {
		name    string
		mounted policy.Truth
		change  func(n *fakeNode)
		want    policy.Kind
		gone    int
	}{
		{"all gone", policy.No, func(*fakeNode) {}, policy.KindUnmounted, 3},
		{"some left", policy.Yes, func(*fakeNode) {}, policy.KindUnmounting, 0},
		{"not known", policy.Unknown, func(*fakeNode) {}, policy.KindUnmounting, 0},
		{"another boot", policy.Yes, func(n *fakeNode) { n.now.BootID = "c" }, policy.KindNotUnmounted, 0},
		{"removed by somebody", policy.No, func(n *fakeNode) { clear(n.pods) }, policy.KindNotUnmounted, 0},
	} {
		n, f, rules := mountedNode(nil)
		n.cutAt = 4 // after the intent and two mounts
		if !killed(func() { _, _ = f.unmount(t, rules, nil) }) || n.records[len(n.records)-1].Kind != policy.KindUnmounting {
			t.Fatal("the command was not cut off")
		}
		n.cutAt = 0
		n.pods[uidOf(1)].facts[policy.FactMounted] = c.mounted
		c.change(n)
		mustPass(t, n.reaper(t, rules))
		i := slices.IndexFunc(n.records[1:], func(r policy.Record) bool { return r.Kind == policy.KindUnmounted || r.Kind == policy.KindNotUnmounted })
		last := n.records[i+1]
		if last.Kind != c.want || c.want == policy.KindUnmounted && len(last.Mounts) != c.gone {
			t.Errorf("%s: last record %s with %d mounts", c.name, last.Kind, len(last.Mounts))
		}
	}
}

// TestUnmountUnknown checks that no mount is recorded as gone if the mounts cannot be read after an unmount, however
// few the failed reading shows. The same command later finds out.
func TestUnmountUnknown(t *testing.T) {
	_, f, rules := mountedNode(nil)
	var all []policy.Mount
	f.after = func() {
		all, f.mounts, f.outside = f.mounts, nil, policy.Fact{Detail: "it did not answer in time"}
	}
	u, err := f.unmount(t, rules, nil)
	if err != nil || !u.Doubt || !strings.Contains(u.Stopped, "did not answer") || len(u.Gone()) > 0 || len(f.records) != 1 {
		t.Fatalf("%+v, %v, %+v", u, err, f.records)
	}
	f.after, f.mounts, f.outside = nil, all, policy.Fact{Truth: policy.No}
	if u, err = f.unmount(t, rules, nil); err != nil || len(f.mounts) > 0 || u.Doubt {
		t.Errorf("second run: %+v, %v", u, err)
	}
	if got := f.records[1]; got.Kind != policy.KindUnmounted || len(got.Mounts) != 1 || got.Mounts[0].ID != 3 {
		t.Errorf("mounts recorded as gone: %+v", got)
	}
	// The mounts of a directory that was moved away are not read.
	_, f, rules = mountedNode(nil)
	f.after = func() { delete(f.pods, uidOf(1)) }
	if u, err = f.unmount(t, rules, nil); err != nil || !u.Doubt || len(f.mounts) != 2 || len(f.records) != 1 {
		t.Fatalf("directory moved: %+v, %v, %+v", u, err, f.records)
	}
	if _, err = f.unmount(t, rules, nil); !errors.Is(err, ErrNotMounted) || f.records[1].Kind != policy.KindNotUnmounted || len(f.records) != 2 {
		t.Errorf("directory moved, second run: %v, %+v", err, f.records)
	}
}

// TestUnmountNames checks that the ledger quotes mount points that are not UTF-8, and that the ID identifies the
// mount.
func TestUnmountNames(t *testing.T) {
	was := []policy.Mount{{ID: 1, Path: "volumes/\ufffd", Dev: "0:5"}, {ID: 2, Path: "volumes/b", Dev: "0:6"}}
	now := []policy.Mount{{ID: 1, Path: "volumes/\xff", Dev: "0:5"}}
	if gone := policy.Unmounted(was, now); len(gone) != 1 || gone[0].ID != 2 {
		t.Errorf("mounts recorded as gone: %+v", gone)
	}
}

// TestUnmountCovered checks that a mount hidden by another one is not recorded as gone, and is unmounted after that
// one.
func TestUnmountCovered(t *testing.T) {
	_, f, rules := mountedNode(nil)
	f.covers = 4
	u, err := f.unmount(t, rules, nil)
	if err != nil || len(f.mounts) > 0 || len(u.Gone()) != 3 || u.Stopped != "" {
		t.Errorf("covered: %+v, %v", u, err)
	}
	_, f, rules = mountedNode(nil)
	f.covers, f.busy = 4, 4
	u, err = f.unmount(t, rules, nil)
	if err != nil || len(f.mounts) != 3 || len(u.Gone()) > 0 || slices.ContainsFunc(u.Outcomes, func(o policy.MountOutcome) bool { return o.Result == policy.Gone }) {
		t.Errorf("uncovered: %+v, %v", u, err)
	}
}

// TestUnmountMany checks that one command unmounts a limited number, and that a busy mount is not retried after each
// of the others.
func TestUnmountMany(t *testing.T) {
	_, f, rules := mountedNode(nil)
	f.mounts, f.busy = nil, 1
	for id := uint64(1); id <= mostUnmounts+10; id++ {
		f.mounts = append(f.mounts, policy.Mount{ID: id, Path: "volumes/v" + strconv.FormatUint(id, 10)})
	}
	u, err := f.unmount(t, rules, nil)
	if err != nil || len(u.Gone()) != mostUnmounts-1 || len(f.mounts) != 11 || f.tries[1] > 2 {
		t.Errorf("%d gone, tried %d times: %v, %v", len(u.Gone()), f.tries[1], u.Stopped, err)
	}
	f.busy = 0
	if u, err = f.unmount(t, rules, nil); err != nil || len(u.Gone()) != 11 || len(f.mounts) > 0 {
		t.Errorf("second run: %+v, %v", u, err)
	}
}

// TestUnmountAlreadyGone checks that mounts that disappear while the operator is asked are no error.
func TestUnmountAlreadyGone(t *testing.T) {
	_, f, rules := mountedNode(nil)
	u, err := f.unmount(t, rules, func(*Unmounting) error { f.mounts = nil; return nil })
	if err != nil || len(u.Left) > 0 || len(f.records) > 0 {
		t.Errorf("%+v, %v", u, err)
	}
}
