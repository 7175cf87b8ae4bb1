package ui

import (
	"regexp"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// ReasonText is the meaning of a reason and an operator's action. A command in Todo is between backticks,
// unless it is one of this program, which the printer recognizes. No punctuation follows such a command: the printer
// appends flags, and a reader copies the line.
type ReasonText struct {
	Reason policy.Reason
	Means  string // doctor shows only the first sentences of Means and Todo
	Todo   string
	Beyond string // in place of Todo, if the unmount command does not reach the mount
	// Look are commands that inspect the reason's cause and change nothing. Then are commands that remove it, for a pod
	// that is gone. Place.fill replaces the names in braces.
	Look, Then []string
	First      string // the command that doctor prints; "" is explain's
}

// Reasons is the one table of reasons. docs/reasons.md is generated from it, in its order.
var Reasons = []ReasonText{
	{
		Reason: policy.ReasonSandbox,
		Means:  "The container runtime has a ready sandbox of this pod.",
		Todo:   "Nothing, while the pod runs. If the pod should be gone, `crictl stopp` and `crictl rmp` remove the sandbox.",
		Look:   []string{"{crictl} pods --label io.kubernetes.pod.uid={uid}"},
	},
	{
		Reason: policy.ReasonContainer,
		Means:  "The container runtime has a container of this pod that has not exited.",
		Todo:   "Nothing, while the pod runs. If the pod should be gone, `crictl rm` removes the container.",
		Look:   []string{"{crictl} ps --all --label io.kubernetes.pod.uid={uid}"},
	},
	{
		Reason: policy.ReasonTerminating,
		Means: "The kubelet seems to be stuck while it terminates this pod. The runtime has the pod, and nothing has wanted it for " +
			"at least 10 minutes. kubernetes#113145 is one of several causes.",
		Todo: "Search the kubelet's log for this UID: it shows what fails. A restart of the kubelet ends it.",
		Look: []string{"journalctl _COMM=kubelet --since=-1h --grep {uid}"},
	},
	{
		Reason: policy.ReasonCgroup,
		Means: "A cgroup of this pod is still there. The kubelet makes it before the directory and removes it itself. So the pod " +
			"runs, starts, or is being torn down.",
		Todo: "Nothing, while the pod runs. If the pod has been gone for hours, list the processes in the cgroup that the fact names.",
		Look: []string{"find /sys/fs/cgroup -name cgroup.procs '(' -path '*{uid}*' -o -path '*{uid_}*' ')' -exec grep . {} +"},
	},
	{
		Reason: policy.ReasonMounted,
		Means:  "Something is mounted below the pod directory. It may be in any mount namespace of this node. A removal would reach into the volume.",
		Todo:   "See what is mounted. The unmount command proves that the pod is dead and unmounts it. Never remove anything below a mount by hand.",
		Beyond: MountedBeyond,
		Look:   []string{"grep {uid} /proc/[0-9]*/mountinfo"},
		Then:   []string{"{unmount}"},
	},
	{
		Reason: policy.ReasonOwnMount,
		Means:  "The pod directory itself is a mount point.",
		Todo:   "See what is mounted. The kubelet makes no such mount, so something else did.",
		Look:   []string{"findmnt {dir}"},
	},
	{
		Reason: policy.ReasonMountsUnknown,
		Means:  "The mounts of some process could not be read. So something may be mounted here.",
		Todo:   "Run orphan-reaper as root, in the host's PID namespace. The fact names the process and the error.",
	},
	{
		Reason: policy.ReasonStaged,
		Means:  "A volume of this pod is still staged or mapped here, or it is not known whether one is.",
		Todo:   "See that the CSI driver's node pod runs on this node. The fact names the path. If nothing uses the volume any more, umount that path.",
		Look:   []string{"kubectl get csinode {node} -o jsonpath='{.spec.drivers[*].name}' | grep -F {driver}"},
	},
	{
		Reason: policy.ReasonInUse,
		Means:  "A process or a loop device uses a file of the pod, or it could not be found out whether anything does.",
		Todo: "See what uses a file of it, or why that is not known. If the fact names a process or a loop device, do nothing: the reason " +
			"ends with it. If the fact names what could not be read, run orphan-reaper as root.",
		Look: []string{"find /proc/[0-9]*/fd /proc/[0-9]*/cwd -lname '*{uid}*' 2>/dev/null"},
	},
	{
		Reason: policy.ReasonKubeletHolds,
		Means:  "The kubelet's volume manager still works on a volume of this pod and fails to tear it down.",
		Todo: "Search the kubelet's log for TearDown failed: it has the volume and the cause. If the pod waits, do nothing: once everything else " +
			"shows that it is dead, the content of the directory that the kubelet cannot remove is moved to quarantine. The kubelet then " +
			"finishes by itself within some minutes. If the pod is kept, the other reasons name the obstacles.",
		Look: []string{"journalctl _COMM=kubelet --since=-1h --grep {uid}"},
	},
	{
		Reason: policy.ReasonKubeletLists,
		Means:  "The kubelet's own list has this pod. It lists the pods that the kubelet wants or runs.",
		Todo: "Nothing, while the pod is wanted. If it should be gone, delete it at the API server. Of a static pod, move the " +
			"manifest away.",
		Look: []string{"kubectl --namespace {namespace} get pod {name} -o wide"},
	},
	{
		Reason: policy.ReasonAPILists,
		Means:  "At the API server, a pod of this UID is bound to this node, or the mirror of a static pod of this UID is.",
		Todo:   "Nothing, while the pod is wanted. If it should be gone, delete it at the API server.",
		Look:   []string{"kubectl --namespace {namespace} get pod {name} -o wide"},
	},
	{
		Reason: policy.ReasonAPIUnknown,
		Means:  "You named an API server (--kubeconfig). It could not be asked, or its answer is not about this node.",
		Todo:   "Correct the error that the fact names. To do without the API server, set --api-unreachable ignore.",
	},
	{
		Reason: policy.ReasonStaticPod,
		Means: "This UID belongs, or may belong, to a manifest in the kubelet's staticPodPath, or a manifest there could not be read. A static pod " +
			"comes back with the same UID and the same directory.",
		Todo: "Nothing, if you want the pod. If you do not, move its manifest out of the staticPodPath. Also move away any file " +
			"there that is no manifest. If the pod's name is not known, check that each manifest's pod runs: the runtime then " +
			"shows their UIDs.",
	},
	{
		Reason: policy.ReasonNotRunning,
		Means: "A cgroup of this pod is there, no process is in it, and nothing lists the pod. The pod waits for a volume, or it is dead and the " +
			"kubelet cannot finish.",
		Todo: "If you want the pod, find out why it does not start. If it is gone and has the reason mounted, too, unmount its " +
			"volumes: the kubelet then finishes by itself. Otherwise search the kubelet's log for this UID.",
		Look: []string{"grep {uid} /proc/[0-9]*/mountinfo"},
		Then: []string{"{unmount}"},
	},
	{
		Reason: policy.ReasonKubeletUnknown,
		Means:  "It is not known that a kubelet runs, or which.",
		Todo:   "Check that a kubelet runs. The fact names what could not be read.",
		Look:   []string{"systemctl status kubelet"},
	},
	{
		Reason: policy.ReasonNotReported,
		Means: "The kubelet that runs now has not reported this pod as an orphan in the last 30 seconds. Only its report releases a pod. It " +
			"reports one orphan at a time, and none of the pods that it knows or that have a mount.",
		Todo: "Nothing, if the kubelet still knows the pod, or reports another one first. If the kubelet reports this one, check that its log " +
			"arrives: JSON lines in a file do not count. orphan-reaper parse shows what it reads in the log.",
		Look: []string{"journalctl _COMM=kubelet --since=-1m --grep {uid}"},
	},
	{
		Reason: policy.ReasonKubeletStarting,
		Means:  "The kubelet has restarted since the pod was moved to quarantine, so the pod is put back.",
		Todo:   "Nothing: it ends by itself.",
	},
	{
		Reason: policy.ReasonRuntimeUnknown,
		Means:  "The container runtime could not be asked, or it answered too late.",
		Todo:   "Check that the container runtime runs. If its socket is at an unusual place, name the socket with --runtime-endpoint.",
		Look:   []string{"{crictl} info"},
		First:  "crictl info",
	},
	{
		Reason: policy.ReasonRuntimeEmpty,
		Means:  "The container runtime lists no sandbox at all. It is new, or the kubelet uses another socket.",
		Todo: "Compare --runtime-endpoint with the kubelet's containerRuntimeEndpoint. On a node without any pod, the reason stays until the " +
			"first pod runs.",
		First: "crictl pods",
	},
	{
		Reason: policy.ReasonCgroupUnknown,
		Means: "The pods' cgroups could not be read, or there is no kubepods hierarchy, or no running pod has its cgroup there. With " +
			"cgroupsPerQOS: false no pod has a cgroup, and a starting pod looks like a dead one.",
		Todo: "If --cgroup-root is set, remove it or correct it. With cgroupsPerQOS: false nothing can be removed on this node.",
	},
	{
		Reason: policy.ReasonNotADirectory,
		Means:  "The entry is not a directory, or it is a symbolic link. The kubelet makes neither.",
		Todo:   "Find out what it is and who made it. orphan-reaper never touches it.",
	},
	{
		Reason: policy.ReasonInvalidUID,
		Means:  "The name is not a pod UID. orphan-reaper touches only names that a kubelet gives.",
		Todo: "Find out what it is and who made it. Then move it out of the pods directory: the kubelet treats every name there as a pod. " +
			"orphan-reaper never touches it.",
		Look: []string{"ls -ld {entry}"},
	},
	{
		Reason: policy.ReasonContentUnknown,
		Means: "Part of the directories that the kubelet makes could not be read, or something in a volume could not be read at all. The amount of " +
			"data does not matter.",
		Todo: "The fact names the path and the error: a bad disk, a dead network mount, a missing right, or more entries than a kubelet makes.",
	},
	{
		Reason: policy.ReasonYoung,
		Means:  "The directory was made or changed less than the time of --hold ago, or its age is not known.",
		Todo:   "Nothing: it ends by itself. A time in the future counts as young. If you see one, check the node's clock.",
	},
	{
		Reason: policy.ReasonHold,
		Means:  "Everything shows that the pod is dead, but not yet for the time of --hold.",
		Todo: "Nothing, where a daemon runs: it ends by itself. Without a daemon, orphan-reaper sweep waits until the hold is over. A scan " +
			"does not wait.",
	},
	{
		Reason: policy.ReasonConfirm,
		Means: "The pod directory was moved to quarantine. It stays there unchanged for the time of --confirm, in case the pod shows a sign of " +
			"life.",
		Todo: "Nothing: it ends by itself.",
	},
	{
		Reason: policy.ReasonRemade,
		Means:  "The pod directory was made again, so the pod lives. If the pod uses the new directory, the old one stays in quarantine.",
		Todo: "Merge the two directories. orphan-reaper explain UID shows how. If enforcing has stopped, find out why. Then " +
			"orphan-reaper quarantine resume starts it again.",
		Look: []string{"orphan-reaper quarantine list"},
	},
	{
		Reason: policy.ReasonRestored,
		Means:  "An operator put this pod back from quarantine. The pod is kept until quarantine forget.",
		Todo: "If you need the pod, do nothing; the kubelet may keep complaining about it. Otherwise " +
			"orphan-reaper quarantine forget UID has it judged again.",
		Then: []string{"orphan-reaper quarantine forget {uid}"},
	},
	{
		Reason: policy.ReasonCannotMove,
		Means:  "The pod directory cannot be moved to quarantine: the kernel refused that when it was last tried, or the detail shows why it would.",
		Todo: "Find the cause of the error in the detail; the next run tries again. If the two directories are on different mounts, set " +
			"--quarantine-dir to one on the same mount as the pods directory. Out of a pods directory that is itself a mount point nothing " +
			"can be moved: mount its parent instead.",
		Look: []string{"findmnt -T {pods}", "findmnt -T {quarantine}"},
	},
	{
		Reason: policy.ReasonRemoval,
		Means:  "The kernel or the file system refused the removal.",
		Todo:   "Find the cause of the error in the detail. The usual causes are immutable files (lsattr) and read-only file systems. dmesg may have more.",
		Look:   []string{"lsattr -R {dir} | grep -e '-[ia]-'"},
	},
	{
		Reason: policy.ReasonLimit,
		Means:  "The pod's turn comes later: --max-per-look is reached.",
		Todo:   "Nothing: it ends by itself.",
	},
	{
		Reason: policy.ReasonBreaker,
		Means:  "Enforcing has stopped, because a quarantined pod turned out to be alive.",
		Todo: "Find out why the pod is alive before you resume: the daemon then removes pods again, this one too. First " +
			"orphan-reaper quarantine list and orphan-reaper explain UID show it. Then orphan-reaper quarantine resume starts it again.",
		Look:  []string{"orphan-reaper quarantine list"},
		First: "orphan-reaper quarantine list",
	},
	{
		Reason: policy.ReasonNamespaces,
		Means:  "This process does not see the node's own mounts and processes. So it cannot find out what is mounted.",
		Todo: "Run orphan-reaper on the host, in a unit without PrivateTmp, ProtectSystem and similar settings. A container needs hostPID and " +
			"HostToContainer. The detail has the cause.",
	},
	{
		Reason: policy.ReasonContradiction,
		Means: "A setting of orphan-reaper does not match the kubelet that runs here, or that could not be checked. Or several kubelets run, and " +
			"you have named none. Or the kubelet was restarted with another root directory.",
		Todo: "Correct the setting that the detail names, or remove it, so that the kubelet's own is used. If " +
			"several kubelets run, name yours by its --root-dir. If the root directory has changed, restart orphan-reaper.",
		First: "orphan-reaper config check",
	},
	{
		Reason: policy.ReasonUntied,
		Means:  "The name and the content of a CNI file do not agree on one container, or they name none. So it is not known whose file it is.",
		Todo:   "Inspect the file. If its pod is gone, you can remove the file by hand while the kubelet and the runtime are stopped.",
	},
	{
		Reason: policy.ReasonNetns,
		Means: "The network namespace of the CNI file's container is still there, or it is not known whether it is. An address that the namespace " +
			"holds must not be given to another pod.",
		Todo: "`ip netns list` shows the namespace. If no process is in it (`ip netns pids NAME`), `ip netns delete NAME` removes it. A reboot " +
			"removes it, too.",
	},
	{
		Reason: policy.ReasonForeign,
		Means:  "No configuration on this node has the CNI file's network, or its container may belong to another engine (Podman, nerdctl, Docker).",
		Todo:   "Nothing, if you use that engine. If you do not, remove the file by hand.",
	},
	{
		Reason: policy.ReasonObserve,
		Means:  "Everything shows that the pod is dead, and mode observe changes nothing.",
		Todo:   "Check what would be removed. To remove it, set --mode enforce.",
		First:  "orphan-reaper sweep --dry-run",
	},
	{
		Reason: policy.ReasonWaived,
		Means:  "You left out the facts that only a kubelet or a runtime can give (--runtime-endpoint none).",
		Todo:   "Nothing. On a node with a kubelet, leave that flag out.",
	},
}

// MountedBeyond describes how to end a mount that the unmount command does not reach.
const MountedBeyond = "Unmount does not reach this mount. One in the mount namespace of a container or another process ends with that process. " +
	"One in the node's own ends by umount of its path, once nothing uses it. Never remove anything below a mount by hand."

// Halted is the headline for an open breaker.
const Halted = "STOPPED: a quarantined pod turned out to be alive. First orphan-reaper quarantine list and orphan-reaper explain UID show it. " +
	"Then orphan-reaper quarantine resume has the daemon remove pods again, this one too."

// of returns a reason's row of the table. If the table lacks the reason, the row has only its name.
func of(r policy.Reason) ReasonText {
	for _, a := range Reasons {
		if a.Reason == r {
			return a
		}
	}
	return ReasonText{Reason: r, Means: string(r), Todo: "See docs/reasons.md."}
}

// Advice is a row of the table for one pod, as explain shows it.
type Advice struct {
	Reason policy.Reason `json:"reason"`
	Means  string        `json:"means"`
	Advice string        `json:"advice"`
}

var ownUID = regexp.MustCompile(`(\borphan-reaper (?:explain|quarantine forget) )UID\b`)

// AdviceOf returns the meaning of a reason and the action for one pod, with the pod's UID in the commands of this program.
func AdviceOf(r policy.Reason, e *policy.Evidence) Advice {
	a := of(r)
	todo := strings.ReplaceAll(a.Todo, "`", "")
	if a.Beyond != "" && e.Unmount == "" {
		todo = a.Beyond
	}
	if f := e.Facts[policy.FactStaged]; r == policy.ReasonStaged && f.Truth == policy.Unknown && f.Detail != "" {
		todo = "Repair what could not be read. The fact names it, and the error."
	}
	if e.UID != "" {
		todo = ownUID.ReplaceAllString(todo, "${1}"+string(e.UID))
	}
	return Advice{r, a.Means, todo}
}

// Brief is the short form of a row of the table.
type Brief struct{ Means, Do, Command string }

// BriefOf returns the meaning of a reason and the action, in a sentence each, and the command that shows more;
// "" stands for explain.
func BriefOf(r policy.Reason) Brief {
	a := of(r)
	sentence := func(text string) string {
		first, _, more := strings.Cut(strings.ReplaceAll(text, "`", ""), ". ")
		if more {
			first += "."
		}
		return first
	}
	return Brief{sentence(a.Means), sentence(a.Todo), a.First}
}
