// Package quiet says when the kubelet's message about a pod has stopped, and after how many lines.
//
// No verdict rests on it: it is for people. It counts only lines that are the word of the kubelet
// that runs, about pods that this node has, so what anyone can forge does not count. Like all of
// policy it makes no system call and reads no clock.
//
// A kubelet names an orphan in each housekeeping run, every 2 s in all releases from 1.4 to 1.36. Of
// several it names the first by name only, so silence about a pod says nothing as long as the pod's
// directory is there. It tries a volume that it cannot tear down again after 2 min 2 s at the latest
// (exponentialbackoff.maxDurationBeforeRetry). So a message has stopped once the directory is gone and
// no line came for longer than that.
package quiet
