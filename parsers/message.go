package parsers

import (
	"strings"
)

// The constant messages of structured calls (1.21 and newer).
const (
	msgManyErrors = "There were many similar errors. Turn up verbosity to see them."
	msgOrphanPod  = "Orphan pod"
	msgFoundBut   = "Orphaned pod found, but "
	msgFailedDir  = "Failed to remove orphaned pod dir"
	msgFailedSub  = "Failed to remove orphaned pod subdir"
)

// countHead, a number and countTail end a formatted report. 1.7 has two spaces before "Turn", others have one.
const (
	countHead = " : There were a total of "
	countTail = " errors similar to this. Turn up verbosity to see them."
)

// parseOrphan parses a call by the kubelet's format strings.
func parseOrphan(c *call) (Report, bool) {
	if !c.Structured {
		return orphanText(c.Msg)
	}
	switch {
	case c.Msg == msgManyErrors, c.Msg == msgOrphanPod:
		if c.File == "kubelet_pods.go" || c.File == "kubelet.go" {
			return Report{}, false
		}
		return orphanInErr(c)
	case strings.HasPrefix(c.Msg, msgFoundBut), c.Msg == msgFailedDir, c.Msg == msgFailedSub:
		return orphanInPodUID(c)
	case c.JSON && len(c.Fields) == 0:
		// In the JSON format, a formatted message has no fields.
		return orphanText(c.Msg)
	}
	return Report{}, false
}

// orphanInErr parses err="orphaned pod \"UID\" found, but …" with numErrs.
func orphanInErr(c *call) (Report, bool) {
	err, ok := c.get("err")
	if !ok {
		return Report{}, false
	}
	text := err.Value
	if err.Cut {
		text = trimCutMark(text)
	}
	rest, ok := strings.CutPrefix(text, "orphaned pod ")
	if !ok {
		return Report{}, false
	}
	rep, ok := orphanFound(rest, false)
	if !ok || !agrees(c, rep.UID) {
		return Report{}, false
	}
	if n, ok := c.get("numErrs"); ok && c.Msg == msgManyErrors {
		if v, ok := number(n.Value); ok {
			rep.Count = v
		}
	}
	return rep, true
}

// orphanInPodUID parses the messages with the pod in podUID, of the two files that print them. A fragment has no file.
func orphanInPodUID(c *call) (Report, bool) {
	if c.File == "kubelet.go" {
		return Report{}, false
	}
	f, ok := c.get("podUID")
	if !ok || f.Cut {
		return Report{}, false
	}
	uid, ok := ParsePodUID(f.Value)
	if !ok || !agrees(c, uid) {
		return Report{}, false
	}
	rep := Report{UID: uid, Kind: Removal, Reason: Other, Count: NoCount}
	if text, found := strings.CutPrefix(c.Msg, msgFoundBut); found {
		switch {
		case strings.HasPrefix(text, "volumes are not cleaned up"), strings.HasPrefix(text, "volumes not yet removed"):
			rep.Kind = Volumes
		case !strings.HasPrefix(text, "failed to remove volumes subdir"):
			rep.Kind = None // no kubelet prints it
		}
	}
	return rep, true
}

// agrees reports whether no field of the call names another pod.
func agrees(c *call, uid PodUID) bool {
	if c.has("podUID") {
		f, ok := c.get("podUID")
		if !ok || (f.Value != string(uid) && !f.Cut) {
			return false
		}
	}
	if c.has("path") {
		f, ok := c.get("path")
		if !ok || namesOther(f.Value, uid) {
			return false
		}
	}
	if f, ok := c.get("err"); ok && namesOther(f.Value, uid) {
		return false
	}
	return true
}

// orphanText parses a formatted message (1.20 and older, and the V(3) lines):
//
//	Orphaned pod "UID" found, but …
//	Orphan pod: orphaned pod "UID" found, but …
//	Failed to remove orphaned pod "UID" dir; err: …
//	Failed to remove orphaned pod "UID" subdir "…"; err: …
func orphanText(msg string) (Report, bool) {
	msg = strings.TrimRight(msg, " ")
	if rest, ok := strings.CutPrefix(msg, "Failed to remove orphaned pod "); ok {
		uid, rest, ok := cutUID(rest)
		isReport := startsOrCut(rest, " dir; err: ") || startsOrCut(rest, " subdir ")
		if !ok || !isReport || namesOther(rest, uid) {
			return Report{}, false
		}
		return Report{UID: uid, Kind: Removal, Reason: Other, Count: NoCount}, true
	}
	msg = strings.TrimPrefix(msg, "Orphan pod: ")
	if len(msg) == 0 || (msg[0] != 'o' && msg[0] != 'O') {
		return Report{}, false
	}
	rest, ok := strings.CutPrefix(msg[1:], "rphaned pod ")
	if !ok {
		return Report{}, false
	}
	return orphanFound(rest, true)
}

// orphanFound parses `"UID" found, but …`. rollup means that the text may end with the count.
func orphanFound(s string, rollup bool) (Report, bool) {
	uid, rest, ok := cutUID(s)
	if !ok {
		return Report{}, false
	}
	rep := Report{UID: uid, Kind: Removal, Reason: Other, Count: NoCount}
	if rest = trimCutMark(rest); strings.HasPrefix(" found, but ", rest) {
		rep.Kind = None // truncated here; "found, removing" is not a report
		return rep, true
	}
	rest, ok = strings.CutPrefix(rest, " found, but ")
	if !ok || namesOther(rest, uid) {
		return Report{}, false
	}
	if rollup {
		rest, rep.Count = cutCount(rest)
	}
	rep.Reason, rep.Kind, ok = classify(rest)
	return rep, ok
}

// startsOrCut reports whether s starts with text, or is a truncated beginning of text.
func startsOrCut(s, text string) bool {
	return strings.HasPrefix(s, text) || strings.HasPrefix(text, trimCutMark(s))
}

// cutUID removes a quoted UID from the front of s. The kubelet quotes directory names with %q, so a second quote that
// does not close the string belongs to a name that is not a UID.
func cutUID(s string) (PodUID, string, bool) {
	if !strings.HasPrefix(s, `"`) {
		return "", "", false
	}
	name, rest, ok := strings.Cut(s[1:], `"`)
	if !ok {
		return "", "", false
	}
	uid, ok := ParsePodUID(name)
	return uid, rest, ok
}

// cutCount removes the count, complete or truncated, from the end of s. Only the last one in s is the kubelet's.
func cutCount(s string) (string, int) {
	i := strings.LastIndex(s, countHead)
	if i < 0 {
		for n := len(countHead) - 1; n > 1; n-- {
			if text, ok := strings.CutSuffix(trimCutMark(s), countHead[:n]); ok {
				return text, NoCount
			}
		}
		return s, NoCount
	}
	tail := s[i+len(countHead):]
	d := digits(tail)
	rest := trimCutMark(strings.Replace(tail[d:], ".  ", ". ", 1))
	if !strings.HasPrefix(countTail, rest) {
		return s, NoCount
	}
	n, ok := number(tail[:d])
	if !ok || len(rest) < len(" e") {
		return s[:i], NoCount // the number may be truncated
	}
	return s[:i], n
}
