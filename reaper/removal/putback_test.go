package removal

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

func TestPutBack(t *testing.T) {
	for way, no := range testkit.Ways {
		t.Run(way, func(t *testing.T) {
			for _, known := range []bool{true, false} {
				tr := newTree(t, "file etc-hosts 1")
				r := tr.open(no)
				a := tr.parked(r)
				a.Kind = policy.PutBack
				id := a.ID
				if !known {
					a.ID = policy.DirID{}
				} else {
					a.ID.Dev++ // as after a reboot
				}
				want(t, run1(t, r, a), policy.Done, "")
				if got := idAt(t, tr.Pods+"/"+string(uidA)); got != id {
					t.Fatalf("%+v came back, want %+v", got, id)
				}
				if left := testkit.Listing(t, tr.Quar); len(left) != 0 {
					t.Fatalf("in quarantine: %q", left)
				}
				again := run1(t, r, a)
				if known {
					want(t, again, policy.Done, "")
				} else {
					want(t, again, policy.Gone, "")
				}
			}
		})
	}
}

func TestPutBackConflict(t *testing.T) {
	for way, no := range testkit.Ways {
		t.Run(way, func(t *testing.T) {
			for _, known := range []bool{true, false} {
				tr := newTree(t, "file old 1")
				r := tr.open(no)
				a := tr.parked(r)
				a.Kind = policy.PutBack
				if !known {
					a.ID = policy.DirID{}
				}
				tr.Pod(uidA, "dir volumes", "dir plugins") // not in use yet
				newer := idAt(t, tr.Pods+"/"+string(uidA))
				tr.Mkdir(tr.Quar + "/" + entryA + ".conflict") // the name exists
				o := run1(t, r, a)
				want(t, o, policy.Conflict, "")
				if o.Conflict != entryA+".conflict.2" {
					t.Fatal(o.Conflict)
				}
				testkit.There(t, tr.Pods+"/"+string(uidA)+"/old", true)
				if idAt(t, tr.Quar+"/"+o.Conflict) != newer {
					t.Fatal("the conflict is not the newer directory")
				}
				testkit.There(t, tr.Quar+"/"+o.Conflict+".json", true)
				testkit.There(t, tr.Quar+"/"+entryA, false)
				testkit.There(t, tr.Quar+"/"+entryA+".json", false)
				for _, take := range []contents.ClassSet{contents.TakeStrip, contents.TakeAged} {
					p := run1(t, r, policy.Action{Kind: policy.Purge, UID: uidA, Entry: o.Conflict, Take: take})
					want(t, p, policy.Refused, policy.ReasonContentUnknown)
				}
				testkit.There(t, tr.Quar+"/"+o.Conflict+"/volumes", true)
				want(t, run1(t, r, policy.Action{Kind: policy.Purge, UID: uidA, Entry: o.Conflict, Take: contents.TakeAll}), policy.Done, "")
				testkit.There(t, tr.Quar+"/"+o.Conflict, false)
			}
		})
	}
}

// TestNoreplace: without RENAME_NOREPLACE a directory that a kubelet has created again is replaced silently.
func TestNoreplace(t *testing.T) {
	for _, guard := range []bool{true, false} {
		tr := newTree(t, "file old 1")
		r := tr.open(false)
		a := tr.parked(r)
		tr.Pod(uidA)
		newer := idAt(t, tr.Pods+"/"+string(uidA))
		if !guard {
			r.guards.noreplace = 0
		}
		a.Kind = policy.PutBack
		o := run1(t, r, a)
		if guard {
			want(t, o, policy.Conflict, "")
			if got := idAt(t, tr.Quar+"/"+o.Conflict); got != newer {
				t.Fatal("the new directory was lost")
			}
			continue
		}
		if o.Result != policy.Done || len(testkit.Listing(t, tr.Quar)) != 0 {
			t.Fatalf("nothing was lost without the guard: %+v", o)
		}
	}
}

