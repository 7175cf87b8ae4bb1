package poddir

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
)

func TestContentIsBounded(t *testing.T) {
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			n := mode(t)
			const mostEntries = 300
			n.Entries = mostEntries
			many, manyDirs, deep, wide := newUID(), newUID(), newUID(), newUID()
			for i := range mostEntries + 50 {
				n.Write(fmt.Sprintf("%s/volumes/kubernetes.io~nfs/v/%05d", n.PodDir(many), i), "")
			}
			n.Mkdir(n.PodDir(manyDirs) + "/volumes/kubernetes.io~nfs/v")
			for i := range mostEntries + 50 {
				must(t, os.Mkdir(n.Path(fmt.Sprintf("%s/volumes/kubernetes.io~nfs/v/%05d", n.PodDir(manyDirs), i)), 0o755))
			}
			n.Mkdir(n.PodDir(deep) + "/volumes/kubernetes.io~nfs/v/" + strings.Repeat("d/", 3*deepest))
			for i := range mostEntries + 50 {
				n.Write(fmt.Sprintf("%s/%05d", n.PodDir(wide), i), "")
			}
			// A container that was restarted that often, and a volume after a full one.
			restarts, full, volumes := newUID(), newUID(), newUID()
			for i := range mostEntries + 50 {
				n.Write(fmt.Sprintf("%s/containers/app/%05d", n.PodDir(restarts), i), "")
				n.Mkdir(fmt.Sprintf("%s/volumes/kubernetes.io~nfs/%05d", n.PodDir(volumes), i))
				n.Write(fmt.Sprintf("%s/volumes/kubernetes.io~empty-dir/full/%05d", n.PodDir(full), i), "")
				n.Write(fmt.Sprintf("%s/volumes/kubernetes.io~nfs/full/%05d", n.PodDir(full), i), "")
			}
			n.Write(n.PodDir(full)+"/volumes/kubernetes.io~csi/pv-1/vol_data.json", goodVolData)
			look := n.read()
			for uid, want := range map[parsers.PodUID]string{
				// What was not completely read is never skeleton.
				many: ". skeleton, volumes/kubernetes.io~nfs/v data partial", manyDirs: ". skeleton, volumes/kubernetes.io~nfs/v data partial",
				deep: ". skeleton, volumes/kubernetes.io~nfs/v data partial", restarts: ". skeleton, containers skeleton partial",
				full: ". skeleton, volumes/kubernetes.io~csi/pv-1 skeleton, " +
					"volumes/kubernetes.io~empty-dir/full ephemeral partial, volumes/kubernetes.io~nfs/full data partial",
			} {
				wantRead(t, look[uid])
				if got := rows(look[uid]); got != want {
					t.Errorf("residue is %s, want %s", got, want)
				}
			}
			if c := look[full].Content; c.VolData["volumes/kubernetes.io~csi/pv-1/vol_data.json"] != goodVolData {
				t.Errorf("the volume beside a full one was not read: %v", c.VolData)
			}
			for _, uid := range []parsers.PodUID{wide, volumes} {
				a := look[uid]
				if a.Fact().Truth != policy.Unknown || a.Content.Unlisted == nil {
					t.Errorf("%+v, and of its volumes %v", a.Fact(), a.Content.Unlisted)
				}
				wantDetail(t, a.Fact(), "ls -U ")
				wantDetail(t, a.Fact(), n.Path(n.PodDir(uid)))
				if len(a.Content.Rows) > mostRows+4 {
					t.Errorf("%d rows", len(a.Content.Rows))
				}
			}
		})
	}
}

