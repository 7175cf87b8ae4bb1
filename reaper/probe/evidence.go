package probe

import (
	"errors"
	"fmt"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/reading"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/kubelet"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/openfiles"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/poddir"
)

// life returns the signs of life of a pod by runtime and cgroups.
func (l *gathering) life(uid parsers.PodUID) reading.Life {
	life := reading.Life{Cgroup: l.cgroups.Pods[uid] != "", Process: l.cgroups.Busy[uid]}
	life.Sandbox, life.Container = l.runtime.Pods[uid].Life()
	return life
}

// evidence returns the evidence about one entry of the pods directory.
func (l *gathering) evidence(name string, r *poddir.Answer) policy.Evidence {
	uid, ok := parsers.ParsePodUID(name)
	if !ok {
		return policy.Evidence{Name: name} // such an entry is neither read nor changed
	}
	e := policy.Evidence{Name: name, UID: uid}
	l.fill(&e, r)
	return e
}

// parkedEvidence returns the evidence about a parked pod.
func (l *gathering) parkedEvidence(p policy.EntryState, r *poddir.Answer) policy.Evidence {
	e := policy.Evidence{Name: string(p.UID), UID: p.UID, Entry: p.Entry, Namespace: p.Namespace, PodName: p.PodName}
	l.fill(&e, r)
	remade := policy.Fact{Truth: policy.No, Origin: l.rootDir + "/pods"}
	if kind, ok := l.Kind(string(p.UID)); ok {
		remade.Truth = policy.Yes
		remade.Detail = fmt.Sprintf("%s/pods/%s is there again (%s)", l.rootDir, p.UID, kindName(kind))
	}
	e.Facts[policy.FactRemade], e.Facts[policy.FactUsed] = remade, remade
	if remade.Truth == policy.Yes {
		e.Facts[policy.FactUsed], e.Elder = l.used(p.UID), l.mounts.Parked(p.UID)
	}
	return e
}

func kindName(kind uint8) string {
	return beneath.TypeName(uint16(kind) << 12) // IFTODT of dirent.h
}

// allListed returns the pods of the pods directory and of the runtime.
func (l *gathering) allListed() map[parsers.PodUID]bool {
	all := make(map[parsers.PodUID]bool, len(l.Names))
	for _, d := range l.Names {
		if uid, ok := parsers.ParsePodUID(d.Name); ok {
			all[uid] = true
		}
	}
	for uid := range l.runtime.Pods {
		all[uid] = true
	}
	return all
}

// fill sets the facts of a pod, and its name.
func (l *gathering) fill(e *policy.Evidence, r *poddir.Answer) {
	p, f, lists := l.probe, &e.Facts, l.lists
	e.ID, e.Changed = r.ID, r.Changed
	f[policy.FactDirectory], f[policy.FactOwnMount] = r.Directory, r.OwnMount
	f[policy.FactContent], e.Unread = r.Fact(), r.Alive != ""
	mounted := l.mounts.Fact(e.UID)
	mounted.Detail += l.agent(e.UID)
	f[policy.FactMounted] = reading.Mounted(mounted, r.Below(), r.OwnMount)
	if c := r.Content; c != nil {
		e.Residue, e.VolData = c.Rows, c.VolData
	}
	f[policy.FactCgroup], e.CgroupIdle = l.cgroups.Fact(e.UID, p.cfg.CgroupRoot), l.cgroups.Idle[e.UID]
	e.Unmount = l.mounts.Unmount(e.UID)
	f[policy.FactStaged] = l.volumesOf(e.UID, r).Staged(l.rootDir+"/plugins", &l.volumeUsers)
	f[policy.FactInUse] = l.openFiles.Fact(e.UID, walked(r))
	f[policy.FactKubeletLists] = l.podList.Fact(e.UID)
	f[policy.FactAPILists] = l.api.Fact(e.UID)
	l.name(e, r)
	l.runtime.Fill(e) // its name overrides that of l.name
	e.Unwanted, e.CertainName = lists.Unwanted(e.UID), l.certainName(e)
	f[policy.FactStaticPod] = l.static.Fact(e, l.runtime.Running)
}

// walked returns what the walk of a pod's directory met, nil if there was none.
func walked(r *poddir.Answer) *openfiles.Walked {
	if r.Content == nil {
		return nil
	}
	return &openfiles.Walked{Dev: r.ID.Dev, Inodes: r.Content.Inodes}
}

func (l *gathering) podLists() *reading.PodLists {
	return &reading.PodLists{Kubelet: l.podList.KubeletList, API: l.api.APIList}
}

func (l *gathering) name(e *policy.Evidence, r *poddir.Answer) {
	if e.PodName != "" {
		return
	}
	if r.Content != nil {
		e.Namespace, e.PodName = r.Content.PodName.Namespace, r.Content.PodName.Name
	}
}

func (l *gathering) complain(err error) {
	if err != nil && err.Error() != "" {
		l.errors = append(l.errors, err.Error())
	}
}

// complainOf records the errors of the sources.
func (l *gathering) complainOf(found kubelet.Answer) {
	for _, err := range [...]error{l.mounts.Err, l.cgroups.Err, l.openFiles.Err, l.blocks.Err, l.runtime.Err} {
		l.complain(err)
	}
	if found.Runs.Truth == policy.Unknown && !l.probe.cfg.Waive {
		l.complain(errors.New(found.Runs.Detail))
	} else if found.Agrees.Truth != policy.Yes {
		l.complain(errors.New(found.Agrees.Detail))
	}
	if found.Running != nil && (policy.AnyStatic(l.wanted) || len(l.static.Broken) == 0) { // what can be read and is no manifest keeps no other pod
		l.complain(l.static.Err)
	}
	l.complain(l.podList.Err)
	l.complain(l.api.Err)
}

// mostComplaints bounds the errors of single pods in one look.
const mostComplaints = 50

func (l *gathering) complainOfPods(reads []*poddir.Answer) {
	more := 0
	for _, r := range reads {
		switch err := r.Complaint(); {
		case err == nil:
		case len(l.errors) < mostComplaints:
			l.complain(err)
		default:
			more++
		}
	}
	if more > 0 {
		l.complain(fmt.Errorf("and %s that could not be read", policy.Count(more, "more pod")))
	}
}

// certainName reports whether the evidence has the pod's own name.
func (l *gathering) certainName(e *policy.Evidence) bool {
	_, listed := l.runtime.Name(e.UID)
	return reading.CertainName(e, listed)
}
