package ui

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
)

// TestConflictWithoutDirectory checks a pod that lives again and whose only directory is in quarantine: no screen
// shows another directory or claims that there is none, and explain has the command that puts it back.
func TestConflictWithoutDirectory(t *testing.T) {
	c := busyContext()
	e := policy.EntryState{Entry: uidElder + ".1", UID: uidElder, Phase: policy.PhaseConflict, Parked: policy.Parked{At: c.Now}}
	alive := policy.Judged{
		Evidence: policy.Evidence{UID: uidElder, Name: uidElder, RuntimeOnly: true},
		Verdict:  policy.Verdict{Stage: policy.InRuntime, Decision: policy.Keep, Why: []policy.Why{{Reason: policy.ReasonSandbox}}},
	}
	rep := reaper.Report{Entries: []policy.EntryState{e}, Pods: []policy.Judged{alive}}
	view := viewEntry(e, c)
	if fate := view.fate(c.Now.Wall); !strings.Contains(fate, "restore or purge") {
		t.Errorf("quarantine list: %s", fate)
	}
	r := NewReport(rep, c, Show{})
	scan := printed(t, func(p *Printer) { p.Report(&r) })
	if strings.Contains(scan, "another directory") || !strings.Contains(scan, "1 pod lives again") {
		t.Errorf("scan:\n%s", scan)
	}
	explain := printed(t, func(p *Printer) { p.Explain(NewExplanation(rep, c, uidElder, "", nil)) })
	if strings.Contains(explain, "none: only the runtime") || !strings.Contains(explain, "orphan-reaper quarantine restore "+uidElder) {
		t.Errorf("explain:\n%s", explain)
	}
}

// TestGoesByTheBootClock checks that the list announces no purge after the wall clock was set forward, which purges
// nothing.
func TestGoesByTheBootClock(t *testing.T) {
	at := func(ago time.Duration) policy.Instant {
		return policy.Instant{Wall: time.Date(2026, 11, 20, 3, 14, 15, 0, time.UTC).Add(-ago), BootID: "b", Boot: 1000*time.Hour - ago}
	}
	scratch := policy.Residue{Path: "volumes/kubernetes.io~empty-dir/cache", Class: contents.ClassEphemeral}
	e := policy.EntryState{Phase: policy.PhaseConfirmed, ConfirmedAt: at(time.Hour), Left: []policy.Residue{scratch}}
	stepped := at(0)
	stepped.Wall = stepped.Wall.Add(1000 * time.Hour)
	for _, now := range []policy.Instant{at(0), stepped} {
		v := viewEntry(e, Context{Now: now, Retention: 24 * time.Hour})
		if got := v.fate(now.Wall); got != "purged in 23h00m" {
			t.Errorf("at %v: %q", now, got)
		}
	}
}

// TestPurging checks that the question has each entry and the sum, that unread content never counts as empty, and
// that a pod's text cannot control the terminal.
func TestPurging(t *testing.T) {
	residue := func(class contents.Class, entries int64, partial bool) []policy.Residue {
		return []policy.Residue{{Path: "volumes/a", Class: class, Entries: entries, Bytes: 4096, Partial: partial}}
	}
	scratch := policy.EntryState{UID: "a", Entry: "a", Phase: policy.PhaseConfirmed, Left: residue(contents.ClassEphemeral, 2, false)}
	data := policy.EntryState{UID: "b", Entry: "b.2", Namespace: "shop", PodName: "db-0\x1b[2J", Left: residue(contents.ClassData, 1, false)}
	unread, twin := policy.EntryState{UID: "c", Entry: "c.1"}, scratch
	twin.Entry = "a.2"
	large := policy.EntryState{UID: "d", Entry: "d", Left: residue(contents.ClassData, 1_000_000, true)}
	for want, entries := range map[string][]policy.EntryState{
		"1 pod with 2 files and directories, 4.0 KiB in quarantine":                                                                     {scratch},
		"2 pods with 3 files and directories, 8.0 KiB in quarantine, 1 of them with data that may be a user's":                          {scratch, data},
		"1 pod with at least 1,000,000 files and directories, 4.0 KiB in quarantine, with data that may be a user's":                    {large},
		"1 pod, with content that is not known and may be a user's data":                                                                {unread},
		"2 pods with 2 files and directories, 4.0 KiB in quarantine, 1 of them with content that is not known and may be a user's data": {unread, scratch},
		"1 pod in 2 entries with 4 files and directories, 8.0 KiB in quarantine":                                                        {scratch, twin},
	} {
		if got := PurgeSum(entries); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	text := printed(t, func(p *Printer) {
		p.Purging([]policy.EntryState{scratch, twin, data, unread}, Context{})
		p.Purging(slices.Repeat([]policy.EntryState{scratch}, 10_000), Context{})
	})
	for _, want := range []string{
		"held\ta\t-\t4096\t-\tentry a\t", "\tentry a.2\t", "\tb\tshop/db-0\\x1b[2J\t4096\t", "\tc\t-\t-\t", "A pod may have written its name itself", "… and 9,980 more entries\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// TestPurged checks that the result has the sum of everything removed.
func TestPurged(t *testing.T) {
	taken := map[contents.Class]policy.Tally{contents.ClassData: {Entries: 2, Bytes: 8192}, contents.ClassSkeleton: {Entries: 5, Bytes: 20480}}
	done := []policy.Outcome{{Action: policy.Action{UID: "a", Entry: "a"}, Result: policy.Done, Taken: taken}}
	if got := printed(t, func(p *Printer) { p.PurgeDone(done) }); got != "purged: a  7 files and directories, 28 KiB, with the directories around them\n" {
		t.Errorf("%q", got)
	}
}
