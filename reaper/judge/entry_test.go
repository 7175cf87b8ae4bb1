package judge

import (
	"slices"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/content"
)

// quarantined returns the input of a pass with one entry whose pod shows no life and whose confirm time has passed.
func quarantined() Input {
	p := Pod{UID: uid, Present: No}
	for _, r := range table {
		p.Facts[r.fact].Truth = No
	}
	e := Entry{
		UID: uid, Phase: Quarantined, ID: FileID{Dev: 1, Ino: 2}, MovedAt: now.Add(-5 * time.Minute),
		Left: []Residue{{Path: "volumes", Class: content.Ephemeral}},
	}
	return Input{
		Snapshot: Snapshot{Node: dead().Node, Pods: []Pod{p}}, Entries: map[string]Entry{uid + ".1": e}, Now: now,
		Settings: Settings{Hold: time.Minute, Confirm: 5 * time.Minute, Retention: 24 * time.Hour},
		Permit:   Permit{restore: true, remove: true},
	}
}

// TestEntryWaits has the entries that wait: the loop scans every 30 seconds for these, and sweep does not end.
func TestEntryWaits(t *testing.T) {
	edits := map[string]func(*Input, *Entry){
		"confirm":       func(_ *Input, e *Entry) { e.MovedAt = now },
		"unknown":       func(in *Input, _ *Entry) { in.Snapshot.Pods[0].Facts[Running].Truth = Unknown },
		"not scanned":   func(in *Input, _ *Entry) { in.Snapshot.Pods = nil },
		"the gate":      func(in *Input, _ *Entry) { in.Permit = Permit{} },
		"not moved yet": func(_ *Input, e *Entry) { e.Phase = Moving },
	}
	for name, edit := range edits {
		in := quarantined()
		e := in.Entries[uid+".1"]
		edit(&in, &e)
		if j := judgeEntry(in, uid+".1", e); j.Decision != Wait {
			t.Errorf("%s: %s", name, j.Decision)
		}
	}
}

// TestFailedStep has an entry of which a step failed a minute ago: the next scan is when it is tried again.
func TestFailedStep(t *testing.T) {
	in := quarantined()
	e := in.Entries[uid+".1"]
	e.Err, e.FailedAt = "input/output error", now.Add(-time.Minute)
	in.Entries[uid+".1"] = e
	if d := Decide(in); len(d.Plan.Cleans) > 0 || d.Plan.Next != 4*time.Minute {
		t.Errorf("next in %s: %+v", d.Plan.Next, d.Plan.Cleans)
	}
	in.Now = in.Now.Add(4 * time.Minute)
	if d := Decide(in); len(d.Plan.Cleans) != 1 {
		t.Errorf("five minutes later: %+v", d.Plan)
	}
}

