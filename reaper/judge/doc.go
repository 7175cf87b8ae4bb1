// Package judge is the safety argument: which pod may be moved out of the kubelet's pods directory, which quarantined pod
// is alive, what this process does next, and whether it may do it.
//
// It is pure. It takes values and the time, and returns values with reasons. It opens nothing, reads no clock, logs
// nothing, and returns no error: a fact that could not be read is Unknown, the zero value, and keeps the pod.
//
// # The argument
//
// The kubelet reports the UID of an orphan only after three checks that no other program can make better: the pod is in
// none of its sources, it has no running container, and the volume manager holds no volume of it
// (cleanupOrphanedPodDirs, read in 1.19, 1.24, 1.28, 1.33 and 1.37). So only a report of this UID by the kubelet that runs
// now, at most 30 seconds old, releases a pod (Reported). Every fact that we read ourselves can only keep it.
//
// Read in this order: snapshot.go has what is known, dead.go the table of facts and Alive, reported.go which line of a
// log is the kubelet's report, entry.go what becomes of a quarantined pod, next.go what is done next, gate.go whether it may be
// done.
package judge
