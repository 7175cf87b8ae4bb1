package parsers

import "strings"

// IsContainerID reports whether s is a whole ID as containerd, CRI-O, Docker and Podman make them: 64 lower-case hexadecimal digits.
func IsContainerID(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}

// EachContainerID gives every ID in a name: a run of exactly 64 hexadecimal digits.
func EachContainerID(name string, each func(id string)) {
	for from := 0; from < len(name); {
		to := from
		for to < len(name) && isHex(name[to]) {
			to++
		}
		if id := name[from:to]; IsContainerID(id) {
			each(id)
		}
		from = to + 1
	}
}

func isHex(c byte) bool { return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' }
