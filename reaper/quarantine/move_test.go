package quarantine

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/content"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestPermit checks that nothing is moved, made or removed without a permit, which only the gate returns.
func TestPermit(t *testing.T) {
	tr := newTree(t, "file volumes/kubernetes.io~csi/db/mount/data 10")
	q := tr.open(false)
	before(q, func(op, name string) { t.Errorf("%s %s", op, name) })
	m := tr.move(uidA)
	purge, restore := m, m
	purge.Action, purge.Remove, restore.Action = judge.Purge, content.All, judge.Restore
	for _, o := range q.Execute(t.Context(), judge.Permit{}, []judge.Move{m, purge, restore}) {
		want(t, o, judge.Refused, "may not change")
	}
	// A permit to restore permits nothing else.
	only := judge.Standing{Operator: true}.Gate()
	outs := q.Execute(t.Context(), only, []judge.Move{m, purge, restore})
	want(t, outs[0], judge.Refused, "may not change")
	want(t, outs[1], judge.Refused, "may not change")
	want(t, outs[2], judge.Done) // it is still in pods
}

func TestMove(t *testing.T) {
	for way, no := range testkit.Ways {
		t.Run(way, func(t *testing.T) {
			tr := newTree(t, "file volumes/kubernetes.io~csi/db/mount/data 10", "link l", "file \xff\n 1")
			was := listing(t, tr.pod())
			q := tr.open(no)
			m := tr.move(uidA)
			m.PodName, m.Namespace = "web-0", "shop"
			o := run1(t, q, m)
			want(t, o, judge.Done)
			if o.ID != m.ID {
				t.Errorf("ID %v", o.ID)
			}
			testkit.There(t, tr.pod(), false)
			wantListing(t, tr.entry(), was...)
			var about manifest
			text, err := os.ReadFile(tr.entry() + ".json")
			if err != nil || json.Unmarshal(text, &about) != nil || about.PodName != "web-0" || about.UID != uidA || about.ID != m.ID ||
				!strings.Contains(about.Restore, "mv -nT "+tr.entry()+" "+tr.pod()) {
				t.Errorf("manifest %s, %v", text, err)
			}
			if fi, _ := os.Stat(tr.Quar); fi.Mode().Perm() != 0o700 {
				t.Errorf("the quarantine has mode %v", fi.Mode())
			}
			where := func(inPods, inQuarantine judge.FileID) {
				t.Helper()
				if p, e, err := q.Where(uidA, entryA); p != inPods || e != inQuarantine || err != nil {
					t.Errorf("%v, %v, %v", p, e, err)
				}
			}
			where(judge.FileID{}, m.ID)
			if names, err := q.List(); err != nil || len(names) != 1 || names[0] != entryA {
				t.Error(names, err)
			}

			// The pod is made again.
			tr.Canary(tr.pod() + "/etc-hosts")
			where(idAt(t, tr.pod()), m.ID)
			testkit.There(t, tr.entry()+".json", true)
		})
	}
}

