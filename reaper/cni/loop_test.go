package cni

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// fakeCNI has the CNI directories, the archives, the ledger and the clock of a node in memory. It implements every
// interface of a sweep and can be killed at any step, as by kill -9: the "disk" stays for the next Sweeper.
type fakeCNI struct {
	now        policy.Instant
	node       policy.Node
	records    []policy.Record
	memory     json.RawMessage
	ledgerErr  error
	appends    int             // writes to the ledger so far
	fullAt     int             // the disk is full at this write only
	there      map[string]File // by name
	listed     []string        // containers on the runtime's list
	archives   map[string][]File
	at         map[string]policy.Instant
	toRemove   map[string]bool // files that a plugin's DEL removes after they were judged
	unread     map[string]bool // files that could not be read completely for a restore
	archiveErr error
	damaged    string // name of the unreadable archive
	tries      int    // calls of Archive
	locked     bool   // a lock is never released, so nothing can be removed
	chunk      int
	mu         sync.Mutex // a batch is removed while the next is read
	stepping   sync.Mutex
	steps      int // calls that touch the disk so far
	cutAt      int // panic with errCut at this step and each later one; 0: never
}

var errCut = errors.New("cut off")

func newFakeCNI() *fakeCNI {
	yes := policy.Fact{Truth: policy.Yes}
	return &fakeCNI{
		now:   policy.Instant{Wall: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), BootID: "b", Boot: 10 * time.Hour},
		node:  policy.Node{Kubelet: yes, KubeletID: policy.KubeletID{PID: 812, Start: time.Hour}, RuntimeLists: yes, MayEnforce: yes, Agrees: yes},
		there: map[string]File{}, archives: map[string][]File{}, at: map[string]policy.Instant{}, unread: map[string]bool{}, chunk: 2,
		listed: []string{"id-of-a-living-one"},
	}
}

func uidOf(i int) parsers.PodUID {
	return parsers.PodUID(fmt.Sprintf("00000000-0000-4000-8000-%012x", i))
}

func (n *fakeCNI) pass(d time.Duration) {
	n.now.Boot += d
	n.now.Wall = n.now.Wall.Add(d)
}

// step counts one change of the disk. A cut comes before the change.
func (n *fakeCNI) step() {
	n.stepping.Lock()
	defer n.stepping.Unlock()
	n.steps++
	if n.cutAt > 0 && n.steps >= n.cutAt {
		panic(errCut)
	}
}

func (n *fakeCNI) Now() policy.Instant { return n.now }

func (n *fakeCNI) CNI(*Census) {}

func (n *fakeCNI) Append(records ...policy.Record) ([]policy.Record, error) {
	if n.ledgerErr != nil {
		return nil, n.ledgerErr
	}
	if n.appends++; n.appends == n.fullAt {
		return nil, errors.New("no space left on device")
	}
	n.step()
	n.records = append(n.records, records...)
	return records, nil
}

func (n *fakeCNI) Entries() map[string]*policy.EntryState {
	states := map[string]*policy.EntryState{}
	for _, r := range n.records {
		policy.Fold(states, r)
	}
	return states
}

func (n *fakeCNI) BreakerOpen() bool {
	open := false
	for _, r := range n.records {
		open = (open || r.Kind == policy.KindBreaker) && r.Kind != policy.KindResumed
	}
	return open
}

// leave adds a cache file of pod i with the given age, whose sandbox is gone.
func (n *fakeCNI) leave(i int, age time.Duration) string {
	f := File{
		Kind: Cache, Dir: "/var/lib/cni/results", Name: fmt.Sprintf("net-id%d-eth0", i), Container: fmt.Sprintf("id%d", i),
		UID: uidOf(i), Namespace: "shop", PodName: fmt.Sprintf("pod-%d", i), Changed: n.now.Wall.Add(-age), ID: FileID{Ino: uint64(i), Size: 100},
	}
	for fact := range NumFacts {
		f.Set(fact, policy.No, "fake", "")
	}
	f.Set(Tied, policy.Yes, "fake", "")
	n.there[f.Name] = f
	return f.Name
}

// sweeper returns a Sweeper on the node, as in a process that has just been started.
func (n *fakeCNI) sweeper() *Sweeper {
	return &Sweeper{Prober: n, Remover: n, Archive: n, Ledger: n, Clock: n, Meter: n, Log: slog.New(slog.DiscardHandler)}
}

