package policy

import (
	"fmt"
	"strings"
	"time"
)

// If the running kubelet reported some orphan and not this pod (source of 1.19 to 1.36), all its sources were ready, and
// it has inspected every pod directory. Either it knows this pod; or it could not remove this one and reported another; or
// a volume of this one is mounted, which it logs at V(3) only. Runtime and cgroups show the first case, but for a completed
// pod whose sandboxes were evicted: its kubelet has it in its list, and only its directory is left.
//
// That pod still has its log directory. Every minute the kubelet removes those of the pods that it does not know or has
// finished with. A name at the pod-resources socket shows the same, but a name may be a successor's, which may wait for a
// volume forever. So both keep a pod only until the kubelet reports it or a complete list omits it, and under Rules.Waive
// not at all.
//
// A log directory that is gone releases no pod: programs that make room on a full disk remove the logs of exactly those
// pods that completed.

// released reports whether the running kubelet reported the pod as an orphan, or a complete list omits it. Which list is
// complete is for FactReleased: a kubelet that started without the API server lists its static pods only.
func released(f Facts) bool { return f[FactNamed].Truth == Yes || f[FactReleased].Truth == Yes }

// silenceReleases reports whether the kubelet's silence is enough to release the pod: it reported some orphan, and
// neither runtime nor cgroups nor its log directories have the pod. The kubelet makes a pod's cgroup before its
// directory, so a pod that waits for a volume has one. It returns the conditions that are missing, and false if no
// condition would help.
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

// While the pod network is not ready (CRI Status, NetworkReady), syncPod returns before it makes a pod's cgroup and
// directories (source of 1.24 and 1.34). So after a reboot nothing on the node shows a pod that waits, and its kubelet
// does not make again what was parked: the kubelet's silence proves nothing. Its report on the pod itself and a complete
// list still count.

// networkMargin is for a runtime that notices late: CRI-O still reported the network as ready
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
