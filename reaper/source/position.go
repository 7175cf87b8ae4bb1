package source

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// Position is where a source stands: what a checkpoint holds. The zero value is a first
// start. A Position of another kind of source counts as one.
type Position struct {
	// Cursor is journald's cursor of the last line received, and Hit that line's time.
	Cursor string    `json:"cursor,omitempty"`
	Hit    time.Time `json:"hit,omitzero"`
	// Alive is when everything up to now had last been read, by the wall clock. With
	// --grep the cursor stands still until the next hit, which may take weeks.
	Alive time.Time `json:"alive,omitzero"`
	// Files has the file with the log's name, or that had it last. Earlier versions put rotated
	// ones before it.
	Files []FilePosition `json:"files,omitempty"`
}

// FilePosition is a place in one file.
type FilePosition struct {
	Dev    uint64 `json:"dev"`
	Inode  uint64 `json:"inode"`
	Offset int64  `json:"offset"` // the beginning of the first line not received
	// Fingerprint is the SHA-256 of the file's first Length bytes, up to 1,024.
	Length      int    `json:"length"`
	Fingerprint string `json:"fingerprint"`
}

// maxPrefix is how much of a file's beginning tells it from its successor. Log lines
// begin with a time, so that the first one already differs.
const maxPrefix = 1024

func fingerprint(prefix []byte) string {
	sum := sha256.Sum256(prefix)
	return hex.EncodeToString(sum[:])
}

// matches reports whether a file is the one of the position, still or again. Device
// numbers are left out, since they change over a reboot. Another inode is an editor's copy
// if the whole fingerprint says so.
func (p FilePosition) matches(ino uint64, size int64, prefix []byte) bool {
	if p.Offset < 0 || p.Offset > size || p.Length < 0 || p.Length > len(prefix) {
		return false
	}
	if fingerprint(prefix[:p.Length]) != p.Fingerprint {
		return false
	}
	return p.Inode == ino || p.Length == maxPrefix
}
