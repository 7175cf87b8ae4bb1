package advice

import "github.com/orphan-reaper/orphan-reaper/reaper/policy"

// Text is what a reason means and what a person can do about it. The table is the
// source of docs/reasons.md.
type Text struct {
	Reason policy.Reason
	Means  string
	Todo   string
}

// Reasons explains every reason, in the order in which docs/reasons.md has them.
var Reasons = []Text{
	{
		policy.ReasonSandbox, "The container runtime still lists a sandbox of this pod.",
		"Nothing, while the pod runs. If it should be gone: crictl pods lists the sandbox; crictl stopp and crictl rmp take it away, and with it this reason.",
	},
	{
		policy.ReasonContainer, "The container runtime still lists a container of this pod.",
		"Nothing, while the pod runs. If it should be gone: crictl ps -a lists the container; crictl rm takes it away.",
	},
	{
		policy.ReasonSandboxOrphaned, "The container runtime keeps a sandbox that has stopped, of a pod that nobody else knows any more. The kubelet " +
			"should have had it removed. It keeps the pod's directory, and most likely an IP address.",
		"See why it stays: the runtime's and the kubelet's logs say why StopPodSandbox failed, mostly the CNI plugin. With --remove-sandboxes (runtime: " +
			"{remove_sandboxes: true}) orphan-reaper asks the runtime to stop and remove it, which runs CNI DEL; by hand that is crictl stopp ID and crictl rmp ID.",
	},
	{
		policy.ReasonTerminating, "The kubelet seems to terminate this pod for ever: the runtime has it, nobody has wanted it for longer than 10 " +
			"minutes, and the kubelet does not come to an end with it (kubernetes#113145 and the like).",
		"Look into the kubelet's log for this UID: it says what fails. Restarting the kubelet ends it. orphan-reaper leaves the pod alone.",
	},
	{
		policy.ReasonCgroup, "There is still a cgroup of this pod. The kubelet makes it before the directory and removes it itself, so the pod runs, " +
			"starts, or is being torn down.",
		"Nothing, while the pod runs. If it has been gone for hours, see which processes are in the cgroup that the fact names: cat CGROUP/cgroup.procs.",
	},
	{
		policy.ReasonMounted, "Something is mounted below the pod directory, in some mount namespace of this node. Removing would reach into the volume.",
		"See what: grep UID /proc/*/mountinfo. A dead mount of a volume goes with umount PATH; one that a container holds goes with that container. " +
			"Never remove below it by hand.",
	},
	{
		policy.ReasonOwnMount, "The pod directory itself is a mount point.",
		"The kubelet makes no such mount; somebody else did. findmnt PATH says what it is.",
	},
	{
		policy.ReasonMountsUnknown, "The mounts of some process could not be read, so nobody knows whether something is mounted here.",
		"The fact names the process and the error. Run as root, in the host's PID namespace.",
	},
	{
		policy.ReasonStaged, "A volume of this pod is still staged or mapped here, or nobody knows whether one is.",
		"The fact names the path: see that the CSI driver's node pod runs here. If nobody uses the volume any more, umount the path.",
	},
	{
		policy.ReasonInUse, "A process has a file of the pod open or mapped or works there, or a loop device or swap has one, or nobody could see.",
		"Nothing, where the fact names a process: it ends when the process does. Of a loop device or swap the fact has the command.",
	},
	{
		policy.ReasonKubeletHolds, "The kubelet's volume manager still works on a volume of this pod and fails to tear it down.",
		"Nothing, where it waits: what lies in the directory that the kubelet cannot remove, since it is not empty, is moved to quarantine once " +
			"everything else says dead, and the kubelet then finishes by itself, within some minutes. Where it is kept, the kubelet's log says which " +
			"volume and why (UnmountVolume.TearDown failed), and the other reasons say what else is in the way.",
	},
	{
		policy.ReasonKubeletFile, "A state file of the kubelet names this pod, or could not be read.",
		"See the file in the fact. A file that goes stale no longer counts once the kubelet's log names the pod. If it is unreadable, repair it.",
	},
	{
		policy.ReasonPodLogs, "The kubelet keeps the log directory of this pod. It removes it within a minute once it has let the pod go.",
		"Nothing, while the pod is wanted. If it is not, the kubelet's log says why the directory stays: Failed to remove pod logs directory.",
	},
	{
		policy.ReasonPodResources, "The kubelet's pod-resources socket lists a pod of this name, and no other pod of the name is known.",
		"Nothing, while the pod is wanted. If it should be gone, delete it at the API server, or move its manifest away.",
	},
	{
		policy.ReasonKubeletLists, "The kubelet's own list of the pods that it wants or runs has this pod.",
		"Nothing, while the pod is wanted. If it should be gone, delete it at the API server, or move its manifest away.",
	},
	{
		policy.ReasonAPILists, "The API server binds a pod of this UID, or the mirror of a static pod of this UID, to this node.",
		"Nothing, while the pod is wanted. If it should be gone, delete it at the API server.",
	},
	{
		policy.ReasonAPIUnknown, "An API server was named (--kubeconfig), and it could not be asked, or its answer is not this node's.",
		"The fact has the error. Put it right, or let --api-unreachable ignore go on without it.",
	},
	{
		policy.ReasonStaticPod, "A manifest in the kubelet's staticPodPath owns this UID, may own it, or could not be read. A static pod comes back " +
			"with the UID and the directory that it had.",
		"Nothing, if the pod is wanted. Else move the manifest away. A file there that is no manifest goes elsewhere; if the pod's name is not known, " +
			"see that each manifest's pod runs: then it is known which UIDs are theirs.",
	},
	{
		policy.ReasonNotRunning,
		"There is a cgroup of this pod with no process in it, and nobody lists the pod. It waits for a volume, or it is dead and the kubelet cannot finish.",
		"If it is wanted, see why it does not start. If it is gone, umount what the reason mounted names: the kubelet then finishes by itself.",
	},
	{
		policy.ReasonKubeletUnknown, "Nobody could show that the kubelet has let this pod go: it has not named this pod as an orphan, and nothing else " +
			"shows it.",
		"Wait, if the kubelet has just started or cannot reach its API server. Else see that a kubelet runs and that its log arrives: orphan-reaper " +
			"parse shows what its lines say.",
	},
	{
		policy.ReasonKubeletStarting, "The kubelet has not run for as long as --settle asks. After a restart living pods look dead until its sources are ready.",
		"Nothing: it ends by itself.",
	},
	{
		policy.ReasonRuntimeUnknown, "The container runtime could not be asked, or answered too late.",
		"See that it runs: crictl info. Name its socket with --runtime-endpoint if it is at an unusual place.",
	},
	{
		policy.ReasonRuntimeEmpty, "The container runtime lists no sandbox at all: it is fresh, or this is not the socket that the kubelet uses.",
		"Compare --runtime-endpoint with the kubelet's containerRuntimeEndpoint. On a node without any pod this stays until the first one runs.",
	},
	{
		policy.ReasonCgroupUnknown, "The pods' cgroups could not be read, or there is no kubepods hierarchy, or none of the pods that run has its " +
			"cgroup there. With cgroupsPerQOS: false no pod has one, and a pod that starts cannot be told from a dead one.",
		"See that --cgroup-root is where the cgroup file system is; best leave it out.",
	},
	{
		policy.ReasonNotADirectory, "The entry is not a directory, or is a symbolic link. The kubelet makes neither.",
		"See what it is and who made it; it is left alone for ever.",
	},
	{
		policy.ReasonInvalidUID, "The name is not a pod UID. Only names that a kubelet gives are touched.",
		"See who made it; it is left alone for ever.",
	},
	{
		policy.ReasonContentUnknown,
		"The directories that the kubelet makes could not be read wholly, or something in a volume not at all. How much lies there does not matter.",
		"The fact names the path and the error: a bad disk, a dead network mount, a missing right, or more entries than a kubelet makes (see ls -U).",
	},
	{
		policy.ReasonYoung, "The directory was made or changed less than a hold ago, or its age is not known.",
		"Nothing: it ends by itself. A time in the future counts as young; see the node's clock.",
	},
	{
		policy.ReasonHold, "Everything says dead, but not yet for as long as --hold asks.",
		"Nothing, where a daemon runs: it ends by itself. Without one: orphan-reaper sweep, which waits it out; a scan does not.",
	},
	{
		policy.ReasonConfirm, "The pod directory was moved aside and waits in quarantine for a sign of life, as long as --confirm asks.",
		"Nothing: it ends by itself.",
	},
	{
		policy.ReasonRemade, "The pod directory was made again: the pod lives. Where it uses the new one, the old one stays in quarantine.",
		"Merge the two: orphan-reaper explain UID shows how. Where enforcing has stopped, " +
			"see why; orphan-reaper quarantine resume lets it go on.",
	},
	{
		policy.ReasonRestored, "A person put this pod back from quarantine. It is then kept for ever.",
		"Nothing, if somebody needs it. Else remove the directory by hand, with an eye on its mounts: until then a complaint of the kubelet's goes on.",
	},
	{
		policy.ReasonCannotMove, "The pod directory could not be moved to quarantine: it lies on another mount, or something holds it.",
		"Set --quarantine-dir to a directory on the same mount as the pods directory: findmnt -T PODS-DIR shows it.",
	},
	{
		policy.ReasonRemoval, "The kernel or the file system refused the removal itself.",
		"The detail has the error. Immutable files (lsattr) and read-only file systems are the usual causes; dmesg tells the rest.",
	},
	{
		policy.ReasonLimit, "It is this pod's turn later: --max-per-look is reached, or the first pod after a start is confirmed before the rest.",
		"Nothing: it ends by itself.",
	},
	{
		policy.ReasonBreaker, "Enforcing has stopped, since a parked pod turned out to live.",
		"Look first: orphan-reaper quarantine list, and explain UID. Then orphan-reaper quarantine resume lets the daemon take pods again, this one too.",
	},
	{
		policy.ReasonNamespaces, "This process does not see the node's own mounts and processes, and so cannot know what is mounted.",
		"Run on the host, in a unit without PrivateTmp, ProtectSystem and the like; in a container, with hostPID and HostToContainer. The detail tells.",
	},
	{
		policy.ReasonContradiction, "A flag or key of orphan-reaper's says otherwise than the kubelet that runs here, or that cannot be told; or " +
			"several kubelets run and none was named; or the kubelet was restarted with another root directory.",
		"The detail names both sides. Leave the setting out, so that the kubelet is asked, or put it right; name the kubelet that is meant by its --root-dir.",
	},
	{
		policy.ReasonUntied, "The name and the content of a CNI file do not agree on one container, or name none: nobody knows whose it is.",
		"Look at the file. If its pod is gone, it can be removed by hand while the kubelet and the runtime are stopped.",
	},
	{
		policy.ReasonNetns, "The network namespace of the CNI file's container is still there, or nobody could see whether it is. An address that it " +
			"holds must not be given to another pod.",
		"ip netns list shows it. If no process is in it (ip netns pids NAME), ip netns delete NAME takes it away; a reboot does so too.",
	},
	{
		policy.ReasonForeign, "The CNI file's network is in no configuration of this node, or its container may belong to another engine (Podman, nerdctl, Docker).",
		"Nothing, if that engine is in use. Else remove the file by hand.",
	},
	{
		policy.ReasonObserve, "Everything says dead, and mode observe changes nothing.",
		"Read what would be taken; --mode enforce lets it happen.",
	},
	{
		policy.ReasonWaived, "The facts that only a kubelet or a runtime can give were left out (--runtime-endpoint none).",
		"Nothing. On a node with a kubelet, leave that flag out.",
	},
}

// Halted is the headline of an open breaker: who resumes has to look first.
const Halted = "STOPPED: a pod that was parked showed life. Look first: orphan-reaper quarantine list and explain UID; " +
	"quarantine resume lets the daemon take pods again, this one too."

// For returns what is known of a reason; of one that is newer than the table, only
// its name.
func For(r policy.Reason) Text {
	for _, a := range Reasons {
		if a.Reason == r {
			return a
		}
	}
	return Text{Reason: r, Means: string(r), Todo: "See docs/reasons.md."}
}