func (n *fakeCNI) SweepCNI(context.Context, bool) iter.Seq[Look] {
	return func(yield func(Look) bool) {
		for names := range slices.Chunk(slices.Sorted(maps.Keys(n.there)), n.chunk) {
			if !yield(n.look(names)) {
				return
			}
		}
	}
}

func (n *fakeCNI) look(names []string) Look {
	n.mu.Lock()
	defer n.mu.Unlock()
	look := Look{At: n.now, Node: n.node, Listed: n.listed}
	for _, name := range names {
		f := n.there[name]
		if slices.Contains(n.listed, f.Container) {
			f.Set(Listed, policy.Yes, "fake", "")
		}
		f.Data = []byte(f.Name)
		if n.unread[f.Name] {
			f.Err = "cannot read its SELinux label"
		}
		look.Files = append(look.Files, f)
	}
	return look
}

// StillCNI marks the files that have disappeared since they were judged.
func (n *fakeCNI) StillCNI(_ context.Context, files []File) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range files {
		if n.toRemove[files[i].Name] {
			delete(n.there, files[i].Name)
			files[i].Err = "no such file or directory"
		}
	}
}

// RemoveCNI runs beside the loop. After a cut it does nothing more, and the loop is cut off at its next step.
func (n *fakeCNI) RemoveCNI(_ context.Context, _ policy.Permit, files []File) (outs []File) {
	n.mu.Lock()
	defer n.mu.Unlock()
	defer func() { _ = recover() }()
	for _, c := range files {
		if n.locked {
			outs = append(outs, Ended([]File{c}, policy.Refused, errors.New("locked by process 7 (host-local)"))...)
			continue
		}
		n.step()
		delete(n.there, c.Name)
		c.Result = policy.Done
		outs = append(outs, c)
	}
	return outs
}

func (n *fakeCNI) RestoreCNI(_ context.Context, _ policy.Permit, files []File) []File {
	var outs []File
	for _, c := range files {
		result := policy.Done
		if _, there := n.there[c.Name]; there {
			result = policy.Gone
		}
		n.there[c.Name] = c
		c.Result = result
		outs = append(outs, c)
	}
	return outs
}

func (n *fakeCNI) Archive(name string, at policy.Instant, files []File) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.tries++; n.archiveErr != nil {
		return n.archiveErr
	}
	n.step()
	n.archives[name], n.at[name] = slices.Clone(files), at
	return nil
}

func (n *fakeCNI) Archives() ([]ArchiveState, error) {
	var all []ArchiveState
	for _, name := range slices.Sorted(maps.Keys(n.archives)) {
		all = append(all, ArchiveState{Name: name, At: n.at[name], Files: int64(len(n.archives[name]))})
	}
	return all, nil
}

func (n *fakeCNI) ReadArchive(name string, each func(File) error) error {
	if n.damaged == name {
		return errors.New("its checksum is wrong")
	}
	for _, c := range n.archives[name] {
		if err := each(c); err != nil {
			return err
		}
	}
	return nil
}

func (n *fakeCNI) DropArchive(name string) error {
	delete(n.archives, name)
	return nil
}

var testRules = policy.Rules{Hold: 5 * time.Minute, Confirm: 5 * time.Minute, Retention: 24 * time.Hour, CNIOlderThan: 24 * time.Hour}

// turn sweeps once and saves the state for the next turn.
func (n *fakeCNI) turn(s *Sweeper, t reaper.Turn) *Report {
	t.Node, t.Memory = n.node, n.memory
	if t.Rules == (policy.Rules{}) {
		t.Rules = testRules
	}
	rep := ReportOf(s.Turn(context.Background(), t))
	n.step()
	n.memory = rep.Memory()
	return rep
}

// sweepOnce sweeps once, like another process.
func sweepOnce(n *fakeCNI) *Report { return n.turn(n.sweeper(), reaper.Turn{}) }

