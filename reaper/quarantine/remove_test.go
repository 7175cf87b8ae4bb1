package quarantine

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

	"github.com/orphan-reaper/orphan-reaper/reaper/content"
	"github.com/orphan-reaper/orphan-reaper/reaper/fdpath"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

const emptyDirE = "volumes/kubernetes.io~empty-dir/e"

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
	testkit.OnTmpfs(t)
	ephemeral := []string{"volumes/kubernetes.io~empty-dir/cache", "volumes/kubernetes.io~empty-dir/cache/deep", "volumes/kubernetes.io~empty-dir/cache/deep/file"}
	data := []string{
		"unknown", "volumes/kubernetes.io~csi/db", "volumes/kubernetes.io~csi/db/mount", "volumes/kubernetes.io~csi/db/mount/also",
		"volumes/kubernetes.io~csi/db/mount/data",
	}
	up := []string{"volumes", "volumes/kubernetes.io~csi"}
	cases := []struct {
		name   string
		remove content.Set
		left   []string
		rows   []string
	}{
		{
			"payloads", content.Payloads, slices.Concat(up, ephemeral, data, []string{"volumes/kubernetes.io~empty-dir"}),
			[]string{"unknown", "volumes/kubernetes.io~csi/db/mount", "volumes/kubernetes.io~empty-dir/cache"},
		},
		{"aged", content.Aged, slices.Concat(up, data), []string{"unknown", "volumes/kubernetes.io~csi/db/mount"}},
		{"all", content.All, nil, nil},
	}
	for _, c := range cases {
		for way, no := range testkit.Ways {
			t.Run(c.name+" "+way, func(t *testing.T) {
				tr, q, m := entryWith(t, no, c.remove, fullPod...)
				tr.Must(os.WriteFile(tr.entry()+"/volumes/kubernetes.io~csi/pv/vol_data.json", []byte(`{"driverName":"x"}`), 0o600))
				o := run1(t, q, m)
				result, again := judge.Partly, judge.Partly
				if c.left == nil {
					result, again = judge.Done, judge.Gone
				}
				want(t, o, result)
				wantListing(t, tr.entry(), c.left...)
				testkit.There(t, tr.entry()+".json", c.left != nil)
				if got := o.VolData["volumes/kubernetes.io~csi/pv/vol_data.json"]; got != `{"driverName":"x"}` || len(o.VolData) != 1 {
					t.Errorf("vol_data %q", o.VolData)
				}
				var rows []string
				for _, l := range o.Left {
					rows = append(rows, l.Path)
				}
				slices.Sort(rows)
				if !slices.Equal(rows, c.rows) {
					t.Errorf("rows %+v", o.Left)
				}
				if n := o.Taken[content.Projected]; n.Entries != 4 {
					t.Errorf("projected %+v", n)
				}
				want(t, run1(t, q, m), again) // as after a crash
				wantListing(t, tr.entry(), c.left...)
			})
		}
	}
}

func TestTallies(t *testing.T) {
	tr, q, m := entryWith(t, false, content.Payloads, fullPod...)
	dir := tr.entry() + "/volumes/kubernetes.io~csi/db/mount"
	bytes := blocks(t, dir) + blocks(t, dir+"/data") // a file with two names counts once
	check := func(sums map[content.Class]judge.Tally, rows []judge.Residue) {
		t.Helper()
		for _, l := range rows {
			switch l.Path {
			case "volumes/kubernetes.io~csi/db/mount":
				if l.Entries != 3 || l.Bytes != bytes || l.Class != content.Data || l.Partial {
					t.Errorf("%+v", l)
				}
			case "volumes/kubernetes.io~empty-dir/cache":
				if l.Entries != 3 || l.Class != content.Ephemeral {
					t.Errorf("%+v", l)
				}
			}
		}
		if sums[content.Data].Entries != 4 || sums[content.Ephemeral].Entries != 3 {
			t.Errorf("%+v", sums)
		}
	}
	sums, rows, err := q.Count(t.Context(), uidA, entryA)
	tr.Must(err)
	check(sums, rows)
	if sums[content.Projected].Entries != 4 || sums[content.Skeleton].Entries == 0 {
		t.Errorf("%+v", sums)
	}
	o := run1(t, q, m)
	sums, rows, err = q.Count(t.Context(), uidA, entryA)
	tr.Must(err)
	check(sums, o.Left)
	check(sums, rows)
	m.Remove = content.All
	o = run1(t, q, m)
	want(t, o, judge.Done)
	if got := o.Taken[content.Data]; got.Entries != 4 || got.Bytes != bytes {
		t.Errorf("data %+v, want 4 entries and %d bytes", got, bytes)
	}
}

