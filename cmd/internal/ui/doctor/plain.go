package doctor

import (
	"cmp"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/ui"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// plain has, for a reader without time, what a reason means and what to do, in a short sentence each.
// It stands in for ui.Reasons where their first sentence is too long or needs the rest; an empty one
// stands in for nothing.
var plain = map[policy.Reason]struct{ means, do string }{
	policy.ReasonMounted:       {"A volume of it is still mounted.", "See what holds the mount, and end that. Never remove anything below it."},
	policy.ReasonNotADirectory: {"", "Find out what it is and who made it. It is never touched. This shows what is known of it:"},
	policy.ReasonStaged:        {"A volume of it is still staged here.", "See that the volume's CSI driver runs here; explain has the path."},
	policy.ReasonInUse:         {"Something still has a file of it open.", "See what uses a file of it, or why that is not known:"},
	policy.ReasonMountsUnknown: {"Whether a volume of it is mounted could not be read.", ""},
	policy.ReasonCgroupUnknown: {"The cgroups of the pods could not be read.", ""},
	policy.ReasonContradiction: {"A setting contradicts the kubelet that runs.", "A setting contradicts the kubelet that runs. This names both sides:"},
	policy.ReasonRuntimeUnknown: {
		"The container runtime could not be asked about it.", "See that the container runtime runs; --runtime-endpoint names its socket:",
	},
	policy.ReasonContentUnknown: {"What lies in it could not be read wholly.", ""},
	policy.ReasonKubeletFile:    {"A state file of the kubelet still names it.", ""},
	policy.ReasonNotRunning:     {"Nothing of it runs, and the kubelet cannot finish with it.", ""},
	policy.ReasonRemade:         {"It was made again after it had been removed: it lives.", ""},
	policy.ReasonBreaker: {
		"", "STOPPED: a quarantined pod turned out to be alive. Inspect it; after quarantine resume the daemon removes pods again, this one too:",
	},
	policy.ReasonRestored: {
		"An operator put it back: it is kept until quarantine forget.",
		"An operator put this pod back, so it is kept, and the kubelet keeps complaining. If it is not needed, have it judged again:",
	},
	policy.ReasonKubeletHolds: {
		"The kubelet still works on a volume of it, and fails.", "Search the kubelet's log for TearDown failed: it has the volume and the cause.",
	},
	policy.ReasonTerminating: {
		"The kubelet tries to end it, and does not finish.", "Search the kubelet's log for what fails. A restart of the kubelet ends it.",
	},
	policy.ReasonSandboxOrphaned: {"The container runtime keeps a stopped sandbox of it.", "If the pod is gone, this has the runtime stop and remove it:"},
	policy.ReasonKubeletUnknown: {
		"It is not certain that the running kubelet has released it.",
		"If this lasts longer than ten minutes, have the kubelet's journal read: JSON lines in a file do not count. This has what is missing:",
	},
}

// commands are what shows a person more than explain does. The others are explained.
var commands = map[policy.Reason]string{
	policy.ReasonRuntimeUnknown: "crictl info", policy.ReasonRuntimeEmpty: "crictl pods",
	policy.ReasonContradiction: "orphan-reaper config check", policy.ReasonBreaker: "orphan-reaper quarantine list",
	policy.ReasonObserve: "orphan-reaper sweep --dry-run",
}

// plainly says what a reason means in a sentence.
func plainly(r policy.Reason, e *policy.Evidence) string {
	if r == policy.ReasonInUse && e.Facts[policy.FactInUse].Truth == policy.Unknown {
		return "Whether something has a file of it open could not be read."
	}
	if r == policy.ReasonKubeletFile && e.FilesGoStale {
		return "It waits until the kubelet reports it: a state file that may be stale has it."
	}
	return cmp.Or(plain[r].means, firstSentence(ui.TextOf(r).Means))
}

// plainTodo says what to do about a reason.
func plainTodo(r policy.Reason) string { return cmp.Or(plain[r].do, ui.TextOf(r).Todo) }

// firstSentence cuts a text after its first sentence.
func firstSentence(text string) string {
	if i := strings.Index(text, ". "); i >= 0 {
		return text[:i+1]
	}
	return text
}
