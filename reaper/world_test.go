package reaper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/content"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// world is a node in memory: its pods directory, quarantine, ledger and clock. The calls of the loop are noted in order.
type world struct {
	now   judge.Instant
	pods  map[parsers.PodUID]*pod
	moved map[string]*pod // the quarantine
	judge.Folded
	seq    int64
	calls  []string
	fail   string // the ledger refuses an event of this kind
	before func(call string)
	clock  func() judge.Instant // in place of now
	quiet  bool                 // the kubelet reports nothing
	// verbose is true if the kubelet reports all orphans and not the first one only.
	verbose bool
	made    bool // the quarantine
	// slow is true if a clean goes on until its context ends, and unmovable is the answer of Movable.
	slow      bool
	unmovable error
	needs     time.Duration // what a clean needs at one go
	refuse    string        // the disk's answer to a move
	unsynced  bool          // the disk moves, and cannot sync
	enter     error         // the ledger's to Enter
	kubelet   int           // its PID in the next scans
	blind     bool
	text      bool // a mount elsewhere has the UID of each pod in quarantine
}

// pod is one pod of the world.
type pod struct {
	uid     parsers.PodUID
	ino     uint64
	alive   bool
	mounted bool // a leftover mount
	static  bool
}

func newWorld(uids ...parsers.PodUID) *world {
	w := &world{
		now:  judge.Instant{Wall: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC), BootID: "b", Boot: time.Hour},
		pods: map[parsers.PodUID]*pod{}, moved: map[string]*pod{}, before: func(string) {}, kubelet: 100,
	}
	for i, uid := range uids {
		w.pods[uid] = &pod{uid: uid, ino: uint64(i) + 1}
	}
	return w
}

func (w *world) daemon() *Daemon {
	l := &Loop{
		Scanner: w, Disk: w, Ledger: w, Clock: w, Recorder: w, Meter: w, Log: slog.New(slog.DiscardHandler),
		Settings: judge.Settings{Hold: time.Minute, Confirm: 5 * time.Minute, Retention: time.Hour},
	}
	d := &Daemon{Loop: l, Parse: func(line parsers.Line) (parsers.Report, bool) {
		uid, ok := parsers.ParsePodUID(string(line.Text))
		return parsers.Report{Line: line, UID: uid, Kind: parsers.Removal, PID: 100, Header: w.Now().Wall, Words: "orphaned pod", Count: 1}, ok
	}}
	d.Begin()
	return d
}

// report has the kubelet report a pod.
func (w *world) report(d *Daemon, uid parsers.PodUID) { d.Read(w.line(uid)) }

// line is the kubelet's report.
func (w *world) line(uid parsers.PodUID) parsers.Line {
	return parsers.Line{Text: []byte(uid), Whole: true, Journal: &parsers.Journal{Unit: "kubelet.service", PID: 100, BootID: "b", Time: w.Now().Wall}}
}

func (w *world) call(format string, args ...any) {
	c := fmt.Sprintf(format, args...)
	w.before(c)
	w.calls = append(w.calls, c)
}

func (w *world) Now() judge.Instant {
	if w.clock != nil {
		return w.clock()
	}
	return w.now
}

func (w *world) Scan(_ context.Context, only, also []parsers.PodUID) judge.Snapshot {
	w.call("scan %d+%d", len(only), len(also))
	s := judge.Snapshot{At: w.Now(), Node: judge.Node{
		Kubelet:      judge.Kubelet{PID: w.kubelet, Inner: w.kubelet, Unit: "kubelet.service", JSON: judge.No},
		KubeletKnown: judge.Fact{Truth: judge.Yes}, SeesMounts: judge.Fact{Truth: judge.Yes}, FreeBytes: -1, FreeInodes: -1,
	}}
	if w.blind {
		s.Node.SeesMounts.Truth = judge.No
	}
	uids := slices.Concat(only, also)
	if len(only) == 0 {
		for uid := range w.pods {
			uids = append(uids, uid)
		}
	}
	slices.Sort(uids)
	for _, uid := range slices.Compact(uids) {
		p := judge.Pod{Name: string(uid), UID: uid, Present: judge.No}
		for i := range p.Facts {
			p.Facts[i].Truth = judge.No
		}
		in, there := w.pods[uid]
		if there {
			p.Static = in.static
			p.Present, p.ID, p.Facts[judge.Directory].Truth = judge.Yes, judge.FileID{Ino: in.ino}, judge.Yes
			p.Facts[judge.Mounted] = judge.Fact{Truth: judge.No, Alive: in.mounted}
			if in.mounted {
				p.Facts[judge.Mounted].Truth = judge.Yes
			}
			p.Skeleton.Youngest = w.Now().Wall.Add(-time.Hour)
		}
		alive := there && in.alive
		for _, m := range w.moved {
			alive = alive || m.uid == uid && m.alive
			if w.text && m.uid == uid {
				p.Facts[judge.Mounted].Truth = judge.Yes
			}
		}
		if alive {
			p.Facts[judge.Running] = judge.Fact{Truth: judge.Yes, Alive: true}
		}
		s.Pods = append(s.Pods, p)
	}
	return s
}

