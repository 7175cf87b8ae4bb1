package doctor

import (
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/diagnosis"
)

// This file tells of what was taken already: what lies in quarantine, and what is gone.

// gone says what became of the pods that the kubelet named and that are not there, "" where there are none.
func (v *Screen) gone() string {
	gone, parked := 0, 0
	for i := range v.Pods {
		switch {
		case v.Pods[i].Fate != diagnosis.Gone:
		case v.Pods[i].parked:
			parked++
		default:
			gone++
		}
	}
	lies := human.Plural(parked, "lies", "lie") + " in quarantine."
	switch is := human.Plural(gone, "is", "are"); {
	case gone+parked == 0:
		return ""
	case parked == 0:
		return human.Count(gone, "pod") + " that it named " + is + " gone."
	case gone == 0:
		return human.Count(parked, "pod") + " that it named " + lies
	default:
		return human.Count(gone, "pod") + " that it named " + is + " gone, and " + human.Thousands(parked) + " " + lies
	}
}

// whose is "1 pod's" or "2 pods'".
func whose(pods int) string { return human.Count(pods, "pod") + human.Plural(pods, "'s", "'") }

// aging is the ephemeral data that goes from the quarantine by itself, with the commands that keep it.
type aging struct {
	UIDs       []parsers.PodUID `json:"uids"` // what goes first stands first
	Bytes      int64            `json:"bytes"`
	DueSeconds int              `json:"due_seconds"` // until the first goes
	Commands   []string         `json:"commands"`
}

func newAging(a diagnosis.Aging) *aging {
	if len(a.UIDs) == 0 {
		return nil
	}
	v := aging{UIDs: a.UIDs, Bytes: a.Bytes, DueSeconds: max(0, int(a.In.Seconds()))}
	for _, uid := range a.UIDs {
		v.Commands = append(v.Commands, "orphan-reaper quarantine restore "+string(uid))
	}
	return &v
}

// aging says what ephemeral data goes from the quarantine by itself, when, and how a person keeps it.
func (p writer) aging(v *Screen) {
	if v.Aging == nil {
		return
	}
	pods := len(v.Aging.UIDs)
	when, it := " now", "it"
	if due := time.Duration(v.Aging.DueSeconds) * time.Second; due > 0 {
		when = " in " + human.Age(due)
	}
	if pods > 1 {
		when, it = ", the first"+when, "one"
	}
	if v.Stops != nil || v.Daemon.Runs != policy.Yes {
		when += ", if a daemon or a sweep enforces"
	}
	p.Printf("\n")
	what := whose(pods) + human.Plural(pods, " emptyDir", " emptyDirs") + " (" + human.Size(v.Aging.Bytes) + ") "
	p.Para("", what+human.Plural(pods, "is", "are")+" permanently removed"+when+". To keep "+it+":")
	p.commands(v.Aging.Commands, "quarantine list")
}

// data says what waits in quarantine for a person's word, which nobody is in a hurry to give.
func (p writer) data(v *Screen) {
	if v.dataPods == 0 {
		return
	}
	p.Printf("\n")
	p.Para("", whose(v.dataPods)+" data ("+human.Size(v.dataBytes)+") "+human.Plural(v.dataPods, "waits", "wait")+
		" in quarantine for your decision:")
	p.command("orphan-reaper quarantine list")
}
