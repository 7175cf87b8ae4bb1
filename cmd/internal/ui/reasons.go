package ui

import (
	"regexp"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// ReasonText is what a reason means and what a person can do about it. The table is the
// source of docs/reasons.md. A command stands between backticks, but one of this program, which the
// printer knows. Where Commands fills one in, the text has none.
type ReasonText struct {
	Reason policy.Reason
	Means  string
	Todo   string
}

// Reasons explains every reason, in the order in which docs/reasons.md has them.
var Reasons = []ReasonText{
	{
		policy.ReasonSandbox,
		"The container runtime still lists a sandbox of this pod. If the sandbox has stopped and nothing else shows the pod, the pod has ended.",
		"Nothing, while the pod runs. If the pod should be gone, `crictl stopp` and `crictl rmp` remove the sandbox, and the reason " +
			"ends.",
	},
	{
		policy.ReasonContainer,
		"The container runtime still lists a container of this pod.",
		"Nothing, while the pod runs. If the pod should be gone, `crictl rm` removes the container.",
	},
	{
		policy.ReasonSandboxOrphaned,
		"The container runtime keeps a stopped sandbox of a pod that no other source shows any more. The kubelet should have had the " +
			"sandbox removed. The sandbox keeps the pod's directory, and most likely an IP address.",
		"Find out why it stays: the logs of the runtime and the kubelet show why StopPodSandbox failed. The usual cause is the CNI plugin. " +
			"`crictl stopp` and `crictl rmp` have the runtime remove it, which runs CNI DEL.",
	},
	{
		policy.ReasonTerminating,
		"The kubelet seems to be stuck while it terminates this pod. The runtime has the pod, nothing has wanted the pod for at least 10 minutes, " +
			"and the kubelet does not finish. kubernetes#113145 is one of several causes.",
		"Search the kubelet's log for this UID: it shows what fails. Restart the kubelet to end it. orphan-reaper does not touch the pod.",
	},
	{
		policy.ReasonCgroup,
		"A cgroup of this pod is still there. The kubelet makes the cgroup before the directory and removes it itself. So the pod runs, " +
			"starts, or is being torn down.",
		"Nothing, while the pod runs. If the pod has been gone for hours, list the processes in the cgroup that the fact names.",
	},
	{
		policy.ReasonMounted,
		"Something is mounted below the pod directory, in some mount namespace of this node. A removal would reach into the volume.",
		"See what is mounted. If it is a dead mount of a volume, umount it. A mount that a container holds ends with that container. Never " +
			"remove anything below a mount by hand.",
	},
	{
		policy.ReasonOwnMount,
		"The pod directory itself is a mount point.",
		"See what is mounted. The kubelet makes no such mount, so something else did.",
	},
	{
		policy.ReasonMountsUnknown,
		"The mounts of some process could not be read. So something may be mounted here.",
		"The fact names the process and the error. Run orphan-reaper as root, in the host's PID namespace.",
	},
	{
		policy.ReasonStaged,
		"A volume of this pod is still staged or mapped here, or it is not known whether one is.",
		"The fact names the path. Check that the CSI driver's node pod runs on this node. If nothing uses the volume any more, umount that path.",
	},
	{
		policy.ReasonInUse,
		"A process has a file of the pod open or mapped, or works in the pod's directory. Or a loop device uses a file of the pod. Or it " +
			"could not be found out whether anything does.",
		"If the fact names what uses a file: nothing; the reason ends when that process or loop device does. For a loop device, the fact has the " +
			"command. If the fact names what could not be read: run orphan-reaper as root. The next look asks again.",
	},
	{
		policy.ReasonKubeletHolds,
		"The kubelet's volume manager still works on a volume of this pod and fails to tear it down.",
		"If the pod waits: nothing. The kubelet cannot remove a directory, because it is not empty. Once everything else shows that the pod " +
			"is dead, the content of that directory is moved to quarantine. The kubelet then finishes by itself within some minutes. If the pod " +
			"is kept: the kubelet's log names the volume and the cause (UnmountVolume.TearDown failed). The other reasons name the other " +
			"obstacles.",
	},
	{
		policy.ReasonKubeletFile,
		"A state file of the kubelet names this pod, or such a file could not be read.",
		"If a file could not be read, repair it. If a file names the pod and the pod only waits: nothing. The file no longer counts once " +
			"the running kubelet has reported the pod as an orphan.",
	},
	{
		policy.ReasonPodLogs,
		"The kubelet keeps the log directory of this pod. It removes that directory within a minute after it has released the pod.",
		"Nothing, while the pod is wanted. If it is not, the kubelet's log has the cause: Failed to remove pod logs " +
			"directory.",
	},
	{
		policy.ReasonPodResources,
		"The kubelet's pod-resources socket lists a pod of this name, and no other pod of this name is known.",
		"Nothing, while the pod is wanted. If it should be gone, delete it at the API server. If it is a static pod, move its manifest " +
			"away.",
	},
	{
		policy.ReasonKubeletLists,
		"The kubelet's own list has this pod. It lists the pods that the kubelet wants or runs.",
		"Nothing, while the pod is wanted. If it should be gone, delete it at the API server. If it is a static pod, move its manifest " +
			"away.",
	},
	{
		policy.ReasonAPILists,
		"At the API server, a pod of this UID is bound to this node, or the mirror of a static pod of this UID is.",
		"Nothing, while the pod is wanted. If it should be gone, delete it at the API server.",
	},
	{
		policy.ReasonAPIUnknown,
		"You named an API server (--kubeconfig). It could not be asked, or its answer is not about this node.",
		"The fact has the error. Correct it. To do without the API server, set --api-unreachable ignore.",
	},
	{
		policy.ReasonStaticPod,
		"This UID belongs, or may belong, to a manifest in the kubelet's staticPodPath, or a manifest there could not be read. A static pod " +
			"comes back with the same UID and the same directory.",
		"Nothing, if you want the pod. If you do not, move its manifest out of the staticPodPath. Also move away any file there that is no " +
			"manifest. If the pod's name is not known, check that each manifest's pod runs. The runtime then shows which " +
			"UIDs belong to the manifests.",
	},
	{
		policy.ReasonNotRunning,
		"A cgroup of this pod is there, no process is in it, and nothing lists the pod. The pod waits for a volume, or it is dead and the " +
			"kubelet cannot finish.",
		"If you want the pod, find out why it does not start. If it is gone and has the reason mounted, too, umount what that one names: the " +
			"kubelet then finishes by itself. If it has not, search the kubelet's log for this UID.",
	},
	{
		policy.ReasonKubeletUnknown,
		"Nothing shows that the kubelet has released this pod. The kubelet has not reported the pod as an orphan, and no other source shows that it was released.",
		"Wait, if the kubelet has just started or cannot reach its API server. If not, check that a kubelet runs and that its log arrives. " +
			"orphan-reaper parse shows what it reads in the log.",
	},
	{
		policy.ReasonKubeletStarting,
		"The kubelet has not run for the time of --settle. After a restart, living pods look dead until the kubelet's sources are " +
			"ready.",
		"Nothing: it ends by itself.",
	},
	{
		policy.ReasonRuntimeUnknown,
		"The container runtime could not be asked, or it answered too late.",
		"Check that it runs. If its socket is at an unusual place, name the socket with --runtime-endpoint.",
	},
	{
		policy.ReasonRuntimeEmpty,
		"The container runtime lists no sandbox at all. It is new, or the kubelet uses another socket.",
		"Compare --runtime-endpoint with the kubelet's containerRuntimeEndpoint. On a node without any pod, the reason stays until the " +
			"first pod runs.",
	},
	{
		policy.ReasonCgroupUnknown,
		"The pods' cgroups could not be read, or there is no kubepods hierarchy, or no running pod has its cgroup there. With " +
			"cgroupsPerQOS: false no pod has a cgroup, and a starting pod looks like a dead one.",
		"Leave --cgroup-root out. If you need it, set it to where the cgroup file system is.",
	},
	{
		policy.ReasonNotADirectory,
		"The entry is not a directory, or it is a symbolic link. The kubelet makes neither.",
		"Find out what it is and who made it. orphan-reaper never touches it.",
	},
	{
		policy.ReasonInvalidUID,
		"The name is not a pod UID. orphan-reaper touches only names that a kubelet gives.",
		"orphan-reaper never touches it. Find out what it is and who made it. Then move it out of the pods directory: " +
			"the kubelet treats every name there as a pod.",
	},
	{
		policy.ReasonContentUnknown,
		"Part of the directories that the kubelet makes could not be read, or something in a volume could not be read at all. The amount of " +
			"data does not matter.",
		"The fact names the path and the error: a bad disk, a dead network mount, a missing right, or more entries than a kubelet makes.",
	},
	{
		policy.ReasonYoung,
		"The directory was made or changed less than the time of --hold ago, or its age is not known.",
		"Nothing: it ends by itself. A time in the future counts as young. If you see one, check the node's clock.",
	},
	{
		policy.ReasonHold,
		"Everything shows that the pod is dead, but not yet for the time of --hold.",
		"Nothing, where a daemon runs: it ends by itself. Without a daemon: orphan-reaper sweep, which waits until the hold is over. A scan " +
			"does not wait.",
	},
	{
		policy.ReasonConfirm,
		"The pod directory was moved to quarantine. It stays there unchanged for the time of --confirm, in case the pod shows a sign of " +
			"life.",
		"Nothing: it ends by itself.",
	},
	{
		policy.ReasonRemade,
		"The pod directory was made again, so the pod lives. If the pod uses the new directory, the old one stays in quarantine.",
		"Merge the two: orphan-reaper explain UID shows how. If enforcing has stopped, find out why. Then resume with orphan-reaper " +
			"quarantine resume.",
	},
	{
		policy.ReasonRestored,
		"An operator put this pod back from quarantine. The pod is kept until quarantine forget.",
		"If you need the pod: nothing; the kubelet may keep complaining about it. If you do not need the pod, " +
			"have it judged again: orphan-reaper quarantine forget UID.",
	},
	{
		policy.ReasonCannotMove,
		"The pod directory could not be moved to quarantine. It is on another mount, or something holds it.",
		"Set --quarantine-dir to a directory on the same mount as the pods directory.",
	},
	{
		policy.ReasonRemoval,
		"The kernel or the file system refused the removal.",
		"The detail has the error. The usual causes are immutable files (lsattr) and read-only file systems. dmesg may have more.",
	},
	{
		policy.ReasonLimit,
		"The pod's turn comes later. --max-per-look is reached, or the first pod after a start has to be confirmed before the others are moved.",
		"Nothing: it ends by itself.",
	},
	{
		policy.ReasonBreaker,
		"Enforcing has stopped, because a quarantined pod turned out to be alive.",
		"Inspect first: orphan-reaper quarantine list, then orphan-reaper explain UID. After that, resume with orphan-reaper quarantine " +
			"resume. The daemon then removes pods again, this one too.",
	},
	{
		policy.ReasonNamespaces,
		"This process does not see the node's own mounts and processes. So it cannot find out what is mounted.",
		"Run orphan-reaper on the host, in a unit without PrivateTmp, ProtectSystem and similar settings. A container needs hostPID and " +
			"HostToContainer. The detail has the cause.",
	},
	{
		policy.ReasonContradiction,
		"A setting of orphan-reaper does not match the kubelet that runs here, or that could not be checked. Or several kubelets run, and " +
			"you have named none. Or the kubelet was restarted with another root directory.",
		"The detail names what does not match. Remove the setting, so that the kubelet's own is used, or correct it. If several kubelets " +
			"run, name yours by its --root-dir. If the kubelet's root directory has changed, restart orphan-reaper.",
	},
	{
		policy.ReasonUntied,
		"The name and the content of a CNI file do not agree on one container, or they name none. So it is not known whose file it is.",
		"Inspect the file. If its pod is gone, you can remove the file by hand while the kubelet and the runtime are stopped.",
	},
	{
		policy.ReasonNetns,
		"The network namespace of the CNI file's container is still there, or it is not known whether it is. An address that the namespace " +
			"holds must not be given to another pod.",
		"`ip netns list` shows the namespace. If no process is in it (`ip netns pids NAME`), `ip netns delete NAME` removes it. A reboot " +
			"removes it, too.",
	},
	{
		policy.ReasonForeign,
		"No configuration on this node has the CNI file's network, or its container may belong to another engine (Podman, nerdctl, Docker).",
		"Nothing, if you use that engine. If you do not, remove the file by hand.",
	},
	{
		policy.ReasonObserve,
		"Everything shows that the pod is dead, and mode observe changes nothing.",
		"Check what would be removed. To remove it, set --mode enforce.",
	},
	{
		policy.ReasonWaived,
		"You left out the facts that only a kubelet or a runtime can give (--runtime-endpoint none).",
		"Nothing. On a node with a kubelet, leave that flag out.",
	},
}

// Halted is the headline of an open breaker: who resumes has to look first.
const Halted = "STOPPED: a quarantined pod turned out to be alive. Inspect it with orphan-reaper quarantine list and orphan-reaper explain UID. " +
	"Then run orphan-reaper quarantine resume: the daemon removes pods again, this one too."

// TextOf returns what is known of a reason; of one that is newer than the table, only
// its name.
func TextOf(r policy.Reason) ReasonText {
	a := of(r)
	a.Todo = strings.ReplaceAll(a.Todo, "`", "")
	return a
}

func of(r policy.Reason) ReasonText {
	for _, a := range Reasons {
		if a.Reason == r {
			return a
		}
	}
	return ReasonText{Reason: r, Means: string(r), Todo: "See docs/reasons.md."}
}

// TodoOf is what a person can do about a reason of one pod, with its UID in the commands of this program, and no command
// that a line's end breaks.
func TodoOf(r policy.Reason, uid parsers.PodUID) string {
	return human.Marked(of(r).Filled(uid).Todo)
}

// Filled has the pod's UID in the commands of this program.
func (a ReasonText) Filled(uid parsers.PodUID) ReasonText {
	if uid != "" {
		a.Todo = ownUID.ReplaceAllString(a.Todo, "${1}"+string(uid))
	}
	return a
}

var ownUID = regexp.MustCompile(`(\borphan-reaper (?:explain|quarantine forget) )UID\b`)