// TestCNIStory checks two sweeps a hold apart, with one archive and one record per batch, and the restore.
func TestCNIStory(t *testing.T) {
	n := newFakeCNI()
	for i := range 5 {
		n.leave(i, 25*time.Hour)
	}
	young := n.leave(5, time.Hour)
	n.listed = append(n.listed, "id4")
	rep := sweepOnce(n)
	if len(n.there) != 6 || !rep.Pending || rep.Next != testRules.Hold {
		t.Fatalf("the first sweep removed files, or does not wait for the hold: %d left, %+v", len(n.there), rep)
	}
	n.pass(rep.Next)
	rep = sweepOnce(n) // another process
	if len(n.there) != 2 || n.there[young].Name == "" || n.there["net-id4-eth0"].Name == "" {
		t.Fatalf("after the hold %v remain", slices.Collect(maps.Keys(n.there)))
	}
	if got := rep.Census.Taken[Cache]; got.Entries != 4 || got.Bytes != 400 {
		t.Errorf("counted %+v", got)
	}
	var removed []policy.Record
	for _, r := range n.records {
		if r.Kind == policy.KindCNIRemoved {
			removed = append(removed, r)
		}
	}
	// With chunks of two, three chunks had a file to remove.
	if len(removed) != 2 || !strings.HasPrefix(removed[0].Archive, ArchivePrefix) || !slices.Contains(removed[0].Pods, "shop/pod-0") {
		t.Errorf("records %+v", removed)
	}
	done, err := n.sweeper().Restore(context.Background(), string(uidOf(1)))
	if err != nil || done.Done != 1 || done.All() != 1 || n.there["net-id1-eth0"].Name == "" {
		t.Errorf("restored %+v, %v", done, err)
	}
	if _, err := n.sweeper().Restore(context.Background(), "cni-none"); err == nil {
		t.Error("a nonexistent archive was restored")
	}
	n.pass(testRules.Retention)
	sweepOnce(n)
	for name, at := range n.at {
		if n.archives[name] != nil && n.now.Age(at) >= testRules.Retention {
			t.Errorf("after the retention %s still exists", name)
		}
	}
	if len(n.archives) > 2 { // those of the last sweep
		t.Errorf("after the retention %d archives remain", len(n.archives))
	}
}

// TestCNINothingGoes checks that each obstacle stops a sweep; without it a file in use would be lost.
func TestCNINothingGoes(t *testing.T) {
	for name, change := range map[string]func(*fakeCNI, *Sweeper, *reaper.Turn){
		"dry run":                  func(_ *fakeCNI, _ *Sweeper, t *reaper.Turn) { t.DryRun = true },
		"observe":                  func(_ *fakeCNI, _ *Sweeper, t *reaper.Turn) { t.Rules.Observe = true },
		"private namespace":        func(n *fakeCNI, _ *Sweeper, _ *reaper.Turn) { n.node.MayEnforce.Truth = policy.No },
		"contradiction":            func(n *fakeCNI, _ *Sweeper, _ *reaper.Turn) { n.node.Agrees.Truth = policy.No },
		"breaker":                  func(n *fakeCNI, _ *Sweeper, _ *reaper.Turn) { _, _ = n.Append(policy.Record{Kind: policy.KindBreaker}) },
		"breaker, and a full disk": func(_ *fakeCNI, _ *Sweeper, t *reaper.Turn) { t.Stopped = true },
		"no archive":               func(n *fakeCNI, _ *Sweeper, _ *reaper.Turn) { n.archiveErr = errors.New("no space left on device") },
		"no ledger":                func(n *fakeCNI, _ *Sweeper, _ *reaper.Turn) { n.ledgerErr = errors.New("no space left on device") },
		"runtime silent":           func(n *fakeCNI, _ *Sweeper, _ *reaper.Turn) { n.node.RuntimeLists.Truth = policy.Unknown },
		"runtime empty":            func(n *fakeCNI, _ *Sweeper, _ *reaper.Turn) { n.node.RuntimeLists.Truth, n.listed = policy.No, nil },
		"not read whole":           func(n *fakeCNI, _ *Sweeper, _ *reaper.Turn) { n.unread["net-id1-eth0"] = true },
		"listed during the hold": func(n *fakeCNI, _ *Sweeper, _ *reaper.Turn) {
			n.memory = bytes.ReplaceAll(n.memory, []byte("id-of-a-living-one"), []byte("id1"))
		},
		"nothing is remembered": func(n *fakeCNI, _ *Sweeper, _ *reaper.Turn) { n.memory = nil },
		"the memory is damaged": func(n *fakeCNI, _ *Sweeper, _ *reaper.Turn) { n.memory = n.memory[:len(n.memory)/2] },
		"another boot": func(n *fakeCNI, _ *Sweeper, _ *reaper.Turn) {
			n.now.BootID, n.now.Boot, n.node.KubeletID.Start = "c", time.Hour, 0
		},
		"no remover at all": func(_ *fakeCNI, s *Sweeper, _ *reaper.Turn) { s.Remover = nil },
		"only another pod":  func(_ *fakeCNI, _ *Sweeper, t *reaper.Turn) { t.Only = []parsers.PodUID{uidOf(2)} },
	} {
		t.Run(name, func(t *testing.T) {
			n := newFakeCNI()
			n.leave(1, 25*time.Hour)
			sweepOnce(n)
			n.pass(testRules.Hold)
			s, turn := n.sweeper(), reaper.Turn{Rules: testRules}
			change(n, s, &turn)
			if n.turn(s, turn); len(n.there) != 1 {
				t.Error("the file was removed")
			}
		})
	}
}

