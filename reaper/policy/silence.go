package policy

import (
	"fmt"
	"strings"
	"time"
)

// What it proves that the running kubelet named some orphan, and not this pod (source of 1.19 to
// 1.36, see docs/how-it-decides.md): all its sources were ready then, so it had every pod of the
// API server's and every manifest. It went through all pod directories in that housekeeping run. One that it
// did not name it knows, or could not remove either and named another in its place, or has a
// volume of it that is still mounted, which it says at V(3) only. The runtime and the cgroups tell
// the first from the rest but for one kind: a pod that has completed, whose sandboxes were removed
// since the disk ran full. Its kubelet has it in its list, and nothing but its directory is left.
//
// The log directory tells these apart. Every minute the same kubelet removes those of the pods
// that it does not know or has finished with, by the same knowledge. So while it is there the pod
// counts as known. What the kubelet reports of the pod itself, or a whole list, is better evidence: a
// log directory that cannot be removed stays for ever.
//
// A name that the kubelet lists at its pod-resources socket keeps in the same way, and no further. It
// is a name, and the kubelet's word and a whole list are about the UID: what they do not have, and the
// socket has, is a successor of that name which has neither sandbox nor log directory yet, and it
// may wait for a volume for ever.
//
// So the yes of these two keeps only a pod that no report and no list has released. Under Rules.Waive it keeps
// none: no kubelet's silence is asked, and no kubelet removes a log directory.
//
// That the directory is gone is no ground for releasing a pod. The kubelet does not tell that it
// was the one to remove it, and programs that make room on a full disk remove the logs of pods
// that do not run: exactly of those that completed, at just the time at which their sandboxes go.

// released reports whether the pod is known not to be wanted: the kubelet that runs now named
// the UID; or a list that is known to be whole came without it; or the kubelet's silence says so.
//
// That the kubelet's pod list answers without the UID is no such sign by itself. A kubelet
// that has started while the API server is away lists its static pods and not one of the API
// pods that live on the node; so which list is whole is for FactReleased to say.
func released(f Facts) bool { return f[FactNamed].Truth == Yes || f[FactReleased].Truth == Yes }

// silenceReleases reports whether the kubelet's silence is enough to release the pod: it named some
// orphan, which it does only once its sources are ready, and neither runtime nor cgroups know
// the pod, nor does it keep the pod's log directory. The kubelet makes a living pod's cgroup
// before its directory, so a pod that merely waits for a volume has one.
//
// It returns the conditions that are missing for that, none where it is so, and false where
// nothing would help.
func (j *judgement) silenceReleases() (unless, bool) {
	f := &j.e.Facts
	var need unless
	if f[FactAnyNamed].Truth != Yes {
		need |= unlessCleared
	}
	for _, rule := range rules {
		switch {
		case rule.fact != FactCgroup && rule.about != aboutRuntime, f[rule.fact].Truth == No:
		case j.doubts(rule):
			need |= unlessDoubt
		default:
			return 0, false
		}
	}
	return need, unlisted(*f)
}

// unlisted reports whether the kubelet has neither the pod's log directory nor its name at the pod-resources socket.
func unlisted(f Facts) bool { return f[FactPodLogs].Truth == No && f[FactPodResources].Truth != Yes }

// kubelet objects unless the kubelet that runs now has released the pod.
func (j *judgement) kubelet() {
	f := &j.e.Facts
	if j.n.Kubelet.Truth != Yes || released(*f) {
		return
	}
	need, ok := j.silenceReleases()
	switch {
	case !ok:
		need = 0 // nothing would help: an objection that stands
	case need == 0:
		return
	}
	known := false
	for _, n := range [...]FactName{FactCgroup, FactSandbox, FactContainer, FactPodLogs, FactPodResources} {
		known = known || f[n].Truth == Yes
	}
	for _, rule := range rules {
		if rule.about == aboutKubelet && rule.dead == No && f[rule.fact].Truth == Yes {
			j.objectUnreported(Keep, rule.alive, f[rule.fact].Detail, 0)
		}
	}
	switch {
	case f[FactAnyNamed].Truth == Unknown && f[FactAnyNamed].Detail != "": // the pod network: see DoubtAnyNamed
		j.objectUnreported(Keep, ReasonKubeletUnknown, "the kubelet named other pods, which proves nothing about this one: "+f[FactAnyNamed].Detail, need)
	case f[FactAnyNamed].Truth != Yes:
		j.objectUnreported(Keep, ReasonKubeletUnknown, "no line that is surely of the running kubelet names this pod or, since its start, any other", need)
	case !known: // else the reason is that the runtime or a cgroup knows it
		j.objectUnreported(Keep, ReasonKubeletUnknown,
			"the kubelet that runs now has named other pods and not this one, and it is not known whether "+doubtful(*f), need)
	}
}

// doubtful returns what is not known of a pod that the kubelet has not named, though it named others.
func doubtful(f Facts) string {
	logs := f[FactPodLogs]
	if f[FactCgroup].Truth == Unknown || f[FactSandbox].Truth == Unknown || f[FactContainer].Truth == Unknown || logs.Truth != Unknown {
		return "runtime or cgroups have it"
	}
	return strings.TrimSuffix("the kubelet keeps its log directory: "+logs.Detail, ": ")
}

// While the pod network is not ready (CRI Status, condition NetworkReady), syncPod returns before
// it makes a pod's cgroup, secrets and directories, unless the pod uses the host's network
// (source of 1.24 and 1.34). So after a reboot, or for pods that were bound just now, nothing on
// the node knows a pod that lives and waits, and its kubelet makes nothing again that was parked.
// That the kubelet named others then says nothing of this one, and neither does its silence
// while a parked pod is confirmed. What it says of the pod itself, and a whole list, still count.

// networkMargin is for a runtime that notices late: CRI-O still said that the network was ready
// 2 s after its only configuration had gone.
const networkMargin = 10 * time.Second

// networkReady returns why the pods' network, by this look or by one not long ago, keeps
// silence from being a proof; "" where it does not.
func networkReady(n Node, r Rules, now Instant) string {
	switch n.Network.Truth {
	case No:
		return "the pod network is not ready, so a pod that waits has no cgroup: " + n.Network.Detail
	case Unknown:
		return "it is not known whether the pod network is ready: " + n.Network.Detail
	case Yes:
	}
	if since, ok := now.Since(n.NetworkDown); ok && r.Confirm > 0 && since < r.Confirm+networkMargin {
		return fmt.Sprintf("the pod network was not ready %s ago, less than the confirm time of %s", since.Round(time.Second), r.Confirm)
	}
	return ""
}

// DoubtAnyNamed makes FactAnyNamed Unknown while the pod network is not ready, and for a confirm
// after that.
func DoubtAnyNamed(e *Evidence, n Node, r Rules, now Instant) {
	f := &e.Facts[FactAnyNamed]
	if f.Truth != Yes || r.Waive {
		return
	}
	if why := networkReady(n, r, now); why != "" {
		f.Truth, f.Detail = Unknown, why
	}
}

// networkConfirms adds to a parked pod's reasons that its confirm time does not run.
func (v *Verdict) networkConfirms(e Evidence, n Node, r Rules, now Instant) {
	if r.Waive || e.Facts[FactNamed].Truth == Yes || e.Facts[FactReleased].Truth == Yes {
		return
	}
	if why := networkReady(n, r, now); why != "" {
		v.keep(Wait, ReasonConfirm, why)
	}
}
