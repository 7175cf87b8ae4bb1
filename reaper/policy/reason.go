package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
)

// Reason is why a pod is kept or waits, of a closed list: log text, metric label and JSON value alike.
type Reason string

// The closed list. Each is explained in docs/reasons.md.
const (
	ReasonNotADirectory  Reason = "not-a-directory"
	ReasonOwnMount       Reason = "own-mount"
	ReasonYoung          Reason = "young"
	ReasonMounted        Reason = "mounted"
	ReasonMountsUnknown  Reason = "mounts-unknown"
	ReasonSandbox        Reason = "sandbox"
	ReasonContainer      Reason = "container"
	ReasonRuntimeUnknown Reason = "runtime-unknown"
	ReasonRuntimeEmpty   Reason = "runtime-empty"
	ReasonCgroup         Reason = "cgroup"
	ReasonCgroupUnknown  Reason = "cgroup-unknown"
	// ReasonNotRunning: there is a cgroup of the pod, nothing runs in it, and no list has the pod.
	ReasonNotRunning     Reason = "not-running"
	ReasonKubeletUnknown Reason = "kubelet-unknown"
	// ReasonNotReported: the running kubelet has not reported the pod as an orphan in the last 30 s.
	ReasonNotReported     Reason = "not-reported"
	ReasonKubeletStarting Reason = "kubelet-starting"
	ReasonKubeletHolds    Reason = "kubelet-holds"
	ReasonKubeletLists    Reason = "kubelet-lists"
	ReasonAPILists        Reason = "api-lists"
	ReasonAPIUnknown      Reason = "api-unknown"
	ReasonStaticPod       Reason = "static-pod"
	ReasonStaged          Reason = "staged"
	ReasonInUse           Reason = "in-use"
	ReasonRestored        Reason = "restored"
	ReasonHold            Reason = "hold"
	ReasonContentUnknown  Reason = "content-unknown"
	ReasonInvalidUID      Reason = "invalid-uid"
	// ReasonNamespaces: this process does not see the node's own mounts and processes.
	ReasonNamespaces Reason = "namespaces"
	// ReasonContradiction: a setting of ours contradicts the kubelet that runs.
	ReasonContradiction Reason = "contradiction"
	// ReasonUntied: a CNI file's name and content do not tie it to exactly one container.
	ReasonUntied Reason = "untied"
	// ReasonNetns: the network namespace of a CNI file's container may still be there.
	ReasonNetns Reason = "netns"
	// ReasonForeign: a CNI file of a network that no configuration names, or of another engine.
	ReasonForeign Reason = "foreign"
	// ReasonRemade: the pod directory was made again while it was parked: the pod lives.
	ReasonRemade Reason = "remade"
	// ReasonConfirm: a parked pod waits for a sign of life.
	ReasonConfirm    Reason = "confirm"
	ReasonCannotMove Reason = "cannot-move"
	ReasonLimit      Reason = "limit"
	ReasonBreaker    Reason = "breaker"
	ReasonObserve    Reason = "observe"
	ReasonWaived     Reason = "waived"
	// ReasonTerminating: the kubelet seems stuck terminating the pod.
	ReasonTerminating Reason = "terminating"
	// ReasonRemoval: the removal itself was refused by the kernel or the file system.
	ReasonRemoval Reason = "removal"
)

// Reasons lists the whole closed list, for metrics that must exist before they count.
func Reasons() []Reason {
	return []Reason{
		ReasonNotADirectory, ReasonOwnMount, ReasonYoung, ReasonMounted, ReasonMountsUnknown,
		ReasonSandbox, ReasonContainer, ReasonRuntimeUnknown, ReasonRuntimeEmpty, ReasonCgroup,
		ReasonCgroupUnknown, ReasonNotRunning, ReasonKubeletUnknown, ReasonNotReported, ReasonKubeletStarting, ReasonKubeletHolds,

		ReasonKubeletLists, ReasonAPILists, ReasonAPIUnknown, ReasonStaticPod, ReasonStaged, ReasonInUse, ReasonRestored, ReasonHold,
		ReasonContentUnknown, ReasonInvalidUID, ReasonNamespaces, ReasonContradiction, ReasonUntied, ReasonNetns, ReasonForeign,
		ReasonRemade, ReasonConfirm, ReasonCannotMove, ReasonLimit,
		ReasonBreaker, ReasonObserve, ReasonWaived, ReasonTerminating, ReasonRemoval,
	}
}

