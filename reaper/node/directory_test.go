package node

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/fdpath"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

func TestDirectory(t *testing.T) {
	n := newNode(t)
	pods := n.cfg.RootDir + "/pods/"
	uid := n.pod()
	link, file := testkit.NewUID(), testkit.NewUID()
	must(t, os.Symlink(string(uid), pods+string(link)))
	n.write("kubelet/pods/"+string(file), "")
	n.mkdir("kubelet/pods/lost+found")
	gone := testkit.NewUID()
	s := n.scanner().Scan(t.Context(), nil, []parsers.PodUID{gone})
	if len(s.Pods) != 5 {
		t.Fatalf("%d pods, want 5", len(s.Pods))
	}
	for _, c := range []struct {
		uid    parsers.PodUID
		truth  judge.Truth
		exists judge.Truth
		detail string
	}{
		{uid, judge.Yes, judge.Yes, ""},
		{link, judge.No, judge.Yes, "no directory"},
		{file, judge.No, judge.Yes, "no directory"},
		{gone, judge.No, judge.No, "does not exist"},
		{"", judge.Yes, judge.Yes, ""}, // lost+found
	} {
		p, ok := s.Pod(c.uid)
		if !ok {
			t.Fatalf("no pod %q", c.uid)
		}
		wantFact(t, p.Facts[judge.Directory], c.truth, false, c.detail)
		if p.Present != c.exists {
			t.Errorf("%s: present %v, want %v", p.Name, p.Present, c.exists)
		}
	}
	if p, _ := s.Pod(uid); p.PodName != "web-0" {
		t.Errorf("the name is %q", p.PodName)
	}
	if s.Node.FreeBytes < 0 {
		t.Error("the free space was not read")
	}
}

// TestPodsDirectoryUnread: without a listing nothing is known of any pod's directory. A link is not followed.
func TestPodsDirectoryUnread(t *testing.T) {
	n := newNode(t)
	uid := n.pod()
	must(t, os.Rename(n.cfg.RootDir+"/pods", n.dir+"/elsewhere"))
	must(t, os.Symlink(n.dir+"/elsewhere", n.cfg.RootDir+"/pods"))
	s := n.scanner().Scan(t.Context(), []parsers.PodUID{uid}, nil)
	p, _ := s.Pod(uid)
	wantFact(t, p.Facts[judge.Directory], judge.Unknown, false, "no directory")
	if p.Present != judge.Unknown || len(s.Problems) == 0 {
		t.Errorf("present %v, problems %q", p.Present, s.Problems)
	}
}

func TestDirectoryIsMountPoint(t *testing.T) {
	testkit.NeedProcesses(t)
	n := newNode(t)
	uid := n.pod()
	testkit.Mount(t, "t", n.cfg.RootDir+"/pods/"+string(uid), "tmpfs", 0, "")
	wantFact(t, n.fact(uid, judge.Directory), judge.No, false, "mount point")
}

// TestSkeleton: what a returning pod changes first changes the sum. Data of a volume does not.
func TestSkeleton(t *testing.T) {
	for _, c := range []struct {
		path    string
		changes bool
	}{
		{"new", true},
		{"volumes/new", true},
		{"volumes/kubernetes.io~empty-dir/new", true},
		{"plugins/new", true},
		{"plugins/kubernetes.io~empty-dir/new", true},
		{"containers/new", true},
		{"volume-subpaths/new", true},
		{"volumes/kubernetes.io~empty-dir/tmp/data", false},
		{"containers/app/data", false},
	} {
		n := newNode(t)
		uid := n.pod()
		at := "kubelet/pods/" + string(uid) + "/"
		n.mkdir(at + "volume-subpaths")
		sum := func() uint64 {
			s := n.scan()
			p, _ := s.Pod(uid)
			return p.Skeleton.Sum
		}
		before := sum()
		if sum() != before {
			t.Fatal("the sum of an unchanged directory changes")
		}
		n.mkdir(at + c.path)
		if changed := sum() != before; changed != c.changes {
			t.Errorf("%s: changed %v, want %v", c.path, changed, c.changes)
		}
	}
}

// TestSkeletonTimes: a change whose mtime was set back, as by tar or rsync, shows in the ctime.
func TestSkeletonTimes(t *testing.T) {
	n := newNode(t)
	uid := n.pod()
	volumes := n.cfg.RootDir + "/pods/" + string(uid) + "/volumes"
	old := time.Unix(1_000_000, 0)
	must(t, os.Chtimes(volumes, old, old))
	sum := func() uint64 {
		s := n.scan()
		p, _ := s.Pod(uid)
		return p.Skeleton.Sum
	}
	before := sum()
	must(t, os.Chmod(volumes, 0o700))
	must(t, os.Chtimes(volumes, old, old))
	if sum() == before {
		t.Error("the sum is the same")
	}
}

