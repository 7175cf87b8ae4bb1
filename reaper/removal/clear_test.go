package removal

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

const (
	leafNFS   = "volumes/kubernetes.io~nfs/vol"
	leafCSI   = "volumes/kubernetes.io~csi/pv/mount"
	leafEmpty = "volumes/kubernetes.io~empty-dir/e"
	entryLeaf = entryA + policy.LeafSuffix
)

// heldPod is a pod with entries in each kind of leaf and beside the leaves.
var heldPod = []string{
	"file etc-hosts 10", "file volumes/kubernetes.io~csi/pv/vol_data.json 30",
	"file " + leafCSI + "/db/rows 100", "link " + leafCSI + "/link", "file " + leafCSI + "/\xff\n 5",
	"file " + leafNFS + "/data 100", "fifo " + leafNFS + "/fifo", "file " + leafNFS + "/a/b/c 1", "dir " + leafNFS + "/none",
	"file " + leafEmpty + "/scratch 10",
}

func (tr *tree) clearAction(leaf string) policy.Action {
	tr.T.Helper()
	a := tr.parkAction(uidA)
	a.Kind, a.Entry, a.Leaf = policy.Clear, entryLeaf, leaf
	return a
}

// back returns the action that undoes a.
func back(a policy.Action) policy.Action {
	a.Kind, a.ID, a.Manifest = policy.PutBack, policy.DirID{}, nil
	return a
}

func TestClear(t *testing.T) {
	for way, no := range testkit.Ways {
		for _, leaf := range []string{leafNFS, leafCSI} {
			t.Run(way+" "+leaf, func(t *testing.T) {
				testkit.OnTmpfs(t)
				tr := newTree(t, heldPod...)
				pod := tr.Pods + "/" + string(uidA)
				before, content := testkit.Listing(t, pod), testkit.Listing(t, pod+"/"+leaf)
				r, a := tr.open(no), tr.clearAction(leaf)
				for _, again := range []bool{false, true} { // the second run is as after a crash
					o := run1(t, r, a)
					want(t, o, policy.Done, "")
					if o.ID != idAt(t, tr.Quar+"/"+entryLeaf) {
						t.Errorf("run again %t: the outcome lacks the new directory", again)
					}
					if len(o.Left) != 1 || o.Left[0].Path != leaf || o.Left[0].Class != contents.ClassData || o.Left[0].Entries < 2 {
						t.Errorf("run again %t: residue %+v", again, o.Left)
					}
				}
				testkit.There(t, tr.Quar+"/"+entryLeaf+".json", true)
				if left := testkit.Listing(t, pod+"/"+leaf); len(left) != 0 {
					t.Errorf("in the leaf: %q", left)
				}
				if moved := testkit.Listing(t, tr.Quar+"/"+entryLeaf+"/"+leaf); !slices.Equal(moved, content) {
					t.Errorf("in quarantine: %q, want %q", moved, content)
				}
				if rest := testkit.Listing(t, pod); len(rest) != len(before)-len(content) {
					t.Errorf("the rest of the pod: %q", rest)
				}
				want(t, run1(t, r, back(a)), policy.Done, "")
				if after := testkit.Listing(t, pod); !slices.Equal(after, before) {
					t.Errorf("after the put-back: %q, want %q", after, before)
				}
				if left := testkit.Listing(t, tr.Quar); len(left) != 0 {
					t.Errorf("in quarantine: %q", left)
				}
				want(t, run1(t, r, back(a)), policy.Done, "") // run again, as after a crash
			})
		}
	}
}

// instead replaces a directory by a link to canaries.
func (tr *tree) instead(path string) {
	tr.T.Helper()
	tr.Must(os.Rename(path, tr.Outside+"/was"))
	tr.Must(os.Symlink(tr.CanaryDir(), path))
}

