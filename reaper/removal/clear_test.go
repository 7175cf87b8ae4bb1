package removal

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
)

const (
	leafNFS   = "volumes/kubernetes.io~nfs/vol"
	leafCSI   = "volumes/kubernetes.io~csi/pv/mount"
	leafEmpty = "volumes/kubernetes.io~empty-dir/e"
	entryLeaf = entryA + policy.LeafSuffix
)

// heldPod is a pod with something in each kind of leaf, and beside them.
var heldPod = []string{
	"file etc-hosts 10", "file volumes/kubernetes.io~csi/pv/vol_data.json 30",
	"file " + leafCSI + "/db/rows 100", "link " + leafCSI + "/link", "file " + leafCSI + "/\xff\n 5",
	"file " + leafNFS + "/data 100", "fifo " + leafNFS + "/fifo", "file " + leafNFS + "/a/b/c 1", "dir " + leafNFS + "/none",
	"file " + leafEmpty + "/scratch 10",
}

func (tr *tree) clearAction(leaf string) policy.Action {
	tr.t.Helper()
	a := tr.parkAction(uidA)
	a.Kind, a.Entry, a.Leaf = policy.Clear, entryLeaf, leaf
	return a
}

// back is the way back of a, as the ledger has it.
func back(a policy.Action) policy.Action {
	a.Kind, a.ID, a.Manifest = policy.PutBack, policy.DirID{}, nil
	return a
}

func TestClear(t *testing.T) {
	for way, no := range ways {
		for _, leaf := range []string{leafNFS, leafCSI} {
			t.Run(way+" "+leaf, func(t *testing.T) {
				onTmpfs(t)
				tr := newTree(t, heldPod...)
				pod := tr.pods + "/" + string(uidA)
				before, content := listing(t, pod), listing(t, pod+"/"+leaf)
				r, a := tr.open(no), tr.clearAction(leaf)
				for _, again := range []bool{false, true} { // the second time as after a crash
					o := run1(t, r, a)
					want(t, o, policy.Done, "")
					if o.ID != idAt(t, tr.quar+"/"+entryLeaf) {
						t.Errorf("again %t: the outcome does not say which directory was made", again)
					}
					if len(o.Left) != 1 || o.Left[0].Path != leaf || o.Left[0].Class != contents.ClassData || o.Left[0].Entries < 2 {
						t.Errorf("again %t: left %+v", again, o.Left)
					}
				}
				there(t, tr.quar+"/"+entryLeaf+".json", true)
				if left := listing(t, pod+"/"+leaf); len(left) != 0 {
					t.Errorf("in the leaf: %q", left)
				}
				if moved := listing(t, tr.quar+"/"+entryLeaf+"/"+leaf); !slices.Equal(moved, content) {
					t.Errorf("in quarantine: %q, want %q", moved, content)
				}
				if rest := listing(t, pod); len(rest) != len(before)-len(content) {
					t.Errorf("beside the leaf: %q", rest)
				}
				want(t, run1(t, r, back(a)), policy.Done, "")
				if after := listing(t, pod); !slices.Equal(after, before) {
					t.Errorf("put back: %q, was %q", after, before)
				}
				if left := listing(t, tr.quar); len(left) != 0 {
					t.Errorf("in quarantine: %q", left)
				}
				want(t, run1(t, r, back(a)), policy.Done, "") // as after a crash
			})
		}
	}
}

