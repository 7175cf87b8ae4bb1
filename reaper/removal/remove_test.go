package removal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// quarantined makes a tree whose pod uidA is in quarantine, and returns the action that removes from it.
func quarantined(tb testing.TB, no bool, take contents.ClassSet, specs ...string) (*tree, *Remover, policy.Action) {
	tb.Helper()
	tr := newTree(tb)
	r := tr.open(no)
	a := tr.parked(r)
	tr.Build(tr.Quar+"/"+entryA, specs...)
	a.Kind, a.Take, a.Manifest = policy.Strip, take, nil
	return tr, r, a
}

var fullPod = []string{
	"file etc-hosts 200", "file containers/app/1234 10", "file plugins/kubernetes.io~empty-dir/c/ready 0",
	"file volumes/kubernetes.io~csi/pv/vol_data.json 30", "dir volumes/kubernetes.io~csi/pv/mount/lost",
	"file volumes/kubernetes.io~secret/s/..x/key 10", "link volumes/kubernetes.io~secret/s/..data ..x",
	"file volume-subpaths/v/c/0 0", "link volumeDevices/kubernetes.io~csi/pv /dev/null",
	"file volumes/kubernetes.io~empty-dir/cache/deep/file 5000", "dir volumes/kubernetes.io~empty-dir/hollow/a/b",
	"file volumes/kubernetes.io~csi/db/mount/data 9000", "hard volumes/kubernetes.io~csi/db/mount/also volumes/kubernetes.io~csi/db/mount/data",
	"fifo unknown",
}

func TestRemoveByClass(t *testing.T) {
	ephemeral := []string{"volumes/kubernetes.io~empty-dir/cache", "volumes/kubernetes.io~empty-dir/cache/deep", "volumes/kubernetes.io~empty-dir/cache/deep/file"}
	data := []string{
		"unknown", "volumes/kubernetes.io~csi/db", "volumes/kubernetes.io~csi/db/mount", "volumes/kubernetes.io~csi/db/mount/also",
		"volumes/kubernetes.io~csi/db/mount/data",
	}
	up := []string{"volumes", "volumes/kubernetes.io~csi"}
	cases := []struct {
		name string
		take contents.ClassSet
		left []string
		rows []string
	}{
		{
			"strip", contents.TakeStrip, slices.Concat(up, ephemeral, data, []string{"volumes/kubernetes.io~empty-dir"}),
			[]string{"unknown", "volumes/kubernetes.io~csi/db/mount", "volumes/kubernetes.io~empty-dir/cache"},
		},
		{"aged", contents.TakeAged, slices.Concat(up, data), []string{"unknown", "volumes/kubernetes.io~csi/db/mount"}},
		{"all", contents.TakeAll, nil, nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for way, no := range testkit.Ways {
				t.Run(way, func(t *testing.T) {
					tr, r, a := quarantined(t, no, c.take, fullPod...)
					tr.Must(os.WriteFile(tr.Quar+"/"+entryA+"/volumes/kubernetes.io~csi/pv/vol_data.json", []byte(`{"driverName":"x"}`), 0o600))
					o := run1(t, r, a)
					result := policy.Partly
					if c.left == nil {
						result = policy.Done
					}
					want(t, o, result, "")
					left := testkit.Listing(t, tr.Quar+"/"+entryA)
					slices.Sort(left)
					slices.Sort(c.left)
					if !slices.Equal(left, c.left) {
						t.Fatalf("left %q\nwant %q", left, c.left)
					}
					testkit.There(t, tr.Quar+"/"+entryA+".json", c.left != nil)
					if got := o.VolData["volumes/kubernetes.io~csi/pv/vol_data.json"]; got != `{"driverName":"x"}` || len(o.VolData) != 1 {
						t.Fatalf("vol_data %q", o.VolData)
					}
					var rows []string
					for _, l := range o.Left {
						rows = append(rows, l.Path)
					}
					slices.Sort(rows)
					if !slices.Equal(rows, c.rows) {
						t.Fatalf("rows %+v", o.Left)
					}
					if n := o.Taken[contents.ClassProjected]; n.Entries != 4 {
						t.Fatalf("projected %+v", n)
					}
					// A second run has the same result.
					again := run1(t, r, a)
					if c.left == nil {
						want(t, again, policy.Gone, "")
					} else {
						want(t, again, policy.Partly, "")
					}
				})
			}
		})
	}
}

