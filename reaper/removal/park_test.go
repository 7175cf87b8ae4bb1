package removal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

func TestPark(t *testing.T) {
	for way, no := range testkit.Ways {
		t.Run(way, func(t *testing.T) {
			tr := newTree(t, "file volumes/kubernetes.io~csi/db/mount/data 10", "link l", "file \xff\n 1")
			before := testkit.Listing(t, tr.Pods+"/"+string(uidA))
			r := tr.open(no)
			a := tr.parkAction(uidA)
			want(t, run1(t, r, a), policy.Done, "")
			testkit.There(t, tr.Pods+"/"+string(uidA), false)
			if after := testkit.Listing(t, tr.Quar+"/"+entryA); strings.Join(before, "|") != strings.Join(after, "|") {
				t.Fatalf("parked %q, was %q", after, before)
			}
			if b, _ := os.ReadFile(tr.Quar + "/" + entryA + ".json"); string(b) != string(a.Manifest) {
				t.Fatalf("manifest %q", b)
			}
			if fi, _ := os.Stat(tr.Quar); fi.Mode().Perm() != 0o700 {
				t.Fatalf("quarantine has mode %v", fi.Mode())
			}
			inPods, inQuar, err := r.Where(uidA, entryA)
			if inPods || !inQuar || err != nil {
				t.Fatal(inPods, inQuar, err)
			}
			if names, err := r.List(); err != nil || len(names) != 1 || names[0] != entryA {
				t.Fatal(names, err)
			}

			// A second run, as after a crash, has the same result, also if the pod was made again.
			want(t, run1(t, r, a), policy.Done, "")
			tr.Canary(tr.Pods + "/" + string(uidA) + "/etc-hosts")
			want(t, run1(t, r, a), policy.Done, "")
			if inPods, inQuar, err = r.Where(uidA, entryA); !inPods || !inQuar || err != nil {
				t.Fatal(inPods, inQuar, err)
			}
		})
	}
}