// TestClearRefused: what is refused stays as it was, and nothing is left in quarantine.
func TestClearRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		setup  func(tr *tree, a *policy.Action, leaf string)
		result policy.Result
		reason policy.Reason
	}{
		"mounted":            {func(tr *tree, _ *policy.Action, leaf string) { tr.mount("bind", leaf) }, policy.Refused, policy.ReasonMounted},
		"mounted above":      {func(tr *tree, _ *policy.Action, leaf string) { tr.mount("tmpfs", leaf[:strings.LastIndex(leaf, "/")]) }, policy.Refused, policy.ReasonMounted},
		"a mount in it":      {func(tr *tree, _ *policy.Action, leaf string) { tr.mount("bind", leaf+"/m") }, policy.Refused, policy.ReasonMounted},
		"a mounted file":     {func(tr *tree, _ *policy.Action, leaf string) { tr.mount("bindfile", leaf+"/m") }, policy.Refused, policy.ReasonMounted},
		"a link":             {func(tr *tree, _ *policy.Action, leaf string) { tr.instead(leaf) }, policy.Refused, policy.ReasonNotADirectory},
		"a link above":       {func(tr *tree, _ *policy.Action, leaf string) { tr.instead(leaf[:strings.LastIndex(leaf, "/")]) }, policy.Refused, policy.ReasonNotADirectory},
		"another pod":        {func(_ *tree, a *policy.Action, _ string) { a.ID.Ino++ }, policy.Refused, policy.ReasonCannotMove},
		"not judged":         {func(_ *tree, a *policy.Action, _ string) { a.ID = policy.DirID{} }, policy.Refused, policy.ReasonCannotMove},
		"no leaf":            {func(_ *tree, a *policy.Action, _ string) { a.Leaf = "volumes/kubernetes.io~nfs" }, policy.Refused, policy.ReasonCannotMove},
		"an emptyDir":        {func(_ *tree, a *policy.Action, _ string) { a.Leaf = leafEmpty }, policy.Refused, policy.ReasonCannotMove},
		"up":                 {func(_ *tree, a *policy.Action, _ string) { a.Leaf = "volumes/../vol" }, policy.Refused, policy.ReasonCannotMove},
		"a pod's entry":      {func(_ *tree, a *policy.Action, _ string) { a.Entry = entryA }, policy.Refused, policy.ReasonCannotMove},
		"an immutable entry": {func(tr *tree, _ *policy.Action, leaf string) { tr.immutable(leaf + "/none") }, policy.Refused, policy.ReasonCannotMove},
		"immutable":          {func(tr *tree, _ *policy.Action, leaf string) { tr.immutable(leaf) }, policy.Refused, policy.ReasonCannotMove},
		"gone":               {func(_ *tree, a *policy.Action, _ string) { a.Leaf = "volumes/kubernetes.io~nfs/other" }, policy.Gone, ""},
		"empty": {func(tr *tree, a *policy.Action, leaf string) {
			tr.mkdir(leaf + "/../o")
			a.Leaf = "volumes/kubernetes.io~nfs/o"
		}, policy.Gone, ""},
		"quarantine elsewhere": {func(tr *tree, _ *policy.Action, _ string) { tr.mount("tmpfs", tr.quar) }, policy.Refused, policy.ReasonCannotMove},
	} {
		for way, no := range ways {
			t.Run(name+" "+way, func(t *testing.T) {
				tr := newTree(t, heldPod...)
				a := tr.clearAction(leafNFS)
				tc.setup(tr, &a, tr.pods+"/"+string(uidA)+"/"+leafNFS)
				before := listing(t, tr.pods)
				want(t, run1(t, tr.open(no), a), tc.result, tc.reason)
				if after := listing(t, tr.pods); !slices.Equal(after, before) {
					t.Errorf("now %q, was %q", after, before)
				}
				if left := listing(t, tr.quar); len(left) > 0 && name != "quarantine elsewhere" {
					t.Errorf("in quarantine: %q", left)
				}
			})
		}
	}
}

// instead puts a link to canaries in the place of a directory.
func (tr *tree) instead(path string) {
	tr.t.Helper()
	tr.must(os.Rename(path, tr.outside+"/was"))
	tr.must(os.Symlink(tr.canaryDir(), path))
}

func (tr *tree) immutable(path string) {
	tr.t.Helper()
	if err := immutable(path, true); err != nil {
		tr.t.Skipf("no immutable files here: %v", err)
	}
}

