package ui

import (
	"fmt"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// reasonsDoc writes docs/reasons.md from the table that explain uses; make golden writes
// the file, and a test compares.
func reasonsDoc() string {
	var b strings.Builder
	b.WriteString(`# Reasons

After two minutes you know why a pod is kept and what ends that: ` + "`orphan-reaper explain UID`" + ` shows its reasons, what was
seen on this node, and the commands below with the pod's own UID, paths and names.

A reason is one name of this closed list, the same in ` + "`scan`" + `, JSON, the journal and the metrics. Each reason by itself
is enough to keep a pod.

**Exit code 3** of ` + "`scan` and `sweep`" + ` asks for your attention. They end with it when a conflict lies in quarantine, or
when a pod is kept for a reason that has no line "Attention" below, or a "yes" there. A pod that only waits never asks.
One reason with "no, it lives" outweighs all others, except those with "yes". A sweep also asks while it cannot go on
with a pod in quarantine.

`)
	for _, a := range Reasons {
		fmt.Fprintf(&b, "## %s\n\n", a.Reason)
		paragraph := func(text string) { b.WriteString(strings.Join(human.Wrap(text, 120), "\n") + "\n\n") }
		paragraph(a.Means)
		paragraph("**What to do:** " + a.Todo)
		if a.Beyond != "" {
			paragraph(a.Beyond)
		}
		c := anywhere.Commands(&anyPod, a.Reason)
		for _, command := range append(c.Look, c.Then...) {
			b.WriteString("    " + command + "\n")
		}
		if len(c.Look)+len(c.Then) > 0 {
			b.WriteString("\n")
		}
		if words := outlookWords[a.Reason.Outlook()]; words != "" {
			paragraph("**Attention:** " + words)
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// anyPod and anywhere fill in the commands for every pod: explain has them for one.
var (
	anywhere = Place{PodsDir: "ROOT-DIR/pods", QuarantineDir: "QUARANTINE-DIR", Node: "NODE"}
	anyPod   = policy.Evidence{
		UID: "UID", Namespace: "NAMESPACE", PodName: "NAME", Unmount: "orphan-reaper unmount UID", Sandboxes: []policy.Sandbox{{ID: "ID"}},
		VolData: map[string]string{"": `{"driverName":"DRIVER"}`}, StateFiles: []policy.StateFile{{Name: "FILE"}},
	}
)

// outlookWords has the reasons that differ from the rule in the introduction.
var outlookWords = map[policy.Outlook]string{
	policy.OutlookAlive: "no, it lives",
	policy.OutlookQuiet: "no, an operator wanted it so",
	policy.OutlookStuck: "yes, whatever other reasons it has",
}
