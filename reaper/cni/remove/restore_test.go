package remove

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// ops records the Remover's steps that change the disk, except the making of host-local's lock.
func (x *cniTree) ops() *[]string {
	ops := &[]string{}
	x.r.guards.before = testkit.Outside(func(op, name string) {
		if name != lockName {
			*ops = append(*ops, op)
		}
	})
	return ops
}

// TestRestoreCNISyncs checks that no file gets its name before all contents are synced, and that a run after a killed
// one syncs again.
func TestRestoreCNISyncs(t *testing.T) {
	x := newCNI(t, false)
	for _, files := range [][]cni.File{{x.cache(1), x.cache(2)}, {x.address(1, "10.0.0.7"), x.address(2, "10.0.0.8")}} {
		ended(t, x.take(files...), policy.Done)
		ops := x.ops()
		ended(t, x.restore(files...), policy.Done)
		if want := []string{"openat", "openat", "syncfs", "renameat2", "renameat2", "fsync"}; !slices.Equal(*ops, want) {
			t.Errorf("%s: %v, want %v", files[0].Kind, *ops, want)
		}
		ops = x.ops()
		ended(t, x.restore(files...), policy.Gone)
		if want := []string{"syncfs", "fsync"}; !slices.Equal(*ops, want) {
			t.Errorf("second run, %s: %v, want %v", files[0].Kind, *ops, want)
		}
	}
}

// disk is a file system for the results directory on which a power cut can be simulated.
type disk struct {
	x      *cniTree
	device string
}

func (x *cniTree) disk() *disk {
	t := x.T
	mkfs := testkit.NeedCommand(t, "mkfs.ext4")
	image := x.Base + "/image"
	x.Must(os.WriteFile(image, nil, 0o600))
	x.Must(os.Truncate(image, 16<<20))
	if out, err := exec.CommandContext(t.Context(), mkfs, "-q", "-F", image).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	d := &disk{x, testkit.Loop(t, image)}
	d.mount()
	t.Cleanup(d.unmount)
	return d
}

func (d *disk) mount() {
	// Only requested writes reach the disk: the result of a power cut must not depend on the speed of the test.
	if err := unix.Mount(d.device, d.x.results, "ext4", 0, "commit=300"); err != nil {
		testkit.Skip(d.x.T, "nothing can be mounted: ", err)
	}
}

func (d *disk) unmount() { d.x.Must(unix.Unmount(d.x.results, 0)) }

// cut simulates a power cut at the worst moment: another program has just synced its own file, and with it all names
// of the file system, and no other file's content. ext4 writes nothing from then on.
func (d *disk) cut() {
	f, err := os.Create(d.x.results + "/another's")
	d.x.Must(err)
	_, err = f.WriteString("another's")
	d.x.Must(err)
	d.x.Must(f.Sync())
	const shutdown, noFlush = 0x8004587d, 2 // EXT4_IOC_SHUTDOWN, EXT4_GOING_FLAGS_NOLOGFLUSH
	d.x.Must(unix.IoctlSetPointerInt(int(f.Fd()), shutdown, noFlush))
	d.x.Must(f.Close())
}

// TestRestoreCNIPowerCut cuts the power before each step. Every file that has its name then is complete, and the same
// command restores the rest.
func TestRestoreCNIPowerCut(t *testing.T) {
	testkit.NeedRoot(t)
	x := newCNI(t, false)
	d := x.disk()
	files := []cni.File{x.cache(1), x.cache(2), x.cache(3)}
	ended(t, x.take(files...), policy.Done)
	for step := 1; ; step++ {
		n := 0
		x.r.guards.before = testkit.Outside(func(string, string) {
			if n++; n == step {
				d.cut()
			}
		})
		x.r.restore(context.Background(), files)
		x.r.guards.before = nil
		d.unmount()
		d.mount()
		for _, f := range files {
			got, err := os.ReadFile(x.results + "/" + f.Name)
			if err == nil && string(got) != string(f.Data) || err != nil && !os.IsNotExist(err) {
				t.Errorf("cut before step %d: %d of %d bytes, %v", step, len(got), len(f.Data), err)
			}
		}
		for _, o := range x.restore(files...) {
			if o.Result != policy.Done && o.Result != policy.Gone {
				t.Errorf("cut before step %d: %+v", step, o)
			}
		}
		if names := testkit.Listing(t, x.results); strings.Contains(strings.Join(names, "\n"), asideSuffix) {
			t.Errorf("cut before step %d: files:\n%s", step, strings.Join(names, "\n"))
		}
		if n < step {
			if step < 9 {
				t.Errorf("there are only %d steps", n)
			}
			break
		}
		for i, f := range files {
			files[i] = x.read(f.Kind, f.Dir, f.Name)
		}
		ended(t, x.take(files...), policy.Done)
	}
}