// TestClearMeanwhile: what comes between two steps.
func TestClearMeanwhile(t *testing.T) {
	const first = "renameat2"
	for name, tc := range map[string]struct {
		do     func(tr *tree, leaf string)
		result policy.Result
		reason policy.Reason
		moved  bool // something else than what was there at first is in the leaf or gone from it
	}{
		"a mount on the leaf": {func(tr *tree, leaf string) { tr.mount("bind", leaf) }, policy.Refused, policy.ReasonMounted, false},
		"a mount in the leaf": {func(tr *tree, leaf string) { tr.mount("tmpfs", leaf+"/none") }, policy.Refused, policy.ReasonMounted, false},
		"a link for the leaf": {func(tr *tree, leaf string) { tr.instead(leaf) }, policy.Refused, policy.ReasonCannotMove, true},
		"another leaf":        {func(tr *tree, leaf string) { tr.must(os.Rename(leaf, tr.outside+"/was")); tr.mkdir(leaf + "/other") }, policy.Refused, policy.ReasonCannotMove, true},
		"another pod directory": {func(tr *tree, leaf string) {
			tr.must(os.Rename(tr.pods+"/"+string(uidA), tr.outside+"/pod"))
			tr.mkdir(leaf)
		}, policy.Refused, policy.ReasonCannotMove, true},
		"a new entry": {func(tr *tree, leaf string) {
			tr.canaryFile(leaf + "/new")
			tr.canaries = tr.canaries[:len(tr.canaries)-1]
		}, policy.Done, "", true},
		"one entry less": {func(tr *tree, leaf string) { tr.must(os.Remove(leaf + "/none")) }, policy.Done, "", true},
	} {
		for way, no := range ways {
			t.Run(name+" "+way, func(t *testing.T) {
				onTmpfs(t)
				tr := newTree(t, heldPod...)
				leaf := tr.pods + "/" + string(uidA) + "/" + leafNFS
				before := listing(t, tr.pods)
				r, a := tr.open(no), tr.clearAction(leafNFS)
				done := false
				r.guards.before = outside(func(op, _ string) {
					if op == first && !done {
						done = true
						tc.do(tr, leaf)
					}
				})
				o := run1(t, r, a)
				want(t, o, tc.result, tc.reason)
				if !done {
					t.Fatal("nothing came between")
				}
				_, _, err := r.Where(uidA, entryLeaf)
				tr.must(err)
				there(t, tr.quar+"/"+entryLeaf, tc.result == policy.Done)
				tr.check()
				unmountBelow(t, leaf)
				tr.canaries = slices.DeleteFunc(tr.canaries, func(c canary) bool { return c.mountPoint != "" })
				if after := listing(t, tr.pods); !tc.moved && !slices.Equal(after, before) {
					t.Errorf("now %q, was %q", after, before)
				}
				tr.mine(t, "a/b/c", "data")
			})
		}
	}
}

