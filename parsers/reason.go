package parsers

import (
	"strings"
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

// classify returns the report in a text after "found, but ", and false if unknown text follows a fixed one.
func classify(s string) (Report, bool) {
	for _, fixed := range [...]struct {
		text string
		kind Report
	}{
		{"volume paths are still present on disk", ReportPathsPresent},
		{"volume subpaths are still present on disk", ReportSubpathsPresent},
	} {
		if rest, ok := strings.CutPrefix(s, fixed.text); ok {
			rest = trimCutMark(rest)
			return fixed.kind, rest == "" || rest == "."
		}
	}
	switch {
	case strings.HasPrefix(s, "failed to rmdir() "), strings.HasPrefix(s, "failed to remove subpath at path "):
		return classifyErrno(s), true
	case strings.HasPrefix(s, "error occurred "):
		return classifyLate(strings.TrimPrefix(s, "error occurred ")), true
	case strings.HasPrefix(s, "error "):
		return classifyEarly(strings.TrimPrefix(s, "error ")), true
	}
	return ReportOther, true
}

// kindOf returns the kind of a text after "found, but ".
func kindOf(s string) Kind {
	for _, begin := range [...]string{"volumes are not cleaned up", "volumes not yet removed", "volumes are still mounted"} {
		if strings.HasPrefix(s, begin) {
			return KindVolumes
		}
	}
	for _, begin := range [...]string{"error ", "failed to r", "volume paths are still present on disk", "volume subpaths are still present on disk"} {
		if strings.HasPrefix(s, begin) {
			return KindRemoval
		}
	}
	return ""
}

// classifyLate classifies the texts of 1.24 and newer, which end with the error.
func classifyLate(s string) Report {
	switch {
	case strings.HasPrefix(s, "during reading "):
		return ReportReadError
	case strings.HasPrefix(s, "when trying to remove the volumes dir: "):
		return classifyErrno(s)
	}
	return ReportOther
}

// classifyEarly classifies the texts of 1.23 and older, which begin with the error. The error may contain any path, so
// the operation is searched for from the end.
func classifyEarly(s string) Report {
	s = strings.TrimRight(s, " .")
	for _, verb := range [...]string{" occurred ", " occured "} {
		i := strings.LastIndex(s, verb)
		if i < 0 {
			continue
		}
		err, what := s[:i], s[i+len(verb):]
		switch {
		case strings.HasPrefix(what, "during reading ") && err == "<nil>":
			return ReportPathsPresent
		case strings.HasPrefix(what, "during reading "):
			return ReportReadError
		case what == "when trying to remove the volumes dir":
			return classifyErrno(err)
		}
		return ReportOther
	}
	return ReportOther
}

// classifyErrno classifies the error at the end of a text: ENOTDIR, ENOTEMPTY (also in the texts of Windows),
// or any other.
func classifyErrno(s string) Report {
	s = strings.ToLower(strings.TrimRight(s, " ."))
	switch {
	case strings.HasSuffix(s, "not a directory"), strings.HasSuffix(s, "directory name is invalid"):
		return ReportNotADirectory
	case strings.HasSuffix(s, "directory not empty"), strings.HasSuffix(s, "directory is not empty"):
		return ReportRmdirNotEmpty
	}
	return ReportOther
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

// volumePath returns the first path in s that is in uid's pod directory, or "". It is only for display: the name may
// contain anything, so its end is a guess.
func volumePath(s string, uid PodUID) string {
	i := strings.Index(s, "/pods/"+string(uid)+"/")
	if i < 0 {
		return ""
	}
	start := strings.LastIndexAny(s[:i], " \"") + 1
	if s[start] != '/' {
		return ""
	}
	path := s[start:]
	for _, end := range [...]string{": ", " /", " occur", `"`} {
		path, _, _ = strings.Cut(path, end)
	}
	return path
}