// TestEntry has what is due for an entry, and what must not happen to it.
func TestEntry(t *testing.T) {
	type edit func(in *Input, p *Pod, e *Entry)
	fact := func(n FactName, f Fact) edit { return func(_ *Input, p *Pod, _ *Entry) { p.Facts[n] = f } }
	again := func(skeleton Truth) edit {
		return func(_ *Input, p *Pod, _ *Entry) { p.Present, p.SkeletonOnly = Yes, skeleton }
	}
	retained := func(of edit) edit {
		return func(in *Input, p *Pod, e *Entry) {
			e.Phase, e.ConfirmedAt = Retained, now.Add(-24*time.Hour)
			in.Now = now
			of(in, p, e)
		}
	}
	none := func(*Input, *Pod, *Entry) {}
	yes := Fact{Truth: Yes, Alive: true}
	tests := []struct {
		name    string
		edit    edit
		want    Action // "": nothing is due
		remove  content.Set
		breaker bool
	}{
		{"confirmed", none, Clean, content.Payloads, false},
		{"confirm has not passed", func(_ *Input, _ *Pod, e *Entry) { e.MovedAt = now.Add(-299 * time.Second) }, "", 0, false},
		{"the kubelet has just started", func(in *Input, _ *Pod, _ *Entry) { in.Snapshot.Node.Kubelet.Start = now.Boot - time.Minute }, "", 0, false},
		{"the machine has just booted", func(in *Input, _ *Pod, e *Entry) { e.MovedAt.BootID = "a"; in.Now.Boot = time.Minute }, "", 0, false},
		{"the machine has booted into its past, and the kubelet runs long enough", func(_ *Input, _ *Pod, e *Entry) {
			e.MovedAt.BootID, e.MovedAt.Wall = "a", now.Wall.Add(time.Hour)
		}, Clean, content.Payloads, false},
		{"it failed a minute ago", func(_ *Input, _ *Pod, e *Entry) { e.Err, e.FailedAt = "read-only", now.Add(-time.Minute) }, "", 0, false},
		{"it failed five minutes ago", func(_ *Input, _ *Pod, e *Entry) { e.Err, e.FailedAt = "read-only", now.Add(-5*time.Minute) }, Clean, content.Payloads, false},
		{"it failed for the third time ten minutes ago", func(_ *Input, _ *Pod, e *Entry) {
			e.Err, e.FailedAt, e.Failures = "read-only", now.Add(-10*time.Minute), 3
		}, "", 0, false},
		{"it failed for the third time twenty minutes ago", func(_ *Input, _ *Pod, e *Entry) {
			e.Err, e.FailedAt, e.Failures, e.MovedAt = "read-only", now.Add(-20*time.Minute), 3, now.Add(-50*time.Minute)
		}, Clean, content.Payloads, false},
		{"it failed for the thousandth time six hours ago", func(in *Input, _ *Pod, e *Entry) {
			in.Now = now.Add(10 * time.Hour)
			e.Err, e.FailedAt, e.Failures = "read-only", in.Now.Add(-6*time.Hour), 1000
		}, Clean, content.Payloads, false},
		{"a clean failed a minute ago, and the pod is alive", func(_ *Input, p *Pod, e *Entry) {
			e.Err, e.FailedAt, e.Failures, p.Facts[Cgroup] = "read-only", now.Add(-time.Minute), 1, yes
		}, Restore, content.None, true},
		{"a clean failed after it had removed something, and the pod is alive", func(_ *Input, p *Pod, e *Entry) {
			e.Err, e.FailedAt, e.Failures, e.Partly, p.Facts[Cgroup] = "read-only", now.Add(-time.Minute), 1, true, yes
		}, "", 0, false},
		{"a restore failed a minute ago", func(_ *Input, p *Pod, e *Entry) {
			e.Err, e.FailedAt, p.Facts[Cgroup] = "read-only", now.Add(-time.Minute), yes
		}, "", 0, false},
		{"a restore failed five minutes ago", func(_ *Input, p *Pod, e *Entry) {
			e.Err, e.FailedAt, p.Facts[Cgroup] = "read-only", now.Add(-5*time.Minute), yes
		}, Restore, content.None, true},
		{"it failed a minute ago, and was then begun again and killed", func(_ *Input, _ *Pod, e *Entry) {
			e.Err, e.FailedAt, e.Phase, e.Remove = "read-only", now.Add(-time.Minute), Cleaning, content.Payloads
		}, Clean, content.Payloads, false},
		{"a restore was killed, and it is not known where the directory is", func(_ *Input, p *Pod, e *Entry) {
			e.Phase, p.Facts[Cgroup] = Restoring, yes
		}, "", 0, false},
		{"it is not known whether a kubelet runs", func(in *Input, _ *Pod, _ *Entry) { in.Snapshot.Node.KubeletKnown.Truth = Unknown }, "", 0, false},
		{"the gate is shut", func(in *Input, _ *Pod, _ *Entry) { in.Permit = Permit{restore: true} }, "", 0, false},
		{"not scanned", func(in *Input, _ *Pod, _ *Entry) { in.Snapshot.Pods = nil }, "", 0, false},

		{"a ready sandbox", fact(Running, yes), Restore, content.None, true},
		{"a cgroup", fact(Cgroup, yes), Restore, content.None, true},
		{"on the kubelet's list", fact(Listed, yes), Restore, content.None, true},
		{"a mount in the quarantine", fact(Mounted, yes), Restore, content.None, true},
		{"a new skeleton", again(Yes), Exchange, content.None, true},
		{"a new skeleton of which a container has files mounted", func(_ *Input, p *Pod, _ *Entry) {
			p.Present, p.SkeletonOnly, p.Facts[Mounted] = Yes, Yes, Fact{Truth: Yes}
		}, Leave, 0, false},
		{"a new skeleton, and mounts are not known", func(_ *Input, p *Pod, _ *Entry) { p.Present, p.SkeletonOnly, p.Facts[Mounted] = Yes, Yes, Fact{} }, Leave, 0, false},
		{"a new directory in use", again(No), Leave, 0, false},
		{"a new directory that cannot be read", again(Unknown), Leave, 0, false},
		{"a static pod, as this scan shows", func(_ *Input, p *Pod, _ *Entry) { p.Facts[Listed], p.Static = yes, true }, Restore, content.None, false},
		{"a static pod", func(_ *Input, p *Pod, e *Entry) { p.Facts[Cgroup] = yes; e.Static = true }, Restore, content.None, false},
		{"alive, and nothing may be restored", func(in *Input, p *Pod, _ *Entry) { p.Facts[Cgroup] = yes; in.Permit = Permit{} }, "", 0, false},

		{"a text in a mount table", fact(Mounted, Fact{Truth: Yes}), "", 0, false},
		{"mounts are not known", fact(Mounted, Fact{}), "", 0, false},
		{"the runtime is not known", fact(Running, Fact{}), "", 0, false},
		{"the runtime is busy", fact(Running, Fact{Busy: true}), "", 0, false},
		{"cgroups are not known", fact(Cgroup, Fact{}), "", 0, false},
		{"the list is not known", fact(Listed, Fact{}), "", 0, false},
		{"it is not known whether it exists again", func(_ *Input, p *Pod, _ *Entry) { p.Present = Unknown }, "", 0, false},

		{"retention has passed", retained(none), Clean, content.Aged, false},
		{"retention has not passed", retained(func(_ *Input, _ *Pod, e *Entry) { e.ConfirmedAt = now.Add(-23 * time.Hour) }), "", 0, false},
		{"the disk runs full", retained(func(in *Input, _ *Pod, e *Entry) {
			e.ConfirmedAt, in.Snapshot.Node.FreeBytes = now.Add(-10*time.Minute), 0.1
		}), Clean, content.Aged, false},
		{"the disk runs full, too early", retained(func(in *Input, _ *Pod, e *Entry) {
			e.ConfirmedAt, in.Snapshot.Node.FreeBytes = now.Add(-9*time.Minute), 0.1
		}), "", 0, false},
		{"inodes run out", retained(func(in *Input, _ *Pod, e *Entry) {
			e.ConfirmedAt, in.Snapshot.Node.FreeInodes = now.Add(-10*time.Minute), 0.05
		}), Clean, content.Aged, false},
		{"data is left", retained(func(_ *Input, _ *Pod, e *Entry) { e.Left[0].Class = content.Data }), "", 0, false},
		{"alive after it was cleaned", retained(fact(Running, yes)), "", 0, false},
		{"mounted in retention", retained(fact(Mounted, Fact{Truth: Yes})), "", 0, false},
		{"a clean that was killed", func(_ *Input, _ *Pod, e *Entry) { e.Phase, e.Remove = Cleaning, content.Payloads }, Clean, content.Payloads, false},
		{"a clean that was killed, of a pod that is alive", func(_ *Input, p *Pod, e *Entry) {
			e.Phase, e.Remove, p.Facts[Cgroup] = Cleaning, content.Payloads, yes
		}, Leave, 0, false},
		{"an operator's purge was killed a minute after a restore that failed, and the pod is alive", func(_ *Input, p *Pod, e *Entry) {
			e.Err, e.FailedAt, e.Phase, e.Remove, p.Facts[Cgroup] = "read-only", now.Add(-time.Minute), Purging, content.All, yes
		}, Leave, content.None, false},
		{"an operator's purge that was killed", func(_ *Input, _ *Pod, e *Entry) { e.Phase, e.Remove = Purging, content.All }, Purge, content.All, false},
		{"a move that was stopped, and the directory is in the pods directory", func(_ *Input, p *Pod, e *Entry) { e.Phase, p.Present = Moving, Yes }, "", 0, false},
		{"a conflict", func(_ *Input, _ *Pod, e *Entry) { e.Phase = InConflict }, "", 0, false},
	}
	for _, test := range tests {
		in := quarantined()
		in.Snapshot.Node.FreeBytes, in.Snapshot.Node.FreeInodes = -1, -1
		name := uid + ".1"
		e, p := in.Entries[name], in.Snapshot.Pods[0]
		in.Snapshot.Pods[0] = p
		test.edit(&in, &p, &e)
		if len(in.Snapshot.Pods) > 0 {
			in.Snapshot.Pods[0] = p
		}
		in.Entries[name] = e
		d := Decide(in)
		due := slices.Concat(d.Plan.Conflicts, d.Plan.Restores, d.Plan.Cleans)
		got := Move{}
		if len(due) > 0 {
			got = due[0]
		}
		if len(due) > 1 || got.Action != test.want || got.Action != "" && (got.Remove != test.remove || got.Entry != name || got.ID != e.ID) {
			t.Errorf("%s: %+v, want %q", test.name, due, test.want)
		}
		if (len(d.Plan.Breaker) > 0) != test.breaker {
			t.Errorf("%s: the breaker: %+v", test.name, d.Plan.Breaker)
		}
		if e.Phase == InConflict && (!d.Entries[0].Operator || d.Entries[0].Reasons[0].Reason != InUse) {
			t.Errorf("%s: no operator is asked: %+v", test.name, d.Entries)
		}
		if got.Action == Clean && got.Resumed != (e.Phase == Cleaning) {
			t.Errorf("%s: resumed: %t", test.name, got.Resumed)
		}
		if e.Phase == Moving && d.Entries[0].Operator {
			t.Errorf("%s: an operator is asked: %+v", test.name, d.Entries)
		}
		if len(d.Entries) != 1 || got.Action == "" && len(d.Entries[0].Reasons) == 0 {
			t.Errorf("%s: no reason: %+v", test.name, d.Entries)
		}
	}
}
