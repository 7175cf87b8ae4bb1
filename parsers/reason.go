package parsers

import (
	"strings"
)

// The values of Report.Reason: the corpus'.
const (
	PathsPresent    = "paths-present"
	SubpathsPresent = "subpaths-present"
	NotADirectory   = "not-a-directory"
	NotEmpty        = "rmdir-not-empty"
	ReadError       = "read-error"
	Other           = "other"
)

// The texts after "found, but", by release (kubelet_volumes.go):
//
//	1.4          volumes are still mounted; err: E, volumes: …
//	1.4 - 1.5    error E occured during reading volume dir from disk (E is <nil> where paths are present)
//	1.6 - 1.20   volume paths are still present on disk
//	1.12 - 1.20  volume subpaths are still present on disk
//	1.6 - 1.23   error E occurred during reading volume dir from disk
//	             error E occurred when trying to remove the volumes dir, subdir "…", the pod directory
//	1.24 -       error occurred when trying to remove the volumes dir: E, and so on
//	1.18 -       failed to rmdir() volume at path P: E; failed to rmdir() subpath at path P: E
//	1.36         failed to remove subpath at path P: E
//	V(3)         volumes are not cleaned up; volumes not yet removed.  Reducing cpu to minimum

// classify returns the reason and the kind of a text after "found, but ", and false if unknown text follows a fixed one.
func classify(s string) (reason string, kind Kind, ok bool) {
	for _, fixed := range [...]struct {
		text, reason string
		kind         Kind
	}{
		{"volume paths are still present on disk", PathsPresent, Removal},
		{"volume subpaths are still present on disk", SubpathsPresent, Removal},
		{"volumes are not cleaned up", Other, Volumes},
		{"volumes not yet removed", Other, Volumes},
	} {
		if rest, ok := strings.CutPrefix(s, fixed.text); ok {
			rest = trimCutMark(rest)
			return fixed.reason, fixed.kind, rest == "" || rest == "." || fixed.kind == Volumes
		}
	}
	switch {
	case strings.HasPrefix(s, "failed to rmdir() "), strings.HasPrefix(s, "failed to remove subpath at path "):
		return classifyErrno(s), Removal, true
	case strings.HasPrefix(s, "error occurred "):
		return classifyLate(strings.TrimPrefix(s, "error occurred ")), Removal, true
	case strings.HasPrefix(s, "error "):
		return classifyEarly(strings.TrimPrefix(s, "error ")), Removal, true
	case strings.HasPrefix(s, "volumes are still mounted"): // 1.4
		return Other, Volumes, true
	case strings.HasPrefix(s, "failed to remove volumes subdir "):
		return Other, Removal, true
	}
	return Other, None, true
}

// classifyLate classifies the texts of 1.24 and newer, which end with the error.
func classifyLate(s string) string {
	switch {
	case strings.HasPrefix(s, "during reading "):
		return ReadError
	case strings.HasPrefix(s, "when trying to remove the volumes dir: "):
		return classifyErrno(s)
	}
	return Other
}

// classifyEarly classifies the texts of 1.23 and older, which begin with the error. The error may contain any path, so
// the operation is searched for from the end.
func classifyEarly(s string) string {
	s = strings.TrimRight(s, " .")
	for _, verb := range [...]string{" occurred ", " occured "} {
		i := strings.LastIndex(s, verb)
		if i < 0 {
			continue
		}
		err, what := s[:i], s[i+len(verb):]
		switch {
		case strings.HasPrefix(what, "during reading ") && err == "<nil>":
			return PathsPresent
		case strings.HasPrefix(what, "during reading "):
			return ReadError
		case what == "when trying to remove the volumes dir":
			return classifyErrno(err)
		}
		return Other
	}
	return Other
}

// classifyErrno classifies the error at the end of a text: ENOTDIR, ENOTEMPTY (also in the texts of Windows),
// or any other.
func classifyErrno(s string) string {
	s = strings.ToLower(strings.TrimRight(s, " ."))
	switch {
	case strings.HasSuffix(s, "not a directory"), strings.HasSuffix(s, "directory name is invalid"):
		return NotADirectory
	case strings.HasSuffix(s, "directory not empty"), strings.HasSuffix(s, "directory is not empty"):
		return NotEmpty
	}
	return Other
}

// namesOther reports whether the first pod directory in s is not that of uid. Later ones are below it and may have any
// name. A long name of hex digits and dashes that is not a UID counts as another pod. A name that the line's end
// truncates does not.
func namesOther(s string, uid PodUID) bool {
	for {
		_, rest, ok := cutPods(s)
		if !ok {
			return false
		}
		n := 0
		for n < len(rest) && (isHexAnyCase(rest[n]) || rest[n] == '-') {
			n++
		}
		name, cut := rest[:n], n == len(rest)
		if name == string(uid) || (cut && strings.HasPrefix(string(uid), name)) {
			return false
		}
		if n >= 32 {
			return true
		}
		s = rest
	}
}

// cutPods cuts s around the first "/pods/", or "\pods\" as Windows has it.
func cutPods(s string) (before, after string, found bool) {
	i, j := strings.Index(s, "/pods/"), strings.Index(s, `\pods\`)
	if i < 0 || (j >= 0 && j < i) {
		i = j
	}
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len("/pods/"):], true
}

func isHexAnyCase(c byte) bool {
	return (c >= '0' && c <= '9') || (c|0x20 >= 'a' && c|0x20 <= 'f')
}