// TestCNIRestoreBatch checks that one command with the name of any archive of a sweep restores all archives of that
// sweep and none of another.
func TestCNIRestoreBatch(t *testing.T) {
	n := sweptCNI(t)
	var first, undo []string
	for _, r := range n.records {
		if r.Kind == policy.KindCNIRemoved {
			first, undo = append(first, r.Archive), append(undo, r.Undo)
		}
	}
	// Each record has the one command that restores the whole batch.
	batch := BatchOf(first[0])
	if len(first) != 3 || first[0] != batch || first[2] != batch+"-003" ||
		!slices.Equal(slices.Compact(undo), []string{"orphan-reaper quarantine restore --batch " + batch}) {
		t.Fatalf("archives %v, undone by %q", first, undo)
	}
	n.leave(9, 25*time.Hour)
	n.pass(2 * time.Millisecond)
	sweepOnce(n)
	if len(n.there) != 0 || len(n.archives) != 4 {
		t.Fatalf("%d left, %d archives", len(n.there), len(n.archives))
	}
	done, err := n.sweeper().RestoreBatch(context.Background(), first[1])
	if err != nil || done.Done != 6 || len(n.there) != 6 || n.there["net-id9-eth0"].Name != "" {
		t.Errorf("restored %d of 6, %v; %v", done.Done, err, slices.Collect(maps.Keys(n.there)))
	}
	records := len(n.records)
	if done, err := n.sweeper().RestoreBatch(context.Background(), batch); err != nil || done.Gone != 6 || done.All() != 6 || len(n.there) != 6 {
		t.Errorf("second run: %d of 6 existed, %v; %d are", done.Gone, err, len(n.there))
	}
	if more := n.records[records:]; len(more) != 0 {
		t.Errorf("second run: new records %+v", more)
	}
	if _, err := n.sweeper().RestoreBatch(context.Background(), "cni-none"); err == nil {
		t.Error("a nonexistent batch was restored")
	}
}

// sweptCNI is a node on which one sweep has made three archives with two CNI files each.
func sweptCNI(t *testing.T) *fakeCNI {
	t.Helper()
	n := newFakeCNI()
	n.chunk = 2
	for i := range 6 {
		n.leave(i, 25*time.Hour)
	}
	sweepOnce(n)
	n.pass(testRules.Hold)
	sweepOnce(n)
	if len(n.there) != 0 || len(n.archives) != 3 {
		t.Fatalf("%d left, %d archives", len(n.there), len(n.archives))
	}
	return n
}

// TestCNIRestoreDamaged checks that an unreadable archive does not stop the restore of the others, that these are
// recorded, and that the same command restores the rest once the archive can be read.
func TestCNIRestoreDamaged(t *testing.T) {
	n := sweptCNI(t)
	names := slices.Sorted(maps.Keys(n.archives))
	n.damaged = names[1]
	before := len(n.records)
	done, err := n.sweeper().RestoreBatch(t.Context(), names[0])
	if err == nil || !strings.Contains(err.Error(), "its checksum is wrong") || done.Done != 4 || len(n.there) != 4 {
		t.Errorf("%+v, %v", done, err)
	}
	if got := restoredFrom(n.records[before:]); !slices.Equal(got, []string{names[2] + " 2", names[0] + " 2"}) {
		t.Errorf("records %v", got)
	}
	n.damaged = ""
	if done, err := n.sweeper().RestoreBatch(t.Context(), names[0]); err != nil || done.Done != 2 || done.Gone != 4 || len(n.there) != 6 {
		t.Errorf("second run: %+v, %v", done, err)
	}
	if got := restoredFrom(n.records[before:]); len(got) != 3 || got[2] != names[1]+" 2" {
		t.Errorf("second run: records %v", got)
	}
}

