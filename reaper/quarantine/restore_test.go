package quarantine

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/content"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

func TestRestore(t *testing.T) {
	for way, no := range testkit.Ways {
		t.Run(way, func(t *testing.T) {
			for _, action := range []judge.Action{judge.Restore, judge.Exchange} {
				tr := newTree(t, "file etc-hosts 1")
				q := tr.open(no)
				m := tr.quarantined(q, action)
				id := m.ID
				m.ID.Dev++ // as after a reboot
				want(t, run1(t, q, m), judge.Done)
				if got := idAt(t, tr.pod()); got != id {
					t.Fatalf("%+v came back, want %+v", got, id)
				}
				wantListing(t, tr.Quar)
				want(t, run1(t, q, m), judge.Done) // again, as after a crash
			}
		})
	}
}

func TestRestoreRefused(t *testing.T) {
	testkit.OnTmpfs(t)
	cases := []struct {
		name   string
		setup  func(tr *tree, m *judge.Move)
		result judge.Result
		words  string
	}{
		{"gone", func(tr *tree, _ *judge.Move) { tr.Must(os.Remove(tr.entry())) }, judge.Gone, ""},
		{"no quarantine", func(tr *tree, _ *judge.Move) { tr.Must(os.RemoveAll(tr.Quar)) }, judge.Refused, "no such file"},
		{"other directory", func(_ *tree, m *judge.Move) { m.ID.Ino++ }, judge.Refused, "another directory"},
		{"other directory, by an exchange", func(_ *tree, m *judge.Move) { m.Action = judge.Exchange; m.ID.Ino++ }, judge.Refused, "another directory"},
		{"no identity", func(_ *tree, m *judge.Move) { m.ID = judge.FileID{} }, judge.Refused, "does not identify"},
		{"file", func(tr *tree, _ *judge.Move) {
			tr.Must(os.Remove(tr.entry()))
			tr.One(tr.Quar, "file "+entryA+" 0")
		}, judge.Refused, "no directory"},
		{"mounted over", func(tr *tree, _ *judge.Move) { tr.One(tr.Quar, "tmpfs "+entryA) }, judge.Refused, mounted},
		{"made again", func(tr *tree, _ *judge.Move) { tr.Pod(uidA, "dir volumes") }, judge.Conflict, "exists again"},
		{"made again and mounted over", func(tr *tree, _ *judge.Move) { tr.One(tr.Pods, "tmpfs "+string(uidA)) }, judge.Conflict, "exists again"},
		{"a link in the way", func(tr *tree, _ *judge.Move) { tr.One(tr.Pods, "link "+string(uidA)) }, judge.Refused, "in the way: it is a symlink"},
		{"a file in the way", func(tr *tree, _ *judge.Move) { tr.One(tr.Pods, "file "+string(uidA)) }, judge.Refused, "in the way: it is a regular file"},
		{"pods gone", func(tr *tree, _ *judge.Move) {
			tr.Must(os.Rename(tr.Pods, tr.Root+"/old"))
			tr.T.Cleanup(func() { tr.Must(os.Rename(tr.Root+"/old", tr.Pods)) })
		}, judge.Refused, "no such file"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for way, no := range testkit.Ways {
				t.Run(way, func(t *testing.T) {
					tr := newTree(t)
					q := tr.open(no)
					m := tr.quarantined(q, judge.Restore)
					c.setup(tr, &m)
					want(t, run1(t, q, m), c.result, c.words)
					if _, err := os.Lstat(tr.entry()); err == nil {
						testkit.There(t, tr.entry()+".json", true)
					}
				})
			}
		})
	}
}

// TestRestoreRace makes the pod's directory again between the check and the rename: nothing is replaced. Without
// RENAME_NOREPLACE a directory that is empty still would be, silently.
func TestRestoreRace(t *testing.T) {
	for _, guard := range []bool{true, false} {
		tr := newTree(t, "file old 1")
		q := tr.open(false)
		m := tr.quarantined(q, judge.Restore)
		if !guard {
			q.guards.noreplace = 0
		}
		var newer judge.FileID
		before(q, func(op, name string) {
			if op == "rename" && name == string(uidA) {
				tr.Pod(uidA)
				newer = idAt(t, tr.pod())
			}
		})
		o := run1(t, q, m)
		if lost := idAt(t, tr.pod()) != newer; lost == guard {
			t.Errorf("guard %t: the new directory is lost: %t", guard, lost)
		}
		if guard {
			want(t, o, judge.Conflict, "exists again")
			testkit.There(t, tr.entry()+"/old", true)
			testkit.There(t, tr.entry()+".json", true)
		}
	}
}

