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
}

// stuckAfter is how long the runtime must have had an unwanted pod before it counts as terminating forever. The grace
// period is 30 s by default, and a kubelet retries within seconds.
const stuckAfter = 10 * time.Minute

// terminating recognises a pod that the kubelet seems to terminate forever: the runtime has it, and the list of wanted
// pods has omitted it for long. After an error of the runtime a kubelet may not try again (kubernetes#113145) until it is
// restarted. A kubelet that counts no unwanted pods among those that it works on does not work on this one.
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
	if counted && working == 0 {
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
	for _, lists := range [...]FactName{FactKubeletLists, FactAPILists} {
		if f[lists].Truth == Yes {
			return
		}
	}
	if f[FactStaticPod].Truth != No || f[FactContainer].Truth != No || f[FactSandbox].Truth != No {
		return
	}
	up, ok := now.Since(Instant{BootID: now.BootID, Boot: n.KubeletID.Start})
	if !ok || up < startsWithin || e.Changed.IsZero() || now.Wall.Sub(e.Changed) < startsWithin {
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