// restoredFrom returns each restore record's archive and number of files.
func restoredFrom(records []policy.Record) (from []string) {
	for _, r := range records {
		if r.Kind == policy.KindCNIRestored {
			from = append(from, fmt.Sprint(r.Archive, " ", r.Taken[string(Cache)].Entries))
		}
	}
	return from
}

// TestCNIRestoreKilled checks that a killed restore has recorded all batches but the last, and that a second run
// records only that one.
func TestCNIRestoreKilled(t *testing.T) {
	n := sweptCNI(t)
	names := slices.Sorted(maps.Keys(n.archives))
	before := len(n.records)
	n.cutAt = n.steps + 3 // the third record
	func() {
		defer func() {
			if recover() != errCut { //nolint:errorlint // the value of the panic itself
				t.Error("the restore was not cut off")
			}
		}()
		_, _ = n.sweeper().RestoreBatch(t.Context(), names[0])
	}()
	want := []string{names[2] + " 2", names[1] + " 2"}
	if got := restoredFrom(n.records[before:]); !slices.Equal(got, want) {
		t.Errorf("records %v, want %v", got, want)
	}
	n.cutAt = 0
	delete(n.there, "net-id0-eth0") // not restored before the kill
	if done, err := n.sweeper().RestoreBatch(t.Context(), names[0]); err != nil || done.Done != 1 || done.Gone != 5 {
		t.Errorf("second run: %+v, %v", done, err)
	}
	if got := restoredFrom(n.records[before:]); !slices.Equal(got, append(want, names[0]+" 1")) {
		t.Errorf("second run: records %v", got)
	}
}

// TestCNIRestoreUnwritten checks that a record that cannot be written is written with the next batch, and that the
// error is returned if that fails, too.
func TestCNIRestoreUnwritten(t *testing.T) {
	for at, want := range []int{3, 3, 2} { // the failing append, and the final number of records
		n := sweptCNI(t)
		names := slices.Sorted(maps.Keys(n.archives))
		before := len(n.records)
		n.fullAt = n.appends + at + 1
		done, err := n.sweeper().RestoreBatch(t.Context(), names[0])
		if done.Done != 6 || len(n.there) != 6 || (err == nil) != (want == 3) {
			t.Errorf("append %d: %+v, %v", at, done, err)
		}
		slices.Reverse(names)
		for i := range names {
			names[i] += " 2"
		}
		if got := restoredFrom(n.records[before:]); !slices.Equal(got, names[:want]) {
			t.Errorf("append %d: records %v", at, got)
		}
	}
}

// stopping is a fakeCNI whose operator interrupts the command while the first files are restored.
type stopping struct {
	*fakeCNI
	stop context.CancelFunc
}

func (s stopping) RestoreCNI(ctx context.Context, permit policy.Permit, files []File) []File {
	defer s.stop()
	return s.fakeCNI.RestoreCNI(ctx, permit, files)
}

// TestCNIRestoreStopped checks that after an interrupt the files that were not begun have no record, and the error
// has their number.
func TestCNIRestoreStopped(t *testing.T) {
	n := sweptCNI(t)
	ctx, stop := context.WithCancel(t.Context())
	r := n.sweeper()
	r.Remover = stopping{n, stop}
	before := len(n.records)
	done, err := r.RestoreBatch(ctx, slices.Min(slices.Collect(maps.Keys(n.archives))))
	if err == nil || !strings.Contains(err.Error(), "2 of 3 archives were not read") || done.Done != 2 || done.Failed != 0 {
		t.Errorf("%+v, %v", done, err)
	}
	if len(n.records) != before+1 {
		t.Errorf("%d new records", len(n.records)-before)
	}
}

// TestCNIReportBounded checks that ten of 40 files of each kind are listed, kept ones beside removed ones and a
// failure among the outcomes, and that all are counted.
func TestCNIReportBounded(t *testing.T) {
	n := newFakeCNI()
	n.chunk = 4
	for i := range 40 {
		age := 25 * time.Hour
		if i >= 35 {
			age = time.Minute // these come last
		}
		n.leave(i, age)
	}
	n.unread["net-id34-eth0"] = true
	sweepOnce(n)
	n.pass(testRules.Hold)
	s := n.sweeper()
	s.Files = 10
	got := n.turn(s, reaper.Turn{})
	stay, refused := 0, 0
	for _, v := range got.Verdicts {
		if v.Decision != policy.Reap {
			stay++
		}
	}
	for _, o := range got.Outcomes {
		if o.Result == policy.Refused {
			refused++
		}
	}
	if c := got.Census; len(got.Files) != 15 || stay != 5 || len(got.Outcomes) != 11 || refused != 1 || c.Removed() != 34 || c.Left != 6 {
		t.Errorf("%d files, %d of them kept, %d outcomes, %d refused; %d removed, %d remain",
			len(got.Files), stay, len(got.Outcomes), refused, c.Removed(), c.Left)
	}
}

