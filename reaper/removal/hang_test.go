package removal

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// hungFUSE mounts a FUSE file system whose server never answers, so every access hangs.
func hungFUSE(t *testing.T, at string) {
	t.Helper()
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		testkit.Skip(t, "no /dev/fuse: ", err)
	}
	t.Cleanup(func() { beneath.Close(fd) })
	err = unix.Mount("hung", at, "fuse", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fd))
	if err != nil {
		testkit.Skip(t, "no FUSE mount: ", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

// TestHungFUSE checks that a dead mount at any depth stops the pod's removal without hanging it.
func TestHungFUSE(t *testing.T) {
	for _, at := range []string{"volumes/kubernetes.io~csi/pv/mount", "volumes/kubernetes.io~secret/s/m", "m", "volumes/kubernetes.io~empty-dir/e/a/b"} {
		for _, take := range []contents.ClassSet{contents.TakeStrip, contents.TakeAll} {
			for way, no := range testkit.Ways {
				t.Run(way, func(t *testing.T) {
					tr, r, a := quarantined(t, no, take, "dir "+at)
					hungFUSE(t, tr.Quar+"/"+entryA+"/"+at)
					done := make(chan policy.Outcome, 1)
					go func() { done <- r.Execute(context.Background(), granted, policy.Batch{Actions: []policy.Action{a}})[0] }()
					select {
					case o := <-done:
						if o.Result == policy.Done || o.Result == policy.Partly || o.Why[0].Reason != policy.ReasonMounted {
							t.Fatalf("%+v", o)
						}
					case <-time.After(2 * time.Minute):
						t.Fatal("the removal hangs")
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
			r := tr.open(no)
			a := tr.parkAction(uidA)
			hungFUSE(t, tr.Pods+"/"+string(uidA))
			want(t, run1(t, r, a), policy.Refused, policy.ReasonMounted)
			if inPods, inQuar, err := r.Where(uidA, entryA); !inPods || inQuar || err != nil {
				t.Fatal(inPods, inQuar, err)
			}
		})
	}
}

// TestStuckBatch checks that the batch waits for a call that does not return until Grace and no longer, that nothing
// else runs meanwhile, and that nothing is changed after the call returns.
func TestStuckBatch(t *testing.T) {
	tr := newTree(t, "file etc-hosts 1")
	r := tr.open(false)
	testkit.Set(r.run, "grace", time.Millisecond)
	hang, hangs := make(chan struct{}), make(chan struct{})
	r.guards.before = testkit.Outside(func(op, _ string) {
		if op == "openat" {
			close(hangs)
			<-hang
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-hangs; cancel() }()
	a := tr.parkAction(uidA)
	o := r.Execute(ctx, granted, policy.Batch{Actions: []policy.Action{a}})[0]
	want(t, o, policy.Failed, policy.ReasonRemoval)
	if !strings.Contains(o.Err, "does not answer") {
		t.Fatal(o.Err)
	}
	want(t, r.Execute(ctx, granted, policy.Batch{Actions: []policy.Action{a}})[0], policy.Refused, policy.ReasonRemoval)
	close(hang)
	testkit.Must(t, r.run.Run(context.Background(), func() {})) // returns after its thread has ended
	testkit.There(t, tr.Pods+"/"+string(uidA)+"/etc-hosts", true)
	testkit.There(t, tr.Quar+"/"+entryA+".json", false)
	r.guards.before = nil
	want(t, run1(t, r, a), policy.Done, "")
}

// TestNothingLeaks checks that no thread, goroutine or descriptor remains after a batch.
func TestNothingLeaks(t *testing.T) {
	testkit.OnTmpfs(t)
	tr := newTree(t, "file etc-hosts 1")
	r := tr.open(false)
	a := tr.parked(r)
	tasks := func() int {
		names, err := os.ReadDir("/proc/self/task")
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	threads, fds := tasks(), testkit.OpenFDs(t)
	for range 100 {
		a.Kind = policy.PutBack
		want(t, run1(t, r, a), policy.Done, "")
		a.Kind = policy.Park
		want(t, run1(t, r, a), policy.Done, "")
	}
	if now := tasks(); now > threads+10 {
		t.Errorf("%d threads, want %d", now, threads)
	}
	if now := testkit.OpenFDs(t); now > fds {
		t.Errorf("%d descriptors, want %d", now, fds)
	}
}

// TestForeignNamespace documents a gap of the kernel: the removal of a mount point that only another mount namespace
// has succeeds and detaches the mount there; its files survive. The caller's scan of all namespaces is the guard.
func TestForeignNamespace(t *testing.T) {
	tr, r, a := quarantined(t, false, contents.TakeAll, "dir volumes/kubernetes.io~csi/pv/mount")
	at := tr.Quar + "/" + entryA + "/volumes/kubernetes.io~csi/pv/mount"
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
	want(t, run1(t, r, a), policy.Done, "")
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
	r, other := tr.open(false), tr.open(true)
	a := tr.parked(r)
	a.Kind = policy.PutBack
	r.guards.before = testkit.Outside(func(string, string) {
		r.guards.before = nil
		want(t, run1(t, other, a), policy.Refused, policy.ReasonRemoval)
	})
	want(t, run1(t, r, a), policy.Done, "")
}