func blocks(t *testing.T, path string) int64 {
	t.Helper()
	var st unix.Stat_t
	testkit.Must(t, unix.Lstat(path, &st))
	return st.Blocks * 512
}

// TestCount checks that a count of a pod's directory changes nothing, and passes over a mount.
func TestCount(t *testing.T) {
	tr := newTree(t, append([]string{"bind volumes/kubernetes.io~nfs/share"}, fullPod...)...)
	q := tr.open(false)
	before(q, func(op, name string) { t.Errorf("%s %s", op, name) })
	was := listing(t, tr.Root)
	sums, rows, err := q.Count(t.Context(), uidA, "")
	tr.Must(err)
	mount := slices.IndexFunc(rows, func(r judge.Residue) bool { return r.Path == "volumes/kubernetes.io~nfs/share" })
	if sums[content.Ephemeral].Entries != 3 || mount < 0 || !rows[mount].Partial {
		t.Errorf("%+v, %+v", sums, rows)
	}
	if now := listing(t, tr.Root); !slices.Equal(now, was) {
		t.Errorf("changed to %q", now)
	}
	if _, _, err := q.Count(t.Context(), uidA, entryA); err == nil {
		t.Error("an entry without a quarantine was counted")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := q.Count(ctx, uidA, ""); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestVolDataKept checks that a vol_data.json that no kubelet wrote is not removed before it can be recorded.
func TestVolDataKept(t *testing.T) {
	testkit.OnTmpfs(t)
	const path = "volumes/kubernetes.io~csi/pv/vol_data.json"
	for _, spec := range []string{"file " + path + " 1048577", "link " + path, "fifo " + path, "dir " + path} {
		for way, no := range testkit.Ways {
			t.Run(way, func(t *testing.T) {
				tr, q, m := entryWith(t, no, content.Payloads, spec, "file "+path+"2 1")
				want(t, run1(t, q, m), judge.Partly)
				testkit.There(t, tr.entry()+"/"+path, !strings.HasPrefix(spec, "dir"))
				m.Remove = content.All
				want(t, run1(t, q, m), judge.Done)
			})
		}
	}
}

// TestMountStops checks that a mount of any kind at any level stops the removal of the pod, and that the files behind it
// survive.
func TestMountStops(t *testing.T) {
	testkit.OnTmpfs(t)
	for _, kind := range []string{"bind", "tmpfs", "bindfile", "overlay"} {
		for _, at := range []string{
			"m", "volumes/m", "volumes/kubernetes.io~csi/m", "volumes/kubernetes.io~csi/pv/mount",
			"volumes/kubernetes.io~empty-dir/e/a/b/m", "volumes/kubernetes.io~secret/s/m",
		} {
			for _, remove := range []content.Set{content.Payloads, content.All} {
				t.Run(fmt.Sprintf("%s %s %d", kind, strings.ReplaceAll(at, "/", "-"), remove), func(t *testing.T) {
					for way, no := range testkit.Ways {
						t.Run(way, func(t *testing.T) {
							tr, q, m := entryWith(t, no, remove, kind+" "+at, "file "+at+"2/beside 10")
							o := run1(t, q, m)
							result := judge.Refused
							if len(o.Taken) > 0 {
								result = judge.Failed
							}
							want(t, o, result, mounted)
							testkit.There(t, tr.entry()+".json", true)
							tr.Check()
						})
					}
				})
			}
		}
	}
}

// busy is a disk on which a mount lies that statx(2) does not show, as before Linux 5.8.
type busy struct{ disk }

func (busy) unlink(*fdpath.Dir, string) error { return unix.EBUSY }

// TestBusy: a file that cannot be removed since something is mounted on it stops the removal.
func TestBusy(t *testing.T) {
	_, q, m := entryWith(t, false, content.All, "file etc-hosts 1")
	q.disk = busy{kernel{}}
	want(t, run1(t, q, m), judge.Refused, mounted)
}

// TestEntryMounted checks an entry that is a mount point itself.
func TestEntryMounted(t *testing.T) {
	for _, no := range testkit.Ways {
		tr, q, m := entryWith(t, no, content.All)
		tr.One(tr.Quar, "tmpfs "+entryA)
		want(t, run1(t, q, m), judge.Refused, mounted)
		tr.Check()
	}
}

// TestGuardNoXdev shows that without the check of a step the same tree is emptied through the bind mount.
func TestGuardNoXdev(t *testing.T) {
	for way, no := range testkit.Ways {
		t.Run(way, func(t *testing.T) {
			tr, q, m := entryWith(t, no, content.All, "bind volumes/kubernetes.io~csi/pv/mount")
			testkit.Set(q.open, "flags", uint64(0))
			run1(t, q, m)
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
		tr, _, _ := entryWith(t, false, content.All, kind+" volumes/kubernetes.io~csi/pv/mount")
		_ = os.RemoveAll(tr.entry())
		if len(tr.Lost()) == 0 {
			t.Fatalf("os.RemoveAll lost nothing behind a %s: so the ban has no reason", kind)
		}
		tr.Canaries = nil
	}
}

// subvolume is a removal in which a directory begins another device, as a btrfs subvolume does.
type subvolume struct {
	*removal
	name string
}

func (s subvolume) Enter(l *fdpath.Level, st *unix.Statx_t) (bool, error) {
	enter, err := s.removal.Enter(l, st)
	if l.Name == s.name {
		l.ID.Dev++
	}
	return enter, err
}

// TestSubvolume checks that the removal stops at another device inside of a pod. Without the guard its files are removed.
func TestSubvolume(t *testing.T) {
	for _, guard := range []bool{true, false} {
		tr, q, m := entryWith(t, false, content.All, "file "+emptyDirE+"/snapshots/one/precious 10")
		h := q.openHandles(false)
		dir, err := h.quar.Step(entryA)
		tr.Must(err)
		out := judge.Outcome{Move: m}
		r := &removal{b: &batch{handles: h, q: q}, set: content.All, ended: t.Context().Err, out: &out}
		s := subvolume{removal: r}
		if guard {
			s.name = "snapshots"
			q.guards.moved = false // which would find the changed identity first
		}
		err = r.b.walker.Walk(&fdpath.Level{Dir: dir, Name: entryA, Up: h.quar}, s)
		if errors.Is(err, fdpath.ErrSubvolume) != guard {
			t.Errorf("guard %t: %v", guard, err)
		}
		_, err = os.Lstat(tr.entry() + "/" + emptyDirE + "/snapshots/one/precious")
		if lost := err != nil; lost == guard {
			t.Errorf("guard %t: lost %t", guard, lost)
		}
		dir.Close()
		h.close()
	}
}

// TestHostileNames checks that names are handled as bytes and that only directories are opened.
func TestHostileNames(t *testing.T) {
	testkit.OnTmpfs(t)
	for way, no := range testkit.Ways {
		t.Run(way, func(t *testing.T) {
			const e = emptyDirE + "/"
			tr, q, m := entryWith(t, no, content.Aged,
				"file "+e+"new\nline 1", "dir "+e+"\xff\xfe", "file "+e+strings.Repeat("n", 255)+" 1", "dir "+e+strings.Repeat("é", 127),
				"fifo "+e+"fifo", "sock "+e+"sock", "link "+e+"link", "link "+e+"loop loop", "link "+e+"up ../../../../..", "file "+e+"-rf 1",
				"file "+e+"... 1", "dir "+e+"*", "fifo \xff\n")
			if os.Geteuid() == 0 {
				_ = unix.Mknod(tr.entry()+"/"+e+"dev", unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3)))
			}
			o := run1(t, q, m)
			want(t, o, judge.Partly)
			wantListing(t, tr.entry(), "\xff\n")
			if len(o.Left) != 1 || o.Left[0].Path != `"\xff\n"` {
				t.Fatalf("%+v", o.Left)
			}
		})
	}
}

// TestImmutable checks that an immutable file is reported, keeps its attribute, and does not stop the rest.
func TestImmutable(t *testing.T) {
	tr, q, m := entryWith(t, false, content.All, "file "+emptyDirE+"/d/fixed 10", "file "+emptyDirE+"/other 10")
	fixed := tr.entry() + "/" + emptyDirE + "/d/fixed"
	if err := testkit.Immutable(fixed, true); err != nil {
		testkit.Skip(t, "nothing can be made immutable: ", err)
	}
	o := run1(t, q, m)
	want(t, o, judge.Failed, fixed)
	if len(o.Left) != 1 || o.Left[0].Path != emptyDirE+"/d/fixed" {
		t.Fatalf("%+v", o.Left)
	}
	testkit.There(t, fixed, true)
	testkit.There(t, tr.entry()+"/"+emptyDirE+"/other", false)
	tr.Must(testkit.Immutable(fixed, false))
	want(t, run1(t, q, m), judge.Done)
}

// TestWriter checks that a directory that a process keeps writing to is read three more times and then kept for a later run.
func TestWriter(t *testing.T) {
	tr, q, m := entryWith(t, false, content.All, "file "+emptyDirE+"/log 1", "file etc-hosts 1")
	at := tr.entry() + "/" + emptyDirE
	tries := 0
	before(q, func(op, name string) {
		if op == "rmdir" && name == "e" {
			tries++
			tr.Must(os.WriteFile(fmt.Sprintf("%s/%d", at, tries), nil, 0o600))
		}
	})
	want(t, run1(t, q, m), judge.Failed, "still writes")
	if tries != 1+maxRescans {
		t.Fatalf("%d tries", tries)
	}
	testkit.There(t, tr.entry()+"/etc-hosts", false)
	q.disk = kernel{}
	want(t, run1(t, q, m), judge.Done)
}

// TestRootWriter checks that the manifest is there again if the entry turns out not to be empty.
func TestRootWriter(t *testing.T) {
	tr, q, m := entryWith(t, false, content.Payloads, "file etc-hosts 1")
	before(q, func(op, name string) {
		if op == "rmdir" && name == entryA {
			tr.Must(os.WriteFile(tr.entry()+"/late", nil, 0o600))
		}
	})
	o := run1(t, q, m)
	want(t, o, judge.Partly)
	if len(o.Left) != 1 || o.Left[0].Path != "late" {
		t.Errorf("%+v", o.Left)
	}
	wantListing(t, tr.Quar, entryA, entryA+"/late", entryA+".json")
}

// TestSurveyBounds checks that a tree of directories only is removed, unless it is deeper or larger than a survey counts.
func TestSurveyBounds(t *testing.T) {
	const csi = "volumes/kubernetes.io~csi/"
	tr, q, m := entryWith(t, false, content.Payloads, "dir "+csi+"goes/mount/"+strings.Repeat("d/", surveyDepth-2),
		"dir "+csi+"deep/mount/"+strings.Repeat("d/", surveyDepth+1), "dir "+csi+"wide/mount/d")
	for i := range surveyEntries {
		tr.Must(os.WriteFile(fmt.Sprintf("%s/%swide/mount/d/%d", tr.entry(), csi, i), nil, 0o600))
	}
	o := run1(t, q, m)
	want(t, o, judge.Partly)
	testkit.There(t, tr.entry()+"/"+csi+"goes", false)
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

// TestPruneKeepsFiles checks that a tree of directories is kept if a file arrives between the survey and the rmdir.
func TestPruneKeepsFiles(t *testing.T) {
	tr, q, m := entryWith(t, false, content.Payloads, "dir volumes/kubernetes.io~csi/db/mount/a/b", "dir volumes/kubernetes.io~csi/db/mount/c")
	late := tr.entry() + "/volumes/kubernetes.io~csi/db/mount/a/late"
	before(q, func(op, name string) {
		if op == "rmdir" && (name == "b" || name == "a") {
			_ = os.WriteFile(late, []byte("x"), 0o600)
		}
	})
	if o := run1(t, q, m); o.Result == judge.Done {
		t.Fatalf("%+v", o)
	}
	testkit.There(t, late, true)
}

func TestRemoveRefused(t *testing.T) {
	tr, q, m := entryWith(t, false, content.All, "file etc-hosts 1")
	other, none, unknown := m, m, m
	other.ID.Ino++
	want(t, run1(t, q, other), judge.Refused, "another directory")
	none.Remove = content.None
	want(t, run1(t, q, none), judge.Refused, "names nothing")
	unknown.ID = judge.FileID{}
	want(t, run1(t, q, unknown), judge.Refused, "does not identify")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, o := range q.Execute(ctx, granted, []judge.Move{m, m}) {
		if want(t, o, judge.Refused, "canceled"); !o.Stopped {
			t.Error("a stopped move counts as refused")
		}
	}
	h := q.openHandles(false)
	h.quar.ID.Dev++ // as if the entry were a subvolume
	want(t, (&batch{handles: h, q: q}).remove(t.Context(), m), judge.Refused, "subvolume")
	h.close()
	testkit.There(t, tr.entry()+"/etc-hosts", true)
	m.ID.Dev++ // as after a reboot
	want(t, run1(t, q, m), judge.Done)
	want(t, run1(t, q, m), judge.Gone)
	wantListing(t, tr.Quar)
}

// TestCancelled checks that a walk ends with its context.
func TestCancelled(t *testing.T) {
	testkit.OnTmpfs(t)
	tr, q, m := entryWith(t, false, content.All, "dir "+emptyDirE)
	for i := range 1000 {
		tr.One(tr.entry(), fmt.Sprintf("file %s/%d 0", emptyDirE, i))
	}
	ctx, cancel := context.WithCancel(t.Context())
	before(q, func(op, _ string) {
		if op == "unlink" {
			cancel()
		}
	})
	o := q.Execute(ctx, granted, []judge.Move{m})[0]
	want(t, o, judge.Failed, "canceled")
	if n := o.Taken[content.Ephemeral].Entries; n != 1 || !o.Stopped {
		t.Fatalf("%d removed, stopped: %v", n, o.Stopped)
	}
	ctx, cancel = context.WithCancel(t.Context())
	before(q, func(_, name string) {
		if name == entryA {
			cancel()
		}
	})
	if o := q.Execute(ctx, granted, []judge.Move{m})[0]; o.Result != judge.Done || o.Stopped {
		t.Errorf("stopped right before the last removal: %+v", o)
	}
}

func TestReadOnly(t *testing.T) {
	tr, q, m := entryWith(t, false, content.All, "file etc-hosts 1", "file "+emptyDirE+"/a 1")
	testkit.Mount(t, tr.Base, tr.Base, "", unix.MS_BIND, "")
	readOnly(t, tr.Base)
	want(t, run1(t, q, m), judge.Refused, "read-only")
}