// TestCNIGoneMeanwhile checks that a file that a plugin's DEL removed after the judgement is in no archive: a restore
// would reserve its address for no pod.
func TestCNIGoneMeanwhile(t *testing.T) {
	n := newFakeCNI()
	gone := n.leave(1, 25*time.Hour)
	n.leave(2, 25*time.Hour)
	sweepOnce(n)
	n.pass(testRules.Hold)
	n.toRemove = map[string]bool{gone: true}
	sweepOnce(n)
	if len(n.archives) != 1 || len(n.there) != 0 {
		t.Errorf("%d archives, %d files", len(n.archives), len(n.there))
	}
	for _, a := range n.archives {
		if len(a) != 1 || a[0].Name == gone {
			t.Errorf("an archive has %d files, the first %s", len(a), a[0].Name)
		}
	}
}

// TestCNICutShort checks that after the first archive that cannot be written no other is tried, since the disk is
// full. The files of that batch have failed in the census and in the list, for the exit code and the metrics; the
// others have not.
func TestCNICutShort(t *testing.T) {
	n := newFakeCNI()
	for i := range 6 {
		n.leave(i, 25*time.Hour)
	}
	sweepOnce(n)
	n.pass(testRules.Hold)
	n.archiveErr = errors.New("no space left on device")
	s := n.sweeper()
	s.Files = -1
	got := n.turn(s, reaper.Turn{})
	if n.tries != 1 || len(n.there) != 6 {
		t.Fatalf("%d archives tried, %d files remain", n.tries, len(n.there))
	}
	if c := got.Census; c.Failed != 2 || c.Verdicts[policy.Reap] != 6 || len(got.Outcomes) != 2 || got.Outcomes[0].Result != policy.Failed {
		t.Errorf("%d of %d failed, outcomes %+v", c.Failed, c.Verdicts[policy.Reap], got.Outcomes)
	}
	if len(got.Errors) != 1 || !strings.Contains(got.Errors[0], "no space left") {
		t.Errorf("errors %q", got.Errors)
	}
}

// TestCNILockedForEver checks a lock that is never released: each sweep reports it, and none leaves an archive of
// files that still exist, which would fill the disk.
func TestCNILockedForEver(t *testing.T) {
	n := newFakeCNI()
	n.leave(1, 25*time.Hour)
	n.locked = true
	sweepOnce(n)
	for range 3 {
		n.pass(testRules.Hold)
		if rep := sweepOnce(n); rep.Census.Failed != 1 || len(n.there) != 1 || len(n.archives) != 0 {
			t.Fatalf("%d failed, %d files, %d archives", rep.Census.Failed, len(n.there), len(n.archives))
		}
	}
	for _, r := range n.records {
		if r.Kind == policy.KindCNIRemoved && !strings.Contains(r.Err, "locked by process 7") {
			t.Errorf("record %+v", r)
		}
	}
	n.locked = false
	n.pass(testRules.Hold)
	if sweepOnce(n); len(n.there) != 0 || len(n.archives) != 1 {
		t.Errorf("after the release: %d files, %d archives", len(n.there), len(n.archives))
	}
}

// TestCNIRestoredUnfinished checks that files that an operator restores from a killed removal are not removed when
// the next start finishes that removal.
func TestCNIRestoredUnfinished(t *testing.T) {
	n := newFakeCNI()
	n.leave(1, 25*time.Hour)
	const name = ArchivePrefix + "1"
	files := []File{n.there["net-id1-eth0"]}
	n.archives[name], n.at[name] = files, n.now
	if _, err := n.Append(RemovingRecord(name, files, n.node, n.now)); err != nil {
		t.Fatal(err)
	}
	if _, err := n.sweeper().Restore(context.Background(), name); err != nil {
		t.Fatal(err)
	}
	sweepOnce(n)
	if len(n.there) != 1 {
		t.Error("a restored file was removed")
	}
}

