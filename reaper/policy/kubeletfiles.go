package policy

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

// Manifest is a static pod's manifest, as far as it says whose it is.
type Manifest struct {
	File            string
	Namespace, Name string
	UID             string // metadata.uid, which the kubelet takes as it is; usually none
}

// StaticSandbox is a sandbox in which the runtime runs a static pod.
type StaticSandbox struct {
	UIDs    []string // at least one
	Created int64    // nanoseconds since the epoch
}

// StaticPods is what the manifests of the kubelet that runs now say in one look.
//
// A static pod's UID is a hash of its decoded manifest, the node's name and the file's
// path. What is hashed is the printed form of the kubelet's own Go type of a pod, which
// gains fields with releases (kubernetes#67537), and the hash function has changed too; so
// no other program can compute it, and whether a manifest owns a UID is found by names.
type StaticPods struct {
	Origin    string
	Node      string // what the kubelet appends to the manifests' names
	Manifests []Manifest
	Unsure    string // why there may be more static pods than manifests
	Err       error  // why a manifest could not be read
}

// Doubt says why there may be more manifests than were read, "" where there are not.
func (s *StaticPods) Doubt() string {
	if s.Err != nil {
		return s.Err.Error()
	}
	return s.Unsure
}

// Fact answers whether a manifest owns the pod's UID, where running has the sandboxes of
// static pods by name.
func (s *StaticPods) Fact(e *Evidence, running map[PodName][]StaticSandbox) Fact {
	f := Fact{Origin: s.Origin}
	var maybe string
	for _, m := range s.Manifests {
		switch truth, words := m.owns(e, s.Node, running); truth {
		case Yes:
			f.Truth, f.Detail = Yes, words
			return f
		case Unknown:
			maybe = words
		case No:
			if words != "" {
				f.Detail = words
			}
		}
	}
	switch doubt := s.Doubt(); {
	case len(e.UID) != StaticUIDLen:
		f.Truth = No // and no manifest states it: whatever could not be read, the kubelet gives no such UID
	case doubt != "":
		f.Detail = doubt
	case maybe != "":
		f.Detail = maybe
	default:
		f.Truth = No
	}
	return f
}

// owns says whether the manifest owns the UID, with words for people.
//
// One that the runtime runs under another UID, in a sandbox younger than the directory,
// does not: the directory has the UID that the same manifest had in an older kubelet, or
// an older manifest of that name. The sandbox must be ready: a new UID's pod may wait
// while the old one's sandbox is still listed.
func (m Manifest) owns(e *Evidence, node string, running map[PodName][]StaticSandbox) (Truth, string) {
	switch {
	case m.UID != "" && m.UID == string(e.UID):
		return Yes, m.File + " states this UID"
	case m.UID != "", len(e.UID) != StaticUIDLen:
		return No, ""
	}
	fits := m.fits(e)
	if e.CertainName && !fits {
		return No, ""
	}
	names := []PodName{{m.Namespace, m.Name + "-" + node}}
	if e.CertainName {
		names = append(names, PodName{e.Namespace, e.PodName})
	}
	for _, n := range names {
		if uid := since(running[n], e); uid != "" {
			return No, fmt.Sprintf("%s is the manifest of %s, which the runtime runs under another UID: %s", m.File, n.Name, uid)
		}
	}
	if fits {
		return Yes, m.File + " is this pod's manifest"
	}
	return Unknown, "the pod's name is not known, and " + m.File + " may be its manifest"
}

// fits says whether the pod may have its name from the manifest: the kubelet appends the
// node's name. A name without a namespace, from etc-hosts, counts as well.
func (m Manifest) fits(e *Evidence) bool {
	return (e.Namespace == m.Namespace || e.Namespace == "") &&
		(e.PodName == m.Name || strings.HasPrefix(e.PodName, m.Name+"-"))
}

// since returns the UID of a sandbox that is another pod's and was made after the
// directory, "" where there is none or the directory's birth is not known.
func since(sandboxes []StaticSandbox, e *Evidence) string {
	for _, s := range sandboxes {
		if e.ID.Btime > 0 && s.Created > e.ID.Btime && !slices.Contains(s.UIDs, string(e.UID)) {
			return s.UIDs[0]
		}
	}
	return ""
}

// AnyStatic reports whether one of the UIDs is one that the kubelet itself gives.
func AnyStatic(uids map[parsers.PodUID]bool) bool {
	for uid := range uids {
		if len(uid) == StaticUIDLen {
			return true
		}
	}
	return false
}

// StateFile is a file of the kubelet's own that names the pod.
type StateFile struct {
	Name    string    // its path below the kubelet's root directory, or an absolute one
	Written time.Time // when it was written last, by the wall clock
}

