// Package runtime reports what the container runtimes of the node have of each pod.
//
// A Reader asks every socket that it is given for all sandboxes and containers, and makes one Answer
// of what all of them list. A pod that one of them lists is there, whatever else has failed. One
// that none of them lists is gone only where every socket answered, all lists came whole, and at
// least one pod is known. A socket that was only found at a usual place may have no CRI: it is left out, as long as
// another one answers. What has some of the kubelet's marks and names no pod may be any pod's.
//
// It changes nothing in a runtime, keeps no connection between two looks, and searches for no socket
// itself: the caller gives them. Whether a sandbox keeps a pod is for policy.
//
// Versions: those of package cri.
package runtime