// TestCNIFinishAsksTheGate checks that an interrupted removal is finished only with the gate's permit. Otherwise
// 2,048 files would be removed under an open breaker.
func TestCNIFinishAsksTheGate(t *testing.T) {
	for name, stop := range map[string]func(n *fakeCNI, yes bool){
		"namespaces":    func(n *fakeCNI, yes bool) { n.node.MayEnforce.Truth = truthIf(!yes) },
		"contradiction": func(n *fakeCNI, yes bool) { n.node.Agrees.Truth = truthIf(!yes) },
		"breaker": func(n *fakeCNI, yes bool) {
			kind := policy.KindResumed
			if yes {
				kind = policy.KindBreaker
			}
			_, _ = n.Append(policy.Record{Kind: kind, At: n.now})
		},
	} {
		n := newFakeCNI()
		n.leave(1, 25*time.Hour)
		const archive = ArchivePrefix + "1"
		files := []File{n.there["net-id1-eth0"]}
		n.archives[archive], n.at[archive] = files, n.now
		if _, err := n.Append(RemovingRecord(archive, files, n.node, n.now)); err != nil {
			t.Fatal(err)
		}
		stop(n, true)
		if sweepOnce(n); len(n.there) != 1 || n.Entries()[archive].Phase != policy.PhaseCNIRemoving {
			t.Errorf("%s: %d of 1 file exists, phase %s", name, len(n.there), n.Entries()[archive].Phase)
		}
		stop(n, false)
		if sweepOnce(n); len(n.there) != 0 {
			t.Errorf("after %s the file still exists", name)
		}
	}
}

// TestCNIDropAsksTheGate checks that an archive past its retention is dropped only with the gate's permit. It is the
// only undo of a removal, and an operator may need it most when something stopped all removal.
func TestCNIDropAsksTheGate(t *testing.T) {
	for name, stop := range map[string]func(*fakeCNI, *Sweeper, *reaper.Turn){
		"dry run":                  func(_ *fakeCNI, _ *Sweeper, t *reaper.Turn) { t.DryRun = true },
		"observe":                  func(_ *fakeCNI, _ *Sweeper, t *reaper.Turn) { t.Rules.Observe = true },
		"namespaces":               func(n *fakeCNI, _ *Sweeper, _ *reaper.Turn) { n.node.MayEnforce.Truth = policy.No },
		"contradiction":            func(n *fakeCNI, _ *Sweeper, _ *reaper.Turn) { n.node.Agrees.Truth = policy.No },
		"breaker":                  func(n *fakeCNI, _ *Sweeper, _ *reaper.Turn) { _, _ = n.Append(policy.Record{Kind: policy.KindBreaker}) },
		"breaker, and a full disk": func(_ *fakeCNI, _ *Sweeper, t *reaper.Turn) { t.Stopped = true },
		"no remover":               func(_ *fakeCNI, s *Sweeper, _ *reaper.Turn) { s.Remover = nil },
	} {
		n := sweptCNI(t)
		n.pass(testRules.Retention)
		node, records := n.node, n.records
		s, turn := n.sweeper(), reaper.Turn{Rules: testRules}
		stop(n, s, &turn)
		if n.turn(s, turn); len(n.archives) != 3 {
			t.Errorf("%s: %d of 3 archives exist", name, len(n.archives))
		}
		n.node, n.records = node, records
		if sweepOnce(n); len(n.archives) != 0 {
			t.Errorf("after %s %d archives exist", name, len(n.archives))
		}
	}
}

// TestCNIFinishKeepsTheArchive checks that the archive of a removal that a crash interrupted is not dropped at the end
// of its retention before the removal is finished, nor by the same sweep.
func TestCNIFinishKeepsTheArchive(t *testing.T) {
	n := newFakeCNI()
	n.leave(1, 25*time.Hour)
	const archive = ArchivePrefix + "1"
	files := []File{n.there["net-id1-eth0"]}
	n.archives[archive], n.at[archive] = files, n.now
	if _, err := n.Append(RemovingRecord(archive, files, n.node, n.now)); err != nil {
		t.Fatal(err)
	}
	n.pass(testRules.Retention)
	n.ledgerErr = errors.New("no space left on device")
	if sweepOnce(n); len(n.archives) != 1 {
		t.Error("the archive of an unfinished removal was dropped")
	}
	n.ledgerErr = nil
	if rep := sweepOnce(n); len(rep.Errors) > 0 || len(n.there) != 0 || len(n.archives) != 1 {
		t.Errorf("errors %q, %d files and %d of 1 archive exist", rep.Errors, len(n.there), len(n.archives))
	}
	if sweepOnce(n); len(n.archives) != 0 {
		t.Error("the next sweep did not drop the archive")
	}
}