// TestCountingIsShared checks that the counting of one look is bounded for any content, that no verdict depends on
// it, and that the skeleton is still read.
func TestCountingIsShared(t *testing.T) {
	n, uid := newTree(t), newUID()
	for i := range 20 {
		n.Write(fmt.Sprintf("%s/volumes/kubernetes.io~nfs/v/%05d", n.PodDir(uid), i), "")
	}
	n.Write(n.PodDir(uid)+"/volumes/kubernetes.io~csi/pv-1/vol_data.json", goodVolData)
	dir := openTest(t, n.Path(n.PodDir(uid)))
	st := statOf(t, dir)
	read := func(b bounds) *Content {
		_, err := dir.Seek(0, 0)
		must(t, err)
		return readContent(t.Context(), n.Open.At(int(dir.Fd())), &st, b)
	}
	few, late, slow := testBounds(t), testBounds(t), testBounds(t)
	few.counts.left.Store(10)
	late.counts.ended = func() error { return context.DeadlineExceeded }
	slow.until = time.Time{}
	for name, b := range map[string]bounds{"few": few, "late": late, "slow": slow} {
		c := read(b)
		i := slices.IndexFunc(c.Rows, func(r policy.Residue) bool { return r.Path == "volumes/kubernetes.io~nfs/v" })
		if c.Err != nil || len(c.VolData) != 1 || i < 0 || !c.Rows[i].Partial || c.Rows[i].Class != contents.ClassData {
			t.Errorf("%s: %v, %+v", name, c.Err, c.Rows)
		}
	}
}

// TestVolDataIsBounded checks that the memory for a pod's vol_data.json files is bounded, and that the rest is
// unknown.
func TestVolDataIsBounded(t *testing.T) {
	n, uid := newTree(t), newUID()
	long := goodVolData + strings.Repeat(" ", mostVolData-len(goodVolData))
	for i := range mostVolDatas/mostVolData + 2 {
		n.Write(fmt.Sprintf("%s/volumes/kubernetes.io~csi/pv-%d/vol_data.json", n.PodDir(uid), i), long)
	}
	a := n.read()[uid]
	if len(a.Content.VolData) != mostVolDatas/mostVolData || a.Staging.Unclear == "" {
		t.Errorf("%d in memory, %+v", len(a.Content.VolData), a.Staging)
	}
	wantRead(t, a) // if nothing is staged, this does not keep the pod
}

func testBounds(t *testing.T) bounds {
	t.Helper()
	return bounds{each: mostEntries, counts: newCounting(t.Context()), until: time.Now().Add(time.Hour), end: time.Now().Add(time.Hour)}
}

func TestContentCounts(t *testing.T) {
	n, uid := newTree(t), newUID()
	n.Write(n.PodDir(uid)+"/volumes/kubernetes.io~empty-dir/tmp/a/b", strings.Repeat("x", 10_000))
	n.Write(n.PodDir(uid)+"/containers/c/0", "")
	for _, r := range n.read()[uid].Content.Rows {
		want := map[string]int64{".": 3, "containers": 3, "volumes/kubernetes.io~empty-dir/tmp": 3}[r.Path]
		if r.Entries != want || r.Path == "volumes/kubernetes.io~empty-dir/tmp" && r.Bytes < 10_000 {
			t.Errorf("%+v, want %d entries", r, want)
		}
	}
}

// TestSubvolume makes every directory appear to be on another device without a mount, like a btrfs subvolume.
func TestSubvolume(t *testing.T) {
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			n := mode(t)
			uid := newUID()
			n.Mkdir(n.PodDir(uid) + "/volumes")
			dir := openTest(t, n.Path(n.PodDir(uid)))
			st := statOf(t, dir)
			st.Dev_minor++
			c := readContent(t.Context(), n.Open.At(int(dir.Fd())), &st, testBounds(t))
			if !errors.Is(c.Err, errSubvolume) || len(c.Volumes) > 0 {
				t.Errorf("the subvolume was entered: %v, %+v", c.Err, c.Rows)
			}
		})
	}
}