// Why is one reason with the detail of its fact.
type Why struct {
	Reason Reason `json:"reason"`
	Detail string `json:"detail,omitempty"`
}

// WhyWords returns what keeps a pod as one line.
func WhyWords(why []Why) string {
	words := make([]string, 0, len(why))
	for _, w := range why {
		if w.Reason == ReasonWaived { // it states how the pod was judged
			continue
		}
		words = append(words, strings.TrimSuffix(fmt.Sprintf("%s: %s", w.Reason, w.Detail), ": "))
	}
	return strings.Join(slices.Compact(words), "; ")
}

// Outlook is whether an operator should inspect a pod that is kept for a reason.
type Outlook uint8

// The outlooks. The zero value, also of an unknown reason, asks for an operator.
const (
	OutlookPerson Outlook = iota // an operator should inspect it
	OutlookAlive                 // the pod lives
	OutlookQuiet                 // it is kept as an operator asked, or until the kubelet reports it
	OutlookStuck                 // something of it is left and should not be: an operator should inspect it
)

var outlooks = map[Reason]Outlook{
	ReasonSandbox: OutlookAlive, ReasonContainer: OutlookAlive, ReasonCgroup: OutlookAlive,
	ReasonKubeletLists: OutlookAlive, ReasonAPILists: OutlookAlive,
	ReasonNotReported: OutlookQuiet, ReasonRestored: OutlookQuiet, ReasonForeign: OutlookQuiet, ReasonObserve: OutlookQuiet, ReasonWaived: OutlookQuiet,
	ReasonTerminating: OutlookStuck, ReasonNotRunning: OutlookStuck,
}

// Outlook returns what a pod that is kept for this reason asks of an operator.
func (r Reason) Outlook() Outlook { return outlooks[r] }

// Passing reports whether the reason ends by itself, once a time has passed.
func (r Reason) Passing() bool {
	return r == ReasonYoung || r == ReasonHold || r == ReasonKubeletStarting
}

// life returns the outlook of all reasons together. A pod that should be gone is stuck, whatever else shows; else one sign of
// life is enough.
func life(why []Why) Outlook {
	all, quiet := [OutlookStuck + 1]bool{}, has(why, ReasonRestored) || has(why, ReasonNotReported)
	for _, w := range why {
		o := outlooks[w.Reason]
		all[o] = all[o] || !quiet || !w.Reason.Passing() // it may have changed just now
	}
	for _, o := range [...]Outlook{OutlookStuck, OutlookAlive, OutlookPerson} {
		if all[o] {
			return o
		}
	}
	return OutlookQuiet
}

// Living reports whether the pod plainly lives, so that no record is needed: runtime or cgroups have it, or the kubelet or
// the API server lists it. A pod that waits does not: its kubelet removes its stopped sandboxes.
func (v *Verdict) Living() bool { return v.Decision != Wait && life(v.Why) == OutlookAlive }

// OutlookOf returns what a verdict asks of an operator.
func OutlookOf(d Decision, why []Why) Outlook {
	if d != Keep {
		return OutlookQuiet
	}
	switch o := life(why); o {
	case OutlookStuck:
		return OutlookPerson
	case OutlookPerson, OutlookAlive, OutlookQuiet:
		return o
	}
	return OutlookPerson
}

// CountedAs returns as what a verdict counts in sums: a pod that only mode observe keeps counts as reap.
func CountedAs(d Decision, why []Why) Decision {
	if d == Keep && OnlyFor(why, ReasonObserve) {
		return Reap
	}
	return d
}

// OnlyFor reports whether only the reason keeps a pod. ReasonWaived keeps none.
func OnlyFor(why []Why, reason Reason) bool {
	one := false
	for _, w := range why {
		if w.Reason != reason && w.Reason != ReasonWaived {
			return false
		}
		one = one || w.Reason == reason
	}
	return one
}

// NeedsPerson reports whether what is left stays until an operator acts: data, or what should have been removed and was not
// read to its end. What is ephemeral is purged by itself.
func (r Residue) NeedsPerson() bool {
	return r.Class == contents.ClassData || r.Partial && r.Class != contents.ClassEphemeral
}