// TestParkRefused checks that a refused directory is unchanged and no manifest remains.
func TestParkRefused(t *testing.T) {
	pod := func(tr *tree) string { return tr.Pods + "/" + string(uidA) }
	cases := []struct {
		name   string
		setup  func(tr *tree, a *policy.Action)
		result policy.Result
		reason policy.Reason
		words  string
	}{
		{"gone", func(tr *tree, _ *policy.Action) { tr.Must(os.Remove(pod(tr))) }, policy.Gone, "", ""},
		{"other directory", func(_ *tree, a *policy.Action) { a.ID.Ino++ }, policy.Refused, policy.ReasonCannotMove, "another directory"},
		{"other birth", func(_ *tree, a *policy.Action) { a.ID.Btime++ }, policy.Refused, policy.ReasonCannotMove, "another directory"},
		{"no identity", func(_ *tree, a *policy.Action) { a.ID = policy.DirID{} }, policy.Refused, policy.ReasonCannotMove, ""},
		{"file", func(tr *tree, _ *policy.Action) {
			tr.Must(os.Remove(pod(tr)))
			tr.One(tr.Pods, "file "+string(uidA)+" 1")
		}, policy.Refused, policy.ReasonNotADirectory, ""},
		{"link", func(tr *tree, _ *policy.Action) {
			tr.Must(os.Remove(pod(tr)))
			tr.One(tr.Pods, "link "+string(uidA))
		}, policy.Refused, policy.ReasonNotADirectory, ""},
		{"fifo", func(tr *tree, _ *policy.Action) {
			tr.Must(os.Remove(pod(tr)))
			tr.One(tr.Pods, "fifo "+string(uidA))
		}, policy.Refused, policy.ReasonNotADirectory, ""},
		{"own tmpfs", func(tr *tree, _ *policy.Action) { tr.One(tr.Pods, "tmpfs "+string(uidA)) }, policy.Refused, policy.ReasonMounted, "mount point"},
		{"own bind", func(tr *tree, a *policy.Action) {
			tr.One(tr.Pods, "bind "+string(uidA))
			a.ID = idAt(tr.T, pod(tr))
		}, policy.Refused, policy.ReasonMounted, "mount point"},
		{"immutable", func(tr *tree, _ *policy.Action) {
			if err := testkit.Immutable(pod(tr), true); err != nil {
				testkit.Skip(tr.T, "nothing can be made immutable: ", err)
			}
		}, policy.Refused, policy.ReasonCannotMove, "lsattr"},
		{"entry taken", func(tr *tree, _ *policy.Action) {
			tr.Mkdir(tr.Quar)
			tr.Must(os.Chmod(tr.Quar, 0o700))
			tr.Canary(tr.Quar + "/" + entryA + "/mine")
		}, policy.Refused, policy.ReasonCannotMove, "another directory"},
		{"read-only", func(tr *tree, _ *policy.Action) {
			tr.Mkdir(tr.Quar)
			tr.Must(os.Chmod(tr.Quar, 0o700))
			if err := unix.Mount(tr.Base, tr.Base, "", unix.MS_BIND, ""); err != nil {
				testkit.Skip(tr.T, "nothing can be mounted: ", err)
			}
			readOnly(tr.T, tr.Base)
		}, policy.Refused, policy.ReasonCannotMove, "read-only"},
		{"quarantine on another mount", func(tr *tree, _ *policy.Action) {
			tr.Mkdir(tr.Quar)
			if err := unix.Mount("tmpfs", tr.Quar, "tmpfs", 0, "mode=700"); err != nil {
				testkit.Skip(tr.T, "nothing can be mounted: ", err)
			}
		}, policy.Refused, policy.ReasonCannotMove, "--quarantine-dir"},
		{"quarantine is a link", func(tr *tree, _ *policy.Action) { tr.One(tr.Root, "link orphan-reaper") }, policy.Refused, policy.ReasonCannotMove, ""},
		{"quarantine is a file", func(tr *tree, _ *policy.Action) { tr.One(tr.Root, "file orphan-reaper 0") }, policy.Refused, policy.ReasonCannotMove, ""},
		{"quarantine is open and used", func(tr *tree, _ *policy.Action) { tr.Canary(tr.Quar + "/other") }, policy.Refused, policy.ReasonCannotMove, "right one$"},
		{"quarantine is another user's", func(tr *tree, _ *policy.Action) {
			tr.Mkdir(tr.Quar)
			if err := os.Chown(tr.Quar, 4711, 0); err != nil {
				testkit.Skip(tr.T, "no other user here: ", err)
			}
		}, policy.Refused, policy.ReasonCannotMove, "right one$"},
		{"pods is a link", func(tr *tree, _ *policy.Action) {
			tr.Must(os.Rename(tr.Pods, tr.Root+"/elsewhere"))
			tr.Must(os.Symlink("elsewhere", tr.Pods))
		}, policy.Refused, policy.ReasonCannotMove, ""},
		{"bad uid", func(_ *tree, a *policy.Action) { a.UID = "../x" }, policy.Refused, policy.ReasonInvalidUID, ""},
		{"slash in entry", func(_ *tree, a *policy.Action) { a.Entry = entryA + "/../../x" }, policy.Refused, policy.ReasonInvalidUID, ""},
		{"other pod's entry", func(_ *tree, a *policy.Action) { a.Entry = string(uidB) + ".1" }, policy.Refused, policy.ReasonInvalidUID, ""},
		{"manifest as entry", func(_ *tree, a *policy.Action) { a.Entry = entryA + ".json" }, policy.Refused, policy.ReasonInvalidUID, ""},
		{"NUL", func(_ *tree, a *policy.Action) { a.Entry = entryA + "\x00" }, policy.Refused, policy.ReasonInvalidUID, ""},
		{"long entry", func(_ *tree, a *policy.Action) { a.Entry = entryA + strings.Repeat("x", 200) }, policy.Refused, policy.ReasonInvalidUID, ""},
		{"no such action", func(_ *tree, a *policy.Action) { a.Kind = "chmod" }, policy.Refused, policy.ReasonRemoval, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for way, no := range testkit.Ways {
				t.Run(way, func(t *testing.T) {
					tr := newTree(t)
					a := tr.parkAction(uidA)
					c.setup(tr, &a)
					before := testkit.Listing(t, tr.Pods)
					r := tr.open(no)
					known, shows := r.Movable(), strings.HasPrefix(c.name, "quarantine ") || strings.HasPrefix(c.name, "pods ")
					o := run1(t, r, a)
					want(t, o, c.result, c.reason)
					if (known != nil) != shows || shows && o.Err != known.Error() {
						t.Errorf("it was movable before: %v", known)
					}
					if !strings.Contains(o.Err+"$", c.words) { // $ is the end: no wrong hint comes after it
						t.Fatalf("%q does not contain %q", o.Err, c.words)
					}
					if after := testkit.Listing(t, tr.Pods); strings.Join(before, "|") != strings.Join(after, "|") {
						t.Fatalf("listing %q, want %q", after, before)
					}
					testkit.There(t, tr.Quar+"/"+entryA+".json", false)
				})
			}
		})
	}
}

