package node

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestBusy: what only time kept from being read is Unknown and Busy, so that the pod waits and no operator is asked.
func TestBusy(t *testing.T) {
	n := newNode(t)
	uid := n.pod()
	s := n.scanner()
	s.limit = -time.Second // no time is left
	wantBusy(t, s.Scan(t.Context(), []parsers.PodUID{uid}, nil), uid)
	// A daemon that is told to stop.
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	s = n.scanner()
	s.limit = forever
	wantBusy(t, s.Scan(stopped, []parsers.PodUID{uid}, nil), uid)
	// One that is told to stop while a sensor reads.
	ctx, stop := context.WithCancel(t.Context())
	cut := sense(ctx, s, "test", func(ctx context.Context) (int, error) {
		stop()
		<-ctx.Done()
		return 0, ctx.Err()
	})
	if cut.doubt.err == nil || !cut.doubt.busy {
		t.Errorf("%+v", cut.doubt)
	}
}

func wantBusy(t *testing.T, s judge.Snapshot, uid parsers.PodUID) {
	t.Helper()
	p, ok := s.Pod(uid)
	if !ok || p.Present != judge.Unknown {
		t.Fatalf("the pod is %+v, %v", p, ok)
	}
	for _, name := range []judge.FactName{judge.Listed, judge.Running, judge.Cgroup, judge.Mounted, judge.Staged, judge.Directory} {
		if f := p.Facts[name]; f.Truth != judge.Unknown || !f.Busy || f.Detail == "" {
			t.Errorf("%v is %+v", name, f)
		}
	}
	if !s.Node.KubeletKnown.Busy || len(s.Problems) == 0 {
		t.Errorf("the kubelet is %+v, problems %q", s.Node.KubeletKnown, s.Problems)
	}
}

// TestOnlyAndAlso: a scan of some pods has these, and those in quarantine, whether they have a directory or not.
func TestOnlyAndAlso(t *testing.T) {
	n := newNode(t)
	asked, other, again := n.pod(), n.pod(), n.pod()
	gone := parsers.PodUID("11111111-1111-1111-1111-111111111111")
	s := n.scanner().Scan(t.Context(), []parsers.PodUID{asked}, []parsers.PodUID{again, gone})
	if _, ok := s.Pod(other); ok || len(s.Pods) != 3 {
		t.Errorf("%d pods, and the other one: %v", len(s.Pods), ok)
	}
	for uid, want := range map[parsers.PodUID]judge.Truth{asked: judge.Yes, again: judge.Yes, gone: judge.No} {
		if p, ok := s.Pod(uid); !ok || p.Present != want {
			t.Errorf("%s is %v, want %v", uid, p, want)
		}
	}
	if p, _ := s.Pod(again); p.SkeletonOnly != judge.Yes {
		t.Errorf("SkeletonOnly of a quarantined pod with a new directory is %v", p.SkeletonOnly)
	}
}

// TestStatic: a pod whose UID has no dashes is of a manifest, whatever else is known of it.
func TestStatic(t *testing.T) {
	n := newNode(t)
	const uid = "0123456789abcdef0123456789abcdef"
	n.mkdir("kubelet/pods/" + uid)
	s := n.scan()
	if p, ok := s.Pod(uid); !ok || !p.Static {
		t.Errorf("%+v", p)
	}
}

// TestJournal: only where there is surely no journal may syslog have a kubelet's lines.
func TestJournal(t *testing.T) {
	n := newNode(t)
	for dir, want := range map[string]judge.Truth{n.dir: judge.Yes, n.dir + "/none": judge.No, os.DevNull + "/x": judge.Unknown} {
		n.cfg.Journals = []string{n.dir + "/none", dir}
		if s := n.scan(); s.Node.Journal != want {
			t.Errorf("%s: %v, want %v", dir, s.Node.Journal, want)
		}
	}
}

