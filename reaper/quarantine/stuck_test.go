package quarantine

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/content"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestStuck checks that the path of a call that does not return is reported, that Execute waits for it even if its context
// ends, and that nothing follows it then.
func TestStuck(t *testing.T) {
	tr := newTree(t, "file etc-hosts 1")
	q := tr.open(false)
	var mu sync.Mutex
	now := time.Unix(1000, 0)
	q.clock = func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return now
	}
	if path, since := q.Stuck(); path != "" || since != 0 {
		t.Errorf("before: %q, %v", path, since)
	}
	hang, hangs := make(chan struct{}), make(chan struct{})
	before(q, func(op, _ string) {
		if op == "rename" {
			close(hangs)
			<-hang
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan []judge.Outcome)
	go func() { done <- q.Execute(ctx, granted, []judge.Move{tr.move(uidA), tr.move(uidB)}) }()
	<-hangs
	cancel()
	mu.Lock()
	now = now.Add(3 * time.Minute)
	mu.Unlock()
	if path, since := q.Stuck(); path != tr.pod() || since != 3*time.Minute {
		t.Errorf("%q, %v", path, since)
	}
	select {
	case outs := <-done:
		t.Fatalf("Execute has abandoned the call: %+v", outs)
	default:
	}
	close(hang)
	outs := <-done
	want(t, outs[0], judge.Done)
	if want(t, outs[1], judge.Refused, "canceled"); !outs[1].Stopped {
		t.Error("the second move was not stopped")
	}
	if path, _ := q.Stuck(); path != "" {
		t.Errorf("after: %q", path)
	}
	testkit.There(t, tr.entry()+".json", true)
}

// TestHungRoot has a kubelet's root whose disk does not answer: Stuck reports it while the check at the beginning of a pass
// waits.
func TestHungRoot(t *testing.T) {
	tr := newTree(t)
	q := tr.open(false)
	end := testkit.HungFUSE(t, tr.Root)
	done := make(chan error)
	go func() { done <- q.Movable() }()
	for path := ""; path == ""; path, _ = q.Stuck() {
		select {
		case err := <-done:
			t.Fatalf("it has not waited: %v", err)
		default:
			runtime.Gosched()
		}
	}
	if path, _ := q.Stuck(); path != tr.Pods {
		t.Errorf("stuck at %q", path)
	}
	end()
	if err := <-done; err == nil {
		t.Error("no error")
	}
	if path, _ := q.Stuck(); path != "" {
		t.Errorf("afterwards still at %q", path)
	}
}

// TestHungFUSE checks that a dead mount at any depth stops the pod's removal and does not hang it.
func TestHungFUSE(t *testing.T) {
	testkit.OnTmpfs(t)
	for _, at := range []string{"volumes/kubernetes.io~csi/pv/mount", "volumes/kubernetes.io~secret/s/m", "m", emptyDirE + "/a/b"} {
		for _, remove := range []content.Set{content.Payloads, content.All} {
			for way, no := range testkit.Ways {
				t.Run(way, func(t *testing.T) {
					tr, q, m := entryWith(t, no, remove, "dir "+at)
					testkit.HungFUSE(t, tr.entry()+"/"+at)
					o := run1(t, q, m)
					if o.Result == judge.Done || o.Result == judge.Partly || !strings.Contains(o.Err, mounted) {
						t.Fatalf("%+v", o)
					}
					if _, _, err := q.Count(t.Context(), uidA, entryA); err != nil {
						t.Error(err)
					}
				})
			}
		}
	}
}

// TestHungPod checks the same for a dead mount on the pod directory itself.
func TestHungPod(t *testing.T) {
	for way, no := range testkit.Ways {
		t.Run(way, func(t *testing.T) {
			tr := newTree(t)
			q := tr.open(no)
			m := tr.move(uidA)
			testkit.HungFUSE(t, tr.pod())
			want(t, run1(t, q, m), judge.Refused, mounted)
			if _, _, err := q.Where(uidA, entryA); err == nil || !strings.Contains(err.Error(), mounted) {
				t.Error(err)
			}
		})
	}
}

// TestNothingLeaks checks that no thread, goroutine or descriptor remains after a batch.
func TestNothingLeaks(t *testing.T) {
	testkit.OnTmpfs(t)
	tr := newTree(t, "file etc-hosts 1")
	q := tr.open(false)
	m := tr.quarantined(q, judge.Restore)
	tasks := func() int {
		names, err := os.ReadDir("/proc/self/task")
		tr.Must(err)
		return len(names)
	}
	threads, fds := tasks(), testkit.OpenFDs(t)
	for range 100 {
		m.Action = judge.Restore
		want(t, run1(t, q, m), judge.Done)
		m.Action = judge.Quarantine
		want(t, run1(t, q, m), judge.Done)
	}
	if now := tasks(); now > threads+10 {
		t.Errorf("%d threads, want %d", now, threads)
	}
	if now := testkit.OpenFDs(t); now > fds {
		t.Errorf("%d descriptors, want %d", now, fds)
	}
}

// TestForeignNamespace documents a gap of the kernel: the removal of a mount point that only another mount namespace has
// succeeds and detaches the mount there; its files survive. The caller's scan of all namespaces is the guard.
func TestForeignNamespace(t *testing.T) {
	tr, q, m := entryWith(t, false, content.All, "dir volumes/kubernetes.io~csi/pv/mount")
	at := tr.entry() + "/volumes/kubernetes.io~csi/pv/mount"
	source := tr.CanaryDir()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `mount --bind "$1" "$2" && echo mounted && read line && grep -c "$2" /proc/self/mountinfo; true`,
		"sh", source, at)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	in, err := cmd.StdinPipe()
	tr.Must(err)
	out, err := cmd.StdoutPipe()
	tr.Must(err)
	if err := cmd.Start(); err != nil {
		testkit.Skip(t, "no second namespace: ", err)
	}
	buf := make([]byte, 64)
	n, err := out.Read(buf)
	if err != nil || string(buf[:n]) != "mounted\n" {
		_ = cmd.Wait()
		testkit.Skip(t, "no second namespace: ", err)
	}
	want(t, run1(t, q, m), judge.Done)
	_, err = in.Write([]byte("\n"))
	tr.Must(err)
	n, _ = out.Read(buf)
	if got := strings.TrimSpace(string(buf[:n])); got != "0" {
		t.Errorf("the other namespace still has %s mounts; so the comment above is wrong", got)
	}
	tr.Must(cmd.Wait())
}

// TestTwoProcesses checks that a second process in the same quarantine is refused.
func TestTwoProcesses(t *testing.T) {
	tr := newTree(t, "file etc-hosts 1")
	q, other := tr.open(false), tr.open(true)
	m := tr.quarantined(q, judge.Restore)
	tried := false
	before(q, func(string, string) {
		if !tried {
			tried = true
			want(t, run1(t, other, m), judge.Refused, "another orphan-reaper")
		}
	})
	want(t, run1(t, q, m), judge.Done)
}
