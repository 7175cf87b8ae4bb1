// Package reading says what a reading of the node is worth:
//
//   - whether the kubelets that run agree with what the operator set (Settings)
//   - whether this process sees the node's mounts (Namespaces)
//   - whether a hierarchy of cgroups is that of the kubelet's pods (ForeignCgroups)
//   - which pods plainly live (Life)
//   - whether what is staged or mapped is a pod's own (PodVolumes)
//   - whether somebody uses a pod's files, or a directory that was made again (FileUse, UsedAgain)
//
// probe reads, fills these values in and makes a Fact of the answer. What lists of pods are worth
// is said in package lists. Nothing here judges: policy weighs the facts with the others, and does
// not import this package. Like all of policy it makes no system call and reads no clock.
package reading