// TestRestoreSwapped checks that nothing is restored if another directory replaces the entry before the rename.
func TestRestoreSwapped(t *testing.T) {
	tr := newTree(t)
	q := tr.open(false)
	m := tr.quarantined(q, judge.Restore)
	tr.Mkdir(tr.Quar + "/other/x")
	done := false
	before(q, func(op, name string) {
		if op == "rename" && name == string(uidA) && !done {
			done = true
			tr.Must(unix.Renameat2(unix.AT_FDCWD, tr.Quar+"/other", unix.AT_FDCWD, tr.entry(), unix.RENAME_EXCHANGE))
		}
	})
	want(t, run1(t, q, m), judge.Refused, "another directory")
	testkit.There(t, tr.entry()+"/x", true)
	testkit.There(t, tr.pod(), false)
}

// TestRestoreNeverMoved checks a first move that was killed before it made the quarantine. Another directory proves nothing.
func TestRestoreNeverMoved(t *testing.T) {
	tr := newTree(t)
	q := tr.open(false)
	m := tr.move(uidA)
	m.Action = judge.Restore
	want(t, run1(t, q, m), judge.Done)
	m.ID.Ino++
	want(t, run1(t, q, m), judge.Refused, "no such file")
}

// firstMade is what a kubelet makes of a pod that returns before a container of it runs.
var firstMade = []string{
	"dir volumes/kubernetes.io~empty-dir/cache", "file plugins/kubernetes.io~empty-dir/cache/ready 0", "file etc-hosts 200",
	"file containers/app/0a1b2c3d 0", "file volumes/kubernetes.io~csi/pv/vol_data.json 300", "dir volumes/kubernetes.io~csi/pv/mount",
}

// TestExchange checks that the quarantined directory comes back in exchange for one that is not in use yet, whose skeleton is
// removed.
func TestExchange(t *testing.T) {
	for way, no := range testkit.Ways {
		for _, specs := range [][]string{nil, {"dir volumes", "dir plugins"}, firstMade} {
			tr := newTree(t, "file volumes/kubernetes.io~empty-dir/cache/old 1")
			q := tr.open(no)
			m := tr.quarantined(q, judge.Exchange)
			tr.Pod(uidA, specs...)
			tr.Mkdir(tr.entry() + judge.OtherSuffix) // the name exists
			o := run1(t, q, m)
			want(t, o, judge.Done)
			if o.Other != "" || idAt(t, tr.pod()) != m.ID {
				t.Errorf("%s: %+v", way, o)
			}
			testkit.There(t, tr.pod()+"/volumes/kubernetes.io~empty-dir/cache/old", true)
			wantListing(t, tr.Quar, entryA+judge.OtherSuffix)
		}
	}
}

