package policy

// Reason is a word of the closed list that says why a pod is kept or waits: log text,
// metric label and JSON value alike.
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
	ReasonNotRunning      Reason = "not-running"
	ReasonKubeletUnknown  Reason = "kubelet-unknown"
	ReasonKubeletStarting Reason = "kubelet-starting"
	ReasonKubeletHolds    Reason = "kubelet-holds"
	ReasonKubeletFile     Reason = "kubelet-file"
	// ReasonPodLogs: the kubelet keeps the pod's log directory, so it still knows the pod.
	ReasonPodLogs Reason = "pod-logs"
	// ReasonPodResources: the kubelet's pod-resources socket lists a pod of this name.
	ReasonPodResources   Reason = "pod-resources"
	ReasonKubeletLists   Reason = "kubelet-lists"
	ReasonAPILists       Reason = "api-lists"
	ReasonAPIUnknown     Reason = "api-unknown"
	ReasonStaticPod      Reason = "static-pod"
	ReasonStaged         Reason = "staged"
	ReasonInUse          Reason = "in-use"
	ReasonRestored       Reason = "restored"
	ReasonHold           Reason = "hold"
	ReasonContentUnknown Reason = "content-unknown"
	ReasonInvalidUID     Reason = "invalid-uid"
	// ReasonNamespaces: this process does not see the node's own mounts and processes.
	ReasonNamespaces Reason = "namespaces"
	// ReasonContradiction: a flag of ours says otherwise than the kubelet that runs.
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
	// ReasonSandboxOrphaned: the runtime keeps a stopped sandbox of a pod that nobody else knows.
	ReasonSandboxOrphaned Reason = "sandbox-orphaned"
	// ReasonTerminating: the kubelet seems to terminate the pod for ever.
	ReasonTerminating Reason = "terminating"
	// ReasonRemoval: the removal itself was refused by the kernel or the file system.
	ReasonRemoval Reason = "removal"
)

// Reasons lists the whole closed list, for metrics that must exist before they count.
func Reasons() []Reason {
	return []Reason{
		ReasonNotADirectory, ReasonOwnMount, ReasonYoung, ReasonMounted, ReasonMountsUnknown,
		ReasonSandbox, ReasonContainer, ReasonRuntimeUnknown, ReasonRuntimeEmpty, ReasonCgroup,
		ReasonCgroupUnknown, ReasonNotRunning, ReasonKubeletUnknown, ReasonKubeletStarting, ReasonKubeletHolds,
		ReasonKubeletFile, ReasonPodLogs, ReasonPodResources,
		ReasonKubeletLists, ReasonAPILists, ReasonAPIUnknown, ReasonStaticPod, ReasonStaged, ReasonInUse, ReasonRestored, ReasonHold,
		ReasonContentUnknown, ReasonInvalidUID, ReasonNamespaces, ReasonContradiction, ReasonUntied, ReasonNetns, ReasonForeign,
		ReasonRemade, ReasonConfirm, ReasonCannotMove, ReasonLimit,
		ReasonBreaker, ReasonObserve, ReasonWaived, ReasonSandboxOrphaned, ReasonTerminating, ReasonRemoval,
	}
}

// Why is one reason with the words of the fact behind it.
type Why struct {
	Reason Reason `json:"reason"`
	Detail string `json:"detail,omitempty"`
}
