package removal

import (
	"context"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestAgainUsed checks that a new directory of a parked pod is kept in place with its mounts if it is in use, and
// that the old one is the conflict. Without the guard a living pod's directory is moved to quarantine with its
// mounts.
func TestAgainUsed(t *testing.T) {
	cases := map[string]struct {
		specs []string
		used  policy.Truth // the result of Config.Used
	}{
		"a secret is mounted in it":      {specs: []string{"tmpfs volumes/kubernetes.io~secret/token"}, used: policy.No},
		"the same, and the caller sees":  {specs: []string{"tmpfs volumes/kubernetes.io~secret/token"}, used: policy.Yes},
		"a mount right below it":         {specs: []string{"tmpfs volumes"}, used: policy.No},
		"a bind in containers":           {specs: []string{"bind containers/app"}, used: policy.No},
		"an emptyDir":                    {specs: []string{"dir volumes/kubernetes.io~empty-dir/cache"}, used: policy.No},
		"what the kubelet has written":   {specs: []string{"dir volumes", "file etc-hosts 1"}, used: policy.No},
		"a container that only they see": {specs: []string{"dir volumes", "dir plugins"}, used: policy.Yes},
	}
	for name, c := range cases {
		for way, no := range testkit.Ways {
			for _, guard := range []bool{true, false} {
				t.Run(name+", "+way+map[bool]string{true: "", false: ", guard off"}[guard], func(t *testing.T) {
					tr := newTree(t, "file volumes/kubernetes.io~empty-dir/cache/old 1")
					r := tr.open(no)
					r.used = func(context.Context, parsers.PodUID, policy.Instant) policy.Fact {
						return policy.Fact{Truth: c.used, Detail: "seen by the caller"}
					}
					a := tr.parked(r)
					a.Kind = policy.PutBack
					tr.Pod(uidA, c.specs...)
					newer := idAt(t, tr.Pods+"/"+string(uidA))
					r.guards.used = guard
					o := run1(t, r, a)
					if !guard {
						want(t, o, policy.Conflict, "")
						if idAt(t, tr.Quar+"/"+o.Conflict) != newer {
							t.Fatal("nothing was lost without the guard")
						}
						// Moved back, so that the mount is at the canary's path again.
						tr.Must(unix.Renameat2(unix.AT_FDCWD, tr.Quar+"/"+o.Conflict, unix.AT_FDCWD, tr.Pods+"/"+string(uidA), unix.RENAME_EXCHANGE))
						return
					}
					want(t, o, policy.Refused, policy.ReasonRemade)
					if o.Conflict != entryA {
						t.Errorf("the conflict is %q, want the old directory", o.Conflict)
					}
					if idAt(t, tr.Pods+"/"+string(uidA)) != newer {
						t.Error("the living pod's directory was moved")
					}
					testkit.There(t, tr.Quar+"/"+entryA+"/volumes/kubernetes.io~empty-dir/cache/old", true)
					testkit.There(t, tr.Quar+"/"+entryA+".json", true)
				})
			}
		}
	}
}

// TestAgainUnknown checks that nothing is exchanged if it is unknown whether the new directory is in use.
func TestAgainUnknown(t *testing.T) {
	tr := newTree(t, "file old 1")
	for name, used := range map[string]func(context.Context, parsers.PodUID, policy.Instant) policy.Fact{
		"nothing to ask": nil,
		"no answer": func(context.Context, parsers.PodUID, policy.Instant) policy.Fact {
			return policy.Fact{Detail: "too late"}
		},
	} {
		r := tr.open(false)
		a := tr.parked(r)
		a.Kind = policy.PutBack
		r.used = used
		tr.Pod(uidA, "dir volumes")
		o := run1(t, r, a)
		want(t, o, policy.Refused, policy.ReasonRemade)
		if o.Conflict != "" || !o.MadeAgain() {
			t.Errorf("%s: conflict %q, made again: %t", name, o.Conflict, o.MadeAgain())
		}
		testkit.There(t, tr.Pods+"/"+string(uidA)+"/volumes", true)
		testkit.There(t, tr.Quar+"/"+entryA+"/old", true)
		tr.Must(os.RemoveAll(tr.Pods + "/" + string(uidA)))
		tr.Must(os.Rename(tr.Quar+"/"+entryA, tr.Pods+"/"+string(uidA)))
	}
}

// TestAgainRace checks that a kubelet that begins to use the new directory between the last check and the exchange
// gets it back.
func TestAgainRace(t *testing.T) {
	tr := newTree(t, "file old 1")
	r := tr.open(false)
	a := tr.parked(r)
	a.Kind = policy.PutBack
	tr.Pod(uidA, "dir volumes")
	newer := idAt(t, tr.Pods+"/"+string(uidA))
	renames := 0
	r.guards.before = testkit.Outside(func(op, name string) {
		if op != "renameat2" || name != string(uidA) {
			return
		}
		if renames++; renames == 2 { // the first one, with RENAME_NOREPLACE, fails
			tr.One(tr.Pods+"/"+string(uidA), "dir volumes/kubernetes.io~empty-dir/cache")
		}
	})
	o := run1(t, r, a)
	want(t, o, policy.Refused, policy.ReasonRemade)
	if renames != 3 || o.Conflict != entryA {
		t.Fatalf("%d renames, %+v", renames, o)
	}
	if idAt(t, tr.Pods+"/"+string(uidA)) != newer {
		t.Fatal("the living pod's directory did not come back")
	}
	testkit.There(t, tr.Quar+"/"+entryA+"/old", true)
}

// TestAgainKilledAfterExchange kills the process between the exchange and the check after it, while the new directory
// got a file. It is kept as the conflict: a second exchange would move what the kubelet may use by now.
func TestAgainKilledAfterExchange(t *testing.T) {
	tr := newTree(t, "file old 1")
	r := tr.open(false)
	a := tr.parked(r)
	a.Kind = policy.PutBack
	tr.Pod(uidA, "dir volumes")
	pod := tr.Pods + "/" + string(uidA)
	tr.Must(unix.Renameat2(unix.AT_FDCWD, tr.Quar+"/"+entryA, unix.AT_FDCWD, pod, unix.RENAME_EXCHANGE))
	tr.One(tr.Quar+"/"+entryA, "file volumes/kubernetes.io~empty-dir/cache/new 1")
	o := run1(t, r, a)
	want(t, o, policy.Conflict, "")
	testkit.There(t, pod+"/old", true)
	testkit.There(t, tr.Quar+"/"+o.Conflict+"/volumes/kubernetes.io~empty-dir/cache/new", true)
	if !o.MadeAgain() {
		t.Error("the outcome does not open the breaker")
	}
}
