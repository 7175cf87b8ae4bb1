package view

import (
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
)

// TestPurgeQuestion: what nobody has read is never called empty.
func TestPurgeQuestion(t *testing.T) {
	skeleton := policy.EntryState{Left: []policy.Residue{{Class: contents.ClassEphemeral, Entries: 2, Bytes: 8192}}}
	data := policy.EntryState{Left: []policy.Residue{{Class: contents.ClassData, Entries: 1, Bytes: 4096}}}
	var unread policy.EntryState
	for _, c := range []struct {
		name    string
		entries []policy.EntryState
		want    string
	}{
		{"known", []policy.EntryState{skeleton}, "Remove for ever 1 pod with 8.0 KiB in quarantine? This cannot be undone."},
		{
			"data",
			[]policy.EntryState{skeleton, data},
			"Remove for ever 2 pods with 12 KiB in quarantine, 1 of them with data that may be a user's? This cannot be undone.",
		},
		{
			"unread",
			[]policy.EntryState{unread},
			"Remove for ever 1 pod, whose content nobody has read: it may be a user's data? This cannot be undone.",
		},
		{
			"some unread",
			[]policy.EntryState{unread, skeleton},
			"Remove for ever 2 pods with 8.0 KiB in quarantine, and 1 of them with content that nobody has read and that may be a user's data? This cannot be undone.",
		},
	} {
		if got := PurgeQuestion(c.entries); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}
