package removal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/internal/change"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// several makes n entries that are removed completely, and a Remover with four threads. Each entry has two files
// whose names begin with its number.
func several(t *testing.T, n int) (*tree, *Remover, []policy.Action) {
	t.Helper()
	testkit.OnTmpfs(t)
	tr := newTree(t)
	tr.Mkdir(tr.Quar)
	tr.Must(os.Chmod(tr.Quar, 0o700))
	r := tr.open(false)
	r.threads = 4
	actions := make([]policy.Action, n)
	for i := range actions {
		uid := parsers.PodUID(fmt.Sprintf("%08x-0000-4000-8000-%012x", i, i))
		entry := string(uid) + ".1"
		at := tr.Quar + "/" + entry
		tr.Build(at, fmt.Sprintf("file volumes/kubernetes.io~empty-dir/e/%d-a 10", i), fmt.Sprintf("file volumes/kubernetes.io~empty-dir/e/%d-b 10", i))
		tr.Must(os.WriteFile(at+".json", []byte("{}"), 0o600))
		actions[i] = policy.Action{Kind: policy.Purge, UID: uid, Entry: entry, ID: idAt(t, at), Take: contents.TakeAll}
	}
	return tr, r, actions
}

// whose returns the entry to which the file belongs, or "".
func whose(name string) string {
	entry, _, ok := strings.Cut(name, "-")
	if !ok || strings.Contains(name, ".") {
		return ""
	}
	return entry
}

// threadsSeen records the threads that changed something, and makes the first four wait for one another, so that no
// test passes with fewer.
type threadsSeen struct {
	mu   sync.Mutex
	of   map[string]int   // thread of each entry
	all  map[int]bool     // all threads
	four chan struct{}    // closed when four threads have arrived
	late <-chan time.Time // time limit
}

func newThreadsSeen() *threadsSeen {
	return &threadsSeen{of: map[string]int{}, all: map[int]bool{}, four: make(chan struct{}), late: time.After(2 * time.Minute)}
}

// meet reports whether this change is the first of its thread, once there are four threads.
func (s *threadsSeen) meet(t *testing.T, entry string) (first bool) {
	t.Helper()
	tid := unix.Gettid()
	s.mu.Lock()
	if was, ok := s.of[entry]; ok && was != tid {
		t.Errorf("entry %s was changed by the threads %d and %d", entry, was, tid)
	}
	s.of[entry] = tid
	first = !s.all[tid]
	s.all[tid] = true
	if first && len(s.all) == 4 {
		close(s.four)
	}
	s.mu.Unlock()
	select {
	case <-s.four:
	case <-s.late:
		t.Error("there were never four threads")
	}
	return first
}

// TestThreads checks that four threads share the entries of a batch, that each entry has one thread, and that the
// outcomes come in the order of the actions, after the last change.
func TestThreads(t *testing.T) {
	tr, r, actions := several(t, 40)
	seen := newThreadsSeen()
	over := false
	r.guards.before = func(op, name string) {
		if over {
			t.Errorf("%s %s after the outcomes", op, name)
		}
		if entry := whose(name); entry != "" {
			seen.meet(t, entry)
		}
	}
	outs := run(t, r, actions...)
	over = true
	for i, o := range outs {
		want(t, o, policy.Done, "")
		if o.Action.Entry != actions[i].Entry || o.Taken[contents.ClassEphemeral].Entries != 3 {
			t.Errorf("%d: %+v", i, o)
		}
	}
	if len(seen.all) != 4 || len(seen.of) != len(actions) {
		t.Errorf("%d threads, %d entries", len(seen.all), len(seen.of))
	}
	if left := testkit.Listing(t, tr.Quar); len(left) != 0 {
		t.Error(left)
	}
}

// TestThreadsMoveAlone checks that one thread makes all moves, whatever else the batch does.
func TestThreadsMoveAlone(t *testing.T) {
	tr, r, actions := several(t, 10)
	tr.Pod(uidA, "file etc-hosts 1")
	threads := map[int]bool{}
	r.guards.before = func(string, string) { threads[unix.Gettid()] = true }
	for _, o := range run(t, r, append(actions, tr.parkAction(uidA))...) {
		want(t, o, policy.Done, "")
	}
	if len(threads) != 1 {
		t.Errorf("%d threads", len(threads))
	}
}

