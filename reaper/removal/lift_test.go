package removal

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// deepEntry returns a tree with an emptyDir of 1,000 levels in an entry that is removed completely.
func deepEntry(t *testing.T) (tr *tree, r *Remover, a policy.Action, top string) {
	t.Helper()
	testkit.OnTmpfs(t)
	tr, r, a = quarantined(t, false, contents.TakeAll, "dir volumes/kubernetes.io~empty-dir/e")
	top = tr.Quar + "/" + entryA + "/volumes/kubernetes.io~empty-dir/e"
	deep(t, top, 1000)
	return tr, r, a, top
}

// TestLift checks that nothing deeper than liftFrom below the top of its tree is removed in place, since each step
// there costs as many more. Without lifting, or if no directory can be moved, it is.
func TestLift(t *testing.T) {
	for how, c := range map[string]struct {
		set   func(*guards)
		lifts int
	}{
		"lifted":     {func(*guards) {}, 2 * (1000 / liftFrom)}, // counts "beside", too
		"not lifted": {func(g *guards) { g.liftFrom = 1 << 20 }, 0},
		"cannot be":  {func(g *guards) { g.noreplace = 1 << 20 }, 0},
	} {
		t.Run(how, func(t *testing.T) {
			_, r, a, _ := deepEntry(t)
			c.set(&r.guards)
			tried, depth, deepest := 0, 0, 0
			r.guards.before = func(op, name string) {
				switch {
				case op == "renameat2":
					tried++
				case name == "file": // one per level, removed on the way down
					depth++
					deepest = max(deepest, depth)
				case name == "d" || strings.HasPrefix(name, "lifted-"):
					depth--
				}
			}
			o := run1(t, r, a)
			want(t, o, policy.Done, "")
			if n := o.Taken[contents.ClassEphemeral].Entries; n != 3*1000+1 {
				t.Errorf("%d entries removed", n)
			}
			if c.lifts > 0 && (tried != c.lifts || deepest > liftFrom) || c.lifts == 0 && deepest != 1000 {
				t.Errorf("%d lifts, removals at %d levels", tried, deepest)
			}
		})
	}
}

// TestLiftOther checks that the walk stops if a directory was replaced after it was opened.
func TestLiftOther(t *testing.T) {
	tr, r, a, top := deepEntry(t)
	r.guards.before = testkit.Outside(func(op, name string) {
		if op == "renameat2" {
			r.guards.before = nil
			at, err := unix.Open(top, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
			tr.Must(err)
			for range liftFrom - 1 {
				next, err := unix.Openat(at, "d", unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
				tr.Must(err)
				tr.Must(unix.Close(at))
				at = next
			}
			tr.Must(unix.Renameat(at, name, at, "it"))
			tr.Must(unix.Mkdirat(at, name, 0o700))
			tr.Must(unix.Close(at))
		}
	})
	o := run1(t, r, a)
	want(t, o, policy.Failed, policy.ReasonRemoval)
	if !strings.Contains(o.Err, errChanges.Error()) {
		t.Error(o.Err)
	}
	want(t, run1(t, r, a), policy.Done, "") // the next run removes everything
}

// TestLiftCutOff kills before each lift and before the first removal after it, and runs again.
func TestLiftCutOff(t *testing.T) {
	var kills []int
	_, r, a, _ := deepEntry(t)
	n := 0
	r.guards.before = func(op, _ string) {
		if n++; op == "renameat2" {
			kills = append(kills, n, n+1)
		}
	}
	want(t, run1(t, r, a), policy.Done, "")
	for _, kill := range kills {
		tr, r, a, top := deepEntry(t)
		if !testkit.Dies(t, envCutOff, cutOff{Pods: tr.Pods, Actions: []policy.Action{a}, Kill: kill}, 0) {
			t.Fatalf("change %d was not reached", kill)
		}
		testkit.There(t, top, true)
		want(t, run1(t, r, a), policy.Done, "")
		if left := testkit.Listing(t, tr.Quar); len(left) != 0 {
			t.Errorf("killed before change %d: %v", kill, left)
		}
	}
}

// TestLiftMany checks that all lifted directories are removed, also those beyond the number that is noted.
func TestLiftMany(t *testing.T) {
	testkit.OnTmpfs(t)
	tr, r, a := quarantined(t, false, contents.TakeAll, "dir volumes/kubernetes.io~empty-dir/e")
	r.guards.liftFrom = 2
	at := tr.Quar + "/" + entryA + "/volumes/kubernetes.io~empty-dir/e/d"
	tr.Mkdir(at)
	for i := range mostListed + 500 {
		tr.Must(os.MkdirAll(at+"/"+strconv.Itoa(i)+"/x", 0o700))
	}
	o := run1(t, r, a)
	want(t, o, policy.Done, "")
	if n := o.Taken[contents.ClassEphemeral].Entries; n != 2*(mostListed+500)+2 {
		t.Errorf("%d entries removed", n)
	}
}