// TestClearMeanwhile checks that changes between the last check and the move lose nothing.
func TestClearMeanwhile(t *testing.T) {
	const first = "renameat2"
	for name, tc := range map[string]struct {
		do     func(tr *tree, leaf string)
		result policy.Result
		reason policy.Reason
		moved  bool // the leaf's contents changed
	}{
		"a mount on the leaf": {func(tr *tree, leaf string) { tr.Mount("bind", leaf) }, policy.Refused, policy.ReasonMounted, false},
		"a mount in the leaf": {func(tr *tree, leaf string) { tr.Mount("tmpfs", leaf+"/none") }, policy.Refused, policy.ReasonMounted, false},
		"a link for the leaf": {func(tr *tree, leaf string) { tr.instead(leaf) }, policy.Refused, policy.ReasonCannotMove, true},
		"another leaf": {func(tr *tree, leaf string) {
			tr.Must(os.Rename(leaf, tr.Outside+"/was"))
			tr.Mkdir(leaf + "/other")
		}, policy.Refused, policy.ReasonCannotMove, true},
		"another pod directory": {func(tr *tree, leaf string) {
			tr.Must(os.Rename(tr.Pods+"/"+string(uidA), tr.Outside+"/pod"))
			tr.Mkdir(leaf)
		}, policy.Refused, policy.ReasonCannotMove, true},
		"a new entry": {func(tr *tree, leaf string) {
			tr.Canary(leaf + "/new")
			tr.Canaries = tr.Canaries[:len(tr.Canaries)-1]
		}, policy.Done, "", true},
		"one entry less": {func(tr *tree, leaf string) { tr.Must(os.Remove(leaf + "/none")) }, policy.Done, "", true},
	} {
		for way, no := range testkit.Ways {
			t.Run(name+" "+way, func(t *testing.T) {
				testkit.OnTmpfs(t)
				tr := newTree(t, heldPod...)
				leaf := tr.Pods + "/" + string(uidA) + "/" + leafNFS
				before := testkit.Listing(t, tr.Pods)
				r, a := tr.open(no), tr.clearAction(leafNFS)
				done := false
				r.guards.before = testkit.Outside(func(op, _ string) {
					if op == first && !done {
						done = true
						tc.do(tr, leaf)
					}
				})
				o := run1(t, r, a)
				want(t, o, tc.result, tc.reason)
				if !done {
					t.Fatal("the change was not made")
				}
				_, _, err := r.Where(uidA, entryLeaf)
				tr.Must(err)
				testkit.There(t, tr.Quar+"/"+entryLeaf, tc.result == policy.Done)
				tr.Check()
				testkit.UnmountBelow(t, leaf)
				tr.Canaries = slices.DeleteFunc(tr.Canaries, func(c testkit.Canary) bool { return c.MountPoint != "" })
				if after := testkit.Listing(t, tr.Pods); !tc.moved && !slices.Equal(after, before) {
					t.Errorf("listing %q, want %q", after, before)
				}
				tr.mine(t, "a/b/c", "data")
			})
		}
	}
}

