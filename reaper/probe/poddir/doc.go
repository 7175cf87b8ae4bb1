// Package poddir reports what lies in the directories of pods, of what class, and on what volumes.
//
// A Reader opens the pods directory and the quarantine (Dirs) and has an Answer for each directory
// in them: whose it is, what it holds row by row, and where its CSI volumes would be staged. Beside
// these lie what the kubelet keeps of its pods: its state files, the entries of block volumes, and
// the volumes that other pods have mounted.
//
// It opens directories and a few known files, one name at a time from a handle, and crosses no
// mount. What it does not read to its end is Partial or an error, and never counts as less than
// data. It knows no mounts but those that an open meets, no runtime and no cgroups: the caller knows
// which pods live. Whether a volume keeps a pod, and what may be removed, is for policy.
//
// Versions: the pod directories of kubelets since 1.5, vol_data.json and the staging paths of CSI
// since 1.13 and 1.24, the state files of 1.19 to 1.36.
package poddir