// TestParkDiskFull checks that a pod is parked without a manifest if the disk has no room: a full disk is often the
// problem to solve, and the ledger has everything that the manifest has.
func TestParkDiskFull(t *testing.T) {
	base := t.TempDir()
	if err := unix.Mount("tmpfs", base, "tmpfs", 0, "size=64k"); err != nil {
		testkit.Skip(t, "nothing can be mounted: ", err)
	}
	tr := newTreeAt(t, base+"/full")
	a := tr.parkAction(uidA)
	a.Manifest = make([]byte, 1<<20)
	want(t, run1(t, tr.open(false), a), policy.Done, "")
	testkit.There(t, tr.Quar+"/"+entryA+".json", false)
	testkit.There(t, tr.Quar+"/"+entryA, true)
	testkit.There(t, tr.Pods+"/"+string(uidA), false)
	tr.Check()
	tr.Canaries = nil
	testkit.UnmountBelow(t, base)
}

// TestNoInodeLeft checks that the ledger identifies a pod that was parked without a manifest for lack of inodes: it
// is stripped, purged and put back like any other. An entry that is not in the ledger needs the manifest.
func TestNoInodeLeft(t *testing.T) {
	const inodes = 96
	actions := map[string]policy.Action{
		"strip":    {Kind: policy.Strip, Take: contents.TakeStrip},
		"purge":    {Kind: policy.Purge, Take: contents.TakeAged},
		"put back": {Kind: policy.PutBack},
	}
	for name, do := range actions {
		for _, freed := range []bool{false, true} {
			base := t.TempDir()
			if err := unix.Mount("tmpfs", base, "tmpfs", 0, fmt.Sprintf("size=4m,nr_inodes=%d", inodes)); err != nil {
				testkit.Skip(t, "nothing can be mounted: ", err)
			}
			tr := newTreeAt(t, base+"/full", "file etc-hosts 1", "file volumes/kubernetes.io~projected/token/ca.crt 10")
			tr.Must(os.Mkdir(tr.Quar, 0o700))
			tr.Must(os.Mkdir(base+"/fill", 0o700))
			err := error(nil)
			for i := 0; err == nil && i < 2*inodes; i++ {
				err = os.WriteFile(fmt.Sprintf("%s/fill/%d", base, i), nil, 0o600)
			}
			if !errors.Is(err, unix.ENOSPC) {
				t.Fatal(err)
			}
			r := tr.open(false)
			a := tr.parked(r)
			testkit.There(t, tr.Quar+"/"+entryA+".json", false)
			if freed {
				tr.Must(os.RemoveAll(base + "/fill"))
			}
			unlisted := a
			unlisted.Kind, unlisted.Take, unlisted.ID, unlisted.Manifest = policy.Strip, contents.TakeStrip, policy.DirID{}, nil
			want(t, run1(t, r, unlisted), policy.Refused, policy.ReasonContentUnknown)
			a.Kind, a.Take, a.Manifest = do.Kind, do.Take, nil
			if a.ID.Ino++; do.Kind != policy.PutBack {
				want(t, run1(t, r, a), policy.Refused, policy.ReasonRemoval)
			}
			a.ID.Ino--
			a.ID.Dev++ // as after another boot
			if o := run1(t, r, a); o.Result != policy.Done {
				t.Errorf("%s, freed %t: %s %s", name, freed, o.Result, o.Err)
			}
			testkit.There(t, tr.Quar+"/"+entryA, false)
			testkit.There(t, tr.Pods+"/"+string(uidA)+"/etc-hosts", do.Kind == policy.PutBack)
			tr.Check()
			tr.Canaries = nil
			testkit.UnmountBelow(t, base)
		}
	}
}

