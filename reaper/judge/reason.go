package judge

// ReasonName is why a pod is kept or waits, of a closed list.
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
	NotAUID     ReasonName = "not-a-uid"   // the name in the pods directory is no pod UID
	NodeBusy    ReasonName = "busy"        // a healthy source needed more time than it had
	NoKubelet   ReasonName = "no-kubelet"  // none or two kubelets have our root directory
	NotVisible  ReasonName = "not-visible" // this process does not see the node's own mounts and processes
	DryRun      ReasonName = "dry-run"
	ModeObserve ReasonName = "observe"
	BreakerOpen ReasonName = "breaker"
	Confirming  ReasonName = "confirm"
	Retention   ReasonName = "retention"
	HoldsData   ReasonName = "data"     // what may be a user's data waits for an operator
	InUse       ReasonName = "conflict" // the pod is alive and has another directory
	NextScan    ReasonName = "next-scan"
	CannotMove  ReasonName = "cannot-move"
	Stuck       ReasonName = "stuck" // a changing call has not returned
)
