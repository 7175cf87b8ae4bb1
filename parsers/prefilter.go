package parsers

import "bytes"

// The prefilter searches for needles: byte strings without which no line can be a sighting. Each is searched for by one
// byte of it that is rare in logs, since bytes.IndexByte uses vector instructions; what is around it is compared
// afterwards. Two to three times faster than one pass for all needles (Wu and Manber).

// chunk is how much is searched for all needles in turn, so that it is read from the
// processor's first cache after the first time.
const chunk = 16 << 10

// needle is a byte string, split before the byte that the search looks for.
type needle struct {
	before, from string
	follows      func([]byte) bool // what must be after it; nil for anything
}

var (
	// "Orphaned pod" and "orphaned pod": every textual report.
	needleReport = needle{"rp", "haned pod", nil}
	// An error of subpaths, which hints name.
	needleSubpath = needle{"cleaning sub", "Path mounts", nil}
	// UnmountVolume and UnmapVolume, which hints name.
	needleUnm = needle{"", "Unm", volumeFollows}
	// journalctl prints some MESSAGEs as an array of numbers, which hides the text: every such array matches.
	// Spaces and a colon follow.
	needleArray = needle{`"MESSA`, `GE"`, arrayFollows}
)

// find returns the index of n in b, or -1. It compares the last byte first, since texts with the same beginning
// are common.
func (n *needle) find(b []byte) int {
	last := len(n.from) - 1
	for from := 0; ; {
		i := bytes.IndexByte(b[from:], n.from[0])
		if i < 0 {
			return -1
		}
		i += from
		from = i + 1
		start, end := i-len(n.before), i+len(n.from)
		if end <= len(b) && b[end-1] == n.from[last] && string(b[i:end]) == n.from && start >= 0 && string(b[start:i]) == n.before &&
			(n.follows == nil || n.follows(b[end:])) {
			return start
		}
	}
}

// arrayFollows reports whether b starts with a colon and a bracket.
func arrayFollows(b []byte) bool {
	b = bytes.TrimLeft(b[:min(len(b), 16)], " ")
	return len(b) > 0 && b[0] == ':' && bytes.HasPrefix(bytes.TrimLeft(b[1:], " "), []byte{'['})
}

// volumeFollows reports whether b starts with the rest of UnmountVolume or UnmapVolume.
func volumeFollows(b []byte) bool {
	return bytes.HasPrefix(b, []byte("ountVolume")) || bytes.HasPrefix(b, []byte("apVolume"))
}

// overlap is how far a chunk reaches into the next, so that no needle is cut.
const overlap = 32

// needles are all of them. Without hints the first two are enough.
var needles = [...]*needle{&needleReport, &needleArray, &needleSubpath, &needleUnm}

// index returns where the first needle in block starts, -1 where there is none.
func index(block []byte, hints bool) int {
	needles := needles[:]
	if !hints {
		needles = needles[:2]
	}
	for from := 0; from < len(block); from += chunk {
		part := block[from:min(from+chunk+overlap, len(block))]
		first := -1
		for _, n := range needles {
			b := part
			if first >= 0 {
				b = part[:min(first+overlap, len(part))]
			}
			if i := n.find(b); i >= 0 && (first < 0 || i < first) {
				first = i
			}
		}
		if first >= 0 {
			return from + first
		}
	}
	return -1
}

// Index returns where in block the first line that a Parser must see has what makes it one, and -1 where there is none.
// A needle that the block's end cuts is the caller's to carry over.
func Index(block []byte) int { return index(block, true) }

// Interesting reports whether block, one line or many, contains text that a Parser must see.
func Interesting(block []byte) bool { return Index(block) >= 0 }