// TestCNIArchiveAge checks that no leap of the wall clock drops an archive: its age is by the boot clock, or after a
// reboot no longer than that boot has lasted.
func TestCNIArchiveAge(t *testing.T) {
	const retention = 24 * time.Hour // of testRules
	reboot := func(n *fakeCNI) { n.now.BootID, n.now.Boot, n.node.KubeletID.Start = "c", time.Minute, 0 }
	leap := func(n *fakeCNI, years int) { n.now.Wall = n.now.Wall.AddDate(years, 0, 0) }
	for name, c := range map[string]struct {
		change func(*fakeCNI)
		left   time.Duration // until the archives are dropped
	}{
		"nothing happens":        {func(*fakeCNI) {}, retention},
		"the clock leaps ahead":  {func(n *fakeCNI) { leap(n, 50) }, retention},
		"the clock is set back":  {func(n *fakeCNI) { leap(n, -50) }, retention},
		"a reboot":               {func(n *fakeCNI) { reboot(n); n.pass(retention / 2) }, retention / 2},
		"a reboot into the past": {func(n *fakeCNI) { leap(n, -50); reboot(n); leap(n, 51) }, retention - time.Minute},
	} {
		n := sweptCNI(t)
		c.change(n)
		n.pass(c.left - time.Second)
		if sweepOnce(n); len(n.archives) != 3 {
			t.Errorf("%s: %d of 3 archives exist a second before their time", name, len(n.archives))
		}
		n.pass(time.Second)
		if sweepOnce(n); len(n.archives) != 0 {
			t.Errorf("%s: %d archives exist after their time", name, len(n.archives))
		}
	}
}

func truthIf(yes bool) policy.Truth {
	if yes {
		return policy.Yes
	}
	return policy.No
}

// TestCNIArchivedFirst checks that after a cut at any step every file exists or is in an archive.
func TestCNIArchivedFirst(t *testing.T) { synctest.Test(t, archivedFirst) }

func archivedFirst(t *testing.T) {
	for cut := 1; ; cut++ {
		n := newFakeCNI()
		names := map[string]bool{}
		for i := range 4 {
			names[n.leave(i, 25*time.Hour)] = true
		}
		sweepOnce(n)
		n.pass(testRules.Hold)
		n.cutAt = n.steps + cut
		done := func() (done bool) {
			defer func() {
				if e := recover(); e != nil && e != errCut { //nolint:errorlint // the value of the panic itself
					panic(e)
				}
			}()
			sweepOnce(n)
			return true
		}()
		synctest.Wait() // the current batch is cut off on its own goroutine
		for name := range names {
			kept := n.there[name].Name != ""
			for _, a := range n.archives {
				kept = kept || slices.ContainsFunc(a, func(c File) bool { return c.Name == name })
			}
			if !kept {
				t.Fatalf("cut off at step %d: %s neither exists nor is in an archive", cut, name)
			}
		}
		if done {
			break
		}
		n.cutAt = 0
		sweepOnce(n)
		if len(n.there) != 0 {
			t.Errorf("cut off at step %d: the next start leaves %v", cut, slices.Collect(maps.Keys(n.there)))
		}
		for name, e := range n.Entries() {
			if e.Phase == policy.PhaseCNIRemoving {
				t.Errorf("cut off at step %d: the next start leaves %s unfinished", cut, name)
			}
		}
	}
}

// TestCNIAfterThePod checks that a pod's files are removed once its directory was removed, although they are younger
// than the rules require of others.
func TestCNIAfterThePod(t *testing.T) {
	n := newFakeCNI()
	n.leave(1, time.Hour)
	other := n.leave(2, time.Hour)
	sweepOnce(n)
	n.pass(testRules.Hold)
	for _, kind := range []policy.Kind{policy.KindParking, policy.KindParked, policy.KindStripping, policy.KindStripped} {
		if _, err := n.Append(policy.Record{Kind: kind, UID: uidOf(1), Entry: "e", At: n.now}); err != nil {
			t.Fatal(err)
		}
	}
	if sweepOnce(n); len(n.there) != 1 || n.there[other].Name == "" {
		t.Errorf("%v remain", slices.Collect(maps.Keys(n.there)))
	}
}
