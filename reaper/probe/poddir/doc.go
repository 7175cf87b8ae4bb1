// Package poddir reports the content of pod directories, and the kubelet's files about pods.
//
// A Reader opens the pods directory and the quarantine (Dirs), and returns an Answer for each directory
// in them: its identity, its Content with the class of each entry, and the paths at which its CSI volumes would
// be staged. It also reads the entries of block volumes, the staged volumes,
// and the volumes that other pods have mounted.
//
// It opens directories and a few known files, one name at a time from a handle, and crosses no mount. What
// it does not read completely is Partial or an error, and counts as data. It sees only the mounts that
// it meets. The caller provides the living pods. Policy decides whether a volume keeps a pod, and what may be
// removed.
//
// Versions: the pod directories of kubelets since 1.5, vol_data.json and the staging paths of CSI
// since 1.13 and 1.24.
package poddir
