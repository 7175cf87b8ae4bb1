package ui

import (
	"bytes"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
)

// TestPurgeQuestion: a question names each pod with its entry, volumes, drivers and bytes, and unread content
// is never called empty. A pod's text cannot control the terminal.
func TestPurgeQuestion(t *testing.T) {
	skeleton := policy.EntryState{UID: "a", Entry: "a", Left: []policy.Residue{
		{Path: "etc-hosts", Class: contents.ClassSkeleton, Entries: 1, Bytes: 4096},
		{Path: "volumes/kubernetes.io~empty-dir/cache", Class: contents.ClassEphemeral, Entries: 1, Bytes: 4096},
	}}
	data := policy.EntryState{
		UID: "b", Entry: "b.2", Namespace: "shop", PodName: "db-0\x1b[2J",
		Left:    []policy.Residue{{Path: "volumes/kubernetes.io~csi/pvc-1\x1b[2J", Class: contents.ClassData, Entries: 1, Bytes: 4096}},
		VolData: map[string]string{"vol_data.json": `{"driverName":"ebs.csi.aws.com"}`},
	}
	unread := policy.EntryState{UID: "c", Entry: "c.1"}
	twin := skeleton
	twin.Entry = "a.2"
	large := policy.EntryState{UID: "d", Entry: "d", Left: []policy.Residue{
		{Path: "volumes/kubernetes.io~nfs/share", Class: contents.ClassData, Entries: 1_000_000, Bytes: 4096, Partial: true},
	}}
	const (
		ofSkeleton = "Pod a: 2 files and directories, 8.0 KiB\n  volumes/kubernetes.io~empty-dir/cache: ephemeral, 4.0 KiB\n"
		ofUnread   = "Pod c, entry c.1: its content is not known\n"
	)
	for _, c := range []struct {
		name    string
		entries []policy.EntryState
		want    string
	}{
		{
			"known",
			[]policy.EntryState{skeleton},
			ofSkeleton + "Permanently remove 1 pod with 2 files and directories, 8.0 KiB in quarantine? This cannot be undone.",
		},
		{
			"data",
			[]policy.EntryState{skeleton, data},
			ofSkeleton + "Pod b, shop/db-0\\x1b[2J, entry b.2: 1 file or directory, 4.0 KiB\n  volumes/kubernetes.io~csi/pvc-1\\x1b[2J: data, 4.0 KiB\n" +
				"  CSI driver: ebs.csi.aws.com\nA pod may have written its name itself: its UID counts.\n" +
				"Permanently remove 2 pods with 3 files and directories, 12 KiB in quarantine, 1 of them with data that may be a user's? This cannot be undone.",
		},
		{
			"more than was counted",
			[]policy.EntryState{large},
			"Pod d: at least 1,000,000 files and directories, 4.0 KiB\n  volumes/kubernetes.io~nfs/share: data, 4.0 KiB\n" +
				"Permanently remove 1 pod with at least 1,000,000 files and directories, 4.0 KiB in quarantine, " +
				"with data that may be a user's? This cannot be undone.",
		},
		{
			"unread",
			[]policy.EntryState{unread},
			ofUnread + "Permanently remove 1 pod, with content that is not known and may be a user's data? This cannot be undone.",
		},
		{
			"some unread",
			[]policy.EntryState{unread, skeleton},
			ofUnread + ofSkeleton +
				"Permanently remove 2 pods with 2 files and directories, 8.0 KiB in quarantine, " +
				"1 of them with content that is not known and may be a user's data? This cannot be undone.",
		},
		{
			"two entries of one pod",
			[]policy.EntryState{skeleton, twin},
			ofSkeleton + strings.Replace(ofSkeleton, "Pod a", "Pod a, entry a.2", 1) +
				"Permanently remove 1 pod in 2 entries with 4 files and directories, 16 KiB in quarantine? This cannot be undone.",
		},
	} {
		if got := PurgeQuestion(c.entries); got != c.want {
			t.Errorf("%s:\n got %q\nwant %q", c.name, got, c.want)
		}
	}
	var many []policy.EntryState
	for range 10_000 {
		many = append(many, skeleton)
	}
	if got := PurgeQuestion(many); !strings.Contains(got, "and 9980 more\n") || strings.Count(got, "Pod a") != mostAskedEntries {
		t.Errorf("of very many: %s", got)
	}
}

// TestPurged: the result has the sum of all that was removed.
func TestPurged(t *testing.T) {
	taken := map[contents.Class]policy.Tally{contents.ClassData: {Entries: 2, Bytes: 8192}, contents.ClassSkeleton: {Entries: 5, Bytes: 20480}}
	var b bytes.Buffer
	p := NewPrinter(&b, noEnv)
	p.PurgeDone([]policy.Outcome{{Action: policy.Action{UID: "a", Entry: "a"}, Result: policy.Done, Taken: taken}})
	if err := p.Flush(); err != nil || b.String() != "purged: a  7 files and directories, 28 KiB, with the directories around them\n" {
		t.Errorf("%q, %v", &b, err)
	}
}