// TestOrder has a pod that returns while the runtime is asked, in the kubelet's order: a cgroup, a directory, a mount. The
// same scan shows all three, since they are read after the runtime's answer.
func TestOrder(t *testing.T) {
	testkit.NeedProcesses(t)
	testkit.NeedRoot(t)
	n := newNode(t)
	uid := n.pod()
	at := "kubelet/pods/" + string(uid) + "/volumes/"
	sum := func(s judge.Snapshot) uint64 {
		p, _ := s.Pod(uid)
		return p.Skeleton.Sum
	}
	before := sum(n.scan())
	n.whenAsked(func() {
		n.mkdir("cgroup/kubepods.slice/kubepods-pod"+strings.ReplaceAll(string(uid), "-", "_")+".slice", at+"kubernetes.io~secret/token")
		if err := unix.Mount("t", n.dir+"/"+at+"kubernetes.io~secret/token", "tmpfs", 0, ""); err != nil {
			t.Error(err)
		}
	})
	defer func() { _ = unix.Unmount(n.dir+"/"+at+"kubernetes.io~secret/token", unix.MNT_DETACH) }()
	s := n.scan()
	p, _ := s.Pod(uid)
	wantFact(t, p.Facts[judge.Running], judge.Unknown, false, "")
	wantFact(t, p.Facts[judge.Cgroup], judge.Yes, true, "exists")
	wantFact(t, p.Facts[judge.Mounted], judge.Yes, true, "token")
	if after := sum(n.scan()); sum(s) == before || sum(s) != after {
		t.Errorf("the sum before, meanwhile and after: %x, %x, %x", before, sum(s), after)
	}
}

// whenAsked calls do when the runtime is asked for the first time, which is after the names were listed. It does not answer.
func (n *testNode) whenAsked(do func()) {
	n.t.Helper()
	socket := filepath.Join(n.t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	must(n.t, err)
	n.t.Cleanup(func() { _ = l.Close() })
	n.cfg.Sockets = []string{socket}
	var once sync.Once
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			once.Do(do)
			_ = c.Close()
		}
	}()
}

// TestReturnsDuringScan has a quarantined pod whose directory a kubelet makes again after the names were listed: the same scan
// shows it.
func TestReturnsDuringScan(t *testing.T) {
	n := newNode(t)
	uid := testkit.NewUID()
	n.whenAsked(func() { n.mkdir("kubelet/pods/" + string(uid) + "/volumes") })
	s := n.scanner().Scan(t.Context(), []parsers.PodUID{uid}, []parsers.PodUID{uid})
	p, ok := s.Pod(uid)
	if !ok || p.Present != judge.Yes || p.ID == (judge.FileID{}) || p.SkeletonOnly != judge.Yes {
		t.Errorf("%+v", p)
	}
	if reasons, _ := judge.Alive(*p); len(reasons) == 0 {
		t.Error("nothing shows that the pod is alive")
	}
}

// TestNotListed: if the names in the pods directory are not known, nor is it which pod uses a staged volume.
func TestNotListed(t *testing.T) {
	n := newNode(t)
	uid := testkit.NewUID()
	if err := os.RemoveAll(n.dir + "/kubelet/pods"); err != nil {
		t.Fatal(err)
	}
	s := n.scanner().Scan(t.Context(), []parsers.PodUID{uid}, nil)
	if p, ok := s.Pod(uid); !ok || p.Facts[judge.Staged].Truth != judge.Unknown {
		t.Errorf("%+v", p)
	}
}

// TestNotRead: a pod that was not listed, and whose directory could not be read at the end, may be there.
func TestNotRead(t *testing.T) {
	n := newNode(t)
	uid := testkit.NewUID()
	ctx, cancel := context.WithCancel(t.Context())
	n.whenAsked(cancel)
	s := n.scanner().Scan(ctx, []parsers.PodUID{uid}, []parsers.PodUID{uid})
	if p, ok := s.Pod(uid); !ok || p.Present != judge.Unknown || !p.Facts[judge.Directory].Busy {
		t.Errorf("%+v", p)
	}
}
