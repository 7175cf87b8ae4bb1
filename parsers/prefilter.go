package parsers

import "bytes"

// The prefilter looks for needles: byte strings without which no line can be a
// sighting in any transport. Each is searched for from a place in it that is rare in
// logs, since bytes.Index looks for a first byte with the processor's vector
// instructions and is as fast as that byte is rare; what stands before the place is
// compared afterwards. Measured on a syslog against one pass for all needles (Wu and
// Manber): two to three times faster.

// chunk is how much is searched for all needles in turn, so that it is read from the
// processor's first cache after the first time.
const chunk = 16 << 10

// needle is a byte string, split where the search starts.
type needle struct{ before, search []byte }

var (
	// "Orphaned pod" and "orphaned pod": every report in words.
	needleReport = needle{[]byte("rp"), []byte("haned pod")}
	// A MESSAGE that journalctl prints as an array of numbers hides its words, so that
	// every such array counts; spaces and a colon follow (arrayFollows).
	needleArray = needle{[]byte(`"MESSA`), []byte(`GE"`)}
	// What hints name: UnmountVolume and UnmapVolume, or an error of subpaths.
	// One search finds both operations (volumeFollows).
	needleUnm     = needle{nil, []byte("Unm")}
	needleSubpath = needle{[]byte("cleaning sub"), []byte("Path mounts")}
	// A CRI record that is not the last of its line is no sighting, but says that the
	// next one is none: whoever passes lines on one by one must pass it on too.
	needlePartial = needle{[]byte(" stderr "), []byte("P ")}
	// Nor is the head of a klog block, whose first line is one (see context).
	needleBlock = needle{[]byte(`" err=`), []byte("<")}
)

// find returns where n starts in b, and -1 where it is not. ok says what must follow.
func (n *needle) find(b []byte, ok func([]byte) bool) int {
	for from := 0; ; {
		i := bytes.Index(b[from:], n.search)
		if i < 0 {
			return -1
		}
		i += from
		from = i + 1
		start := i - len(n.before)
		if start >= 0 && bytes.Equal(b[start:i], n.before) && (ok == nil || ok(b[i+len(n.search):])) {
			return start
		}
	}
}

// arrayFollows reports whether b goes on with a colon and a bracket.
func arrayFollows(b []byte) bool {
	b = bytes.TrimLeft(b[:min(len(b), 16)], " ")
	return len(b) > 0 && b[0] == ':' && bytes.HasPrefix(bytes.TrimLeft(b[1:], " "), []byte{'['})
}

// volumeFollows reports whether b goes on as UnmountVolume or UnmapVolume do.
func volumeFollows(b []byte) bool {
	return bytes.HasPrefix(b, []byte("ountVolume")) || bytes.HasPrefix(b, []byte("apVolume"))
}

// blockFollows reports whether a line ends here, or nothing but what transports put
// after it follows.
func blockFollows(b []byte) bool {
	return len(b) == 0 || bytes.IndexByte([]byte("\r\n #\x1b"), b[0]) >= 0
}

// overlap is how far a chunk reaches into the next, so that no needle is cut.
const overlap = 32

// index returns where the first needle in block starts, -1 where there is none. single
// says that the caller will not see the lines around it.
func index(block []byte, hints, single bool) int {
	for from := 0; from < len(block); from += chunk {
		part := block[from:min(from+chunk+overlap, len(block))]
		first := -1
		look := func(n *needle, ok func([]byte) bool) {
			b := part
			if first >= 0 {
				b = part[:min(first+overlap, len(part))]
			}
			if i := n.find(b, ok); i >= 0 && (first < 0 || i < first) {
				first = i
			}
		}
		look(&needleReport, nil)
		look(&needleArray, arrayFollows)
		if hints {
			look(&needleUnm, volumeFollows)
			look(&needleSubpath, nil)
		}
		if single {
			look(&needlePartial, nil)
			look(&needleBlock, blockFollows)
		}
		if first >= 0 {
			return from + first
		}
	}
	return -1
}

// Index returns where in block the first line that a Parser must see has what makes it
// one, and -1 where there is none. Whoever reads blocks of its own can leave out all
// other lines, but for one after a line that OpensBlock: they are sightings in no
// transport. A needle that the block's end cuts is the caller's to carry over.
func Index(block []byte) int { return index(block, true, true) }

// Interesting reports whether block, a line or many, holds what a Parser must see.
func Interesting(block []byte) bool { return Index(block) >= 0 }
