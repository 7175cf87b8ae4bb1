package parsers

// PodUID is a pod's UID as the kubelet uses it for directory names: 8-4-4-4-12
// lower-case hexadecimal digits (API pods; neither version nor variant bits are
// certain, since clusters before 1.13 made version 1), or 32 lower-case hexadecimal
// digits (static pods: a hash of the manifest). A PodUID comes from ParsePodUID only,
// and so never holds a slash, a dot or a NUL.
type PodUID string

// ParsePodUID returns s as a PodUID, and false where it is none. ASCII only; nothing
// is trimmed or folded: whatever is no UID is reported and never acted on.
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