// TestMoveRefused checks that a refused directory is unchanged, and that no manifest is left.
func TestMoveRefused(t *testing.T) {
	makeQuarantine := func(tr *tree) { tr.Must(os.MkdirAll(tr.Quar, 0o700)) }
	cases := []struct {
		name   string
		setup  func(tr *tree, m *judge.Move)
		result judge.Result
		words  string
	}{
		{"gone", func(tr *tree, _ *judge.Move) { tr.Must(os.Remove(tr.pod())) }, judge.Gone, ""},
		{"other directory", func(_ *tree, m *judge.Move) { m.ID.Ino++ }, judge.Refused, "another directory"},
		{"other birth", func(_ *tree, m *judge.Move) { m.ID.Btime++ }, judge.Refused, "another directory"},
		{"other device", func(_ *tree, m *judge.Move) { m.ID.Dev++ }, judge.Refused, "another directory"},
		{"no identity", func(_ *tree, m *judge.Move) { m.ID = judge.FileID{} }, judge.Refused, "does not identify"},
		{"file", func(tr *tree, _ *judge.Move) {
			tr.Must(os.Remove(tr.pod()))
			tr.One(tr.Pods, "file "+string(uidA)+" 1")
		}, judge.Refused, "no directory"},
		{"link", func(tr *tree, _ *judge.Move) {
			tr.Must(os.Remove(tr.pod()))
			tr.One(tr.Pods, "link "+string(uidA))
		}, judge.Refused, "no directory"},
		{"fifo", func(tr *tree, _ *judge.Move) {
			tr.Must(os.Remove(tr.pod()))
			tr.One(tr.Pods, "fifo "+string(uidA))
		}, judge.Refused, "no directory"},
		{"own tmpfs", func(tr *tree, _ *judge.Move) { tr.One(tr.Pods, "tmpfs "+string(uidA)) }, judge.Refused, mounted},
		{"own bind", func(tr *tree, m *judge.Move) {
			tr.One(tr.Pods, "bind "+string(uidA))
			m.ID = idAt(tr.T, tr.pod())
		}, judge.Refused, mounted},
		{"immutable", func(tr *tree, _ *judge.Move) {
			if err := testkit.Immutable(tr.pod(), true); err != nil {
				testkit.Skip(tr.T, "nothing can be made immutable: ", err)
			}
		}, judge.Refused, "lsattr"},
		{"entry taken", func(tr *tree, _ *judge.Move) {
			makeQuarantine(tr)
			tr.Canary(tr.entry() + "/mine")
		}, judge.Refused, "another directory"},
		{"read-only", func(tr *tree, _ *judge.Move) {
			makeQuarantine(tr)
			if err := unix.Mount(tr.Base, tr.Base, "", unix.MS_BIND, ""); err != nil {
				testkit.Skip(tr.T, "nothing can be mounted: ", err)
			}
			readOnly(tr.T, tr.Base)
		}, judge.Refused, "read-only"},
		{"quarantine on another mount", func(tr *tree, _ *judge.Move) {
			makeQuarantine(tr)
			if err := unix.Mount("tmpfs", tr.Quar, "tmpfs", 0, "mode=700"); err != nil {
				testkit.Skip(tr.T, "nothing can be mounted: ", err)
			}
		}, judge.Refused, "--quarantine-dir"},
		{"quarantine is a link", func(tr *tree, _ *judge.Move) { tr.One(tr.Root, "link orphan-reaper") }, judge.Refused, "no directory"},
		{"quarantine is a file", func(tr *tree, _ *judge.Move) { tr.One(tr.Root, "file orphan-reaper 0") }, judge.Refused, "no directory"},
		{"quarantine is open and used", func(tr *tree, _ *judge.Move) { tr.Canary(tr.Quar + "/other") }, judge.Refused, "right one$"},
		{"quarantine is another user's", func(tr *tree, _ *judge.Move) {
			makeQuarantine(tr)
			if err := os.Chown(tr.Quar, 4711, 0); err != nil {
				testkit.Skip(tr.T, "no other user here: ", err)
			}
		}, judge.Refused, "right one$"},
		{"pods is a link", func(tr *tree, _ *judge.Move) {
			tr.Must(os.Rename(tr.Pods, tr.Root+"/elsewhere"))
			tr.Must(os.Symlink("elsewhere", tr.Pods))
		}, judge.Refused, "a symbolic link to elsewhere; set --root-dir"},
		{"bad uid", func(_ *tree, m *judge.Move) { m.UID = "../x" }, judge.Refused, "no pod UID"},
		{"slash in entry", func(_ *tree, m *judge.Move) { m.Entry = entryA + "/../../x" }, judge.Refused, "no quarantine entry"},
		{"other pod's entry", func(_ *tree, m *judge.Move) { m.Entry = string(uidB) + ".1" }, judge.Refused, "no quarantine entry"},
		{"entry of a longer name", func(_ *tree, m *judge.Move) { m.Entry = string(uidA) + "0.1" }, judge.Refused, "no quarantine entry"},
		{"manifest as entry", func(_ *tree, m *judge.Move) { m.Entry = entryA + ".json" }, judge.Refused, "manifest"},
		{"NUL", func(_ *tree, m *judge.Move) { m.Entry = entryA + "\x00" }, judge.Refused, "no quarantine entry"},
		{"long entry", func(_ *tree, m *judge.Move) { m.Entry = entryA + strings.Repeat("x", 200) }, judge.Refused, "too long"},
		{"no such action", func(_ *tree, m *judge.Move) { m.Action = "chmod" }, judge.Refused, "chmod"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for way, no := range testkit.Ways {
				t.Run(way, func(t *testing.T) {
					tr := newTree(t)
					m := tr.move(uidA)
					c.setup(tr, &m)
					was := listing(t, tr.Pods)
					q := tr.open(no)
					known, shows := q.Movable(), strings.HasPrefix(c.name, "quarantine ") || strings.HasPrefix(c.name, "pods ")
					o := run1(t, q, m)
					want(t, o, c.result, c.words)
					if (known != nil) != shows || shows && o.Err != known.Error() {
						t.Errorf("it was movable before: %v", known)
					}
					wantListing(t, tr.Pods, was...)
					testkit.There(t, tr.entry()+".json", false)
				})
			}
		})
	}
}

