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
	// Files are those that may be residue, with what a restore needs where the sweep may remove. Live counts, by kind, the files of sandboxes that
	// the runtime lists, but those that hinder its teardown.
	Files []Content
	Live  map[Kind]policy.Tally
	// InUse counts, by network, the addresses of sandboxes that the runtime lists.
	InUse  map[string]int64
	Errors []string // what could not be read, in words, for people
}

// Content is a file that CNI wrote, as it is archived before it goes: what was judged, and what a
// restore needs besides. A sweep that removes nothing reads the file alone.
type Content struct {
	File
	Mode  uint32    // permission bits
	Owner [2]uint32 // user and group
	Mtime time.Time
	Label string // security.selinux, "" where there is none
	Data  []byte
	Err   string // why a restore is not to be had; such a file is left alone
}

// Outcome is what became of one file: Done, Gone, Refused or Failed.
type Outcome struct {
	File   File
	Result policy.Result
	Err    string
}