// goesStale has the state files that name a pod which the kubelet has let go, until something
// else makes the kubelet write them (source of 1.19, 1.21, 1.24, 1.27, 1.30, 1.33, 1.34, 1.36):
//   - allocated_pods_state and actuated_pods_state, since 1.33, are written when a pod is taken
//     in or resized. RemovePod and RemoveOrphanedPods leave the file as it is.
//   - kubelet_internal_checkpoint is written when devices are allocated or a plugin reports its
//     devices. Only an allocation forgets the pods that are gone.
//   - memory_manager_state, since 1.21: what the end of a container did not take out stays until
//     the next pod is taken in.
//   - pod_status_manager_state is of 1.27 to 1.32. Later kubelets neither read nor remove it.
//
// Of cpu_manager_state and dra_manager_state the kubelet takes such pods out by itself, every
// 10 s and, since 1.33, every minute.
var goesStale = map[string]bool{
	"allocated_pods_state": true, "actuated_pods_state": true, "kubelet_internal_checkpoint": true,
	"memory_manager_state": true, "pod_status_manager_state": true,
}

// staleSlack is what the times of a file and of a log line may differ by without saying which
// was first: file times are those of the last tick, and a line is written after its time is read.
const staleSlack = 2 * time.Second

// stale reports whether all files that name the pod are of those that go stale.
func (e *Evidence) stale() bool {
	for _, f := range e.StateFiles {
		if !goesStale[path.Base(f.Name)] {
			return false
		}
	}
	return len(e.StateFiles) > 0 && e.Facts[FactKubeletFile].Truth == Yes
}

// unwrittenSince reports whether none of the files that name the pod was written after at. Both
// clocks must say so: the wall clock may have been set meanwhile.
func (e *Evidence) unwrittenSince(at, now Instant) bool {
	since, ok := now.Since(at)
	for _, f := range e.StateFiles {
		if age := now.Wall.Sub(f.Written); !ok || !f.Written.Add(staleSlack).Before(at.Wall) || since+staleSlack >= age {
			return false
		}
	}
	return true
}

// discount makes the fact kubelet_file a no.
func (e *Evidence) discount(since string) {
	f := &e.Facts[FactKubeletFile]
	f.Truth = No
	f.Detail += fmt.Sprintf(", as it was last written at %s; %s", e.lastWritten().UTC().Format(time.RFC3339), since)
}

func (e *Evidence) lastWritten() time.Time {
	var last time.Time
	for _, f := range e.StateFiles {
		if f.Written.After(last) {
			last = f.Written
		}
	}
	return last
}

// written is when the line was written, as far as it tells: we may have read it later.
func (c Claim) written() Instant {
	at := c.At
	if late := at.Wall.Sub(c.Sighting.Time); !c.Sighting.Time.IsZero() && late > 0 {
		at.Wall, at.Boot = c.Sighting.Time, max(0, at.Boot-late)
	}
	return at
}

// name notes that the kubelet named the pod as an orphan, and when it did so last.
func (h *Heard) name(c Claim) {
	uid := c.Sighting.UID
	if h.Named == nil {
		h.Named = map[parsers.PodUID]bool{}
	}
	h.Named[uid] = true
	if h.NamedAt == nil {
		h.NamedAt = map[parsers.PodUID]Instant{}
	}
	if at := c.written(); at.Boot >= h.NamedAt[uid].Boot {
		h.NamedAt[uid] = at
	}
}

// discount takes the word of a state file back that has gone stale: the kubelet that runs has
// named the pod as an orphan since the file was written. It names no pod that it knows.
func (h *Heard) discount(e *Evidence, now Instant) {
	if at, ok := h.NamedAt[e.UID]; ok && e.stale() && e.unwrittenSince(at, now) {
		e.discount("the kubelet has named the pod as an orphan since")
	}
}

// rewritten is how much older than the parking a state file must be to be the one that was
// judged then: a look may have read it some time before.
const rewritten = 5 * time.Minute

// TellParked does for a parked pod what Tell does for the others, as far as that is a sign of
// life: of a state file that goes stale only what was written since the pod was parked is one.
// A kubelet that has started since writes what it read at its start, so nobody knows whether
// it has taken the pod in: such a file then says nothing.
func (h *Heard) TellParked(e *Evidence, n Node, s EntryState, now Instant) {
	if n.Kubelet.Truth == Yes && h.Kubelet == n.KubeletID && h.Named[e.UID] {
		e.Facts[FactNamed].Truth = Yes
	}
	if !e.stale() {
		return
	}
	parked := s.Parked.At
	parked.Wall, parked.Boot = parked.Wall.Add(-rewritten), parked.Boot-rewritten
	switch {
	case e.unwrittenSince(parked, now):
		e.discount("the pod was parked after that")
	case n.Kubelet.Truth != Yes || n.KubeletID != s.Parked.Kubelet:
		e.Facts[FactKubeletFile].Truth = Unknown
	case h.Kubelet == n.KubeletID:
		h.discount(e, now)
	}
}
