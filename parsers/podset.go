package parsers

import "bytes"

// PodSet is a set of pods to search for.
type PodSet map[PodUID]bool

// InPath appends to found the UIDs that are a component of path, or the start of one that continues with a dot, as in
// the name of a quarantine entry (UID.n). The lengths of components rule out nearly all of a node's mounts.
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

// Component returns the pod that one component of a path names, as in InPath.
func (s PodSet) Component(part []byte) (PodUID, bool) {
	for _, n := range [...]int{36, 32} {
		if len(part) == n || len(part) > n && part[n] == '.' {
			// The map lookup allocates no string.
			if s[PodUID(part[:n])] {
				return PodUID(part[:n]), true
			}
		}
	}
	return "", false
}

// InText calls found with every UID of the set in text, whatever is around it. The "d" before a UID in "podUID" is a
// hexadecimal digit too, so it looks up each window of a run of such bytes.
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
