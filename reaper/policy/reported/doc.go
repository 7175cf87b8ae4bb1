// Package reported holds what the running kubelet reports in its log, as far as it counts as evidence.
//
// A log line is a hint, never proof: anyone may write to syslog, and a pod can make the kubelet
// write. Claim.Evident reports whether a line is of the kubelet that runs now, OfNode drops what is about pods that
// this node does not have. Claims gathers lines between two looks, within bounds: a teardown error that it drops
// leaves FactTeardown unknown. Log keeps, within bounds, what evident lines reported; Complete and CompleteEntry add
// it to the evidence of one pod, each as one fact among many. Messages counts the lines about each pod, for display: no
// verdict rests on it.
//
// A teardown error is over once the kubelet has reported other things for long enough.
//
// No fact of this package releases a pod by itself, and none counts longer than the kubelet runs that
// reported it. policy judges and does not import this package. Like all of policy it makes no system
// call and reads no clock.
package reported
