package removal

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// cutOff configures the helper process: its plan, and the change before which it kills itself.
type cutOff struct {
	Pods    string
	Actions []policy.Action
	Kill    int
}

// cutOffHelper runs a plan and kills itself before its Kill-th change.
func cutOffHelper() int {
	var c cutOff
	if err := json.Unmarshal([]byte(os.Getenv(envCutOff)), &c); err != nil {
		return 2
	}
	r, err := Open(Config{PodsDir: c.Pods, Used: unused})
	if err != nil {
		return 2
	}
	r.threads = 4
	r.guards.before = testkit.KillBefore(c.Kill)
	r.Execute(context.Background(), granted, policy.Batch{Actions: c.Actions})
	return 0
}

// TestCutOff kills a process before each change of each kind of action and runs it again: the result equals that of
// one undisturbed run.
func TestCutOff(t *testing.T) {
	cases := map[string]func(t *testing.T) (*tree, []policy.Action){
		"park": func(t *testing.T) (*tree, []policy.Action) {
			t.Helper()
			tr := newTree(t, "file etc-hosts 1")
			return tr, []policy.Action{tr.parkAction(uidA), tr.parkAction(uidB)}
		},
		"put back": func(t *testing.T) (*tree, []policy.Action) {
			t.Helper()
			return cutPutBack(t, false, true)
		},
		"conflict": func(t *testing.T) (*tree, []policy.Action) {
			t.Helper()
			return cutPutBack(t, true, true)
		},
		"conflict of an unknown directory": func(t *testing.T) (*tree, []policy.Action) {
			t.Helper()
			return cutPutBack(t, true, false)
		},
		"clear": func(t *testing.T) (*tree, []policy.Action) {
			t.Helper()
			tr := newTree(t, heldPod...)
			return tr, []policy.Action{tr.clearAction(leafCSI)}
		},
		"put leaf back": func(t *testing.T) (*tree, []policy.Action) {
			t.Helper()
			tr := newTree(t, heldPod...)
			a := tr.clearAction(leafNFS)
			want(t, run1(t, tr.open(false), a), policy.Done, "")
			return tr, []policy.Action{back(a)}
		},
		"strip": func(t *testing.T) (*tree, []policy.Action) {
			t.Helper()
			tr, _, a := quarantined(t, false, contents.TakeStrip, fullPod...)
			return tr, []policy.Action{a}
		},
		"purge": func(t *testing.T) (*tree, []policy.Action) {
			t.Helper()
			tr, _, a := quarantined(t, false, contents.TakeAll, fullPod...)
			a.Kind = policy.Purge
			return tr, []policy.Action{a}
		},
	}
	for name, build := range cases {
		t.Run(name, func(t *testing.T) {
			testkit.OnTmpfs(t)
			tr, actions := build(t)
			run(t, tr.open(false), actions...)
			end := strings.Join(testkit.Listing(t, tr.Root), "\n")
			tr.movedB()
			for kill := 1; ; kill++ {
				tr, actions := build(t)
				died := testkit.Dies(t, envCutOff, cutOff{Pods: tr.Pods, Actions: actions, Kill: kill}, 0)
				finished(t, tr, actions, end, fmt.Sprintf("killed before change %d", kill))
				if !died {
					if kill < 3 {
						t.Fatalf("there are only %d changes", kill-1)
					}
					break
				}
			}
		})
	}
}

// TestCutOffAnywhere kills at random times, also inside system calls.
func TestCutOffAnywhere(t *testing.T) {
	testkit.OnTmpfs(t)
	rounds := 15
	if testkit.Long() {
		rounds = 200
	}
	build := func() (*tree, []policy.Action) {
		tr, _, a := quarantined(t, false, contents.TakeAll, fullPod...)
		for i := range 300 {
			tr.One(tr.Quar+"/"+entryA, fmt.Sprintf("file volumes/kubernetes.io~empty-dir/x/%d/f 0", i))
		}
		return tr, []policy.Action{a, tr.parkAction(uidB)}
	}
	tr, actions := build()
	run(t, tr.open(false), actions...)
	end := strings.Join(testkit.Listing(t, tr.Root), "\n")
	tr.movedB()
	died := 0
	for i := range rounds {
		tr, actions := build()
		if testkit.Dies(t, envCutOff, cutOff{Pods: tr.Pods, Actions: actions}, time.Duration(3+i%20)*time.Millisecond) {
			died++
		}
		finished(t, tr, actions, end, fmt.Sprintf("round %d", i))
	}
	t.Logf("%d of %d were killed", died, rounds)
}

func cutPutBack(t *testing.T, remade, known bool) (*tree, []policy.Action) {
	t.Helper()
	tr := newTree(t, "file old 1")
	a := tr.parked(tr.open(false))
	a.Kind = policy.PutBack
	if !known {
		a.ID = policy.DirID{}
	}
	if remade {
		// The file system's clock is coarse, and the newer directory is recognized by its birth time.
		old := idAt(t, tr.Quar+"/"+entryA)
		if old.Btime == 0 {
			t.Skip("this file system has no birth times")
		}
		for tr.Pod(uidA, "dir volumes"); idAt(t, tr.Pods+"/"+string(uidA)).Btime <= old.Btime; tr.Pod(uidA, "dir volumes") {
			tr.Must(os.RemoveAll(tr.Pods + "/" + string(uidA)))
		}
	}
	return tr, []policy.Action{a}
}

// finished runs the plan again and compares the tree and the result of Where.
func finished(t *testing.T, tr *tree, actions []policy.Action, end, when string) {
	t.Helper()
	r := tr.open(false)
	for i, o := range run(t, r, actions...) {
		switch o.Result {
		case policy.Done, policy.Gone, policy.Partly, policy.Conflict:
		case policy.Refused, policy.Failed:
			t.Fatalf("%s: %+v", when, o)
		}
		inPods, inQuar, err := r.Where(actions[i].UID, actions[i].Entry)
		if err != nil {
			t.Fatal(err)
		}
		testkit.There(t, tr.Pods+"/"+string(actions[i].UID), inPods)
		testkit.There(t, tr.Quar+"/"+actions[i].Entry, inQuar)
	}
	if got := strings.Join(testkit.Listing(t, tr.Root), "\n"); got != end {
		t.Fatalf("%s, and run again:\n%s\nwant:\n%s", when, got, end)
	}
	tr.movedB()
}

// movedB records that the test has parked uidB, which contains a canary.
func (tr *tree) movedB() {
	if _, err := os.Lstat(tr.Quar + "/" + string(uidB) + ".1"); err == nil {
		tr.Moved(tr.Pods+"/"+string(uidB)+"/", tr.Quar+"/"+string(uidB)+".1/")
	}
}