// TestParkCarriesMounts checks that a mount below a parked directory moves with it, and back.
func TestParkCarriesMounts(t *testing.T) {
	tr := newTree(t, "bind volumes/kubernetes.io~csi/db/mount", "tmpfs volumes/kubernetes.io~empty-dir/mem")
	r := tr.open(false)
	a := tr.parked(r)
	if lost := tr.Lost(); len(lost) == 0 {
		t.Fatal("the mounts should have moved")
	}
	a.Kind, a.Manifest = policy.PutBack, nil
	want(t, run1(t, r, a), policy.Done, "")
	if lost := tr.Lost(); len(lost) > 0 {
		t.Fatalf("lost after putting back: %q", lost)
	}
}

// TestParkSwapped checks that another directory that gets the name between the check and the rename is moved back.
// Without the guard it would remain in quarantine and be removed there.
func TestParkSwapped(t *testing.T) {
	for _, guard := range []bool{true, false} {
		tr := newTree(t, "dir volumes")
		tr.Pod("0a1b2c3d-0000-4000-8000-00000000000c", "file living 1")
		r := tr.open(false)
		if !guard {
			r.guards.same = func(_, _ policy.DirID) bool { return true }
		}
		living := tr.Pods + "/0a1b2c3d-0000-4000-8000-00000000000c"
		swaps := 0
		r.guards.before = testkit.Outside(func(op, name string) {
			if op == "renameat2" && name == entryA && swaps == 0 {
				swaps++
				tr.Must(unix.Renameat2(unix.AT_FDCWD, living, unix.AT_FDCWD, tr.Pods+"/"+string(uidA), unix.RENAME_EXCHANGE))
			}
		})
		o := run1(t, r, tr.parkAction(uidA))
		if guard {
			want(t, o, policy.Refused, policy.ReasonCannotMove)
			testkit.There(t, tr.Quar+"/"+entryA+".json", false)
		} else if o.Result != policy.Done {
			t.Fatalf("%+v", o)
		}
		testkit.There(t, tr.Pods+"/"+string(uidA)+"/living", guard)
		testkit.There(t, tr.Quar+"/"+entryA, !guard)
	}
}

// TestParkSwappedTwice checks that the wrong directory becomes a conflict, which nothing purges, if it cannot go back
// because a third one has the name.
func TestParkSwappedTwice(t *testing.T) {
	tr := newTree(t, "dir volumes")
	r := tr.open(false)
	r.guards.before = testkit.Outside(func(op, name string) {
		switch {
		case op == "renameat2" && name == entryA:
			tr.Must(os.Rename(tr.Pods+"/"+string(uidA), tr.Base+"/aside"))
			tr.Pod(uidA, "file second 1")
		case op == "renameat2" && name == string(uidA):
			tr.Pod(uidA, "file third 1")
		}
	})
	o := run1(t, r, tr.parkAction(uidA))
	want(t, o, policy.Failed, policy.ReasonCannotMove)
	if !o.MadeAgain() {
		t.Error("the outcome does not report a living pod")
	}
	testkit.There(t, tr.Quar+"/"+o.Conflict+"/second", true)
	testkit.There(t, tr.Pods+"/"+string(uidA)+"/third", true)
	o = run1(t, r, policy.Action{Kind: policy.Purge, UID: uidA, Entry: o.Conflict, Take: contents.TakeAged})
	want(t, o, policy.Refused, policy.ReasonContentUnknown)
}

