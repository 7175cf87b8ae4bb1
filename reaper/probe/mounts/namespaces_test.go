package mounts

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/procfs"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestPinnedOnOldKernels checks whose pinned namespace makes the mounts unknown if it cannot be read.
func TestPinnedOnOldKernels(t *testing.T) {
	bind := func(target string) string {
		return fmt.Sprintf("77 20 0:4 mnt:[4026532999] %s rw - nsfs nsfs rw\n", target)
	}
	for name, c := range map[string]struct {
		one, other string
		want       policy.Truth
	}{
		"none":            {"", "", policy.No},
		"bound by root":   {bind(`/run/my\040ns`), "", policy.Unknown},
		"snapd's":         {bind("/run/snapd/ns/lxd.mnt"), "", policy.No},
		"in another one":  {"", bind("/x"), policy.No},
		"another's snapd": {"", bind("/run/snapd/ns/lxd.mnt"), policy.No},
	} {
		t.Run(name, func(t *testing.T) {
			uid := newUID()
			r := reader(t, testkit.ProcMounts(t, map[string]string{"1": line(20, "/", "/") + c.one, "7": line(60, "/", "/") + c.other}))
			r.noListing, r.noEntering = true, true
			f := r.Read(t.Context(), parsers.PodSet{uid: true}, nil).Fact(uid)
			if f.Truth != c.want {
				t.Errorf("mounted is %+v, want %s", f, c.want)
			}
			if c.want == policy.Unknown {
				wantDetail(t, f, "mounted at /run/my ns")
			}
		})
	}
}

// TestNamespaceByFile checks that the kernel's list of our own namespace by its file equals mountinfo.
func TestNamespaceByFile(t *testing.T) {
	if !testkit.InNamespace(t) {
		return
	}
	testkit.NeedListing(t)
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	odd := "odd \\ #\tname\n" + strings.Repeat("x", 200)
	for _, name := range []string{odd, "lower", "up", "work", "over"} {
		testkit.Must(t, os.Mkdir(path(name), 0o755))
	}
	testkit.Must(t, unix.Mount("tmpfs", path(odd), "tmpfs", 0, "size=64k"))
	testkit.Must(t, unix.Mount("a source", path("over"), "overlay", 0, "lowerdir="+path("lower")+",upperdir="+path("up")+",workdir="+path("work")))
	for i := range 2000 {
		testkit.Must(t, unix.Mount(fmt.Sprintf("t%d", i), path(odd), "tmpfs", 0, "size=4k"))
	}
	t.Cleanup(func() {
		_ = unix.Unmount(path("over"), unix.MNT_DETACH)
		for unix.Unmount(path(odd), unix.MNT_DETACH) == nil {
			continue
		}
	})
	fd, err := procfs.OpenNamespace(unix.AT_FDCWD, "/proc/self/ns/mnt")
	testkit.Must(t, err)
	defer beneath.Close(fd)
	var text []byte
	testkit.Must(t, procfs.NamespaceMounts(fd, func(l *procfs.MountLine) error { text = append(append(text, l.Text...), '\n'); return nil }))
	own, err := os.ReadFile("/proc/self/mountinfo")
	testkit.Must(t, err)
	got, want := map[string]bool{}, 0
	for l := range strings.Lines(string(text)) {
		got[comparable1(t, l)] = true
	}
	for l := range strings.Lines(string(own)) {
		want++
		if !got[comparable1(t, l)] {
			t.Errorf("missing in the list by file: %q", l)
		}
	}
	if len(got) != want || want < 2000 {
		t.Errorf("%d mounts by file, %d in mountinfo", len(got), want)
	}
}

// comparable1 drops the flags and propagation of a mount, and those of its file system.
func comparable1(t *testing.T, line string) string {
	t.Helper()
	infos, err := mountinfo.GetMountsFromReader(strings.NewReader(line), nil)
	testkit.Must(t, err)
	m := infos[0]
	opts := strings.TrimPrefix(strings.TrimPrefix(m.VFSOptions, "rw,"), "ro,")
	return fmt.Sprint(m.ID, m.Parent, m.Major, m.Minor, m.Root, m.Mountpoint, m.FSType, m.Source, opts)
}
