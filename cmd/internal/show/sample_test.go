package show

import (
	"fmt"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/content"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

var now = judge.Instant{Wall: time.Date(2026, 11, 29, 3, 0, 0, 0, time.UTC), BootID: "b", Boot: 48 * time.Hour}

// uid returns the UID of the pod with the number.
func uid(n int) parsers.PodUID {
	return parsers.PodUID(fmt.Sprintf("%08x-5f60-4718-a9b0-c1d2e3f40516", 0x1b2c3d00+n))
}

// hostile is what a tenant may put into a name: a newline, a terminal's escapes, another direction of writing.
const hostile = "web\x1b[2J\r\nYou have nothing to do\u202e\x9b"

// pod is one pod of the sample: its facts are good but for edit.
type pod struct {
	name, words string
	reported    time.Duration // how long ago first; 0: never
	edit        func(p *judge.Pod)
}

func fact(n judge.FactName, f judge.Fact) func(*judge.Pod) {
	return func(p *judge.Pod) { p.Facts[n] = f }
}

const stillPresent = "found, but volume paths are still present on disk"

// sample are the pods of a bad night.
var sample = []pod{
	0: {"db-0", stillPresent, 4 * time.Minute, fact(judge.Mounted, judge.Fact{Truth: judge.Yes, Alive: true, Source: "mountinfo of 12 namespaces", Detail: "tmpfs at /var/lib/kubelet/pods/" + string(uid(0)) + "/volumes/kubernetes.io~csi/pvc-1/mount"})},
	1: {"job-7x2", stillPresent, 20 * time.Second, func(*judge.Pod) {}},
	2: {"job-7x3", stillPresent, 4 * time.Minute, fact(judge.Cgroup, judge.Fact{Truth: judge.Yes, Alive: true, Detail: "the cgroup /sys/fs/cgroup/kubepods.slice/x exists"})},
	3: {"cache-1", "", 0, fact(judge.Mounted, judge.Fact{Truth: judge.Yes, Alive: true, Detail: "nfs4 at …"})},
	4: {"dns-abc12", "", 0, fact(judge.Running, judge.Fact{Truth: judge.Yes, Alive: true, Source: "/run/containerd/containerd.sock", Detail: "a sandbox is ready"})},
	5: {"hidden-1", "", 0, func(*judge.Pod) {}},
	6: {hostile, "", 0, func(p *judge.Pod) { p.UID = "" }},
	7: {"pg-0", stillPresent, time.Hour, fact(judge.Staged, judge.Fact{Truth: judge.Yes, Detail: "its volume is staged, and no other pod directory has it: /dev/sdb"})},
	8: {"unread", "", 0, fact(judge.Running, judge.Fact{Detail: "cannot ask /run/containerd/containerd.sock: connection refused"})},
}

// entries are the entries of the sample's quarantine.
var entries = map[string]judge.Entry{
	"data": {UID: uid(20), Phase: judge.Retained, Left: []judge.Residue{
		{Path: "volumes/kubernetes.io~nfs/share/" + hostile, Class: content.Data, Tally: judge.Tally{Entries: 3, Bytes: 3 << 30}},
	}},
	"retention": {UID: uid(21), Phase: judge.Retained, Left: []judge.Residue{
		{Path: "volumes/kubernetes.io~empty-dir/tmp", Class: content.Ephemeral, Tally: judge.Tally{Entries: 900, Bytes: 90 << 20}},
	}},
	"confirm":  {UID: uid(22), Phase: judge.Quarantined},
	"conflict": {UID: uid(23), Phase: judge.InConflict},
	"failed":   {UID: uid(24), Phase: judge.Retained, Err: "cannot remove etc-hosts: read-only file system", FailedAt: now},
}

// status returns the status of a node with these pods of the sample, judged as the program judges.
func status(daemon int, which ...int) reaper.Status {
	k := judge.Kubelet{PID: 812, Inner: 812, Start: time.Minute, Unit: "kubelet.service", JSON: judge.No, Verbosity: 2}
	yes := judge.Fact{Truth: judge.Yes, Detail: "PID 812"}
	in := judge.Input{
		Snapshot: judge.Snapshot{Node: judge.Node{Kubelet: k, Name: "node-1", KubeletKnown: yes, SeesMounts: yes, FreeBytes: -1, FreeInodes: -1}},
		Logs:     map[parsers.PodUID]judge.Log{}, Holds: map[parsers.PodUID]judge.Hold{}, Now: now,
		Settings: judge.Settings{Hold: time.Minute, Confirm: 5 * time.Minute, Retention: 24 * time.Hour},
		Entries:  map[string]judge.Entry{},
	}
	in.Permit = judge.Standing{Node: in.Snapshot.Node, DryRun: true}.Gate()
	words := map[parsers.PodUID]pod{}
	for _, i := range which {
		of := sample[i]
		p := judge.Pod{Name: of.name, UID: uid(i), Namespace: "shop", PodName: of.name, Present: judge.Yes, ID: judge.FileID{Ino: 1}}
		for n := range p.Facts {
			p.Facts[n].Truth = judge.No
		}
		p.Facts[judge.Directory].Truth = judge.Yes
		of.edit(&p)
		in.Snapshot.Pods = append(in.Snapshot.Pods, p)
		if of.reported > 0 {
			line := parsers.Line{Source: "kubelet.service", Whole: true, Journal: &parsers.Journal{Unit: k.Unit, PID: 812, BootID: "b", Time: now.Wall}}
			r := parsers.Report{Line: line, UID: p.UID, Kind: parsers.Removal, PID: 812, Header: now.Wall, Words: of.words}
			in.Logs[p.UID] = judge.Log{Removal: judge.Logged{Report: r, At: now}, First: now.Wall.Add(-of.reported)}
			words[p.UID] = of
		}
	}
	s := reaper.Status{At: now, Mode: "dry-run", Node: in.Snapshot.Node, Daemon: daemon}
	for _, j := range judge.Decide(in).Pods {
		ps := reaper.PodStatus{Judged: j, Count: parsers.NoCount}
		if of, ok := words[j.UID]; ok {
			ps.Words, ps.Count, ps.FirstReport, ps.LastReport = of.words, 5, now.Wall.Add(-of.reported), now.Wall.Add(-time.Second)
		}
		s.Pods = append(s.Pods, ps)
		s.Operator = s.Operator || j.Operator
	}
	return s
}

// quarantine adds entries of the sample to the status.
func quarantine(s reaper.Status, which ...string) reaper.Status {
	in := judge.Input{
		Snapshot: judge.Snapshot{Node: s.Node}, Entries: map[string]judge.Entry{}, Now: now,
		Settings: judge.Settings{Confirm: 5 * time.Minute, Retention: 24 * time.Hour},
	}
	in.Permit = judge.Standing{Node: s.Node, DryRun: true}.Gate()
	for _, name := range which {
		e := entries[name]
		e.Namespace, e.PodName, e.MovedAt = "shop", name, now.Add(-2*time.Minute)
		if e.Phase == judge.Retained {
			e.MovedAt, e.ConfirmedAt = now.Add(-2*time.Hour), now.Add(-time.Hour)
		}
		in.Entries[string(e.UID)+".1"] = e
		p := judge.Pod{UID: e.UID, Present: judge.No}
		for n := range p.Facts {
			p.Facts[n].Truth = judge.No
		}
		if e.Phase == judge.InConflict {
			p.Present = judge.Yes
		}
		in.Snapshot.Pods = append(in.Snapshot.Pods, p)
	}
	s.Quarantine = judge.Decide(in).Entries
	for _, e := range s.Quarantine {
		s.Operator = s.Operator || e.Operator
	}
	return s
}
