package cni

import (
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// Look is one chunk of a sweep over the CNI directories: some files, listed first, and
// what was asked after that. A sweep takes as many looks as the directories are long, so
// that a hundred thousand files need no more memory than a few thousand.
type Look struct {
	At   policy.Instant
	Node policy.Node
	// Listed are the full IDs of all sandboxes and containers that the runtime lists, where
	// Node.RuntimeLists says that it answered.
	Listed []string
	// Files are those that may be residue. Live counts, by kind, the files of sandboxes that
	// the runtime lists, but those that hinder its teardown.
	Files []File
	Live  map[Kind]policy.Tally
	// InUse counts, by network, the addresses of sandboxes that the runtime lists.
	InUse  map[string]int64
	Errors []string // what could not be read, in words, for people
}

// Content is a file that CNI wrote, as it is archived before it goes.
type Content struct {
	File  File
	Mode  uint32    // permission bits
	Owner [2]uint32 // user and group
	Mtime time.Time
	Label string // security.selinux, "" where there is none
	Data  []byte
	// Later says that the batch was large enough without it: it is read again for the next.
	Later bool
	// Err says why it could not be read, or that it is no longer what was judged; such a
	// file is left alone.
	Err string
}

// Outcome is what became of one file: Done, Gone, Refused or Failed.
type Outcome struct {
	File   File
	Result policy.Result
	Err    string
}