// TestPodsReplaced checks that each batch opens the pods directory again.
func TestPodsReplaced(t *testing.T) {
	tr := newTree(t)
	r := tr.open(false)
	want(t, run1(t, r, tr.parkAction(uidA)), policy.Done, "")
	tr.Must(os.Rename(tr.Pods, tr.Root+"/old"))
	if _, _, err := r.Where(uidA, entryA); err == nil {
		t.Fatal("no error from Where without a pods directory")
	}
	tr.Pod(uidA, "file new 1")
	a := tr.parkAction(uidA)
	a.Entry = string(uidA) + ".2"
	want(t, run1(t, r, a), policy.Done, "")
	testkit.There(t, tr.Quar+"/"+a.Entry+"/new", true)
	tr.Must(os.RemoveAll(tr.Pods))
	tr.Must(os.Rename(tr.Root+"/old", tr.Pods))
}

// TestKubeletBindsItsRoot checks a kubelet that bind-mounts its root on itself, also behind a link.
func TestKubeletBindsItsRoot(t *testing.T) {
	tr := newTree(t, "dir volumes")
	if err := unix.Mount(tr.Root, tr.Root, "", unix.MS_BIND, ""); err != nil {
		testkit.Skip(t, "nothing can be mounted: ", err)
	}
	tr.Must(os.Symlink(tr.Root, tr.Base+"/link"))
	r, err := Open(Config{PodsDir: tr.Base + "/link/pods"})
	tr.Must(err)
	want(t, run1(t, r, tr.parkAction(uidA)), policy.Done, "")
	testkit.There(t, tr.Quar+"/"+entryA, true)
}

func TestOpenRefuses(t *testing.T) {
	for _, c := range []Config{
		{PodsDir: "pods"},
		{PodsDir: "/"},
		{PodsDir: ""},
		{PodsDir: "/k/pods", QuarantineDir: "q"},
		{PodsDir: "/k/pods", QuarantineDir: "/"},
		{PodsDir: "/k/pods", QuarantineDir: "/k/pods"},
		{PodsDir: "/k/pods", QuarantineDir: "/k/pods/q"},
		{PodsDir: "/k/pods", QuarantineDir: "/k"},
	} {
		if _, err := Open(c); err == nil {
			t.Errorf("%+v: no error", c)
		}
	}
}

// TestQuarantineBehindLink checks that a quarantine path that leads into the pods directory through a link is
// refused.
func TestQuarantineBehindLink(t *testing.T) {
	tr := newTree(t)
	tr.Must(os.Symlink(tr.Pods, tr.Base+"/q"))
	r, err := Open(Config{PodsDir: tr.Pods, QuarantineDir: tr.Base + "/q/inside"})
	tr.Must(err)
	o := run1(t, r, tr.parkAction(uidA))
	want(t, o, policy.Refused, policy.ReasonCannotMove)
	if !strings.Contains(o.Err, "kubelet treats it as a pod") {
		t.Fatal(o.Err)
	}
}

