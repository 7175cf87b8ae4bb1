package reading

import (
	"cmp"
	"fmt"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// PodList is one source's list of the pods of this node.
type PodList struct {
	Origin string
	Silent string // "", or why the source was not asked or did not answer
	// Pods are by the names of their directories. Each keeps its pod, also if the list is not complete.
	Pods     map[parsers.PodUID]bool
	Listed   int
	Nameless int // of them without a UID
	// Whole reports whether the list is known to have all pods of this node. If not, Doubt has the reason.
	Whole bool
	Doubt string
}

// weigh takes the first doubt, or none.
func (l *PodList) weigh(doubt string) {
	if l.Silent != "" {
		doubt = l.Silent
	}
	l.Whole, l.Doubt = doubt == "", doubt
}

// KubeletList is what the kubelet reports of its pods: /pods has those that it wants to run, from all of its sources, and
// no orphans.
type KubeletList struct {
	PodList
	More    bool // the list goes on elsewhere
	FromAPI int  // how many of the pods came from the API server
	Gauges  policy.KubeletGauges
	Metrics string // why /metrics did not answer, "" where it did
	// Own is the list that it gives root at its own socket.
	Own PodsAPI
}

// PodsAPI is what the kubelet lists at its socket pods-api (1.37): all pods of its pod manager, once each source has
// delivered. The pods enter the manager one after the other, each once it is admitted (KubeletList.Weigh). Its gauge, or
// that it has reported an orphan (HandlePodCleanups), shows that it had taken in all of them.
type PodsAPI struct {
	Origin string
	Silent string // why there is no list, "" where there is one
	Pods   map[parsers.PodUID]bool
	Listed int
	Doubt  string // why more pods than these may be in the manager, but for those that it still takes in
}

// answered reports whether the list looks complete.
func (l *PodsAPI) answered() bool { return l.Pods != nil && l.Silent == "" && l.Doubt == "" }

// Weigh reports whether the list is complete. Read in 1.21, 1.30 and 1.36: pkg/kubelet/config, pkg/kubelet/pod,
// kubelet_pods.go GetPods.
//
// The source "api" delivers nothing until the kubelet reaches the API server, and then everything at once
// (cache.UndeltaStore; PodConfig merges it as one SET). So one pod of that source shows that a complete list has come.
// Mirror pods are not in /pods; static pods are read by ourselves (Released).
//
// The gauge kubelet_working_pods shows that all of them are in the pod manager. HandlePodAdditions admits each pod before
// the next, and a device plugin may hold that up forever (kubernetes#129249); after a reboot the pods behind it may have
// nothing but their directories. HandlePodCleanups, which sets the gauge, runs only after that. Without the gauge (before
// 1.27, --disabled-metrics, no answer) a list keeps what it has and releases no pod.
func (l *KubeletList) Weigh() {
	switch {
	case l.More: // no kubelet does so; but then this is a part
		l.weigh("the kubelet's list is continued elsewhere")
	case l.Nameless > 0:
		l.weigh("the kubelet's list has pods without a UID")
	case l.FromAPI == 0:
		l.weigh("the kubelet's list has no pod of the API server's: its sources may not be ready")
	case l.Metrics != "":
		l.weigh("it is not known whether the kubelet has admitted all of its pods since its start: /metrics not answered: " + l.Metrics)
	case l.Gauges.Working == nil && l.Gauges.Uncleaned != nil:
		l.weigh("the kubelet is still taking in its pods since its start, or does not show kubelet_working_pods (--disabled-metrics)")
	case l.Gauges.Working == nil:
		l.weigh("it is not known whether the kubelet has admitted all of its pods since its start: " +
			"it shows no kubelet_working_pods (1.27 and newer have it, unless disabled)")
	default:
		l.weigh("")
	}
}

// Fact reports whether the kubelet has the pod.
func (l *KubeletList) Fact(uid parsers.PodUID) policy.Fact {
	f := policy.Fact{Origin: l.Origin}
	switch {
	case l.Own.Pods[uid]:
		f.Truth, f.Origin, f.Detail = policy.Yes, l.Own.Origin, "the kubelet's pod list has it"
	case l.Pods[uid]:
		f.Truth, f.Detail = policy.Yes, "the kubelet's pod list has it"
	case l.Silent != "" && l.Own.answered():
		f.Truth, f.Origin, f.Detail = policy.No, l.Own.Origin, policy.Count(l.Own.Listed, "pod")+" listed"
	case l.Silent != "":
		f.Detail = l.Silent
	default:
		f.Truth, f.Detail = policy.No, policy.Count(l.Listed, "pod")+" listed"
	}
	return f
}

// APIList is the API server's list of the pods that are bound to this node.
type APIList struct {
	PodList
	Node string // the name that was asked for, for display
	// Own are the pods by their own UIDs, which no sandbox of a mirror pod has.
	Own map[parsers.PodUID]bool
}

// Weigh reports whether the list is complete and this node's, and not that of a node of another name or cluster: it must
// have a pod that lives here, with a sandbox in the runtime and a cgroup in this kernel. Mirror pods prove nothing: the
// same manifest may give the same UID on another node.
func (l *APIList) Weigh(lives func(parsers.PodUID) bool) {
	if l.Nameless > 0 {
		l.weigh("the API server's list has pods without a UID")
		return
	}
	for uid := range l.Own {
		if lives(uid) {
			l.weigh("")
			return
		}
	}
	l.weigh(fmt.Sprintf("the API server lists no pod that runs here (%d listed): is %s this node's name? set --node-name", l.Listed, l.Node))
}

// Fact reports whether the list has the pod, which keeps it whatever node's the list is.
func (l *APIList) Fact(uid parsers.PodUID) policy.Fact {
	f := policy.Fact{Origin: l.Origin}
	switch {
	case l.Pods[uid]:
		f.Truth, f.Detail = policy.Yes, "the API server binds it to this node"
	case !l.Whole:
		f.Detail = cmp.Or(l.Silent, l.Doubt)
	default:
		f.Truth, f.Detail = policy.No, policy.Count(l.Listed, "pod")+" listed"
	}
	return f
}

// PodLists are the lists of the pods that are wanted on this node.
type PodLists struct {
	Kubelet KubeletList
	API     APIList
}

// Unwanted returns which list of wanted pods omits this one, "" if none does or one has it. The kubelet's counts if it has
// a pod of the API server's (Weigh), or if the kubelet terminates unwanted pods: both show that its sources are ready.
func (l *PodLists) Unwanted(uid parsers.PodUID) string {
	k, a := &l.Kubelet, &l.API
	ending, _ := k.Gauges.Ending()
	switch {
	case k.Pods[uid], k.Own.Pods[uid], a.Pods[uid]:
		return ""
	case k.Silent == "" && (k.FromAPI > 0 || ending > 0):
		return "the kubelet's list of " + policy.Count(k.Listed, "pod") + " does not contain it"
	case a.Whole && len(uid) != policy.StaticUIDLen:
		return "the API server's list of " + policy.Count(a.Listed, "pod") + " for this node does not contain it"
	}
	return ""
}
