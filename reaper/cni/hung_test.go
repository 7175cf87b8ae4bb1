package cni

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/cri/fakecri"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestHung: the server of the directory is gone. A sweep ends, the next ones do not wait for it, and one reads it again when
// its calls return.
func TestHung(t *testing.T) {
	n := newNode(t)
	s, err := New(n.cfg)
	must(t, err)
	s.readTime = 50 * time.Millisecond
	end := testkit.HungFUSE(t, n.path("cni"))
	for _, want := range []string{"did not answer in time", "has not answered since an earlier scan"} {
		got := n.sweepBy(s, standingOf(n))
		if got.Complete || got.Files != 0 || got.Operator || len(got.Problems) != 1 || !strings.Contains(got.Problems[0], want) {
			t.Errorf("want %q: %+v", want, got)
		}
	}
	if calls := n.cri.Calls(fakecri.ListPodSandbox); calls > 0 { // else a sandbox that is made meanwhile has files and is in no list
		t.Errorf("the runtime was asked %d times before the files were read", calls)
	}
	end()
	for problems := ""; !strings.Contains(problems, "not connected"); {
		problems = strings.Join(n.sweepBy(s, standingOf(n)).Problems, " ")
	}
}

// TestStuck: the disk hangs while a file is removed. The sweep waits, and Stuck has the directory.
func TestStuck(t *testing.T) {
	n := newNode(t)
	n.leak("gone", "10.244.0.7")
	hang, hangs := make(chan struct{}), make(chan struct{})
	once := sync.OnceFunc(func() { close(hangs); <-hang })
	n.changes = hooked{before: func(call, name string) {
		if call == "unlink" && name == "10.244.0.7" {
			once()
		}
	}}
	s, err := New(n.cfg)
	must(t, err)
	s.changes = n.changes
	now := time.Unix(1000, 0)
	var mu sync.Mutex
	s.clock = func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	done := make(chan *reaper.CNIStatus)
	go func() { done <- n.sweepBy(s, standingOf(n)) }()
	<-hangs
	mu.Lock()
	now = now.Add(3 * time.Minute)
	mu.Unlock()
	if path, since := s.Stuck(); path != n.path("cni/networks/cbr0") || since != 3*time.Minute {
		t.Errorf("stuck at %q for %s", path, since)
	}
	close(hang)
	if got := <-done; got.Removed != 5 {
		t.Errorf("%+v", got)
	}
	if path, _ := s.Stuck(); path != "" {
		t.Errorf("afterwards still at %q", path)
	}
}
