package main

var showFaults = []fault{
	{
		kind: slip, slip: "the name of a pod moves the cursor of a reader of the JSON",
		file: "cmd/internal/show/page.go", in: "JSON",
		old: `if r == '\n' || strconv.IsPrint(r) {`, new: `if r == '\n' || r >= ' ' {`,
	},
	{
		kind: slip, slip: "the name of a pod has a line of its own on a screen",
		file: "cmd/internal/show/page.go", in: "safe",
		old: `bounded.Text(bounded.Cut(text, mostText))`, new: `bounded.Cut(text, mostText)`,
	},
	{
		kind: slip, slip: "doctor has nothing for an operator where the node was not read",
		file: "cmd/internal/show/doctor.go", in: "page.operator",
		old: `len(s.Problems) > 0`, new: `len(s.Problems) > mostProblems`,
	},
	{
		kind: slip, slip: "a runtime that could not be read is shown as what it has",
		file: "cmd/internal/show/explain.go", in: "page.verdict",
		old: `if r.Unknown {`, new: `if r.Unknown && r.Operator {`,
	},
	{
		kind: slip, slip: "doctor begins with a pod that only waits",
		file: "cmd/internal/show/doctor.go", in: "page.reported",
		old: `order(a.Verdict) - order(b.Verdict)`, new: `order(b.Verdict) - order(a.Verdict)`,
	},
	{
		kind: slip, slip: "the table begins with the pods that are alive",
		file: "cmd/internal/show/pods.go", in: "order",
		old: `judge.Remove: 1, judge.Wait: 2, judge.Keep: 3, judge.IsAlive: 4`, new: `judge.IsAlive: 0`,
	},
	{
		kind: slip, slip: "the kubelet's verbosity is switched once for each pod",
		file: "cmd/internal/show/pods.go", in: "merge",
		old: `all[begin] == more[begin]`, new: `all[begin] != more[begin]`,
	},
	{
		kind: slip, slip: "a node whose circuit breaker is open is not shown among many",
		file: "cmd/internal/show/fleet.go", in: "page.nodeTable",
		old: `if n.Error == "" && n.Failed == "" && !n.Breaker {`, new: `if n.Error == "" {`,
	},
	{
		kind: operator, slip: "an unmount does not warn that what is in memory is lost",
		file: "cmd/internal/show/quarantine.go", in: "Unmount",
		old: `!tried && (m.Type`, new: `tried && (m.Type`,
	},
	{
		kind: operator, slip: "two pods have the same short UID on a screen",
		file: "cmd/internal/show/pods.go", in: "shortUIDs",
		old: `[...]int{i - 1, i + 1}`, new: `[...]int{i + 1}`,
	},
	{
		kind: operator, slip: "the screen promises a daemon that does not run",
		file: "cmd/internal/show/doctor.go", in: "page.whoActs",
		old: `case s.Daemon != 0:`, new: `case s.Sweep == 0:`,
	},
}