// TestSubvolume: a btrfs subvolume is no mount point, and has another device than the pods directory.
func TestSubvolume(t *testing.T) {
	n := newNode(t)
	uid, s := n.pod(), n.scanner()
	pods, err := s.podsDir()
	must(t, err)
	defer pods.Close()
	st, err := pods.Stat()
	must(t, err)
	for dev, want := range map[uint64]judge.Truth{fdpath.DevOf(&st): judge.Yes, fdpath.DevOf(&st) + 1: judge.No} {
		if f := s.readDirectory(pods, dev, string(uid), &scan{Scanner: s}).fact; f.Truth != want {
			t.Errorf("%+v, want %v", f, want)
		}
	}
}

// TestYoungest: the kubelet writes vol_data.json before NodePublish, which may run for two minutes. A kubelet that tries to
// clean an orphan removes the empty mount directory beside it, which is no sign of work.
func TestYoungest(t *testing.T) {
	n := newNode(t)
	uid := n.pod()
	at := "kubelet/pods/" + string(uid) + "/volumes/"
	n.write(at+csiPlugin+"/pv/vol_data.json", "{}")
	n.write(at+csiPlugin+"/early/x", "")
	old, young := time.Unix(1_000_000, 0), time.Unix(2_000_000, 0)
	paths := map[string]time.Time{
		at + "kubernetes.io~empty-dir/tmp":   young,
		at + csiPlugin + "/pv/vol_data.json": young,
		at + csiPlugin + "/pv":               old,
		at + csiPlugin + "/early":            young,
	}
	for path := range paths {
		must(t, os.Chtimes(n.dir+"/"+path, old, old))
	}
	for path, want := range paths {
		must(t, os.Chtimes(n.dir+"/"+path, young, young))
		s := n.scan()
		if p, _ := s.Pod(uid); !p.Skeleton.Youngest.Equal(want) {
			t.Errorf("after %s the youngest is %v, want %v", path, p.Skeleton.Youngest, want)
		}
		must(t, os.Chtimes(n.dir+"/"+path, old, old))
	}
}

// TestSkeletonOnly: only a directory without any data may be exchanged with the quarantined one.
func TestSkeletonOnly(t *testing.T) {
	for _, c := range []struct {
		file string
		want judge.Truth
	}{
		{"", judge.Yes},
		{"volumes/kubernetes.io~csi/pv/vol_data.json", judge.Yes},
		{"volumes/kubernetes.io~csi/pv/mount/data", judge.No},
		{"volumes/kubernetes.io~empty-dir/tmp/data", judge.No},
		{"volumes/kubernetes.io~empty-dir/tmp/vol_data.json", judge.No},
		{"plugins/kubernetes.io~empty-dir/wrapped_token/ready", judge.No},
		{"data", judge.No},
		{"plugins/kubernetes.io~empty-dir/cache/ready", judge.Yes}, // empty
	} {
		n := newNode(t)
		uid := n.pod()
		if c.want == judge.Yes && strings.HasSuffix(c.file, "ready") {
			n.write("kubelet/pods/"+string(uid)+"/"+c.file, "")
		} else if c.file != "" {
			n.write("kubelet/pods/"+string(uid)+"/"+c.file, "x")
		}
		s := n.scan(uid)
		if p, _ := s.Pod(uid); p.SkeletonOnly != c.want {
			t.Errorf("with %q it is %v, want %v", c.file, p.SkeletonOnly, c.want)
		}
	}
}

// TestSkeletonOnlyMounted: a directory with a mount may not be exchanged, also if it has nothing else.
func TestSkeletonOnlyMounted(t *testing.T) {
	testkit.NeedRoot(t)
	n := newNode(t)
	uid := n.pod()
	testkit.Mount(t, "t", n.cfg.RootDir+"/pods/"+string(uid)+"/volumes/kubernetes.io~empty-dir/tmp", "tmpfs", 0, "")
	s := n.scan(uid)
	if p, _ := s.Pod(uid); p.SkeletonOnly != judge.No {
		t.Errorf("it is %v", p.SkeletonOnly)
	}
}

// TestYoungestMounted has a mount on a CSI volume's directory itself: nothing in it is read, since its server may hang.
func TestYoungestMounted(t *testing.T) {
	testkit.NeedRoot(t)
	n := newNode(t)
	uid := n.pod()
	volumes := "kubelet/pods/" + string(uid) + "/volumes/"
	at := volumes + csiPlugin + "/pv"
	n.mkdir(at)
	testkit.Mount(t, "t", n.dir+"/"+at, "tmpfs", 0, "")
	n.write(at+"/vol_data.json", "{}")
	old := time.Unix(1_000_000, 0)
	for _, path := range []string{at, volumes + "kubernetes.io~empty-dir/tmp"} {
		must(t, os.Chtimes(n.dir+"/"+path, old, old))
	}
	s := n.scan()
	if p, _ := s.Pod(uid); !p.Skeleton.Youngest.Equal(old) {
		t.Errorf("the youngest is %v, in the mount", p.Skeleton.Youngest)
	}
}
