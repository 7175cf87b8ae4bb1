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

A pod directory that is kept or waits has at least one reason. A reason is one name of this closed
list. You find the same names in ` + "`scan`, `explain`" + `, in JSON, in the journal's records and in a label
of the metrics. A pod may have several reasons, and each of them is enough to keep it: one source
that shows it alive outweighs all others.

` + "`orphan-reaper explain UID`" + ` shows the reasons of one pod. It also shows the fact and the detail that
the texts below mention: what was seen on this node. The commands that stand below a reason it shows
with this pod's own UID, paths and names.

"Attention" shows whether ` + "`scan` and `sweep`" + ` end with exit code 3 when a pod is kept for this reason:

- *No, it lives*: a pod with this reason is alive, whatever other reasons it has. The reasons with
  *yes, whatever other reasons it has* are the exception.
- A pod that only waits never asks for attention.
- A conflict in quarantine always does, until an operator has merged or purged it. ` + "`explain UID`" + ` shows how.

`)
	for _, a := range Reasons {
		fmt.Fprintf(&b, "## %s\n\n", a.Reason)
		paragraph := func(text string) { b.WriteString(strings.Join(human.Wrap(text, 140), "\n") + "\n\n") }
		paragraph(a.Means)
		paragraph("**What to do:** " + a.Todo)
		c := anywhere.Commands(&anyPod, a.Reason)
		for _, command := range append(c.Look, c.Then...) {
			b.WriteString("    " + command + "\n")
		}
		if len(c.Look)+len(c.Then) > 0 {
			b.WriteString("\n")
		}
		paragraph("**Attention:** " + outlookWords[a.Reason.Outlook()])
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// anyPod and anywhere fill in the commands for every pod: explain has them for one.
var (
	anywhere = Place{PodsDir: "ROOT-DIR/pods", QuarantineDir: "QUARANTINE-DIR", Node: "NODE"}
	anyPod   = policy.Evidence{
		UID: "UID", Namespace: "NAMESPACE", PodName: "NAME", Umount: "umount PATH", Sandboxes: []policy.Sandbox{{ID: "ID"}},
		VolData: map[string]string{"": `{"driverName":"DRIVER"}`}, StateFiles: []policy.StateFile{{Name: "FILE"}},
	}
)

var outlookWords = map[policy.Outlook]string{
	policy.OutlookPerson: "yes, if the pod is kept for it; no, while it only waits",
	policy.OutlookAlive:  "no, it lives",
	policy.OutlookQuiet:  "no, an operator wanted it so",
	policy.OutlookStuck:  "yes, whatever other reasons it has",
}
