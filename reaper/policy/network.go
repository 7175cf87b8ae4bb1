package policy

import (
	"fmt"
	"time"
)

// While the pod network is not ready (CRI Status, condition NetworkReady), syncPod returns before
// it makes a pod's cgroup, secrets and directories, unless the pod uses the host's network
// (source of 1.24 and 1.34). So after a reboot, or for pods that were bound just now, nothing on
// the node knows a pod that lives and waits, and its kubelet makes nothing again that was parked.
// That the kubelet named others then says nothing of this one, and neither does its silence
// while a parked pod is confirmed. What it says of the pod itself, and a whole list, still count.

// networkMargin is for a runtime that notices late: CRI-O still said that the network was ready
// 2 s after its only configuration had gone.
const networkMargin = 10 * time.Second

// networkReady says in words why the pods' network, by this look or by one not long ago, keeps
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

// NetworkGate makes of swept an Unknown while the pod network is not ready, and for a confirm
// after that.
func NetworkGate(e *Evidence, n Node, r Rules, now Instant) {
	f := &e.Facts[FactSwept]
	if f.Truth != Yes || r.Waive {
		return
	}
	if why := networkReady(n, r, now); why != "" {
		f.Truth, f.Detail = Unknown, why
	}
}

// networkConfirms adds to a parked pod's reasons that its confirm time does not run.
func (v *ParkedVerdict) networkConfirms(e Evidence, n Node, r Rules, now Instant) {
	if r.Waive || e.Facts[FactNamed].Truth == Yes || e.Facts[FactReleased].Truth == Yes {
		return
	}
	if why := networkReady(n, r, now); why != "" {
		v.turn(SettleWait, ReasonConfirm, why)
	}
}
