package parsers

import "strings"

// PodOfCgroup reads the name of a pod's cgroup: podUID by the cgroupfs driver,
// kubepods-burstable-podUID.slice by the systemd driver, where dashes in the UID are
// underscores, since a dash means a level of slices there.
func PodOfCgroup(name string) (PodUID, bool) {
	slice, ok := strings.CutSuffix(name, ".slice")
	if !ok {
		rest, ok := strings.CutPrefix(name, "pod")
		if !ok {
			return "", false
		}
		return ParsePodUID(rest)
	}
	i := strings.LastIndex(slice, "-pod")
	if i < 0 {
		return "", false
	}
	return ParsePodUID(strings.ReplaceAll(slice[i+len("-pod"):], "_", "-"))
}
