package policy

import (
	"fmt"
	"time"
)

// Sandbox is one pod sandbox as the runtime listed it.
type Sandbox struct {
	ID     string `json:"id"`     // the runtime's own, in full
	Socket string `json:"socket"` // the path of the socket that listed it
	// Created is when it was made, by the wall clock; zero where the runtime does not report.
	Created time.Time `json:"created,omitzero"`
	Ready   bool      `json:"ready"`
	// Busy is true where a container of it is in any state but exited.
	Busy bool `json:"busy,omitempty"`
	// Shared is true where its labels and annotations name another pod as well.
	Shared bool `json:"shared,omitempty"`
}

// A sandbox that has stopped and is still listed is what the kubelet's garbage collection
// takes away within a minute, once the pod is deleted: StopPodSandbox, which runs CNI DEL,
// and then RemovePodSandbox (pkg/kubelet/kuberuntime/kuberuntime_gc.go). It stays where that
// fails, mostly since CNI DEL does, or where the kubelet has forgotten the pod. It keeps the
// pod's directory, its IP and its CNI cache.
//
// The sandbox of a pod that lives can stop as well: the node was restarted, or the pause
// process was killed. Such a pod is wanted, and the kubelet makes it another one. A job that
// has completed keeps its own for as long as its pod is there. So a sandbox that has stopped
// says nothing by itself, and everything else must show dead.

// Stopped reports whether all that the runtime has of the pod are sandboxes that have stopped,
// with nothing but exited containers in them.
func (e *Evidence) Stopped() bool {
	if len(e.Sandboxes) == 0 || e.LooseContainers > 0 || e.Facts[FactSandbox].Truth != Yes || e.Facts[FactContainer].Truth == Unknown {
		return false
	}
	for _, s := range e.Sandboxes {
		if s.Ready || s.Busy || s.Shared {
			return false
		}
	}
	return true
}

// forgotten reports whether only sandboxes that have stopped speak for the pod's life, as far
// as the kubelet is concerned: it named the pod as an orphan itself, or a whole list came
// without it. That it has named others says nothing of a pod that the runtime knows.
func (e *Evidence) forgotten() bool { return e.Stopped() && released(e.Facts) }

// cleanedWithin is how long a stopped sandbox may be left after its pod's end before an operator
// has to act: the kubelet's garbage collection of sandboxes runs each minute.
const cleanedWithin = 3 * time.Minute

// sandboxes gives the reasons of a pod of which only stopped sandboxes are left. It waits for the kubelet
// to remove them, and then for an operator.
func (v *Verdict) sandboxes(e Evidence, h Hold, now Instant) {
	since, ok := now.Since(h.Ended)
	if v.Hold.Ended = h.Ended; !ok {
		v.Hold.Ended, since = now, 0
	}
	if since < cleanedWithin {
		v.WaitFor(cleanedWithin-since, ReasonSandbox, e.Facts[FactSandbox].Detail+"; the pod has ended, and its kubelet removes the sandbox within minutes")
		return
	}
	v.keep(Keep, ReasonSandbox, e.Facts[FactSandbox].Detail)
	if f := e.Facts[FactContainer]; f.Truth == Yes {
		v.keep(Keep, ReasonContainer, f.Detail)
	}
	text := "only the runtime knows the pod"
	if oldest, ok := e.OldestSandbox(); ok {
		text += fmt.Sprintf(", whose oldest sandbox is %s old", max(0, now.Wall.Sub(oldest)).Round(time.Second))
	}
	v.keep(Keep, ReasonSandboxOrphaned, text)
}

// OldestSandbox returns when the pod's oldest sandbox was made, false where that is not
// known.
func (e *Evidence) OldestSandbox() (time.Time, bool) {
	var oldest time.Time
	for _, s := range e.Sandboxes {
		if !s.Created.IsZero() && (oldest.IsZero() || s.Created.Before(oldest)) {
			oldest = s.Created
		}
	}
	return oldest, !oldest.IsZero()
}

// stuckAfter is for how long the runtime must have had a pod that nobody wants before it is
// said to be terminating for ever. A kubelet stops such a pod within its grace period, 30 s
// unless the pod says otherwise, and retries what fails within seconds; ten minutes is
// beyond what all but very patient pods ask for.
const stuckAfter = 10 * time.Minute