// TestRestoreCNINotSynced checks that no file gets its name if its content cannot be synced, and that none counts as
// restored if the names cannot be.
func TestRestoreCNINotSynced(t *testing.T) {
	testkit.NeedRoot(t)
	for at, words := range map[string]string{"syncfs": "input/output error", "fsync": "not synced"} {
		t.Run(at, func(t *testing.T) {
			x := newCNI(t, false)
			d := x.disk()
			files := x.caches()
			ended(t, x.take(files[0]), policy.Done)
			x.r.guards.before = testkit.Outside(func(op, _ string) {
				if op == at {
					d.cut()
				}
			})
			ended(t, x.restore(files...), policy.Failed, words) // the existing file, too
			d.unmount()
			d.mount()
			if _, err := os.Lstat(x.results + "/" + files[0].Name); at == "syncfs" && !os.IsNotExist(err) {
				t.Errorf("the file has its name: %v", err)
			}
		})
	}
}

// TestRestoreCNIHalf checks that an incomplete file under the file's own name is kept, with the operator's options in
// the error: a power cut left it, or a program is still writing it.
func TestRestoreCNIHalf(t *testing.T) {
	for _, size := range []int{0, 5} {
		x := newCNI(t, false)
		for _, c := range []cni.File{x.cache(1), x.address(1, "10.0.0.7")} {
			ended(t, x.take(c), policy.Done)
			at := c.Dir + "/" + c.Name
			x.Must(os.WriteFile(at, c.Data[:size], 0o600))
			before := testkit.Listing(t, x.cni)
			ended(t, x.restore(c), policy.Refused, "with only the first", "power cut", "remove it and give the command again")
			if got := testkit.Listing(t, x.cni); !slices.Equal(got, before) {
				t.Error(got)
			}
			x.Must(os.Remove(at))
			ended(t, x.restore(c), policy.Done)
		}
	}
}

// TestRestoreCNILongNames checks that two files with the same temporary name are restored with their own contents.
func TestRestoreCNILongNames(t *testing.T) {
	x := newCNI(t, false)
	long := strings.Repeat("x", unix.NAME_MAX-1)
	files := []cni.File{x.file(cni.Cache, x.results, long+"1", "the same", 1), x.file(cni.Cache, x.results, long+"2", "the same, and more", 2)}
	if asideName(files[0].Name) != asideName(files[1].Name) {
		t.Fatal("their temporary names differ")
	}
	ended(t, x.take(files...), policy.Done)
	ended(t, x.restore(files...), policy.Done)
	for _, f := range files {
		if got, err := os.ReadFile(x.results + "/" + f.Name); string(got) != string(f.Data) || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	}
}

// TestRestoreCNIStops checks that nothing remains of files without their own name if the context ends or the lock is
// not available.
func TestRestoreCNIStops(t *testing.T) {
	x := newCNI(t, false)
	files := append(x.caches(), x.address(1, "10.0.0.7"))
	ended(t, x.take(files...), policy.Done)
	none := func() {
		t.Helper()
		if text := strings.Join(testkit.Listing(t, x.cni), "\n"); strings.Contains(text, asideSuffix) {
			t.Errorf("files:\n%s", text)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	x.r.guards.before = testkit.Outside(func(op, _ string) {
		if op == "renameat2" {
			cancel()
		}
	})
	out := x.r.restore(ctx, files)
	ended(t, out[:1], policy.Done)
	ended(t, out[1:], policy.Refused, "before it was begun")
	none()
	h, err := openHostLocal(x.network)
	x.Must(err)
	defer beneath.Close(h.lock)
	x.r.guards.before = testkit.Outside(func(op, _ string) {
		if op == "syncfs" {
			x.Must(flockWait(h.lock))
		}
	})
	out = x.restore(files[1:]...)
	ended(t, out[:1], policy.Done)
	ended(t, out[1:], policy.Refused, "is locked by another process")
	none()
	flockEnd(h.lock)
	x.r.guards.before = nil
	out = x.restore(files...)
	ended(t, out[:2], policy.Gone)
	ended(t, out[2:], policy.Done)
}
