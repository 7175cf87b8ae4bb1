package quarantine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/content"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

const envCutOff = "QUARANTINE_TEST_CUT_OFF"

// cutOff configures the helper process: its moves, and the change before which it kills itself.
type cutOff struct {
	Pods, Dir string
	Moves     []judge.Move
	Kill      int
}

// cutOffHelper carries out the moves and kills itself before its Kill-th change.
func cutOffHelper() int {
	var c cutOff
	if err := json.Unmarshal([]byte(os.Getenv(envCutOff)), &c); err != nil {
		return 2
	}
	q, err := Open(Config{PodsDir: c.Pods, Dir: c.Dir})
	if err != nil {
		return 2
	}
	q.disk = hooked{kernel{}, testkit.KillBefore(c.Kill)}
	q.Execute(context.Background(), granted, c.Moves)
	return 0
}

// TestCutOff kills a process before each change of each action and carries the moves out again: the result equals that of
// one undisturbed run.
func TestCutOff(t *testing.T) {
	cases := map[string]func(t *testing.T) (*tree, []judge.Move){
		"move": func(t *testing.T) (*tree, []judge.Move) {
			t.Helper()
			tr := newTree(t, "file etc-hosts 1")
			return tr, []judge.Move{tr.move(uidA), tr.move(uidB)}
		},
		"restore": func(t *testing.T) (*tree, []judge.Move) {
			t.Helper()
			tr := newTree(t, "file old 1")
			return tr, []judge.Move{tr.quarantined(tr.open(false), judge.Restore)}
		},
		"exchange": func(t *testing.T) (*tree, []judge.Move) {
			t.Helper()
			tr := newTree(t, "file old 1")
			m := tr.quarantined(tr.open(false), judge.Exchange)
			tr.Pod(uidA, "dir volumes", "file etc-hosts 1")
			return tr, []judge.Move{m}
		},
		"replace": func(t *testing.T) (*tree, []judge.Move) {
			t.Helper()
			tr := newTree(t, "file old 1")
			m := tr.quarantined(tr.open(false), judge.Exchange)
			m.Replace = true
			tr.Pod(uidA, "file volumes/x/new 1")
			return tr, []judge.Move{m}
		},
		"clean": func(t *testing.T) (*tree, []judge.Move) {
			t.Helper()
			tr, _, m := entryWith(t, false, content.Payloads, fullPod...)
			return tr, []judge.Move{m}
		},
		"purge": func(t *testing.T) (*tree, []judge.Move) {
			t.Helper()
			tr, _, m := entryWith(t, false, content.All, fullPod...)
			m.Action = judge.Purge
			return tr, []judge.Move{m}
		},
	}
	for name, build := range cases {
		t.Run(name, func(t *testing.T) {
			testkit.OnTmpfs(t)
			tr, moves := build(t)
			run(t, tr.open(false), moves...)
			end := withoutManifests(t, tr)
			tr.movedB()
			for kill := 1; ; kill++ {
				tr, moves := build(t)
				died := testkit.Dies(t, envCutOff, cutOff{Pods: tr.Pods, Dir: tr.Quar, Moves: moves, Kill: kill}, 0)
				finished(t, tr, moves, end, fmt.Sprintf("killed before change %d", kill))
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
	rounds := 10
	if testkit.Long() {
		rounds = 200
	}
	build := func() (*tree, []judge.Move) {
		tr, _, m := entryWith(t, false, content.All, fullPod...)
		for i := range 300 {
			tr.One(tr.entry(), fmt.Sprintf("file volumes/kubernetes.io~empty-dir/x/%d/f 0", i))
		}
		return tr, []judge.Move{m, tr.move(uidB)}
	}
	tr, moves := build()
	run(t, tr.open(false), moves...)
	end := withoutManifests(t, tr)
	tr.movedB()
	died := 0
	for i := range rounds {
		tr, moves := build()
		if testkit.Dies(t, envCutOff, cutOff{Pods: tr.Pods, Dir: tr.Quar, Moves: moves}, time.Duration(3+i%20)*time.Millisecond) {
			died++
		}
		finished(t, tr, moves, end, fmt.Sprintf("round %d", i))
	}
	t.Logf("%d of %d were killed", died, rounds)
}

// recovered returns the moves without those to quarantine that a killed run has carried out, by Where.
func recovered(t *testing.T, q *Quarantine, moves []judge.Move) (left []judge.Move) {
	t.Helper()
	for _, m := range moves {
		if _, inQuarantine, err := q.Where(m.UID, m.Entry); err != nil && !errors.Is(err, unix.ENOENT) {
			t.Fatal(err)
		} else if m.Action != judge.Quarantine || !m.ID.Same(inQuarantine) {
			left = append(left, m)
		}
	}
	return left
}

// finished carries the moves out again and compares the tree, but for manifests, and what Where returns.
func finished(t *testing.T, tr *tree, moves []judge.Move, end, when string) {
	t.Helper()
	q := tr.open(false)
	for _, o := range run(t, q, recovered(t, q, moves)...) {
		switch o.Result {
		case judge.Done, judge.Gone, judge.Partly:
		case judge.Refused, judge.Failed, judge.Conflict:
			t.Fatalf("%s: %s: %s", when, o.Result, o.Err)
		}
	}
	for _, m := range moves {
		inPods, inQuarantine, err := q.Where(m.UID, m.Entry)
		if err != nil {
			t.Fatal(err)
		}
		testkit.There(t, tr.Pods+"/"+string(m.UID), inPods != judge.FileID{})
		testkit.There(t, tr.Quar+"/"+m.Entry, inQuarantine != judge.FileID{})
	}
	if got := withoutManifests(t, tr); got != end {
		t.Fatalf("%s, and run again:\n%s\nwant:\n%s", when, got, end)
	}
	tr.movedB()
}

// withoutManifests returns what is in the tree, but for manifests: a killed move has written none.
func withoutManifests(t *testing.T, tr *tree) string {
	t.Helper()
	return strings.Join(slices.DeleteFunc(listing(t, tr.Root), func(name string) bool {
		return strings.HasSuffix(name, manifestSuffix) && strings.Count(name, "/") == 1
	}), "\n")
}

// movedB records that the test has moved uidB, which contains a canary.
func (tr *tree) movedB() {
	if _, err := os.Lstat(tr.Quar + "/" + string(uidB) + ".1"); err == nil {
		tr.Moved(tr.Pods+"/"+string(uidB)+"/", tr.Quar+"/"+string(uidB)+".1/")
	}
}

// TestKilledAfterExchange kills the process between the exchange and the check after it, while the new directory got a file.
// It keeps it as an entry of its own: a second exchange would move what the kubelet may use by now.
func TestKilledAfterExchange(t *testing.T) {
	tr := newTree(t, "file old 1")
	q := tr.open(false)
	m := tr.quarantined(q, judge.Exchange)
	tr.Pod(uidA, "dir volumes")
	newer := idAt(t, tr.pod())
	tr.Must(unix.Renameat2(unix.AT_FDCWD, tr.entry(), unix.AT_FDCWD, tr.pod(), unix.RENAME_EXCHANGE))
	tr.One(tr.entry(), "file volumes/kubernetes.io~empty-dir/cache/new 1")
	o := run1(t, q, m)
	want(t, o, judge.Done)
	testkit.There(t, tr.pod()+"/old", true)
	testkit.There(t, tr.Quar+"/"+o.Other+"/volumes/kubernetes.io~empty-dir/cache/new", true)
	if o.OtherID != newer {
		t.Error("the new directory is not identified")
	}
}
