package policy

// KubeletGauges are the running kubelet's own counts, from its /metrics, for display. A nil value is not known: most came
// with 1.27. Two rules use them: a missing Working is a doubt about the kubelet's list (reading.KubeletList.Weigh), and
// Ending is part of the reason terminating.
type KubeletGauges struct {
	Origin string `json:"origin,omitempty"` // the address that was asked
	Detail string `json:"detail,omitempty"` // why nothing is known, "" where something is
	// CleanedVolumes and Uncleaned are of the kubelet's last housekeeping run: how many pod directories
	// it found orphaned, and how many of them it could not clean up. The second counts those
	// too that its log does not name, because something is mounted in them.
	CleanedVolumes *int64 `json:"orphan_pod_cleaned_volumes,omitempty"`
	Uncleaned      *int64 `json:"orphan_pod_cleaned_volumes_errors,omitempty"`
	// OrphanedRuntimePods and RestartedPods count since the kubelet's start: pods that the
	// runtime had and no source desired, and pods that came back with the same UID.
	OrphanedRuntimePods *int64 `json:"orphaned_runtime_pods,omitempty"`
	RestartedPods       *int64 `json:"restarted_pods,omitempty"`
	// Desired, Active and Mirror are how many pods the kubelet is to run, has not released,
	// and shows the API server for static pods.
	Desired *int64 `json:"desired_pods,omitempty"`
	Active  *int64 `json:"active_pods,omitempty"`
	Mirror  *int64 `json:"mirror_pods,omitempty"`
	// Working is how many pods the kubelet works on; nil is not known.
	Working []WorkingPods `json:"working_pods,omitempty"`
}

// WorkingPods is one series of kubelet_working_pods.
type WorkingPods struct {
	Lifecycle string `json:"lifecycle"` // sync, terminating or terminated
	Config    string `json:"config"`    // desired, orphan or runtime_only
	Static    string `json:"static"`    // "true", "" or unknown
	Count     int64  `json:"count"`
}

// Ending is how many pods the kubelet terminates, or has terminated and not yet forgotten,
// and are not wanted; false where that is not known.
func (g KubeletGauges) Ending() (int64, bool) {
	var sum int64
	for _, w := range g.Working {
		if (w.Lifecycle == "terminating" || w.Lifecycle == "terminated") && (w.Config == "orphan" || w.Config == "runtime_only") {
			sum += w.Count
		}
	}
	return sum, g.Working != nil
}

// WorkingOn sums kubelet_working_pods over the label static; an empty lifecycle or config
// stands for all. It returns false where nothing is known.
func (g KubeletGauges) WorkingOn(lifecycle, config string) (int64, bool) {
	var sum int64
	for _, w := range g.Working {
		if (lifecycle == "" || w.Lifecycle == lifecycle) && (config == "" || w.Config == config) {
			sum += w.Count
		}
	}
	return sum, g.Working != nil
}
