package parsers

import "strings"

// PodUID is a pod's UID as the kubelet uses it for directory names: 8-4-4-4-12 lower-case hexadecimal digits (API pods,
// of any UUID version, since clusters before 1.13 used version 1), or 32 lower-case hexadecimal digits (static pods: a
// hash of the manifest). Only ParsePodUID returns a PodUID, so it never contains a slash, a dot or a NUL.
type PodUID string

// ParsePodUID returns s as a PodUID, and false if it is not one. It neither trims white space nor changes case.
func ParsePodUID(s string) (PodUID, bool) {
	switch len(s) {
	case 32:
		if allHex(s) {
			return PodUID(s), true
		}
	case 36:
		ok := s[8] == '-' && s[13] == '-' && s[18] == '-' && s[23] == '-' &&
			allHex(s[:8]) && allHex(s[9:13]) && allHex(s[14:18]) && allHex(s[19:23]) && allHex(s[24:])
		if ok {
			return PodUID(s), true
		}
	}
	return "", false
}

func allHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// PodOfCgroup parses the name of a pod's cgroup: podUID by the cgroupfs driver, kubepods-burstable-podUID.slice by the
// systemd driver, which replaces the dashes of the UID by underscores, since a dash separates levels of slices.
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

// IsContainerID reports whether s is a container ID of containerd, CRI-O, Docker or Podman: 64 lower-case hexadecimal
// digits.
func IsContainerID(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}