func TestTallies(t *testing.T) {
	tr, r, a := quarantined(t, false, contents.TakeStrip, fullPod...)
	o := run1(t, r, a)
	for _, l := range o.Left {
		switch l.Path {
		case "volumes/kubernetes.io~csi/db/mount":
			// A file with two names counts once: 9,000 bytes are three blocks, plus the directory.
			dir := tr.Quar + "/" + entryA + "/" + l.Path
			if l.Entries != 3 || l.Bytes != blocks(t, dir)+blocks(t, dir+"/data") || l.Class != contents.ClassData || l.Partial {
				t.Errorf("%+v", l)
			}
		case "volumes/kubernetes.io~empty-dir/cache":
			if l.Entries != 3 || l.Class != contents.ClassEphemeral {
				t.Errorf("%+v", l)
			}
		}
	}
	bytes := blocks(t, tr.Quar+"/"+entryA+"/volumes/kubernetes.io~csi/db/mount/data") +
		blocks(t, tr.Quar+"/"+entryA+"/volumes/kubernetes.io~csi/db/mount")
	a.Take = contents.TakeAll
	o = run1(t, r, a)
	want(t, o, policy.Done, "")
	got := o.Taken[contents.ClassData]
	if got.Entries != 4 || got.Bytes != bytes {
		t.Errorf("data %+v, want 4 entries and %d bytes", got, bytes)
	}
}

func blocks(t *testing.T, path string) int64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st.Blocks * 512
}

// TestVolDataKept checks that a vol_data.json that no kubelet wrote is not removed before it can be recorded.
func TestVolDataKept(t *testing.T) {
	const path = "volumes/kubernetes.io~csi/pv/vol_data.json"
	for _, spec := range []string{"file " + path + " 1048577", "link " + path, "fifo " + path, "dir " + path} {
		for way, no := range testkit.Ways {
			t.Run(way, func(t *testing.T) {
				tr, r, a := quarantined(t, no, contents.TakeStrip, spec, "file "+path+"2 1")
				want(t, run1(t, r, a), policy.Partly, "")
				testkit.There(t, tr.Quar+"/"+entryA+"/"+path, !strings.HasPrefix(spec, "dir"))
				a.Take = contents.TakeAll
				want(t, run1(t, r, a), policy.Done, "")
			})
		}
	}
}

// TestMountStops checks that a mount of any kind at any level stops the removal of the pod, and that the files behind
// it survive.
func TestMountStops(t *testing.T) {
	for _, kind := range []string{"bind", "tmpfs", "bindfile", "overlay"} {
		for _, at := range []string{
			"m", "volumes/m", "volumes/kubernetes.io~csi/m", "volumes/kubernetes.io~csi/pv/mount",
			"volumes/kubernetes.io~empty-dir/e/a/b/m", "volumes/kubernetes.io~secret/s/m",
		} {
			for _, take := range []contents.ClassSet{contents.TakeStrip, contents.TakeAll} {
				t.Run(fmt.Sprintf("%s %s %d", kind, strings.ReplaceAll(at, "/", "-"), take), func(t *testing.T) {
					for way, no := range testkit.Ways {
						t.Run(way, func(t *testing.T) {
							tr, r, a := quarantined(t, no, take, kind+" "+at, "file "+at+"2/beside 10")
							o := run1(t, r, a)
							result := policy.Refused
							if len(o.Taken) > 0 {
								result = policy.Failed
							}
							want(t, o, result, policy.ReasonMounted)
							tr.Check()
						})
					}
				})
			}
		}
	}
}

// TestGuardNoXdev: without the kernel's check the same tree is emptied through the bind mount.
func TestGuardNoXdev(t *testing.T) {
	for way, no := range testkit.Ways {
		t.Run(way, func(t *testing.T) {
			tr, r, a := quarantined(t, no, contents.TakeAll, "bind volumes/kubernetes.io~csi/pv/mount")
			testkit.Set(r.open, "down", uint64(0))
			testkit.Set(r.open, "same", func(_, _ int) (bool, error) { return true, nil })
			run1(t, r, a)
			if len(tr.Lost()) < 2 {
				t.Fatal("nothing was lost without the guard")
			}
			tr.Canaries = nil
		})
	}
}

