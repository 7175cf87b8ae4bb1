package parsers

import "bytes"

// The prefilter searches for needles: every line that is a sighting contains one of them. It searches for one byte of
// each needle that is rare in logs, since bytes.IndexByte uses vector instructions, and then compares the text around
// it. That is two to three times faster than one pass for all needles (Wu and Manber).

// chunk is how much is searched for one needle after the other, so that it stays in the processor's first cache.
const chunk = 16 << 10

// needle is a byte string, split before its rare byte.
type needle struct {
	before, from string
	follows      func([]byte) bool // checks the text after it; may be nil
}

var (
	// "Orphaned pod" and "orphaned pod": every textual report.
	needleReport = needle{"rp", "haned pod", nil}
	// The error of subpaths in a hint.
	needleSubpath = needle{"cleaning sub", "Path mounts", nil}
	// UnmountVolume and UnmapVolume in a hint.
	needleUnm = needle{"", "Unm", volumeFollows}
	// A MESSAGE that journalctl prints as an array of numbers, which hides the text, so every such array matches.
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

// overlap is how far a chunk reaches into the next, so that no needle is split.
const overlap = 32

// needles has all needles. Without hints the first two are enough.
var needles = [...]*needle{&needleReport, &needleArray, &needleSubpath, &needleUnm}

// index returns the index of the first needle in block, or -1.
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

// Index returns the index in block of the first needle, whose line a Parser must see, or -1. The caller handles a needle
// that the block's end splits.
func Index(block []byte) int { return index(block, true) }

// Interesting reports whether block, one line or many, contains text that a Parser must see.
func Interesting(block []byte) bool { return Index(block) >= 0 }