func (w *world) Execute(ctx context.Context, permit judge.Permit, moves []judge.Move) (outcomes []judge.Outcome) {
	for _, m := range moves {
		w.call("%s %s", m.Action, m.UID)
		o := judge.Outcome{Move: m, Result: judge.Done, ID: m.ID}
		if ctx.Err() != nil {
			o.Result, o.Stopped, o.Err = judge.Refused, true, ctx.Err().Error()
			outcomes = append(outcomes, o)
			continue
		}
		switch m.Action {
		case judge.Quarantine:
			if w.refuse != "" {
				o.Result, o.Err = judge.Refused, w.refuse
				break
			}
			w.moved[m.Entry] = w.pods[m.UID]
			delete(w.pods, m.UID)
			if w.unsynced {
				o.Result, o.Err = judge.Failed, "fsync: input/output error"
			}
		case judge.Restore:
			w.pods[m.UID] = w.moved[m.Entry]
			delete(w.moved, m.Entry)
		case judge.Clean:
			if !permit.MayRemove() {
				panic("a clean without a permit")
			}
			select {
			case <-ctx.Done():
				o.Result, o.Stopped, o.Err = judge.Refused, true, ctx.Err().Error()
				if w.slow {
					o.Result, o.Taken = judge.Failed, map[content.Class]judge.Tally{content.Projected: {Entries: 1}}
				}
			case <-w.cleaned():
			}
			if !o.Stopped && w.moved[m.Entry] == nil {
				o.Result = judge.Gone
			}
			if !o.Stopped {
				delete(w.moved, m.Entry)
			}
		case judge.Purge:
			if !permit.MayRemove() {
				panic("a purge without a permit")
			}
			delete(w.moved, m.Entry)
		case judge.Exchange, judge.Leave:
			panic(m.Action)
		}
		outcomes = append(outcomes, o)
	}
	return outcomes
}

func (w *world) Where(uid parsers.PodUID, entry string) (inPods, inQuarantine judge.FileID, err error) {
	if p := w.pods[uid]; p != nil {
		inPods.Ino = p.ino
	}
	if p := w.moved[entry]; p != nil {
		inQuarantine.Ino = p.ino
	}
	return inPods, inQuarantine, nil
}

func (w *world) Movable() error { return w.unmovable }

func (w *world) Make(permit judge.Permit) error {
	w.made = w.made || permit.MayRemove()
	return nil
}
func (*world) Stuck() (string, time.Duration) { return "", 0 }

func (w *world) Enter(context.Context) (func(), error) { return func() {}, w.enter }

// cleaned returns a channel that is ready when a clean has ended.
func (w *world) cleaned() <-chan time.Time {
	switch {
	case w.slow:
		return nil
	case w.needs > 0:
		return time.After(w.needs)
	}
	now := make(chan time.Time)
	close(now)
	return now
}

func (w *world) Append(events ...judge.Event) ([]judge.Event, error) {
	for _, e := range events {
		w.call("write %s", e.Kind)
		if string(e.Kind) == w.fail {
			return nil, errors.New("no space left on device")
		}
	}
	for i := range events {
		w.seq++
		events[i].Seq = w.seq
		w.Apply(events[i])
	}
	return events, nil
}

func (w *world) Entries() map[string]judge.Entry                { return w.Folded.Entries }
func (w *world) Restored() map[parsers.PodUID]judge.Restoration { return w.Folded.Restored }
func (*world) Unsent() []judge.Event                            { return nil }
func (*world) Sent(int64) error                                 { return nil }
func (*world) Record(judge.Event) error                         { return nil }
func (*world) Status(Status, time.Duration)                     {}
func (*world) Event(judge.Event)                                {}
func (*world) Hangs(bool)                                       {}

func (w *world) Breaker() (judge.Event, bool) {
	if w.Folded.Breaker == nil {
		return judge.Event{}, false
	}
	return *w.Folded.Breaker, true
}

// run lets time pass in steps of two seconds, in each of which the kubelet reports the first pod that is dead, until the
// time is over or nothing is left. It runs the passes that are due.
func (w *world) run(ctx context.Context, t *testing.T, d *Daemon, long time.Duration) {
	t.Helper()
	for end := w.now.Boot + long; w.now.Boot < end && ctx.Err() == nil; {
		w.now = w.now.Add(2 * time.Second)
		for _, uid := range slices.Sorted(keys(w.pods)) {
			if !w.pods[uid].alive && !w.quiet {
				if w.report(d, uid); !w.verbose {
					break
				}
			}
		}
		for range 2 { // a line asks for a pass 100 ms later
			if d.Due() <= w.now.Boot {
				if err := d.Turn(ctx); err != nil {
					t.Fatal(err)
				}
			}
			w.now = w.now.Add(200 * time.Millisecond)
		}
	}
}

// returns makes the pod one alive, if it is in quarantine.
func (w *world) returns() {
	for _, p := range w.moved {
		p.alive = p.alive || p.uid == one
	}
}

func keys[V any](m map[parsers.PodUID]V) func(func(parsers.PodUID) bool) {
	return func(yield func(parsers.PodUID) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// has returns the calls without the scans of all pods that changed nothing.
func (w *world) has() string {
	return strings.Join(slices.DeleteFunc(slices.Clone(w.calls), func(c string) bool { return strings.HasPrefix(c, "scan 0") }), "; ")
}
