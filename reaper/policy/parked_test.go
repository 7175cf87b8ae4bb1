package policy

import (
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
)

// TestPurgeIn checks that the retention is measured by the boot clock, or after a reboot by the wall clock, and that
// a wall clock that was set back purges nothing.
func TestPurgeIn(t *testing.T) {
	s := deadScene()
	e := EntryState{Phase: PhaseConfirmed, ConfirmedAt: s.ago(23 * time.Hour), Left: []Residue{{Class: contents.ClassEphemeral}}}
	check := func(name string, want time.Duration, wantOK, pressed bool) {
		t.Helper()
		if got, ok := PurgeIn(e, s.rules, s.now, pressed); got != want || ok != wantOK {
			t.Errorf("%s: %s, %t", name, got, ok)
		}
	}
	check("an hour is left", time.Hour, true, false)
	check("the disk is nearly full", pressedRetention-23*time.Hour, true, true)
	e.ConfirmedAt.BootID = "boot-0"
	check("over a reboot", time.Hour, true, false)
	s.now.Boot = 3 * time.Minute
	check("the machine has just booted", s.rules.Retention-3*time.Minute, true, false)
	e.ConfirmedAt.Wall = s.now.Wall.AddDate(-50, 0, 0)
	check("the clock was set after the boot", s.rules.Retention-3*time.Minute, true, false)
	check("the same, and the disk is nearly full", pressedRetention-3*time.Minute, true, true)
	e.ConfirmedAt.Wall = s.now.Wall.Add(time.Hour)
	check("the clock was set back", 24*time.Hour, true, false)
	e.Left = []Residue{{Class: contents.ClassData}}
	check("data only", 0, false, false)
	if Due(e, s.rules, s.now, true) {
		t.Error("the retention of data ends")
	}
}

// TestParkedUnreadable checks that a parked pod whose directory cannot be read stays in quarantine.
func TestParkedUnreadable(t *testing.T) {
	s := deadScene()
	s.ev.Facts[FactDirectory] = Fact{}
	s.ev.ID = DirID{}
	v, a := JudgeEntry(s.ev, s.node, EntryState{Phase: PhaseParked, ID: DirID{1, 2, 3}, Parked: s.parked}, s.rules, s.now)
	if a != nil || v.Decision != Wait {
		t.Errorf("%s, %+v", v.Decision, a)
	}
}

// TestParkedAgainAfterBoot checks that a pod that was parked under rules that waive the kubelet goes back after a
// boot, but is not exchanged for a new directory that may be in use.
func TestParkedAgainAfterBoot(t *testing.T) {
	for used, want := range map[Truth]Decision{No: Return, Unknown: Wait, Yes: Keep} {
		s := deadScene()
		s.rules.Waive = true
		s.parked.At.BootID = "boot-0"
		s.ev.Facts.Set(FactRemade, Yes, "test", "there is a pods/UID again")
		s.ev.Facts.Set(FactUsed, used, "test", "")
		if v := JudgeParked(s.ev, s.node, s.parked, s.rules, s.now); v.Decision != want || !v.Alive {
			t.Errorf("used %s: %+v", used, v)
		}
	}
}

// TestParkedOther checks that a directory in quarantine that is not the one that was judged goes back, even if the
// pod is dead.
func TestParkedOther(t *testing.T) {
	s := deadScene()
	id := s.ev.ID
	for _, other := range []DirID{{id.Dev + 1, id.Ino, id.Btime}, {id.Dev, id.Ino + 1, id.Btime}, {id.Dev, id.Ino, id.Btime + 1}} {
		_, a := JudgeEntry(s.ev, s.node, EntryState{Phase: PhaseParked, ID: other, Parked: s.parked}, s.rules, s.now)
		if kindOfAction(a) != PutBack {
			t.Errorf("another directory than %v: %+v", other, a)
		}
	}
}

// TestFinishNeverPutsBack checks that a half-stripped directory is finished or waits, and never goes back: an old
// kubelet that finds it deletes through its bind mounts.
func TestFinishNeverPutsBack(t *testing.T) {
	for _, phase := range []Phase{PhaseStripping, PhasePurging, PhaseConfirmed} {
		allScenes(func(name string, s *scene) {
			st := EntryState{Entry: "e", UID: testUID, Phase: phase, ID: s.ev.ID, Parked: s.parked}
			_, a := JudgeEntry(s.ev, s.node, st, s.rules, s.now)
			if a != nil && a.Kind == PutBack {
				t.Errorf("%s, %s: put back", phase, name)
			}
			gone := s.ev.Facts[FactDirectory].Truth == No
			if a != nil && !gone && (s.ev.Facts[FactMounted].Truth != No || s.ev.Facts[FactInUse].Truth != No) {
				t.Errorf("%s, %s: %s, but it is mounted, in use or unknown", phase, name, a.Kind)
			}
			if a != nil && a.Take.Has(contents.ClassData) {
				t.Errorf("%s, %s: removes data", phase, name)
			}
		})
	}
}