// TestMoveSwapped checks that another directory that gets the name between the check and the rename is moved back. Without
// the guard it would remain in quarantine and be removed there.
func TestMoveSwapped(t *testing.T) {
	for _, guard := range []bool{true, false} {
		tr := newTree(t, "dir volumes")
		living := tr.Pods + "/0a1b2c3d-0000-4000-8000-00000000000c"
		tr.Build(living, "file living 1")
		q := tr.open(false)
		if !guard {
			q.guards.same = func(_, _ judge.FileID) bool { return true }
		}
		swaps := 0
		before(q, func(op, name string) {
			if op == "rename" && name == entryA && swaps == 0 {
				swaps++
				tr.Must(unix.Renameat2(unix.AT_FDCWD, living, unix.AT_FDCWD, tr.pod(), unix.RENAME_EXCHANGE))
			}
		})
		o := run1(t, q, tr.move(uidA))
		if guard {
			want(t, o, judge.Refused, "another directory")
			testkit.There(t, tr.entry()+".json", false)
		} else {
			want(t, o, judge.Done)
		}
		testkit.There(t, tr.pod()+"/living", guard)
		testkit.There(t, tr.entry(), !guard)
	}
}

// TestMoveSwappedTwice checks that the wrong directory is never removed if it cannot go back because a third one has the
// name: the ledger has another identity for the entry.
func TestMoveSwappedTwice(t *testing.T) {
	tr := newTree(t, "dir volumes")
	q := tr.open(false)
	before(q, func(op, name string) {
		switch {
		case op == "rename" && name == entryA:
			tr.Must(os.Rename(tr.pod(), tr.Base+"/aside"))
			tr.Pod(uidA, "file second 1")
		case op == "rename" && name == string(uidA):
			tr.Pod(uidA, "file third 1")
		}
	})
	m := tr.move(uidA)
	want(t, run1(t, q, m), judge.Failed, tr.entry(), "cannot be moved back")
	q.disk = kernel{}
	for _, action := range []judge.Action{judge.Clean, judge.Purge, judge.Restore, judge.Exchange, judge.Quarantine} {
		m.Action, m.Remove = action, content.All
		want(t, run1(t, q, m), judge.Refused, "another directory")
	}
	testkit.There(t, tr.entry()+"/second", true)
	testkit.There(t, tr.pod()+"/third", true)
}

// TestDiskFull checks that a pod is moved, restored and cleaned on a disk without a free block or inode: a full disk is often
// the problem to solve. Only the manifest is missing, which nothing needs.
func TestDiskFull(t *testing.T) {
	const inodes = 96
	for _, next := range []judge.Action{judge.Clean, judge.Purge, judge.Restore} {
		base := t.TempDir()
		testkit.Mount(t, "tmpfs", base, "tmpfs", 0, fmt.Sprintf("size=4m,nr_inodes=%d", inodes))
		tr := &tree{testkit.NewTreeAt(t, base+"/full", "file etc-hosts 1", "file volumes/kubernetes.io~projected/token/ca.crt 10")}
		tr.Must(os.Mkdir(tr.Quar, 0o700))
		tr.Must(os.Mkdir(base+"/fill", 0o700))
		err := error(nil)
		for i := 0; err == nil && i < 2*inodes; i++ {
			err = os.WriteFile(fmt.Sprintf("%s/fill/%d", base, i), nil, 0o600)
		}
		if !errors.Is(err, unix.ENOSPC) {
			t.Fatal(err)
		}
		q := tr.open(false)
		m := tr.quarantined(q, next)
		testkit.There(t, tr.entry()+".json", false)
		m.Remove = content.Payloads
		m.ID.Dev++ // as after another boot
		want(t, run1(t, q, m), judge.Done)
		testkit.There(t, tr.entry(), false)
		testkit.There(t, tr.pod()+"/etc-hosts", next == judge.Restore)
		tr.Check()
		tr.Must(os.RemoveAll(base + "/fill"))
	}
}

// TestCarriesMounts checks that a mount below a directory moves with it, and back.
func TestCarriesMounts(t *testing.T) {
	tr := newTree(t, "bind volumes/kubernetes.io~csi/db/mount", "tmpfs volumes/kubernetes.io~empty-dir/mem")
	q := tr.open(false)
	m := tr.quarantined(q, judge.Restore)
	if lost := tr.Lost(); len(lost) == 0 {
		t.Fatal("the mounts should have moved")
	}
	want(t, run1(t, q, m), judge.Done)
	tr.Check()
}