func TestWhereAndList(t *testing.T) {
	tr := newTree(t)
	r := tr.open(false)
	if names, err := r.List(); err != nil || len(names) != 0 {
		t.Fatal(names, err)
	}
	if inPods, inQuar, err := r.Where(uidA, entryA); !inPods || inQuar || err != nil {
		t.Fatal(inPods, inQuar, err)
	}
	if _, _, err := r.Where(parsers.PodUID("x"), "x.1"); err == nil {
		t.Fatal("no error for an invalid UID")
	}
	testkit.There(t, tr.Quar, false)

	// Where and List change nothing; parking removes the others' rights from an empty quarantine.
	tr.Mkdir(tr.Quar)
	for range 2 {
		if _, _, err := r.Where(uidA, entryA); err != nil {
			t.Fatal(err)
		}
	}
	if fi, err := os.Stat(tr.Quar); err != nil || fi.Mode().Perm() != 0o755 {
		t.Fatal(fi, err)
	}
	tr.parked(r)
	if fi, err := os.Stat(tr.Quar); err != nil || fi.Mode().Perm() != 0o700 {
		t.Fatal(fi, err)
	}

	// An unmounted disk is no proof that an entry is gone.
	nowhere, err := Open(Config{PodsDir: tr.Pods, QuarantineDir: tr.Base + "/nowhere/q"})
	tr.Must(err)
	if _, _, err := nowhere.Where(uidA, entryA); err == nil {
		t.Fatal("Where returned no error")
	}
	if _, err := nowhere.List(); err == nil {
		t.Fatal("List returned no error")
	}
	a := policy.Action{Kind: policy.Purge, UID: uidA, Entry: entryA, Take: contents.TakeAll}
	want(t, run1(t, nowhere, a), policy.Refused, policy.ReasonRemoval)
}

// TestStrayManifest checks that any batch removes a manifest without an entry, and touches no other file.
func TestStrayManifest(t *testing.T) {
	tr := newTree(t, "file etc-hosts 1")
	r := tr.open(false)
	want(t, run1(t, r, tr.parkAction(uidA)), policy.Done, "")
	stray := tr.Quar + "/" + string(uidB) + ".7.json"
	others := []string{"notes.json", "lost+found.json", string(uidB) + ".json", string(uidB) + ".7.txt", entryA + ".json"}
	for _, name := range others {
		tr.Must(os.WriteFile(tr.Quar+"/"+name, nil, 0o600))
	}
	for _, actions := range [][]policy.Action{{{Kind: policy.PutBack, UID: uidB, Entry: string(uidB) + ".9"}}, nil} {
		tr.Must(os.WriteFile(stray, nil, 0o600))
		for _, o := range run(t, r, actions...) {
			want(t, o, policy.Gone, "")
		}
		testkit.There(t, stray, false)
		for _, name := range others {
			testkit.There(t, tr.Quar+"/"+name, true)
		}
	}
}

// TestNothingToDo checks that a batch without actions creates no quarantine and waits for no lock.
func TestNothingToDo(t *testing.T) {
	tr := newTree(t)
	r := tr.open(false)
	run(t, r)
	testkit.There(t, tr.Quar, false)
	r.guards.before = func(op, name string) { t.Errorf("%s %s", op, name) }
	tr.Must(os.Mkdir(tr.Quar, 0o700))
	stray := tr.Quar + "/" + string(uidB) + ".7.json"
	tr.Must(os.WriteFile(stray, nil, 0o600))
	other, err := unix.Open(tr.Quar, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	tr.Must(err)
	defer beneath.Close(other)
	tr.Must(unix.Flock(other, unix.LOCK_EX))
	run(t, r)
	testkit.There(t, stray, true)
}

// TestHome checks that the quarantine is identified before and after it was made, and that a directory that replaces
// it has another identity.
func TestHome(t *testing.T) {
	tr := newTree(t)
	r := tr.open(false)
	expect := func(want policy.DirID) {
		t.Helper()
		if parent, quarantine, err := r.Home(); err != nil || parent != idAt(t, filepath.Dir(tr.Quar)) || quarantine != want {
			t.Errorf("%v, %v, %v, want %v", parent, quarantine, err, want)
		}
	}
	expect(policy.DirID{})
	tr.parked(r)
	made := idAt(t, tr.Quar)
	expect(made)
	tr.Must(os.Rename(tr.Quar, tr.Quar+".x"))
	expect(policy.DirID{})
	tr.Mkdir(tr.Quar)
	if other := idAt(t, tr.Quar); other.Is(made) {
		t.Error("another directory has the same identity")
	} else {
		expect(other)
	}
	tr.Must(os.Remove(tr.Quar))
	tr.Must(os.Symlink(tr.Quar+".x", tr.Quar))
	expect(policy.DirID{})
}
