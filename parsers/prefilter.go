package parsers

// The prefilter is one pass over a block of bytes for all needles at once, after Wu
// and Manber ("A fast algorithm for multi-pattern searching", 1994): the two bytes
// below the window's end say how far the window may move before a needle can end
// there. Ordinary log text moves it by most of the shortest needle's length, so a
// block costs less than one look per byte, however many needles there are.

// needles are the byte strings without which no line can be a sighting. Each form of
// a report holds one of them in every transport: "Orphaned" and "orphaned" share a
// tail; a MESSAGE that journalctl prints as an array of numbers hides its text, so
// that every such array counts; a hint names the volume operation that failed.
var needles = [...]string{
	"rphaned pod",
	`MESSAGE":[`,
	`MESSAGE": [`,
	`MESSAGE" : [`,
	"UnmountVolume",
	"UnmapVolume",
	"cleaning subPath mounts",
}

// window is the length of the shortest needle; all needles are compared by their
// first window bytes before the rest is looked at.
const window = 10

// shifts holds, for each pair of bytes, how far the window may move when it ends with
// that pair: 0 where a needle's first window bytes end with it.
var shifts = makeShifts()

func makeShifts() *[1 << 16]uint8 {
	var t [1 << 16]uint8
	for i := range t {
		t[i] = window - 1
	}
	for _, n := range needles {
		for i := 1; i < window; i++ {
			pair := int(n[i-1])<<8 | int(n[i])
			t[pair] = min(t[pair], uint8(window-1-i))
		}
	}
	return &t
}

// Index returns where the first needle in block starts, -1 where there is none. A
// line that holds no needle is no sighting in any transport; one that does may be.
func Index(block []byte) int {
	t := shifts
	for end := window - 1; end < len(block); {
		s := int(t[int(block[end-1])<<8|int(block[end])])
		if s != 0 {
			end += s
			continue
		}
		if start := end - window + 1; needleAt(block[start:]) {
			return start
		}
		end++
	}
	return -1
}

func needleAt(b []byte) bool {
	for _, n := range needles {
		if len(b) >= len(n) && string(b[:len(n)]) == n {
			return true
		}
	}
	return false
}

// Interesting reports whether block, a line or many, may hold a sighting. Whoever
// reads blocks of its own can skip those that hold none; a needle cut by the block's
// end is the caller's to carry over.
func Interesting(block []byte) bool { return Index(block) >= 0 }
