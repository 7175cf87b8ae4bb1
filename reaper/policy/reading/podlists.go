package reading

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// PodList is what one source lists of the pods of this node.
type PodList struct {
	Origin string
	Silent string // "", or why the source was not asked or did not answer
	// Pods are all that it has, by the names of their directories: each keeps its pod, whatever
	// the list is worth.
	Pods     map[parsers.PodUID]bool
	Listed   int
	Nameless int // of them without a UID
	// Whole says that what the list has not is not wanted on this node; else Doubt says why
	// that is not known.
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

// KubeletList is what the kubelet reports of its pods: /pods has those that it wants to run,
// from all of its sources, and no orphans.
//
// It is asked at the port at which it has to show who it is, so that its answer may release a pod:
// see Weigh.
type KubeletList struct {
	PodList
	More    bool // the list goes on elsewhere
	FromAPI int  // how many of the pods came from the API server
	Gauges  policy.KubeletGauges
	Metrics string // why /metrics did not answer, "" where it did
	// Own is the list that it gives root at its own socket.
	Own PodsAPI
}

// PodsAPI is what the kubelet lists at its socket pods-api (1.37): all pods of its pod manager.
//
// It gives no list until each source has delivered. The pods then enter the manager one after the
// other, each once it is admitted: see KubeletList.Weigh. So a list that looks complete is so where
// this kubelet took in all of them before it was asked. Its gauge shows that, or that it has named an
// orphan: it names none before (HandlePodCleanups).
type PodsAPI struct {
	Origin string
	Silent string // why there is no list, "" where there is one
	Pods   map[parsers.PodUID]bool
	Listed int
	Doubt  string // why more pods than these may be in the manager, but for those that it still takes in
}

// answered reports whether the list looks complete.
func (l *PodsAPI) answered() bool { return l.Pods != nil && l.Silent == "" && l.Doubt == "" }

// complete reports whether the kubelet's list at its socket is known to be complete by its gauge.
func (l *KubeletList) complete() bool {
	return l.Own.answered() && l.Metrics == "" && l.Gauges.Working != nil
}

// Weigh reports whether the list is whole.
//
// The kubelet's pod manager holds what its sources have delivered: manifests, a URL, and the
// API server's pods. The last of them deliver nothing until the kubelet reaches the API
// server, and then everything at once: the reflector hands over complete states only
// (cache.UndeltaStore; a streamed list is gathered beforehand), PodConfig merges each as one
// SET. So one pod whose source is "api" shows that a whole list of them has come. (Mirror pods
// come from the API server too, but /pods does not list them.) The sources of static pods are
// read by ourselves: see Released.
// Read in 1.21, 1.30 and 1.36: pkg/kubelet/config, pkg/kubelet/pod, kubelet_pods.go GetPods.
//
// That all of them are in the manager yet, /metrics shows. HandlePodAdditions puts one pod into
// the manager and admits it before it puts in the next, and to admit one may take for ever: a
// device plugin that is asked for its devices has no time limit (endpointImpl.allocate,
// kubernetes#129249). The pods behind it live, and after a reboot their directories may be all
// that there is of them. Only when the whole batch was taken in does the loop call a source
// ready, and only when all are does HandlePodCleanups run, which sets every series of
// kubelet_working_pods. Before the first time there is none.
//
// A kubelet before 1.27 has no such gauge, nor has one that was told to leave it out
// (--disabled-metrics, --show-hidden-metrics-for-version). That it is not there says as little as
// that /metrics does not answer: such a list keeps what it has and releases no pod. What such a
// kubelet names in its log goes as ever.
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

// APIList is what the API server says of the pods that are bound to this node.
type APIList struct {
	PodList
	Node string // the name that was asked for, for people
	// Own are the pods by their own UIDs, which no sandbox of a mirror pod has.
	Own map[parsers.PodUID]bool
}

// Weigh reports whether the list is whole and this node's: an empty list, another node's and
// another cluster's look alike. It must have a pod that lives here, with a sandbox in the
// runtime and a cgroup in this kernel (the image of a disk that was copied has old sandboxes).
// A name that is not this node's has other pods or none, and so has another cluster's node of
// the same name.
//
// Mirror pods prove nothing: up to 1.20 the same manifest gives the same static UID on every
// node, and with a node of the same name in another cluster it still does.
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

// PodLists is all that says which pods are wanted on this node.
type PodLists struct {
	Kubelet KubeletList
	API     APIList
	// Manifests says where the manifests of static pods are; ManifestDoubt why there may be
	// more of them than were read, "" where there are not.
	Manifests, ManifestDoubt string
}

// Released reports whether a list that is known to be whole came without the pod, from the
// kubelet or from the API server, and the manifests could be read.
//
// The manifests, because neither list shows that the kubelet's sources of static pods have
// delivered: a static pod whose manifest can be read is kept by the fact static_pod, and
// while one cannot, any UID may be one that it states. The API server's word alone lets no
// static pod go: its mirror may be made later, or refused by an admission plugin.
func (l *PodLists) Released(uid parsers.PodUID) policy.Fact {
	k, a := &l.Kubelet, &l.API
	switch {
	case k.Own.Pods[uid]:
		return policy.Fact{Truth: policy.No, Origin: k.Own.Origin, Detail: "the kubelet's pod list has it"}
	case k.Pods[uid]:
		return policy.Fact{Truth: policy.No, Origin: k.Origin, Detail: "the kubelet's pod list has it"}
	case a.Pods[uid]:
		return policy.Fact{Truth: policy.No, Origin: a.Origin, Detail: "the API server's list has it"}
	case l.ManifestDoubt != "":
		return policy.Fact{Origin: l.Manifests, Detail: l.ManifestDoubt}
	case k.Whole:
		return policy.Fact{Truth: policy.Yes, Origin: k.Origin, Detail: "the kubelet's list of " + policy.Count(k.Listed, "pod") + " is complete and does not contain it"}
	case k.complete():
		return k.Own.omits()
	case a.Whole && len(uid) != policy.StaticUIDLen:
		return policy.Fact{Truth: policy.Yes, Origin: a.Origin, Detail: "the list of " + policy.Count(a.Listed, "pod") + " is this node's and complete, and does not contain it"}
	case a.Whole:
		return policy.Fact{Origin: a.Origin, Detail: "the API server does not know every static pod"}
	}
	doubts := []error{errors.New(k.Doubt), errors.New(a.Doubt)}
	if k.Own.Doubt != "" {
		doubts = append(doubts, fmt.Errorf("%s: %s", k.Own.Origin, k.Own.Doubt))
	}
	return policy.Fact{Detail: policy.OneLine(doubts...).Error()}
}

// omits is the fact of a pod that the list has not.
func (l *PodsAPI) omits() policy.Fact {
	detail := "the kubelet's list of " + policy.Count(l.Listed, "pod") + " is complete and does not contain it"
	return policy.Fact{Truth: policy.Yes, Origin: l.Origin, Detail: detail}
}

// KubeletOmits reports whether it is the kubelet's list on which Released rests.
func (l *PodLists) KubeletOmits(uid parsers.PodUID) bool {
	return (l.Kubelet.Whole || l.Kubelet.complete()) && l.Released(uid).Truth == policy.Yes
}

// Unlisted is Yes where the kubelet's list at its socket omits the pod, and is complete if the kubelet has
// taken in all of its pods: see Evidence.Unlisted.
func (l *PodLists) Unlisted(uid parsers.PodUID) policy.Fact {
	if k := &l.Kubelet; k.Own.answered() && l.ManifestDoubt == "" && !k.Own.Pods[uid] && !k.Pods[uid] && !l.API.Pods[uid] {
		return k.Own.omits()
	}
	return policy.Fact{}
}

// Unwanted returns who answered with the list of the pods that are wanted here, without this
// one; "" where nobody did, or one has it.
//
// A kubelet whose sources are not ready yet lists its static pods only, and so looks as if it
// wanted none of the others. So its list counts where it has a pod of the API server's (see
// Weigh), or where the kubelet reports that it is terminating pods that nobody wants: it does
// so only once all its sources are ready.
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