// TestThreadsHang checks that while one thread hangs the others remove the rest, and that their outcomes are not
// lost: they have the only copies of the vol_data.json files. Nothing begins after the context has ended, and when
// the call returns nothing more of that entry is removed.
func TestThreadsHang(t *testing.T) {
	const volData = "volumes/kubernetes.io~csi/pv/vol_data.json"
	tr, r, actions := several(t, 40)
	for i, a := range actions {
		tr.Build(tr.Quar+"/"+a.Entry, "file "+volData+" 10")
		actions[i].Evidence = &policy.Evidence{VolData: map[string]string{volData: "as the look read it"}}
	}
	testkit.Set(r.run, "grace", 2*time.Second) // the other threads must end within it
	hang, gone := make(chan struct{}), make(chan struct{})
	var mu sync.Mutex
	dropped := 0
	r.guards.before = testkit.Outside(func(_, name string) {
		if whose(name) == "7" {
			<-hang
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if strings.HasSuffix(name, manifestSuffix) && name != contents.VolData {
			if dropped++; dropped == len(actions)-1 {
				close(gone)
			}
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-gone; cancel() }()
	for i, o := range r.Execute(ctx, granted, policy.Batch{Actions: actions}) {
		want(t, o, policy.Failed, policy.ReasonRemoval)
		if i == 7 {
			if o.Stopped || o.VolData[volData] == "" {
				t.Errorf("the hanging one: %+v", o)
			}
			continue
		}
		if !o.Stopped || o.Why[0].Detail != "not synced" || len(o.VolData[volData]) != 10 || o.Taken[contents.ClassEphemeral].Entries != 3 {
			t.Errorf("outcome %d of the others: %+v", i, o)
		}
	}
	want(t, r.Execute(ctx, granted, policy.Batch{Actions: actions})[0], policy.Refused, policy.ReasonRemoval)
	close(hang)
	testkit.Must(t, r.run.Run(t.Context(), func() {})) // returns after all threads have ended
	r.guards.before = nil
	for i, a := range actions {
		testkit.There(t, tr.Quar+"/"+a.Entry, i == 7)
	}
	if files := testkit.Listing(t, tr.Quar+"/"+actions[7].Entry+"/volumes/kubernetes.io~empty-dir/e"); len(files) != 1 {
		t.Errorf("files after the hanging call returned: %v", files)
	}
	outs := run(t, r, actions...)
	want(t, outs[7], policy.Done, "")
	want(t, outs[8], policy.Gone, "")
}

// TestThreadsConfined checks that Landlock refuses an escape on each thread and that all entries are removed. Without
// Landlock each escape succeeds.
func TestThreadsConfined(t *testing.T) {
	for _, confined := range []bool{true, false} {
		tr, r, actions := several(t, 40)
		needLandlock(t, r)
		if !confined {
			testkit.Set(r.run, "handled", uint64(0))
		}
		x := tr.Elsewhere("elsewhere")
		seen := newThreadsSeen()
		r.guards.before = func(_, name string) {
			entry := whose(name)
			if entry == "" || !seen.meet(t, entry) {
				return
			}
			made := fmt.Sprintf("%s/%d", x.Dir, unix.Gettid())
			switch err := unix.Mkdir(made, 0o700); {
			case confined && !change.Is(err, unix.EACCES):
				t.Errorf("the escape was not refused: %v", err)
			case !confined && err != nil:
				t.Errorf("the escape was refused without Landlock: %v", err)
			}
		}
		for _, o := range run(t, r, actions...) {
			want(t, o, policy.Done, "")
		}
		x.Close()
		if what := x.Changed(); len(seen.all) != 4 || (what == "") != confined {
			t.Errorf("confined %v: %d threads, %q", confined, len(seen.all), what)
		}
	}
}

// TestThreadsFault checks that an entry with a mount, or one replaced by another directory, is kept, and that the
// entries beside it are removed.
func TestThreadsFault(t *testing.T) {
	tr, r, actions := several(t, 40)
	at := tr.Quar + "/" + actions[3].Entry + "/volumes/kubernetes.io~empty-dir/e/m"
	tr.Mkdir(at)
	tr.Mount("tmpfs", at)
	tr.Canary(at + "/canary")
	actions[9].ID.Ino++
	for i, o := range run(t, r, actions...) {
		switch i {
		case 3:
			if o.Result == policy.Done || o.Why[0].Reason != policy.ReasonMounted {
				t.Errorf("%+v", o)
			}
		case 9:
			want(t, o, policy.Refused, policy.ReasonRemoval)
		default:
			want(t, o, policy.Done, "")
		}
	}
	tr.Check()
}

// TestThreadsCutOff kills before each change of a batch of several threads and runs it again: exactly the batch's
// entries are removed.
func TestThreadsCutOff(t *testing.T) {
	for kill := 1; ; kill++ {
		tr, _, actions := several(t, 6)
		died := testkit.Dies(t, envCutOff, cutOff{Pods: tr.Pods, Actions: actions, Kill: kill}, 0)
		for _, o := range run(t, tr.open(false), actions...) {
			if o.Result != policy.Done && o.Result != policy.Gone {
				t.Fatalf("killed before change %d: %+v", kill, o)
			}
		}
		if left := testkit.Listing(t, tr.Quar); len(left) != 0 {
			t.Fatalf("killed before change %d: %v", kill, left)
		}
		if !died {
			if kill < 30 {
				t.Fatalf("there are only %d changes", kill-1)
			}
			return
		}
	}
}

// TestThreadsStop checks that each thread stops at its next step when the context ends, and that actions that have
// not begun are Refused.
func TestThreadsStop(t *testing.T) {
	tr, r, actions := several(t, 40)
	seen := newThreadsSeen()
	ctx, cancel := context.WithCancelCause(t.Context())
	r.guards.before = func(_, name string) {
		if entry := whose(name); entry != "" {
			seen.meet(t, entry)
			cancel(errors.New("the test is over"))
		}
	}
	begun := 0
	for i, o := range r.Execute(ctx, granted, policy.Batch{Actions: actions}) {
		testkit.There(t, tr.Quar+"/"+actions[i].Entry, true)
		if !o.Stopped || o.Result == policy.Done {
			t.Errorf("%+v", o)
		}
		if o.Taken != nil {
			begun++
		}
	}
	if begun != 4 {
		t.Errorf("%d actions had begun", begun)
	}
}

// TestWidestOnce checks that only one open directory of a batch has the widest buffer, another one after it is
// closed, and that the names of a wide directory are not kept in memory.
func TestWidestOnce(t *testing.T) {
	testkit.OnTmpfs(t)
	tr := newTree(t)
	tr.Mkdir(tr.Quar)
	for n := range 11_000 {
		tr.Must(unix.Mkdir(fmt.Sprintf("%s/%d", tr.Quar, n), 0o700))
	}
	r, widest := tr.open(false), new(sync.Mutex)
	var walkers []*walker
	var frames []*frame
	for range 2 {
		fd, err := unix.Open(tr.Quar, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		tr.Must(err)
		b := &batch{r: r, widest: widest}
		b.dents.buf = make([]byte, firstBuffer)
		w, f := &walker{b: b}, &frame{dir: r.open.At(fd), mode: whole}
		for !f.read && len(f.pending) < widestFrom {
			tr.Must(w.list(t.Context(), f))
		}
		if len(b.dents.list) > mostListed {
			t.Errorf("%d names are still in memory", len(b.dents.list))
		}
		walkers, frames = append(walkers, w), append(frames, f)
	}
	if frames[0].widest == nil || frames[1].widest != nil {
		t.Fatalf("%d and %d bytes", len(frames[0].widest), len(frames[1].widest))
	}
	walkers[0].close(frames[0])
	tr.Must(frames[1].dir.Rewind())
	tr.Must(walkers[1].list(t.Context(), frames[1]))
	if frames[1].widest == nil {
		t.Error("the widest buffer was used twice")
	}
	walkers[1].close(frames[1])

	fd, err := unix.Open(tr.Quar, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	tr.Must(err)
	b := &batch{r: r, widest: widest}
	b.dents.buf = make([]byte, firstBuffer)
	w, deep := &walker{b: b, stack: make([]frame, deepFrom+1)}, &frame{dir: r.open.At(fd), mode: whole}
	tr.Must(w.list(t.Context(), deep))
	if n := len(deep.pending); n == 0 || n > deepBuffer/24 || deep.widest != nil || len(b.dents.buf) != firstBuffer {
		t.Errorf("a deep directory keeps %d names and has a buffer of %d bytes", n, len(b.dents.buf)+len(deep.widest))
	}
	w.close(deep)
}
