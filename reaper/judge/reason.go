package judge

// ReasonName is why a pod or an entry is kept or waits, of a closed list: text, metric label and JSON value alike.
type ReasonName string

// The reasons of the table of facts have the name of their fact.
const (
	NotReported  ReasonName = "reported"
	IsListed     ReasonName = "listed"
	IsRunning    ReasonName = "running"
	HasCgroup    ReasonName = "cgroup"
	IsMounted    ReasonName = "mounted"
	IsStaged     ReasonName = "staged"
	BadDirectory ReasonName = "directory"
	WasRestored  ReasonName = "restored"
	OnHold       ReasonName = "hold"
)

// The other reasons.
const (
	NotAUID     ReasonName = "not-a-uid"
	NodeBusy    ReasonName = "busy"
	NoKubelet   ReasonName = "no-kubelet"
	NotVisible  ReasonName = "not-visible"
	ModeObserve ReasonName = "observe"
	DryRun      ReasonName = "dry-run"
	BreakerOpen ReasonName = "breaker"
	Stuck       ReasonName = "stuck"
	NextScan    ReasonName = "next-scan"
	CannotMove  ReasonName = "cannot-move"
	Confirming  ReasonName = "confirm"
	Retention   ReasonName = "retention"
	HoldsData   ReasonName = "data"
	InUse       ReasonName = "conflict"
	StepFailed  ReasonName = "failed"
)

// ReasonText is what a reason means and what to do. {uid} stands for the pod's UID.
type ReasonText struct {
	Name    ReasonName
	Meaning string
	Do      string // "" if there is nothing to do
}

// ReasonTexts is the table of reasons for screens and docs, in the order in which they are shown.
var ReasonTexts = [...]ReasonText{
	{
		NotReported, "The kubelet that runs now has not reported this pod as an orphan in the last 30 seconds.",
		"A kubelet reports one orphan at a time. If the pod is dead, wait until the one before it is gone, or have the kubelet report all (-v=5).",
	},
	{IsListed, "The kubelet lists the pod among its own.", ""},
	{IsRunning, "A runtime has a ready sandbox of the pod, or a container that has not exited, or could not be asked.", ""},
	{HasCgroup, "The pod has a cgroup. The kubelet makes it first for a pod that starts, and destroys it for a pod that it reports.", "If the kubelet reports the pod and its cgroup stays, remove the empty cgroup with rmdir."},
	{IsMounted, "A mount has the pod's UID in its root, mount point or options, or the mounts could not be read.", "orphan-reaper unmount {uid}"},
	{IsStaged, "A volume of the pod is staged on the node, and no other pod directory has it.", "Restart the kubelet or the driver's node pod: it unmounts the volume."},
	{BadDirectory, "The name in the pods directory is no directory, is a mount point, has just changed, or could not be read.", ""},
	{WasRestored, "An operator restored the pod from quarantine.", "orphan-reaper sweep {uid}"},
	{OnHold, "Every other fact has to stay good for the hold.", ""},
	{NotAUID, "The name in the pods directory is no pod UID. The kubelet reports it like a pod.", "Find out who made it, and remove it by hand."},
	{NodeBusy, "The node is busy: a healthy source needed more time than it had, or the kubelet is still at work.", ""},
	{NoKubelet, "None or more than one kubelet has this root directory, so there is no report to believe.", "Start the kubelet, or name its root directory by --root-dir."},
	{NotVisible, "This process does not see the node's own mounts and processes.", "Run it on the node, in the node's PID and mount namespace."},
	{ModeObserve, "Mode observe changes nothing.", "Set mode: enforce."},
	{DryRun, "A dry run changes nothing.", ""},
	{BreakerOpen, "The circuit breaker is open: a quarantined pod turned out to be alive.", "orphan-reaper quarantine list, then orphan-reaper quarantine resume"},
	{Stuck, "A call that changes the disk has not returned for two minutes.", "Repair the file system at the path that is named."},
	{NextScan, "max_per_scan is reached.", ""},
	{CannotMove, "The directory cannot be moved to the quarantine.", "The quarantine must be on the mount of the pods directory: --quarantine-dir."},
	{Confirming, "The pod is in quarantine. If it shows within the time of confirm that it is alive, it is restored.", ""},
	{Retention, "emptyDirs and ephemeral volumes are kept for the time of retention.", ""},
	{HoldsData, "What is left may be a user's data.", "orphan-reaper quarantine restore {uid}, or orphan-reaper quarantine purge {uid}"},
	{StepFailed, "The last step with the entry failed. It is tried again.", "Repair what the error names."},
	{InUse, "The pod is alive and has another directory.", "orphan-reaper quarantine restore {uid} --replace, or orphan-reaper quarantine purge {uid}"},
}

// Text returns what the reason means.
func (n ReasonName) Text() ReasonText {
	for _, t := range ReasonTexts {
		if t.Name == n {
			return t
		}
	}
	return ReasonText{Name: n}
}
