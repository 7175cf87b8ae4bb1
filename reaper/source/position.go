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
	// Files are the files that are followed, oldest first: the last one has the log's
	// name, or had it; the others have been rotated, and some are read to their end.
	Files []FilePosition `json:"files,omitempty"`
	// Modified is the youngest modification time of all files read, after which a rotated
	// file that is not in Files has never been read.
	Modified time.Time `json:"modified,omitzero"`
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
// numbers are left out, since they change over a reboot. Another inode is a copy, made by
// an editor or by copytruncate, if at least least bytes of the fingerprint say so.
func (p FilePosition) matches(ino uint64, size int64, prefix []byte, least int) bool {
	if p.Offset < 0 || p.Offset > size || p.Length < 0 || p.Length > len(prefix) {
		return false
	}
	if fingerprint(prefix[:p.Length]) != p.Fingerprint {
		return false
	}
	return p.Inode == ino || p.Length >= least
}