// TestPodIsSubvolume checks that a pod directory that is a subvolume is kept: it used to be parked, and rmdir refused
// it forever. The directories above it appear to be on another device.
func TestPodIsSubvolume(t *testing.T) {
	n, uid, parked := newTree(t), newUID(), newUID()
	n.Mkdir(n.PodDir(uid), "kubelet/orphan-reaper/"+string(parked)+".1")
	entry := policy.EntryState{Entry: string(parked) + ".1", UID: parked}
	wantRead(t, n.read(entry)[uid]) // without the guard
	n.stat = func(fd int) (unix.Statx_t, error) {
		st, err := beneath.Stat(fd)
		st.Dev_minor++
		return st, err
	}
	look := n.read(entry)
	for path, a := range map[string]*Answer{n.Path(n.PodDir(uid)): look[uid], n.Path("kubelet/orphan-reaper/" + entry.Entry): look[parked]} {
		if a.Fact().Truth != policy.Unknown || a.Directory.Truth != policy.Yes {
			t.Errorf("%+v, the directory %+v", a.Fact(), a.Directory)
		}
		wantDetail(t, a.Fact(), "then btrfs subvolume delete "+clean.Shell(path))
	}
}

func TestContentStopsWithItsTime(t *testing.T) {
	n, uid := newTree(t), newUID()
	n.Mkdir(n.PodDir(uid) + "/volumes")
	dir := openTest(t, n.Path(n.PodDir(uid)))
	st := statOf(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if c := readContent(ctx, n.Open.At(int(dir.Fd())), &st, testBounds(t)); c.Err == nil {
		t.Error("a walk without time counts as complete")
	}
	slow := testBounds(t)
	slow.end = time.Now().Add(-time.Second)
	again := openTest(t, n.Path(n.PodDir(uid))) // the other handle was read to its end
	if c := readContent(t.Context(), n.Open.At(int(again.Fd())), &st, slow); !errors.Is(c.Unlisted, errSlow) {
		t.Errorf("slow walk: %v", c.Unlisted)
	}
	d := n.open()
	if a := n.Read(ctx, d, []Dir{n.Pod(d, d.Names[0])})[0]; a.Fact().Truth != policy.Unknown || a.Directory.Truth != policy.Unknown {
		t.Errorf("a read without time: %+v, %+v", a.Fact(), a.Directory)
	}
}

func TestSmallBuffer(t *testing.T) {
	n := newTree(t)
	for i := range 500 {
		n.Mkdir(fmt.Sprintf("many/%s%03d", strings.Repeat("n", 200), i))
	}
	dir := openTest(t, n.Path("many"))
	seen := map[string]bool{}
	must(t, beneath.EachName(int(dir.Fd()), make([]byte, 1024), func(d beneath.Entry) bool {
		seen[d.Name] = d.Kind == unix.DT_DIR
		return true
	}))
	if len(seen) != 500 {
		t.Errorf("%d names, want 500", len(seen))
	}
}

// TestHungPods checks that hung pods cost the look bounded time and no other pod its facts.
func TestHungPods(t *testing.T) {
	n, first, second := newTree(t), newUID(), newUID()
	n.Mkdir(n.PodDir(first), n.PodDir(second))
	dirs := n.open()
	var all []Dir
	for _, d := range dirs.Names {
		all = append(all, n.Pod(dirs, d))
	}
	// The first pod's read has been stuck since an earlier look.
	stick(t, n.Guard, all[0].origin)
	reads := n.Read(t.Context(), dirs, all)
	if reads[0].Fact().Truth != policy.Unknown || reads[0].Directory.Truth != policy.Unknown {
		t.Errorf("stuck pod: %+v", reads[0].Directory)
	}
	if reads[1].Fact().Truth != policy.Yes {
		t.Errorf("other pod: %+v", reads[1].Fact())
	}
	dirs.Root.Unref()
	dirs.Pods.Unref()
	if _, err := beneath.Stat(dirs.Pods.FD); !errors.Is(err, unix.EBADF) {
		t.Errorf("the handle is still in use: %v", err)
	}
}

// TestManyHang checks that after several hung pods the rest is deferred to the next look.
func TestManyHang(t *testing.T) {
	n := newTree(t)
	const pods = 4 * mostHangs
	for range pods {
		n.Mkdir(n.PodDir(newUID()))
	}
	release := make(chan struct{})
	n.stat = func(fd int) (unix.Statx_t, error) {
		<-release
		return beneath.Stat(fd)
	}
	n.Guard.Patience = 20 * time.Millisecond
	d := n.open()
	var all []Dir
	for _, e := range d.Names {
		all = append(all, n.Pod(d, e))
	}
	left := 0
	for _, a := range n.Read(t.Context(), d, all) {
		if a.Fact().Truth != policy.Unknown || a.Directory.Truth != policy.Unknown {
			t.Errorf("hung pod: %+v", a.Fact())
		}
		if strings.Contains(a.Fact().Detail, "since other pods hang") {
			left++
		}
	}
	close(release)
	if begun := pods - left; begun < mostHangs || begun > 2*mostHangs {
		t.Errorf("%d of %d pods were started before the rest was deferred", begun, pods)
	}
}

// TestScratch checks that a walk's result is its own although the next walk reuses its memory.
func TestScratch(t *testing.T) {
	n, a, b := newTree(t), newUID(), newUID()
	n.Write(n.PodDir(a)+"/volumes/kubernetes.io~empty-dir/tmp/a", "x")
	n.Write(n.PodDir(b)+"/containers/c/0", "")
	n.Write(n.PodDir(b)+"/volumes/kubernetes.io~csi/pv/vol_data.json", "{}")
	scratch := newScratch()
	read := func(uid parsers.PodUID) *Content {
		dir := openTest(t, n.Path(n.PodDir(uid)))
		st := statOf(t, dir)
		return scratch.readContent(t.Context(), n.Open.At(int(dir.Fd())), &st, testBounds(t))
	}
	first := read(a)
	rows, inodes := slices.Clone(first.Rows), slices.Clone(first.Inodes)
	if len(rows) != 2 || len(inodes) != 5 {
		t.Errorf("%+v, %d inodes", rows, len(inodes))
	}
	read(b)
	if !slices.Equal(first.Rows, rows) || !slices.Equal(first.Inodes, inodes) {
		t.Errorf("after the next walk %+v, want %+v", first.Rows, rows)
	}
	if again := read(a); !slices.Equal(again.Rows, rows) || len(again.VolData) > 0 {
		t.Errorf("second read: %+v, want %+v", again, rows)
	}
}

// TestHostsName checks that the pod's name is parsed from the hosts file in the kubelet's format only.
func TestHostsName(t *testing.T) {
	const managed = "# Kubernetes-managed hosts file.\n"
	const localhost = managed + "127.0.0.1\tlocalhost\n"
	for name, c := range map[string]struct {
		text string
		want policy.PodName
	}{
		"with a subdomain":   {localhost + "10.0.0.7\tweb-0.web.shop.svc.cluster.local\tweb-0\n", policy.PodName{Namespace: "shop", Name: "web-0"}},
		"without one":        {managed + "10.0.0.7\tweb-0\n", policy.PodName{Name: "web-0"}},
		"with aliases":       {managed + "10.0.0.7\tweb-0\n\n# Entries added by HostAliases.\n1.2.3.4\tother\n", policy.PodName{Name: "web-0"}},
		"no name of a pod":   {managed + "10.0.0.1\t\x1b[31mred\n", policy.PodName{}},
		"localhost alone":    {localhost, policy.PodName{}},
		"the host's network": {"# Kubernetes-managed hosts file (host network).\n10.0.0.7\tnode-1\n", policy.PodName{}},
		"another file":       {"10.0.0.7\tweb-0\n", policy.PodName{}},
	} {
		if got := hostsName([]byte(c.text)); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