// terminating recognises a pod that the kubelet seems to terminate for ever: the runtime has
// it, the list of the pods that are wanted was answered without it, and that for long. An
// error of the runtime while a force-deleted pod was stopped makes a kubelet forget to try
// again (kubernetes#113145); newer ones do so for other reasons. Only its restart ends it.
//
// Where the kubelet counts the pods that it works on and nobody wants, and counts none, it
// does not work on this one. Where it counts nothing, a pod of which nothing runs any more
// is not said to be terminated by anybody.
func (j *judgement) terminating() {
	e, n, now, v := &j.e, j.n, j.now, &j.start
	f := &e.Facts
	known := f[FactSandbox].Truth == Yes || f[FactContainer].Truth == Yes
	if !known || e.Unwanted == "" || f[FactAPILists].Truth == Yes || f[FactStaticPod].Truth != No || n.Kubelet.Truth != Yes {
		return
	}
	since, ok := now.Since(j.h.Unwanted)
	if ok {
		v.Hold.Unwanted = j.h.Unwanted
	} else {
		v.Hold.Unwanted, since = now, 0
	}
	if since < stuckAfter {
		v.Again = stuckAfter - since
		return
	}
	working, counted := n.Gauges.Ending()
	if counted && working == 0 || !counted && e.Stopped() {
		return
	}
	text := fmt.Sprintf("the runtime has had it for %s, though %s", since.Round(time.Minute), e.Unwanted)
	if counted {
		text += fmt.Sprintf("; pods that the kubelet is still terminating (kubelet_working_pods): %d", working)
	}
	if c := n.Gauges.OrphanedRuntimePods; c != nil {
		text += fmt.Sprintf("; found in the runtime since its start (kubelet_orphaned_runtime_pods_total): %d", *c)
	}
	j.object(Keep, ReasonTerminating, text, 0)
}

// startsWithin is how young a pod directory is that a starting pod may have: its cgroup is made
// before its directory, and no process is in it until its volumes are mounted.
const startsWithin = 10 * time.Minute

// notRunning recognises a pod of which there is a cgroup and no process in it: it waits for a
// volume, or it is dead and the kubelet cannot finish. A kubelet keeps the cgroup of a dead pod
// for as long as one of its volumes is mounted (kubelet_pods.go, HandlePodCleanups: "Orphaned
// pod found, but volumes not yet removed", at V(3)), and names no pod in which something is
// mounted. So nothing but this tells of it. It is kept all the same; what changes is that it is
// not reported to live.
//
// Whoever lists the pod, and whatever may run, reports that it lives.
func (j *judgement) notRunning() {
	e, n, now := &j.e, j.n, j.now
	f := &e.Facts
	if f[FactCgroup].Truth != Yes || !e.CgroupIdle || n.Kubelet.Truth != Yes {
		return
	}
	for _, lists := range [...]FactName{FactKubeletLists, FactAPILists, FactPodLogs, FactPodResources} {
		if f[lists].Truth == Yes {
			return
		}
	}
	if f[FactStaticPod].Truth != No || f[FactContainer].Truth == Unknown {
		return
	}
	if f[FactSandbox].Truth != No && !e.Stopped() || f[FactSandbox].Truth == No && f[FactContainer].Truth == Yes {
		return
	}
	up, ok := now.Since(Instant{BootID: now.BootID, Boot: n.KubeletID.Start})
	if !ok || up < max(j.r.Settle, startsWithin) || e.Changed.IsZero() || now.Wall.Sub(e.Changed) < startsWithin {
		return
	}
	j.object(Keep, ReasonNotRunning, "no process is in its cgroup, no container of it runs, and no list has it", 0)
}

// unmounting adds to the reason mounted how to take the mount away, unless the pod lives.
func (v *Verdict) unmounting(command string) {
	if command == "" || v.Living() {
		return
	}
	for i := range v.Why {
		if v.Why[i].Reason == ReasonMounted {
			v.Why[i].Detail += Unmounting(command)
		}
	}
}

// Unmounting is how the detail of the reason mounted ends where a command takes the mount away.
func Unmounting(command string) string { return "; if the pod is gone: " + command }
