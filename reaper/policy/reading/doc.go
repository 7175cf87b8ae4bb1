// Package reading returns what a reading of the node is worth:
//
//   - whether the kubelets that run agree with what the operator set (Settings)
//   - whether this process sees the node's mounts (Namespaces)
//   - whether a hierarchy of cgroups is that of the kubelet's pods (ForeignCgroups)
//   - which pods plainly live (Life)
//   - whether what is staged or mapped is a pod's own (PodVolumes)
//   - whether a process uses a pod's files, or a directory that was made again (FileUse, UsedAgain)
//   - which pods this node is to have, by the lists of the kubelet and the API server (PodLists)
//
// probe reads and fills these values in, and each answers with a Fact. A list that has a pod keeps it, whatever else
// is wrong with the list. No list releases a pod.
// Nothing here judges: policy weighs the facts with the others, and does not import this package. Like all of policy
// it makes no system call and reads no clock.
package reading