// TestBan shows the loss for which os.RemoveAll is banned, on the same tree.
func TestBan(t *testing.T) {
	for _, kind := range []string{"bind", "tmpfs"} {
		tr, _, _ := quarantined(t, false, contents.TakeAll, kind+" volumes/kubernetes.io~csi/pv/mount")
		_ = os.RemoveAll(tr.Quar + "/" + entryA)
		if len(tr.Lost()) == 0 {
			t.Fatalf("os.RemoveAll lost nothing behind a %s: so the ban has no reason", kind)
		}
		tr.Canaries = nil
	}
}

// TestHostileNames checks that names are handled as bytes and that only directories are opened.
func TestHostileNames(t *testing.T) {
	for way, no := range testkit.Ways {
		t.Run(way, func(t *testing.T) {
			const e = "volumes/kubernetes.io~empty-dir/e/"
			tr, r, a := quarantined(t, no, contents.TakeAged,
				"file "+e+"new\nline 1", "dir "+e+"\xff\xfe", "file "+e+strings.Repeat("n", 255)+" 1", "dir "+e+strings.Repeat("é", 127),
				"fifo "+e+"fifo", "sock "+e+"sock", "link "+e+"link", "link "+e+"loop loop", "link "+e+"up ../../../../..", "file "+e+"-rf 1", "file "+e+"... 1",
				"dir "+e+"*",
				"fifo \xff\n")
			if os.Geteuid() == 0 {
				_ = unix.Mknod(tr.Quar+"/"+entryA+"/"+e+"dev", unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3)))
			}
			o := run1(t, r, a)
			want(t, o, policy.Partly, "")
			if left := testkit.Listing(t, tr.Quar+"/"+entryA); len(left) != 1 {
				t.Fatalf("left %q", left)
			}
			if len(o.Left) != 1 || o.Left[0].Path != `"\xff\n"` {
				t.Fatalf("%+v", o.Left)
			}
		})
	}
}

// TestImmutable checks that an immutable file is reported, keeps its attribute, and does not stop the rest.
func TestImmutable(t *testing.T) {
	tr, r, a := quarantined(t, false, contents.TakeAll, "file volumes/kubernetes.io~empty-dir/e/d/fixed 10", "file volumes/kubernetes.io~empty-dir/e/other 10")
	fixed := tr.Quar + "/" + entryA + "/volumes/kubernetes.io~empty-dir/e/d/fixed"
	if err := testkit.Immutable(fixed, true); err != nil {
		testkit.Skip(t, "nothing can be made immutable: ", err)
	}
	o := run1(t, r, a)
	want(t, o, policy.Failed, policy.ReasonRemoval)
	if !strings.Contains(o.Err, fixed) || len(o.Left) != 1 || o.Left[0].Path != "volumes/kubernetes.io~empty-dir/e/d/fixed" {
		t.Fatalf("%s %+v", o.Err, o.Left)
	}
	testkit.There(t, fixed, true)
	testkit.There(t, tr.Quar+"/"+entryA+"/volumes/kubernetes.io~empty-dir/e/other", false)
	tr.Must(testkit.Immutable(fixed, false))
	want(t, run1(t, r, a), policy.Done, "")
}

// TestDeep removes a tree with more levels than descriptors, with an entry at every 500th level and a kept file at
// the bottom.
func TestDeep(t *testing.T) {
	levels := 3000
	if testkit.Long() {
		levels = 10_000
	}
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	for way, no := range testkit.Ways {
		t.Run(way, func(t *testing.T) {
			testkit.OnTmpfs(t)
			tr, r, a := quarantined(t, no, contents.TakeAll, "dir volumes/kubernetes.io~empty-dir/e")
			deep(t, tr.Quar+"/"+entryA+"/volumes/kubernetes.io~empty-dir/e", levels)
			few := unix.Rlimit{Cur: 128, Max: old.Max}
			tr.Must(unix.Setrlimit(unix.RLIMIT_NOFILE, &few))
			o := run1(t, r, a)
			tr.Must(unix.Setrlimit(unix.RLIMIT_NOFILE, &old))
			want(t, o, policy.Done, "")
			if n := o.Taken[contents.ClassEphemeral].Entries; n != int64(levels)*3+1 {
				t.Fatalf("%d entries removed", n)
			}
		})
	}
}