// TestPodsReplaced checks that each batch opens the pods directory again.
func TestPodsReplaced(t *testing.T) {
	tr := newTree(t)
	q := tr.open(false)
	want(t, run1(t, q, tr.move(uidA)), judge.Done)
	tr.Must(os.Rename(tr.Pods, tr.Root+"/old"))
	if _, _, err := q.Where(uidA, entryA); err == nil {
		t.Fatal("no error from Where without a pods directory")
	}
	tr.Pod(uidA, "file new 1")
	m := tr.move(uidA)
	m.Entry = string(uidA) + ".2"
	want(t, run1(t, q, m), judge.Done)
	testkit.There(t, tr.Quar+"/"+m.Entry+"/new", true)
	tr.Must(os.RemoveAll(tr.Pods))
	tr.Must(os.Rename(tr.Root+"/old", tr.Pods))
}

// TestKubeletBindsItsRoot checks a kubelet that bind-mounts its root on itself, also behind a link.
func TestKubeletBindsItsRoot(t *testing.T) {
	tr := newTree(t, "dir volumes")
	testkit.Mount(t, tr.Root, tr.Root, "", unix.MS_BIND, "")
	tr.Must(os.Symlink(tr.Root, tr.Base+"/link"))
	q, err := Open(Config{PodsDir: tr.Base + "/link/pods", Dir: tr.Base + "/link/orphan-reaper"})
	tr.Must(err)
	want(t, run1(t, q, tr.move(uidA)), judge.Done)
	testkit.There(t, tr.entry(), true)
}

func TestOpenRefuses(t *testing.T) {
	for _, c := range []Config{
		{PodsDir: "pods", Dir: "/q"},
		{PodsDir: "/", Dir: "/q"},
		{PodsDir: "", Dir: "/q"},
		{PodsDir: "/k/pods"},
		{PodsDir: "/k/pods", Dir: "q"},
		{PodsDir: "/k/pods", Dir: "/"},
		{PodsDir: "/k/pods", Dir: "/k/pods"},
		{PodsDir: "/k/pods", Dir: "/k/pods/q"},
		{PodsDir: "/k/pods", Dir: "/k"},
	} {
		if _, err := Open(c); err == nil {
			t.Errorf("%+v: no error", c)
		}
	}
}

// TestQuarantineDir checks where a quarantine may lie, which paths cannot show.
func TestQuarantineDir(t *testing.T) {
	tr := newTree(t)
	at := func(dir string) *Quarantine {
		q, err := Open(Config{PodsDir: tr.Pods, Dir: dir})
		tr.Must(err)
		return q
	}
	tr.Must(os.Symlink(tr.Pods, tr.Base+"/q"))
	want(t, run1(t, at(tr.Base+"/q/inside"), tr.move(uidA)), judge.Refused, "kubelet treats it as a pod")
	tr.Must(os.Remove(tr.Pods + "/inside"))

	// Make needs the right to remove.
	if err := tr.open(false).Make(judge.Permit{}); !errors.Is(err, errNoPermit) {
		t.Error(err)
	}
	if _, err := os.Lstat(tr.Quar); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	tr.Must(tr.open(false).Make(judge.Standing{Node: judge.Node{SeesMounts: judge.Fact{Truth: judge.Yes}}, Operator: true}.Gate()))
	if fi, err := os.Stat(tr.Quar); err != nil || fi.Mode().Perm() != 0o700 {
		t.Error(fi, err)
	}
	tr.Must(os.Remove(tr.Quar))

	// One that an operator has made for a group to read is closed while it is empty.
	tr.Mkdir(tr.Quar)
	tr.Must(os.Chmod(tr.Quar, 0o750))
	if err := tr.open(false).Movable(); err != nil {
		t.Error(err)
	}
	if fi, err := os.Stat(tr.Quar); err != nil || fi.Mode().Perm() != 0o750 {
		t.Error(fi, err)
	}
	want(t, run1(t, tr.open(false), tr.move(uidA)), judge.Done)
	if fi, err := os.Stat(tr.Quar); err != nil || fi.Mode().Perm() != 0o700 {
		t.Error(fi, err)
	}

	// A disk that is not mounted does not show that an entry is gone.
	nowhere := at(tr.Base + "/nowhere/q")
	if _, _, err := nowhere.Where(uidA, entryA); err == nil {
		t.Error("Where returned no error")
	}
	if _, err := nowhere.List(); err == nil {
		t.Error("List returned no error")
	}
	purge := judge.Move{Action: judge.Purge, UID: uidA, Entry: entryA, ID: idAt(t, tr.entry()), Remove: content.All}
	want(t, run1(t, nowhere, purge), judge.Refused, "nowhere")
}

// readOnly bind-mounts the path read-only. A user namespace locks the flags of the mount beneath, such as nosuid, so they
// are kept.
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
