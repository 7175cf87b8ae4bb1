// Package reading says what a reading of the node is worth: whether the kubelets that run agree with
// what the operator set, whether this process sees the node's mounts, whether a hierarchy of cgroups
// is that of the kubelet's pods, which pods plainly live, whether what is staged is a pod's own, and
// whether somebody uses a pod's files or a directory that was made again.
//
// probe reads, fills these values in and makes a Fact of the answer. What lists of pods are worth
// is said in lists, beside this package. Nothing here judges: policy weighs the facts with the
// others, and does not import this package.
package reading