// deep makes nested directories, each with a file and a directory beside the next level.
func deep(t *testing.T, path string, levels int) {
	t.Helper()
	at, err := unix.Open(path, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	for range levels {
		if err != nil {
			t.Fatal(err)
		}
		fd, e := unix.Openat(at, "file", unix.O_CREAT|unix.O_WRONLY, 0o600)
		beneath.Close(fd)
		err = errors.Join(e, unix.Mkdirat(at, "beside", 0o700), unix.Mkdirat(at, "d", 0o700))
		next, e := unix.Openat(at, "d", unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		beneath.Close(at)
		at, err = next, errors.Join(err, e)
	}
	beneath.Close(at)
}

// TestDeepKept checks that the walk ends in a tree deeper than its window with an entry at the bottom that cannot be
// removed.
func TestDeepKept(t *testing.T) {
	for _, from := range []int{liftFrom, 1 << 20} {
		tr, r, a := quarantined(t, false, contents.TakeAll,
			"dir volumes/kubernetes.io~empty-dir/e/"+strings.Repeat("d/", 300), "file volumes/kubernetes.io~empty-dir/e/d/d/beside 1")
		r.guards.liftFrom = from
		bottom := tr.Quar + "/" + entryA + "/volumes/kubernetes.io~empty-dir/e/" + strings.Repeat("d/", 300)
		tr.Must(os.WriteFile(bottom+"fixed", nil, 0o600))
		if err := testkit.Immutable(bottom+"fixed", true); err != nil {
			testkit.Skip(t, "nothing can be made immutable: ", err)
		}
		o := run1(t, r, a)
		want(t, o, policy.Failed, policy.ReasonRemoval)
		if len(o.Left) != 1 {
			t.Fatalf("%+v", o.Left)
		}
		left := tr.Quar + "/" + entryA + "/" + o.Left[0].Path
		if from > liftFrom && left != bottom+"fixed" {
			t.Error(left)
		}
		testkit.There(t, left, true)
		tr.Must(testkit.Immutable(left, false))
		want(t, run1(t, r, a), policy.Done, "")
	}
}

// TestMovedAway moves a directory out of quarantine while it is emptied, as a host process may. The walk stops within
// checkEvery removals, and under Landlock at the next one. Without both everything is lost.
func TestMovedAway(t *testing.T) {
	const files = 2000
	for _, tc := range []struct {
		hangs, landlock bool
		pods            bool // moved into the pods directory instead of beside it
		most, least     int  // number of remaining files
	}{
		{hangs: true, most: files, least: files - checkEvery},
		{landlock: true, most: files, least: files - 10},
		{landlock: true, pods: true, most: files, least: files - 10},
		{pods: true, most: 1},
		{most: 1},
	} {
		tr, r, a := quarantined(t, false, contents.TakeAll, "dir volumes/kubernetes.io~empty-dir/e/keep/inner")
		keep := tr.Quar + "/" + entryA + "/volumes/kubernetes.io~empty-dir/e/keep"
		for i := range files {
			tr.Must(os.WriteFile(fmt.Sprintf("%s/inner/%d", keep, i), nil, 0o600))
		}
		r.guards.hangs = tc.hangs
		if tc.landlock {
			needLandlock(t, r)
		} else {
			testkit.Set(r.run, "handled", uint64(0))
		}
		n, kept := 0, tr.Base+"/kept"
		if tc.pods {
			kept = tr.Pods + "/" + string(uidA)
		}
		r.guards.before = testkit.Outside(func(op, _ string) {
			if n++; op == "unlinkat" && n == 10 {
				tr.Must(os.Rename(keep, kept))
			}
		})
		o := run1(t, r, a)
		want(t, o, policy.Failed, policy.ReasonRemoval)
		left := len(testkit.Listing(t, kept))
		if left < tc.least || left > tc.most {
			t.Fatalf("%+v: %d of %d files remain", tc, left, files)
		}
	}
}

// TestMovedAwayTree checks that no more of a moved tree of small directories is removed than of one large directory.
// With a check every 256 removals all of it was removed.
func TestMovedAwayTree(t *testing.T) {
	const dirs = 100
	tr, r, a := quarantined(t, false, contents.TakeAll, "dir volumes/kubernetes.io~empty-dir/e/keep")
	keep := tr.Quar + "/" + entryA + "/volumes/kubernetes.io~empty-dir/e/keep"
	for i := range dirs {
		tr.One(keep, fmt.Sprintf("file %d/file 1", i))
	}
	testkit.Set(r.run, "handled", uint64(0))
	n := 0
	r.guards.before = testkit.Outside(func(op, _ string) {
		if n++; op == "unlinkat" && n == 1 {
			tr.Must(os.Rename(keep, tr.Base+"/kept"))
		}
	})
	want(t, run1(t, r, a), policy.Failed, policy.ReasonRemoval)
	if left := len(testkit.Listing(t, tr.Base+"/kept")); left < 2*dirs-40 {
		t.Errorf("%d of %d files and directories remain", left, 2*dirs)
	}
}

// TestWriter checks that a directory that a process keeps writing to is read three more times and then kept for a
// later run.
func TestWriter(t *testing.T) {
	tr, r, a := quarantined(t, false, contents.TakeAll, "file volumes/kubernetes.io~empty-dir/e/log 1", "file etc-hosts 1")
	at := tr.Quar + "/" + entryA + "/volumes/kubernetes.io~empty-dir/e"
	tries := 0
	r.guards.before = testkit.Outside(func(op, name string) {
		if op == "rmdir" && name == "e" {
			tries++
			tr.Must(os.WriteFile(fmt.Sprintf("%s/%d", at, tries), nil, 0o600))
		}
	})
	o := run1(t, r, a)
	want(t, o, policy.Failed, policy.ReasonRemoval)
	if tries != 1+maxRescans {
		t.Fatalf("%d tries", tries)
	}
	testkit.There(t, tr.Quar+"/"+entryA+"/etc-hosts", false)
	r.guards.before = nil
	want(t, run1(t, r, a), policy.Done, "")
}

// TestSurveyBounds checks that a tree of directories only is removed, unless it is deeper or larger than a survey
// counts.
func TestSurveyBounds(t *testing.T) {
	const csi = "volumes/kubernetes.io~csi/"
	tr, r, a := quarantined(t, false, contents.TakeStrip, "dir "+csi+"goes/mount/"+strings.Repeat("d/", surveyDepth-2),
		"dir "+csi+"deep/mount/"+strings.Repeat("d/", surveyDepth+1), "dir "+csi+"wide/mount/d")
	for i := range surveyEntries {
		tr.Must(os.WriteFile(fmt.Sprintf("%s/%s/%swide/mount/d/%d", tr.Quar, entryA, csi, i), nil, 0o600))
	}
	o := run1(t, r, a)
	want(t, o, policy.Partly, "")
	testkit.There(t, tr.Quar+"/"+entryA+"/"+csi+"goes", false)
	left := map[string]int64{}
	for _, l := range o.Left {
		if !l.Partial {
			t.Errorf("%s counts as completely surveyed", l.Path)
		}
		left[l.Path] = l.Entries
	}
	if want := map[string]int64{csi + "deep/mount": surveyDepth + 1, csi + "wide/mount": surveyEntries}; !maps.Equal(left, want) {
		t.Errorf("residue %v, want %v", left, want)
	}
}

// TestPruneKeepsFiles checks that a tree of directories is kept if a file arrives between the check and the rmdir.
func TestPruneKeepsFiles(t *testing.T) {
	tr, r, a := quarantined(t, false, contents.TakeStrip, "dir volumes/kubernetes.io~csi/db/mount/a/b", "dir volumes/kubernetes.io~csi/db/mount/c")
	late := tr.Quar + "/" + entryA + "/volumes/kubernetes.io~csi/db/mount/a/late"
	r.guards.before = testkit.Outside(func(op, name string) {
		if op == "rmdir" && (name == "b" || name == "a") {
			_ = os.WriteFile(late, []byte("x"), 0o600)
		}
	})
	o := run1(t, r, a)
	if o.Result == policy.Done {
		t.Fatalf("%+v", o)
	}
	testkit.There(t, late, true)
}

// TestNoManifest checks that an entry in neither the ledger nor a manifest is kept, unless its complete removal is
// requested.
func TestNoManifest(t *testing.T) {
	tr, r, a := quarantined(t, false, contents.TakeAged, "file etc-hosts 1")
	a.ID = policy.DirID{}
	tr.Must(os.Remove(tr.Quar + "/" + entryA + ".json"))
	want(t, run1(t, r, a), policy.Refused, policy.ReasonContentUnknown)
	testkit.There(t, tr.Quar+"/"+entryA+"/etc-hosts", true)
	a.Take = contents.TakeAll
	want(t, run1(t, r, a), policy.Done, "")
}

func TestRemoveRefused(t *testing.T) {
	tr, r, a := quarantined(t, false, contents.TakeAll, "file etc-hosts 1")
	other := a
	other.ID.Ino++
	o := run1(t, r, other)
	if want(t, o, policy.Refused, policy.ReasonRemoval); o.Stopped {
		t.Error("a refused action counts as stopped")
	}
	testkit.There(t, tr.Quar+"/"+entryA+"/etc-hosts", true)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, o := range r.Execute(ctx, granted, policy.Batch{Actions: []policy.Action{a, a}}) {
		if want(t, o, policy.Refused, policy.ReasonRemoval); !o.Stopped {
			t.Error("a stopped action counts as failed")
		}
	}
	testkit.There(t, tr.Quar+"/"+entryA+"/etc-hosts", true)
	tr.Must(os.RemoveAll(tr.Quar + "/" + entryA))
	want(t, run1(t, r, a), policy.Gone, "")
	testkit.There(t, tr.Quar+"/"+entryA+".json", false)
}

// TestCancelled checks that a walk ends with its context.
func TestCancelled(t *testing.T) {
	tr, r, a := quarantined(t, false, contents.TakeAll, "dir volumes/kubernetes.io~empty-dir/e")
	for i := range 1000 {
		tr.One(tr.Quar+"/"+entryA, fmt.Sprintf("file volumes/kubernetes.io~empty-dir/e/%d 0", i))
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.guards.before = testkit.Outside(func(op, _ string) {
		if op == "unlinkat" {
			cancel()
		}
	})
	o := r.Execute(ctx, granted, policy.Batch{Actions: []policy.Action{a}})[0]
	want(t, o, policy.Failed, policy.ReasonRemoval)
	if n := o.Taken[contents.ClassEphemeral].Entries; n != 1 || !o.Stopped {
		t.Fatalf("%d removed, stopped: %v", n, o.Stopped)
	}
	r.guards.before = nil
	want(t, run1(t, r, a), policy.Done, "")
}

func TestReadOnly(t *testing.T) {
	tr, r, a := quarantined(t, false, contents.TakeAll, "file etc-hosts 1", "file volumes/kubernetes.io~empty-dir/e/a 1")
	if err := unix.Mount(tr.Base, tr.Base, "", unix.MS_BIND, ""); err != nil {
		testkit.Skip(t, "nothing can be mounted: ", err)
	}
	readOnly(t, tr.Base)
	o := run1(t, r, a)
	want(t, o, policy.Refused, policy.ReasonRemoval)
	if !strings.Contains(o.Err, "read-only") {
		t.Fatal(o.Err)
	}
}

// TestRemoveNone checks that an action on a missing entry removes nothing of an entry that has appeared, and removes
// the manifest otherwise.
func TestRemoveNone(t *testing.T) {
	tr, r, a := quarantined(t, false, contents.TakeNone, "file volumes/kubernetes.io~projected/token/ca.crt 10")
	a.Kind = policy.Strip
	want(t, run1(t, r, a), policy.Refused, policy.ReasonContentUnknown)
	testkit.There(t, tr.Quar+"/"+entryA+"/volumes/kubernetes.io~projected/token/ca.crt", true)
	tr.Must(os.RemoveAll(tr.Quar + "/" + entryA))
	want(t, run1(t, r, a), policy.Gone, "")
	testkit.There(t, tr.Quar+"/"+entryA+".json", false)
}

// readOnly bind-mounts the path read-only. A user namespace locks the flags of the mount beneath, such as nosuid, so
// they are kept.
func readOnly(tb testing.TB, path string) {
	tb.Helper()
	var st unix.Statfs_t
	testkit.Must(tb, unix.Statfs(path, &st))
	locked := uintptr(st.Flags) & (unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_NOATIME | unix.MS_NODIRATIME)
	if st.Flags&unix.ST_RELATIME != 0 {
		locked |= unix.MS_RELATIME
	}
	if err := unix.Mount("", path, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|locked, ""); err != nil {
		testkit.Skip(tb, "no mount can be made read-only: ", err)
	}
}