func TestPutBackRefused(t *testing.T) {
	cases := []struct {
		name   string
		setup  func(tr *tree, a *policy.Action)
		result policy.Result
		reason policy.Reason
	}{
		{"gone", func(tr *tree, _ *policy.Action) { tr.Must(os.Remove(tr.Quar + "/" + entryA)) }, policy.Gone, ""},
		{"no quarantine", func(tr *tree, _ *policy.Action) { tr.Must(os.RemoveAll(tr.Quar)) }, policy.Refused, policy.ReasonCannotMove},
		{"other directory", func(_ *tree, a *policy.Action) { a.ID.Ino++ }, policy.Refused, policy.ReasonCannotMove},
		{"file", func(tr *tree, _ *policy.Action) {
			tr.Must(os.Remove(tr.Quar + "/" + entryA))
			tr.One(tr.Quar, "file "+entryA+" 0")
		}, policy.Refused, policy.ReasonNotADirectory},
		{"mounted over", func(tr *tree, _ *policy.Action) { tr.One(tr.Quar, "tmpfs "+entryA) }, policy.Refused, policy.ReasonMounted},
		{"made again and mounted over", func(tr *tree, _ *policy.Action) { tr.One(tr.Pods, "tmpfs "+string(uidA)) }, policy.Refused, policy.ReasonRemade},
		{"pods gone", func(tr *tree, _ *policy.Action) {
			tr.Must(os.Rename(tr.Pods, tr.Root+"/old"))
			tr.T.Cleanup(func() { tr.Must(os.Rename(tr.Root+"/old", tr.Pods)) })
		}, policy.Refused, policy.ReasonCannotMove},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for way, no := range testkit.Ways {
				t.Run(way, func(t *testing.T) {
					tr := newTree(t)
					r := tr.open(no)
					a := tr.parked(r)
					a.Kind = policy.PutBack
					c.setup(tr, &a)
					want(t, run1(t, r, a), c.result, c.reason)
				})
			}
		})
	}
}

// TestPutBackSwapped checks that nothing is put back if another directory replaces the entry before the rename.
func TestPutBackSwapped(t *testing.T) {
	tr := newTree(t)
	r := tr.open(false)
	a := tr.parked(r)
	a.Kind = policy.PutBack
	tr.Mkdir(tr.Quar + "/other/x")
	done := false
	r.guards.before = testkit.Outside(func(op, name string) {
		if op == "renameat2" && name == string(uidA) && !done {
			done = true
			tr.Must(unix.Renameat2(unix.AT_FDCWD, tr.Quar+"/other", unix.AT_FDCWD, tr.Quar+"/"+entryA, unix.RENAME_EXCHANGE))
		}
	})
	want(t, run1(t, r, a), policy.Refused, policy.ReasonCannotMove)
	testkit.There(t, tr.Quar+"/"+entryA+"/x", true)
	testkit.There(t, tr.Pods+"/"+string(uidA), false)
}

// TestPutBackNeverMoved checks that a park that was killed before it made the quarantine is closed if the plan's
// directory is in place. Another directory proves nothing.
func TestPutBackNeverMoved(t *testing.T) {
	base := t.TempDir()
	const uid = parsers.PodUID("2c9a1c3e-5f0e-4c39-9d3b-0d6a1e9f6b11")
	pod := filepath.Join(base, "pods", string(uid))
	if err := os.MkdirAll(pod, 0o755); err != nil {
		t.Fatal(err)
	}
	r, err := Open(Config{PodsDir: filepath.Join(base, "pods")})
	if err != nil {
		t.Fatal(err)
	}
	h := r.openHandles(false)
	id, err := h.pods.Identify(string(uid))
	h.close()
	if err != nil {
		t.Fatal(err)
	}
	back := func(id policy.DirID) policy.Outcome {
		return r.Execute(t.Context(), granted, policy.Batch{Actions: []policy.Action{{Kind: policy.PutBack, UID: uid, Entry: string(uid) + ".1", ID: id}}})[0]
	}
	if o := back(id); o.Result != policy.Done {
		t.Errorf("%s: %s", o.Result, o.Err)
	}
	id.Ino++
	if o := back(id); o.Result != policy.Refused {
		t.Errorf("another directory: %s", o.Result)
	}
}

// TestPutBackInTheWay checks that a link or a file at the pod's place is no sign of life. The outcome names it, and
// the entry is unchanged.
func TestPutBackInTheWay(t *testing.T) {
	for what, put := range map[string]func(tr *tree, path string){
		"a symlink":      func(tr *tree, path string) { tr.Must(os.Symlink("/", path)) },
		"a regular file": func(tr *tree, path string) { tr.Must(os.WriteFile(path, nil, 0o600)) },
	} {
		for _, byPerson := range []bool{true, false} {
			tr := newTree(t, "file old 1")
			r := tr.open(!byPerson)
			a := tr.parked(r)
			a.Kind, a.ByPerson = policy.PutBack, byPerson
			path := tr.Pods + "/" + string(uidA)
			put(tr, path)
			o := run1(t, r, a)
			want(t, o, policy.Refused, policy.ReasonCannotMove)
			if o.Conflict != "" || o.MadeAgain() || !strings.Contains(o.Err, path+" is in the way: it is "+what) {
				t.Errorf("%s: conflict %q, made again: %t, %s", what, o.Conflict, o.MadeAgain(), o.Err)
			}
			testkit.There(t, tr.Quar+"/"+entryA+"/old", true)
			tr.Must(os.Remove(path))
			want(t, run1(t, r, a), policy.Done, "")
		}
	}
}