// mine checks that each file of the leaf exists exactly once.
func (tr *tree) mine(t *testing.T, names ...string) {
	t.Helper()
	all := testkit.Listing(t, tr.Base)
	for _, name := range names {
		n := 0
		for _, path := range all {
			if strings.HasSuffix(path, "/"+name) && (strings.Contains(path, "~nfs/vol/") || strings.Contains(path, "outside/")) {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%s exists %d times: %q", name, n, all)
		}
	}
}

// TestClearEndless checks that everything is put back if a process keeps writing to the leaf.
func TestClearEndless(t *testing.T) {
	testkit.OnTmpfs(t)
	tr := newTree(t, heldPod...)
	leaf := tr.Pods + "/" + string(uidA) + "/" + leafNFS
	r, n := tr.open(false), 0
	r.guards.before = testkit.Outside(func(op, _ string) {
		if op == "renameat2" && n < 100 {
			n++
			tr.Must(os.WriteFile(fmt.Sprintf("%s/new%d", leaf, n), nil, 0o600))
		}
	})
	want(t, run1(t, r, tr.clearAction(leafNFS)), policy.Refused, policy.ReasonCannotMove)
	testkit.There(t, leaf+"/data", true)
	testkit.There(t, leaf+"/new1", true)
	if left := testkit.Listing(t, tr.Quar); len(left) > 0 {
		t.Errorf("in quarantine: %q", left)
	}
}

// TestClearStopped checks that a daemon that stops during a clear leaves no half-moved leaf.
func TestClearStopped(t *testing.T) {
	testkit.OnTmpfs(t)
	tr := newTree(t, heldPod...)
	before := testkit.Listing(t, tr.Pods)
	r := tr.open(false)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	r.guards.before = testkit.Outside(func(op, _ string) {
		if op == "renameat2" {
			if n++; n == 2 {
				cancel()
			}
		}
	})
	o := r.Execute(ctx, granted, policy.Batch{Actions: []policy.Action{tr.clearAction(leafNFS)}})[0]
	if o.Result != policy.Refused || n < 3 {
		t.Fatalf("%+v after %d renames", o, n)
	}
	if after := testkit.Listing(t, tr.Pods); !slices.Equal(after, before) {
		t.Errorf("listing %q, want %q", after, before)
	}
}

// TestPutLeafBack checks the put-back of a leaf, by an operator or after a crash, into a pod that has changed since.
// Names that cannot be put back are kept in quarantine, and the outcome has the reason.
func TestPutLeafBack(t *testing.T) {
	for name, tc := range map[string]struct {
		setup  func(tr *tree, pod string)
		person bool
		result policy.Result
		words  string
	}{
		"the kubelet has removed the leaf":        {func(tr *tree, pod string) { tr.Must(os.Remove(pod + "/" + leafNFS)) }, true, policy.Partly, "no longer there"},
		"the kubelet has removed the pod, person": {func(tr *tree, pod string) { tr.Must(os.RemoveAll(pod)) }, true, policy.Done, ""},
		"the kubelet has removed the pod":         {func(tr *tree, pod string) { tr.Must(os.RemoveAll(pod)) }, false, policy.Partly, "no longer there"},
		"a name lies there":                       {func(tr *tree, pod string) { tr.One(pod, "file "+leafNFS+"/data 1") }, true, policy.Partly, "same name"},
		"something else lies there":               {func(tr *tree, pod string) { tr.One(pod, "file "+leafNFS+"/new 1") }, true, policy.Done, ""},
		"mounted":                                 {func(tr *tree, pod string) { tr.Mount("bind", pod+"/"+leafNFS) }, true, policy.Partly, "unmount it"},
		"a link":                                  {func(tr *tree, pod string) { tr.instead(pod + "/" + leafNFS) }, true, policy.Partly, "no longer there"},
	} {
		for way, no := range testkit.Ways {
			t.Run(name+" "+way, func(t *testing.T) {
				testkit.OnTmpfs(t)
				tr := newTree(t, heldPod...)
				r, a := tr.open(no), tr.clearAction(leafNFS)
				done := run1(t, r, a)
				want(t, done, policy.Done, "")
				tc.setup(tr, tr.Pods+"/"+string(uidA))
				a = back(a)
				a.ByPerson, a.ID, a.Leaf = tc.person, done.ID, "" // as after the loss of the ledger
				o := run1(t, r, a)
				if o.Result != tc.result || !strings.Contains(o.Err, tc.words) {
					t.Fatalf("%s: %s, want %s", o.Result, o.Err, tc.result)
				}
				testkit.There(t, tr.Quar+"/"+entryLeaf+"/"+leafNFS+"/a/b/c", tc.result == policy.Partly)
				testkit.There(t, tr.Quar+"/"+entryLeaf+".json", tc.result == policy.Partly)
				if tc.result == policy.Partly && (o.ID != done.ID || len(o.Left) != 1 || o.Left[0].Path != leafNFS) {
					t.Errorf("the outcome lacks the kept names: %+v", o)
				}
				tr.mine(t, "a/b/c")
			})
		}
	}
}

// TestRemoveLeaf checks that cleared contents are removed by their class.
func TestRemoveLeaf(t *testing.T) {
	for _, leaf := range []string{leafNFS, leafCSI} {
		testkit.OnTmpfs(t)
		tr := newTree(t, heldPod...)
		r, a := tr.open(false), tr.clearAction(leaf)
		done := run1(t, r, a)
		want(t, done, policy.Done, "")
		a.Kind, a.Take, a.ID = policy.Purge, contents.TakeAged, done.ID
		want(t, run1(t, r, a), policy.Partly, "")
		testkit.There(t, tr.Quar+"/"+entryLeaf, true)
		a.Take = contents.TakeAll
		if o := run1(t, r, a); o.Result != policy.Done && o.Result != policy.Gone {
			t.Errorf("%s: %+v", leaf, o)
		}
		if left := testkit.Listing(t, tr.Quar); len(left) > 0 {
			t.Errorf("%s: %q", leaf, left)
		}
	}
}

// TestClearCutUndone kills a clear before each change and undoes it as the next start does: the pod is unchanged and
// the quarantine empty.
func TestClearCutUndone(t *testing.T) {
	for _, leaf := range []string{leafNFS, leafCSI} {
		t.Run(leaf, func(t *testing.T) {
			testkit.OnTmpfs(t)
			for kill := 1; ; kill++ {
				tr := newTree(t, heldPod...)
				before := testkit.Listing(t, tr.Pods)
				a := tr.clearAction(leaf)
				died := testkit.Dies(t, envCutOff, cutOff{Pods: tr.Pods, Actions: []policy.Action{a}, Kill: kill}, 0)
				// The undo is killed as well.
				for cut := 1; testkit.Dies(t, envCutOff, cutOff{Pods: tr.Pods, Actions: []policy.Action{back(a)}, Kill: cut}, 0); cut += 2 {
					continue
				}
				want(t, run1(t, tr.open(false), back(a)), policy.Done, "")
				if after := testkit.Listing(t, tr.Pods); !slices.Equal(after, before) {
					t.Fatalf("killed before change %d: listing %q, want %q", kill, after, before)
				}
				if left := testkit.Listing(t, tr.Quar); len(left) > 0 {
					t.Fatalf("killed before change %d: in quarantine: %q", kill, left)
				}
				if !died {
					if kill < 8 {
						t.Fatalf("there are only %d changes", kill-1)
					}
					return
				}
			}
		})
	}
}
