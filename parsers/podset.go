package parsers

import "bytes"

// PodSet are the pods that a text is searched for.
type PodSet map[PodUID]bool

// InPath appends the UIDs that are a component of path, or the start of one that continues with a dot (a
// quarantine entry is UID.n). It compares the lengths first, which rules out nearly all components of a node's
// mounts.
func (s PodSet) InPath(found []PodUID, path []byte) []PodUID {
	for len(path) >= 32 {
		part := path
		if i := bytes.IndexByte(path, '/'); i >= 0 {
			part, path = path[:i], path[i+1:]
		} else {
			path = nil
		}
		if uid, ok := s.Component(part); ok {
			found = append(found, uid)
		}
	}
	return found
}

// Component returns the pod that one component of a path names in this way.
func (s PodSet) Component(part []byte) (PodUID, bool) {
	for _, n := range [...]int{36, 32} {
		if len(part) == n || len(part) > n && part[n] == '.' {
			// The map is asked with the bytes themselves; only a hit makes a string.
			if s[PodUID(part[:n])] {
				return PodUID(part[:n]), true
			}
		}
	}
	return "", false
}

// InText finds every UID of the set in text, whatever is around it: the "d" of "podUID" is
// a hexadecimal digit too, so each window of a run of such bytes is looked up.
func (s PodSet) InText(text []byte, found func(PodUID)) {
	for i := 0; i < len(text); {
		if !uidByte[text[i]] {
			i++
			continue
		}
		start := i
		for i < len(text) && uidByte[text[i]] {
			i++
		}
		for run := text[start:i]; len(run) >= 32; run = run[1:] {
			for _, n := range [...]int{36, 32} {
				if len(run) >= n && s[PodUID(run[:n])] {
					found(PodUID(run[:n]))
				}
			}
		}
	}
}

var uidByte = func() (t [256]bool) {
	for _, c := range "0123456789abcdef-" {
		t[c] = true
	}
	return t
}()

// BareUID reports whether the text holds the UID as it is, and not as the beginning of the name of
// a quarantine entry.
func BareUID(text []byte, uid PodUID) bool {
	for {
		i := bytes.Index(text, []byte(uid))
		if i < 0 {
			return false
		}
		text = text[i+len(uid):]
		if len(text) == 0 || text[0] != '.' {
			return true
		}
	}
}
