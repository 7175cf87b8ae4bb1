package reaper_test

import (
	"context"
	"slices"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// scanner reads the node as package node does: one source after the other, each at its own moment, in the same order.
type scanner struct{ *node }

// answer is what one source has answered.
type answer struct{ unknown, busy bool }

// read asks a source, which takes some time and may not answer.
func (n *node) read(trouble kind) (a answer) {
	slow := 5 * time.Millisecond
	switch {
	case n.faults[readsSlow] > 0:
		slow = 2 * time.Second
	case !n.quick:
		slow = 300 * time.Millisecond
	}
	n.pass(n.between(0, slow))
	n.reach(stepRead, "")
	if n.faults[trouble] > 0 || n.faults[readsFail] > 0 && n.oneIn(4) {
		a.unknown = true
	}
	if n.ctx.Err() != nil {
		return answer{true, true}
	}
	if n.faults[readsBusy] > 0 && n.oneIn(2) {
		a.unknown, a.busy = true, true
	}
	if a.unknown {
		n.trouble = n.now
	}
	return a
}

// fact returns a fact that a source gives.
func (a answer) fact(yes, alive bool) judge.Fact {
	switch {
	case a.unknown:
		return judge.Fact{Busy: a.busy, Detail: "it did not answer"}
	case yes:
		return judge.Fact{Truth: judge.Yes, Alive: alive}
	}
	return judge.Fact{Truth: judge.No}
}

// anyRead is for a source that has no trouble of its own.
const anyRead = numKinds

// Scan is reaper.Scanner's.
func (s scanner) Scan(ctx context.Context, only, also []parsers.PodUID) judge.Snapshot {
	n := s.node
	n.ctx = ctx
	if len(only) > 0 && len(also) == 0 {
		n.reach(stepRecheck, only[0])
	}
	if n.oracle.confirms(n) {
		n.reach(stepConfirm, "")
	}
	n.oracle.scans(n, only)
	snapshot := judge.Snapshot{At: n.Now()}
	names := n.read(anyRead)
	wanted := slices.Concat(only, also)
	for _, p := range n.pods {
		if len(only) == 0 && n.dirs[p.uid] != nil && !names.unknown {
			wanted = append(wanted, p.uid)
		}
	}
	slices.Sort(wanted)
	wanted = slices.Compact(wanted)
	snapshot.Node = n.nodeFacts()
	seen := make([]judge.Pod, len(wanted))
	each := func(trouble kind, fill func(p *pod, seen *judge.Pod, a answer)) {
		a := n.read(trouble)
		for i, uid := range wanted {
			if p := n.byUID[uid]; p != nil {
				fill(p, &seen[i], a)
			}
		}
	}
	each(listHangs, func(p *pod, seen *judge.Pod, a answer) {
		if a.unknown = n.version >= 37 && n.kubelet.up && (a.unknown || !n.kubelet.ready); n.version < 37 || !n.kubelet.up {
			a = answer{}
		}
		seen.Name, seen.UID, seen.Facts[judge.Listed] = string(p.uid), p.uid, a.fact(n.kubelet.lists(p), true)
		seen.Static = len(p.uid) == 32
	})
	each(runtimeHangs, func(p *pod, seen *judge.Pod, a answer) {
		here := slices.ContainsFunc(n.pods, func(q *pod) bool { return (q.ready || q.exited) && n.dirs[q.uid] != nil })
		a.unknown = a.unknown || !here || n.faults[runtimeEmpty] > 0
		seen.Facts[judge.Running] = a.fact(p.ready || p.runs, true)
		seen.Static = seen.Static || !a.unknown && p.static && (p.ready || p.exited)
	})
	each(mountsHidden, func(p *pod, seen *judge.Pod, a answer) {
		mounted := len(n.mountsOf(p.uid)) > 0
		if mounted && a.unknown && n.oneIn(2) {
			a = answer{}
		}
		seen.Facts[judge.Mounted] = a.fact(mounted || p.texts > 0, mounted)
	})
	each(anyRead, func(p *pod, seen *judge.Pod, a answer) {
		d := n.dirs[p.uid]
		alone := d != nil && d.csi > 0 && n.volumes[d.csi] && !slices.ContainsFunc(n.pods, func(q *pod) bool {
			other := n.dirs[q.uid]
			return q != p && other != nil && other.csi == d.csi
		})
		seen.Facts[judge.Staged] = a.fact(alone, false)
	})
	each(anyRead, func(p *pod, seen *judge.Pod, a answer) { seen.Facts[judge.Cgroup] = a.fact(p.cgroup, true) })
	each(anyRead, n.directory)
	n.pass(n.between(0, 20*time.Millisecond))
	snapshot.Pods = slices.DeleteFunc(seen, func(p judge.Pod) bool { return p.UID == "" })
	n.oracle.scanned(n, snapshot, len(only) > 0)
	return snapshot
}

// directory reads the directory itself, last.
func (n *node) directory(p *pod, seen *judge.Pod, a answer) {
	d := n.dirs[p.uid]
	if seen.Present = judge.No; d != nil {
		seen.Present = judge.Yes
	}
	if a.unknown {
		seen.Present = judge.Unknown
	}
	if seen.Facts[judge.Directory] = a.fact(d != nil, false); d == nil || a.unknown {
		return
	}
	seen.ID = d.id
	seen.Skeleton = judge.Skeleton{Sum: d.id.Ino<<32 + d.version, Youngest: d.wall}
	if seen.SkeletonOnly = judge.No; d.bare() {
		seen.SkeletonOnly = judge.Yes
	}
}

func (n *node) nodeFacts() judge.Node {
	k, a := &n.kubelet, n.read(anyRead)
	facts := judge.Node{SeesMounts: judge.Fact{Truth: judge.Yes}, Journal: judge.Yes, FreeBytes: 0.5, FreeInodes: 0.5}
	if n.file {
		facts.Journal = judge.No
	}
	if n.faults[blind] > 0 {
		facts.SeesMounts.Truth = judge.No
	}
	if n.faults[diskFull] > 0 {
		facts.FreeBytes = 0.02
	}
	if facts.KubeletKnown = a.fact(k.up && !k.two, false); facts.KubeletKnown.Truth == judge.Yes {
		facts.Kubelet = judge.Kubelet{PID: 1000 + k.run, Inner: k.pid, Start: k.start, JSON: judge.No}
		if n.json {
			facts.Kubelet.JSON = judge.Yes
		}
		if facts.Kubelet.Unit = kubeletUnit; n.file {
			facts.Kubelet.Unit = ""
			facts.Kubelet.Logs = []judge.LogFile{{Path: "kubelet.log", ID: judge.FileID{Dev: 1, Ino: kubeletFile}, Own: true}}
		}
	}
	return facts
}