// TestExchangeUsed checks that a new directory that is in use is kept in place with its mounts, and that the old one is the
// conflict. Without the guard a living pod's directory is moved to quarantine with its mounts.
func TestExchangeUsed(t *testing.T) {
	testkit.OnTmpfs(t)
	cases := map[string]struct {
		specs   []string
		replace bool // an operator may exchange it
	}{
		"a secret is mounted in it":    {[]string{"tmpfs volumes/kubernetes.io~secret/token"}, false},
		"a mount right below it":       {[]string{"tmpfs volumes"}, false},
		"a bind in containers":         {[]string{"bind containers/app"}, false},
		"a bound file":                 {[]string{"bindfile etc-hosts"}, false},
		"a file in an emptyDir":        {[]string{"file volumes/kubernetes.io~empty-dir/cache/f 1"}, true},
		"a container's last words":     {[]string{"file containers/app/0a1b2c3d 9"}, true},
		"a user namespace":             {[]string{"file userns 100"}, true},
		"a subpath":                    {[]string{"file volume-subpaths/v/app/0 0"}, true},
		"a link":                       {[]string{"link volumes/x"}, true},
		"deeper than a walk goes":      {[]string{"dir volumes/x/" + strings.Repeat("d/", 80)}, false},
		"what is made first, and more": {append([]string{"file volumes/kubernetes.io~nfs/share/data 1"}, firstMade...), true},
	}
	for name, c := range cases {
		for way, no := range testkit.Ways {
			t.Run(name+", "+way, func(t *testing.T) {
				build := func() (*tree, *Quarantine, judge.Move, judge.FileID) {
					tr := newTree(t, "file volumes/kubernetes.io~empty-dir/cache/old 1")
					q := tr.open(no)
					m := tr.quarantined(q, judge.Exchange)
					tr.Pod(uidA, c.specs...)
					return tr, q, m, idAt(t, tr.pod())
				}
				tr, q, m, newer := build()
				o := run1(t, q, m)
				want(t, o, judge.Conflict, "in use")
				if idAt(t, tr.pod()) != newer || idAt(t, tr.entry()) != m.ID {
					t.Error("the living pod's directory was moved")
				}
				testkit.There(t, tr.entry()+".json", true)
				m.Replace = true
				o = run1(t, q, m)
				if c.replace {
					want(t, o, judge.Done)
					if idAt(t, tr.pod()) != m.ID || idAt(t, tr.Quar+"/"+o.Other) != newer || o.OtherID != newer {
						t.Errorf("they were not exchanged: %+v", o)
					}
					testkit.There(t, tr.Quar+"/"+o.Other+".json", true)
					testkit.There(t, tr.entry()+".json", false)
				} else {
					want(t, o, judge.Conflict, "in use")
				}

				tr, q, m, newer = build()
				q.guards.unused = false
				o = run1(t, q, m)
				want(t, o, judge.Done)
				if idAt(t, tr.pod()) == newer {
					t.Error("nothing was moved without the guard")
				}
				if o.Other != "" { // back, so that the mount is at the canary's path again
					tr.Must(unix.Renameat2(unix.AT_FDCWD, tr.Quar+"/"+o.Other, unix.AT_FDCWD, tr.pod(), unix.RENAME_EXCHANGE))
				}
			})
		}
	}
}

// TestExchangeRace checks that a kubelet that begins to use the new directory between the check and the exchange gets it
// back.
func TestExchangeRace(t *testing.T) {
	tr := newTree(t, "file old 1")
	q := tr.open(false)
	m := tr.quarantined(q, judge.Exchange)
	tr.Pod(uidA, "dir volumes")
	newer := idAt(t, tr.pod())
	renames := 0
	before(q, func(op, name string) {
		if op != "rename" || name != string(uidA) {
			return
		}
		if renames++; renames == 1 {
			tr.One(tr.pod(), "file volumes/kubernetes.io~empty-dir/cache/f 1")
		}
	})
	o := run1(t, q, m)
	want(t, o, judge.Conflict, "in use")
	if renames != 2 || idAt(t, tr.pod()) != newer {
		t.Fatalf("%d renames; the living pod's directory did not come back", renames)
	}
	testkit.There(t, tr.entry()+"/old", true)
}

// TestExchangeVanishes checks a new directory that the kubelet removes between the check and the exchange.
func TestExchangeVanishes(t *testing.T) {
	tr := newTree(t, "file old 1")
	q := tr.open(false)
	m := tr.quarantined(q, judge.Exchange)
	tr.Pod(uidA)
	removed := false
	before(q, func(op, name string) {
		if op == "rename" && name == string(uidA) && !removed {
			removed = true
			tr.Must(os.Remove(tr.pod()))
		}
	})
	want(t, run1(t, q, m), judge.Done)
	testkit.There(t, tr.pod()+"/old", true)
	wantListing(t, tr.Quar)
}

// TestExchangeSkeletonFilled checks that what comes to the new directory after the exchange is kept in an entry of its own.
func TestExchangeSkeletonFilled(t *testing.T) {
	tr := newTree(t, "file old 1")
	q := tr.open(false)
	m := tr.quarantined(q, judge.Exchange)
	tr.Pod(uidA, "dir volumes")
	before(q, func(op, name string) {
		if op == "rename" && name == entryA+judge.OtherSuffix {
			tr.One(tr.entry(), "file volumes/kubernetes.io~empty-dir/cache/f 1")
		}
	})
	o := run1(t, q, m)
	want(t, o, judge.Done)
	if o.Other != entryA+judge.OtherSuffix {
		t.Fatalf("%+v", o)
	}
	testkit.There(t, tr.Quar+"/"+o.Other+"/volumes/kubernetes.io~empty-dir/cache/f", true)
	purge := judge.Move{Action: judge.Purge, UID: uidA, Entry: o.Other, ID: o.OtherID, Remove: content.All}
	q.disk = kernel{}
	want(t, run1(t, q, purge), judge.Done)
	wantListing(t, tr.Quar)
}