// mine sees that each file of the leaf is somewhere, once.
func (tr *tree) mine(t *testing.T, names ...string) {
	t.Helper()
	all := listing(t, tr.base)
	for _, name := range names {
		n := 0
		for _, path := range all {
			if strings.HasSuffix(path, "/"+name) && (strings.Contains(path, "~nfs/vol/") || strings.Contains(path, "outside/")) {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%s is there %d times: %q", name, n, all)
		}
	}
}

// TestClearEndless: a writer who does not stop gets everything back.
func TestClearEndless(t *testing.T) {
	onTmpfs(t)
	tr := newTree(t, heldPod...)
	leaf := tr.pods + "/" + string(uidA) + "/" + leafNFS
	r, n := tr.open(false), 0
	r.guards.before = outside(func(op, _ string) {
		if op == "renameat2" && n < 100 {
			n++
			tr.must(os.WriteFile(fmt.Sprintf("%s/new%d", leaf, n), nil, 0o600))
		}
	})
	want(t, run1(t, r, tr.clearAction(leafNFS)), policy.Refused, policy.ReasonCannotMove)
	there(t, leaf+"/data", true)
	there(t, leaf+"/new1", true)
	if left := listing(t, tr.quar); len(left) > 0 {
		t.Errorf("in quarantine: %q", left)
	}
}

// TestClearStopped: the daemon is told to stop in the middle: nothing stays half moved.
func TestClearStopped(t *testing.T) {
	onTmpfs(t)
	tr := newTree(t, heldPod...)
	before := listing(t, tr.pods)
	r := tr.open(false)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	r.guards.before = outside(func(op, _ string) {
		if op == "renameat2" {
			if n++; n == 2 {
				cancel()
			}
		}
	})
	o := r.Execute(ctx, policy.Batch{Actions: []policy.Action{tr.clearAction(leafNFS)}})[0]
	if o.Result != policy.Refused || n < 3 {
		t.Fatalf("%+v after %d renames", o, n)
	}
	if after := listing(t, tr.pods); !slices.Equal(after, before) {
		t.Errorf("now %q, was %q", after, before)
	}
}

// TestPutLeafBack: a person, or the daemon after a crash, wants it back, and the pod has
// changed since. What cannot go back stays, and the outcome says why.
func TestPutLeafBack(t *testing.T) {
	for name, tc := range map[string]struct {
		setup  func(tr *tree, pod string)
		person bool
		result policy.Result
		words  string
	}{
		"the kubelet has removed the leaf":        {func(tr *tree, pod string) { tr.must(os.Remove(pod + "/" + leafNFS)) }, true, policy.Partly, "no longer there"},
		"the kubelet has removed the pod, person": {func(tr *tree, pod string) { tr.must(os.RemoveAll(pod)) }, true, policy.Done, ""},
		"the kubelet has removed the pod":         {func(tr *tree, pod string) { tr.must(os.RemoveAll(pod)) }, false, policy.Partly, "no longer there"},
		"a name lies there":                       {func(tr *tree, pod string) { tr.one(pod, "file "+leafNFS+"/data 1") }, true, policy.Partly, "same name"},
		"something else lies there":               {func(tr *tree, pod string) { tr.one(pod, "file "+leafNFS+"/new 1") }, true, policy.Done, ""},
		"mounted":                                 {func(tr *tree, pod string) { tr.mount("bind", pod+"/"+leafNFS) }, true, policy.Partly, "unmount it"},
		"a link":                                  {func(tr *tree, pod string) { tr.instead(pod + "/" + leafNFS) }, true, policy.Partly, "no longer there"},
	} {
		for way, no := range ways {
			t.Run(name+" "+way, func(t *testing.T) {
				onTmpfs(t)
				tr := newTree(t, heldPod...)
				r, a := tr.open(no), tr.clearAction(leafNFS)
				done := run1(t, r, a)
				want(t, done, policy.Done, "")
				tc.setup(tr, tr.pods+"/"+string(uidA))
				a = back(a)
				a.ByPerson, a.ID, a.Leaf = tc.person, done.ID, "" // as of a lost ledger
				o := run1(t, r, a)
				if o.Result != tc.result || !strings.Contains(o.Err, tc.words) {
					t.Fatalf("%s: %s, want %s", o.Result, o.Err, tc.result)
				}
				there(t, tr.quar+"/"+entryLeaf+"/"+leafNFS+"/a/b/c", tc.result == policy.Partly)
				there(t, tr.quar+"/"+entryLeaf+".json", tc.result == policy.Partly)
				if tc.result == policy.Partly && (o.ID != done.ID || len(o.Left) != 1 || o.Left[0].Path != leafNFS) {
					t.Errorf("the outcome does not say what stays: %+v", o)
				}
				tr.mine(t, "a/b/c")
			})
		}
	}
}

// TestTakeLeaf: what was cleared goes by its class.
func TestTakeLeaf(t *testing.T) {
	for _, leaf := range []string{leafNFS, leafCSI} {
		onTmpfs(t)
		tr := newTree(t, heldPod...)
		r, a := tr.open(false), tr.clearAction(leaf)
		done := run1(t, r, a)
		want(t, done, policy.Done, "")
		a.Kind, a.Take, a.ID = policy.Purge, contents.TakeAged, done.ID
		want(t, run1(t, r, a), policy.Partly, "")
		there(t, tr.quar+"/"+entryLeaf, true)
		a.Take = contents.TakeAll
		if o := run1(t, r, a); o.Result != policy.Done && o.Result != policy.Gone {
			t.Errorf("%s: %+v", leaf, o)
		}
		if left := listing(t, tr.quar); len(left) > 0 {
			t.Errorf("%s: %q", leaf, left)
		}
	}
}

// TestClearCutUndone kills before each change, and takes the way back that the next start
// takes: the pod is as it was, and the quarantine empty.
func TestClearCutUndone(t *testing.T) {
	for _, leaf := range []string{leafNFS, leafCSI} {
		t.Run(leaf, func(t *testing.T) {
			onTmpfs(t)
			for kill := 1; ; kill++ {
				tr := newTree(t, heldPod...)
				before := listing(t, tr.pods)
				a := tr.clearAction(leaf)
				died := helper(t, cutOff{Pods: tr.pods, Actions: []policy.Action{a}, Kill: kill}, 0)
				// And the way back is cut off as well.
				for cut := 1; helper(t, cutOff{Pods: tr.pods, Actions: []policy.Action{back(a)}, Kill: cut}, 0); cut += 2 {
					continue
				}
				want(t, run1(t, tr.open(false), back(a)), policy.Done, "")
				if after := listing(t, tr.pods); !slices.Equal(after, before) {
					t.Fatalf("killed before change %d: now %q, was %q", kill, after, before)
				}
				if left := listing(t, tr.quar); len(left) > 0 {
					t.Fatalf("killed before change %d: %q", kill, left)
				}
				if !died {
					if kill < 8 {
						t.Fatalf("it made %d changes", kill-1)
					}
					return
				}
			}
		})
	}
}

// TestAttackedClear: the leaf is exchanged with a link and with another directory while it
// is cleared and put back. Whatever has the name, no content is lost.
func TestAttackedClear(t *testing.T) {
	rounds := 200
	if long() {
		rounds = 600
	}
	for way, no := range ways {
		t.Run(way, func(t *testing.T) {
			onTmpfs(t)
			tr := newTree(t, "file "+leafNFS+"/mine 1", "file "+leafNFS+"/d/mine 1")
			r, a := tr.open(no), tr.clearAction(leafNFS)
			leaf := tr.pods + "/" + string(uidA) + "/" + leafNFS
			with := tr.base + "/other"
			tr.must(os.MkdirAll(with, 0o755))
			tr.must(os.WriteFile(with+"/theirs", nil, 0o600))
			tr.must(os.Symlink(tr.canaryDir(), tr.base+"/link"))
			ctx, cancel := context.WithCancel(context.Background())
			var wg sync.WaitGroup
			wg.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					other := []string{with, tr.base + "/link"}[i%2]
					for range 2 {
						_ = unix.Renameat2(unix.AT_FDCWD, leaf, unix.AT_FDCWD, other, unix.RENAME_EXCHANGE)
					}
				}
			})
			results := map[policy.Result]int{}
			for range rounds {
				results[run1(t, r, a).Result]++
				results[run1(t, r, back(a)).Result]++
			}
			cancel()
			wg.Wait()
			t.Log(results)
			if results[policy.Done] == 0 {
				t.Error("never done")
			}
			var all []string
			for _, p := range listing(t, tr.base) {
				all = append(all, p[strings.LastIndex(p, "/")+1:])
			}
			for name, n := range map[string]int{"mine": 2, "theirs": 1} {
				if got := len(slices.DeleteFunc(slices.Clone(all), func(s string) bool { return s != name })); got != n {
					t.Errorf("%d of %d %s", got, n, name)
				}
			}
		})
	}
}
