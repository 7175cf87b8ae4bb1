package policy

// What it proves that the running kubelet named some orphan, and not this pod (source of 1.19 to
// 1.36, see docs/how-it-decides.md): all its sources were ready then, so it had every pod of the
// API server's and every manifest. It went through all pod directories in that sweep. One that it
// did not name it knows, or could not remove either and named another in its place, or has a
// volume of it that is still mounted, which it says at V(3) only. The runtime and the cgroups tell
// the first from the rest but for one kind: a pod that has completed, whose sandboxes were removed
// since the disk ran full. Its kubelet has it in its list, and nothing but its directory is left.
//
// The log directory tells these apart. Every minute the same kubelet removes those of the pods
// that it does not know or has finished with, by the same knowledge. So while it is there the pod
// counts as known. What the kubelet says of the pod itself, or a whole list, is better evidence: a
// log directory that cannot be removed stays for ever.
//
// That the directory is gone is no ground for letting a pod go. The kubelet does not tell that it
// was the one to remove it, and programs that make room on a full disk remove the logs of pods
// that do not run: exactly of those that completed, at just the time at which their sandboxes go.

// keptByKubelet gives the reason of a pod that the kubelet shows to know, by what it keeps of it.
func (v *Verdict) keptByKubelet(f Facts) {
	if f[FactPodLogs].Truth == Yes {
		v.keep(Keep, ReasonPodLogs, f[FactPodLogs].Detail)
	}
	if f[FactPodResources].Truth == Yes {
		v.keep(Keep, ReasonPodResources, f[FactPodResources].Detail)
	}
}

// unknownToKubelet reports whether the silence of a kubelet that has named others says that it does
// not know the pod.
func unknownToKubelet(f Facts) bool {
	return f[FactSwept].Truth == Yes && f[FactCgroup].Truth == No && f[FactSandbox].Truth == No &&
		f[FactContainer].Truth == No && f[FactPodLogs].Truth == No && f[FactPodResources].Truth != Yes
}
