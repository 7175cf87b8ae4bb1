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

// The kubelet removes the stopped sandboxes of a deleted pod within a minute (kuberuntime_gc.go). One stays if CNI DEL
// fails or the kubelet has forgotten the pod; it then keeps the pod's directory, IP and CNI cache. The sandbox of a wanted
// pod can stop as well, so a stopped sandbox shows nothing by itself.

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

// forgotten reports whether the pod is released and only stopped sandboxes are left of it. The kubelet's silence
// releases no pod that the runtime knows.
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

// stuckAfter is how long the runtime must have had an unwanted pod before it counts as terminating forever. The grace
// period is 30 s by default, and a kubelet retries within seconds.
const stuckAfter = 10 * time.Minute

// terminating recognises a pod that the kubelet seems to terminate forever: the runtime has it, and the list of wanted
// pods has omitted it for long. After an error of the runtime a kubelet may not try again (kubernetes#113145) until it is
// restarted. A kubelet that counts no unwanted pods among those that it works on does not work on this one; without that
// count a pod of which nothing runs is not terminating.
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

// notRunning recognises a pod with a cgroup and no process in it, which no list has and of which nothing may run. A
// kubelet keeps the cgroup of a dead pod while one of its volumes is mounted, and logs that at V(3) only
// (kubelet_pods.go, HandlePodCleanups). The pod is kept all the same, but does not count as living.
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