// TestParkedNotThere checks that a parked entry that a look cannot find or read does not count as a removal under
// way: it was never confirmed.
func TestParkedNotThere(t *testing.T) {
	s := deadScene()
	for truth, want := range map[Truth]ActionKind{Unknown: "", No: PutBack} {
		s.ev.Facts[FactDirectory].Truth = truth
		_, a := JudgeEntry(s.ev, s.node, EntryState{Phase: PhaseParked, ID: s.ev.ID, Parked: s.parked}, s.rules, s.now)
		if got := kindOfAction(a); got != want {
			t.Errorf("directory %s: %q, want %q", truth, got, want)
		}
	}
}

// TestSignWhereTheDirectoryIsNot checks that a sign of life opens the breaker also if the entry is gone, unreadable
// or another directory, and does not change what happens to the entry. A doubt opens no breaker, nor does a directory
// in place: an operator may have moved it back.
func TestSignWhereTheDirectoryIsNot(t *testing.T) {
	for _, fact := range []FactName{FactCgroup, FactSandbox, FactContainer, FactKubeletLists, FactAPILists, FactRemade, FactMounted} {
		for _, truth := range []Truth{No, Unknown, Yes} {
			for _, phase := range []Phase{PhaseParked, PhaseStripping} {
				for name, change := range map[string]func(*scene){
					"gone":      func(s *scene) { s.ev.Facts[FactDirectory].Truth = No },
					"not known": func(s *scene) { s.ev.Facts[FactDirectory].Truth = Unknown },
					"another":   func(s *scene) { s.ev.ID.Ino++ },
				} {
					s := deadScene()
					st := EntryState{Phase: phase, ID: s.ev.ID, Parked: s.parked}
					change(s)
					dead, do := JudgeEntry(s.ev, s.node, st, s.rules, s.now)
					s.ev.Facts[fact].Truth = truth
					v, a := JudgeEntry(s.ev, s.node, st, s.rules, s.now)
					if name == "another" && phase != PhaseParked {
						continue // judged like the same directory
					}
					if want := truth == Yes && fact != FactRemade && fact != FactMounted; v.Alive != want {
						t.Errorf("%s is %s, %s and %s: alive %t, want %t", fact, truth, phase, name, v.Alive, want)
					}
					if v.Decision != dead.Decision || kindOfAction(a) != kindOfAction(do) {
						t.Errorf("%s is %s, %s and %s: %s %q, want %s %q", fact, truth, phase, name, v.Decision, kindOfAction(a), dead.Decision, kindOfAction(do))
					}
				}
			}
		}
	}
}

// TestStripCutShort checks that a strip that continues after a crash stops at a sign of life, like a purge of a
// confirmed entry: a static pod comes back with its UID.
func TestStripCutShort(t *testing.T) {
	for _, fact := range []FactName{FactRemade, FactSandbox, FactContainer, FactCgroup, FactKubeletLists} {
		for _, phase := range []Phase{PhaseStripping, PhaseConfirmed, PhasePurging} {
			s := deadScene()
			s.ev.Facts[fact].Truth = Yes
			v, a := JudgeEntry(s.ev, s.node, EntryState{Phase: phase, ID: s.ev.ID}, s.rules, s.now)
			if a != nil || !v.Alive || v.Decision != Keep {
				t.Errorf("%s, %s: %+v, %+v", fact, phase, v, a)
			}
		}
	}
}

// TestStripCutShortWithoutAPodList checks that on a node without the kubelet's pod list an interrupted strip
// continues.
func TestStripCutShortWithoutAPodList(t *testing.T) {
	s := deadScene()
	s.ev.Facts[FactKubeletLists] = Fact{}
	v, a := JudgeEntry(s.ev, s.node, EntryState{Phase: PhaseStripping, ID: s.ev.ID}, s.rules, s.now)
	if kindOfAction(a) != Strip {
		t.Errorf("%+v, %+v", v, a)
	}
}

func kindOfAction(a *Action) ActionKind {
	if a == nil {
		return ""
	}
	return a.Kind
}

// TestRecordedFailures checks that a failed action that left a conflict in quarantine is recorded, and that a
// directory that is found nowhere is not recorded as put back.
func TestRecordedFailures(t *testing.T) {
	o := Outcome{Action: Action{Kind: Park, UID: testUID, Entry: "e"}, Result: Failed, Conflict: "e.conflict"}
	recs := Recorded(o, Node{}, Instant{})
	if len(recs) != 2 || recs[0].Kind != KindFailed || recs[1].Kind != KindConflict || recs[1].Entry != "e.conflict" {
		t.Errorf("conflict that is not in the ledger: %+v", recs)
	}
	o = Outcome{Action: Action{Kind: PutBack, UID: testUID, Entry: "e"}, Result: Gone}
	if recs := Recorded(o, Node{}, Instant{}); recs[0].Kind != KindRemoved {
		t.Errorf("a directory that was not found is recorded as %s", recs[0].Kind)
	}
}
