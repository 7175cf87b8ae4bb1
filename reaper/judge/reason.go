package judge

// ReasonName is why a pod or an entry is kept or waits, of a closed list: text, metric label and JSON value alike.
type ReasonName string

// The reasons of the table of facts have the name of their fact, as it keeps the pod.
const (
	NotReported  ReasonName = "not-reported"
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

// ReasonText is what a reason means and what to do.
type ReasonText struct {
	Name    ReasonName
	Meaning string
	Do      string // "" if there is nothing to do
	// Commands are for a shell, in this order. They have placeholders: {uid}, {node} is the name of the Node object, {v} the
	// kubelet's verbosity, {unit} its systemd unit.
	Commands []string
}

// The kubelet reports every orphan at -v=5. PUT switches that without a restart (--debugging handlers, 1.19 to 1.37).
const (
	verbose = "printf 5 | kubectl replace --raw /api/v1/nodes/{node}/proxy/debug/flags/v -f -"
	usual   = "printf {v} | kubectl replace --raw /api/v1/nodes/{node}/proxy/debug/flags/v -f -"
)

// ReasonTexts is the table of reasons for screens and docs, in the order in which they are shown.
var ReasonTexts = [...]ReasonText{
	{
		NotReported, "The kubelet that runs now has not reported this pod as an orphan in the last 30 seconds. It reports one orphan at a time.",
		"Have the kubelet report all orphans for ten seconds:",
		[]string{verbose, "sleep 10", usual},
	},
	{IsListed, "The kubelet lists the pod among its own.", "", nil},
	{IsRunning, "The container runtime has a ready sandbox or a container of the pod that has not exited, or it could not be asked.", "", nil},
	{
		HasCgroup, "The pod has a cgroup. The kubelet makes it first for a pod that starts, and destroys it for a pod that it reports.",
		"The kubelet reports the pod and has not destroyed its cgroup. Remove it (rmdir leaves a cgroup alone in which a process runs):",
		[]string{"find /sys/fs/cgroup -depth -type d -path '*pod{cgroup}*' -exec rmdir {} +"},
	},
	{
		IsMounted, "A mount has the pod's UID in its root, mount point or options, or the mounts could not be read.",
		"The pod is dead, and something is still mounted in it. Unmount that:",
		[]string{"orphan-reaper unmount {uid}"},
	},
	{
		IsStaged, "A volume of the pod is staged on the node for this pod alone.",
		"If one step does not help, try the next. 1. While the volume's CSI driver runs on this node, restart the kubelet, which then " +
			"unmounts the volume. 2. Find in the log of the driver's pod why it does not, and repair that. 3. When nothing uses the volume " +
			"any more, unmount the path that explain shows, and not lazily (-l).",
		[]string{"systemctl restart {unit}"},
	},
	{
		BadDirectory, "The entry of the pods directory is no directory, is a mount point, has just changed, or could not be read.",
		"Find out who made it, and move it out of the pods directory.", nil,
	},
	{
		WasRestored, "An operator restored the pod from quarantine. It is kept until the kubelet has not reported it for an hour.",
		"If the pod is not needed any more, have it judged again:",
		[]string{"orphan-reaper sweep {uid} --no-wait"},
	},
	{OnHold, "Every other fact has to stay good for the time of hold.", "", nil},
	{NotAUID, "The name in the pods directory is no pod UID. The kubelet complains about it as about a pod.", "Find out who made it, and move it out of the pods directory.", nil},
	{NodeBusy, "The node is busy, or the kubelet is still at work on the pod's volumes. This ends by itself.", "", nil},
	{
		NoKubelet, "No running kubelet, or more than one, uses this root directory, so there is no report to trust.",
		"Start the kubelet, or set root_dir to the kubelet's --root-dir.", nil,
	},
	{NotVisible, "This process does not see the node's own mounts and processes.", "Run it as root on the node, in the node's PID and mount namespaces.", nil},
	{ModeObserve, "Mode observe moves and removes nothing. It restores a quarantined pod that turns out to be alive.", "To have dead pods moved and removed, set mode to enforce.", nil},
	{DryRun, "A dry run changes nothing.", "", nil},
	{
		BreakerOpen, "The circuit breaker is open: a quarantined pod turned out to be alive. Nothing is moved or removed.",
		"Find out why the pod looked dead. Then close the circuit breaker:",
		[]string{"orphan-reaper quarantine list", "orphan-reaper quarantine resume"},
	},
	{Stuck, "A call that changes the disk has not returned for two minutes. Nothing is moved or removed.", "Repair the file system at the path that is named.", nil},
	{NextScan, "max_per_scan is reached. The next scan goes on.", "", nil},
	{CannotMove, "The directory could not be moved to the quarantine. It is tried again after five minutes.", "Repair what the error names.", nil},
	{Confirming, "The pod is in quarantine. If it shows within the time of confirm that it is alive, it is restored.", "", nil},
	{
		Retention, "What is left are emptyDirs and ephemeral volumes. They are removed after the time of retention.",
		"To keep them, restore the pod before:",
		[]string{"orphan-reaper quarantine restore {uid}"},
	},
	{
		HoldsData, "What is left in quarantine may be a user's data. It is never removed without an order.",
		"If it is needed, restore it. If not, purge it:",
		[]string{"orphan-reaper quarantine restore {uid}", "orphan-reaper quarantine purge {uid}"},
	},
	{StepFailed, "The last step with the entry failed. It is tried again after five minutes, and later each time.", "Repair what the error names.", nil},
	{
		InUse, "The pod is alive, and has another directory than the one in quarantine.",
		"If the pod needs the files in quarantine, put them in the place of its new directory. If not, purge them:",
		[]string{"orphan-reaper quarantine restore {uid} --replace", "orphan-reaper quarantine purge {uid}"},
	},
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
