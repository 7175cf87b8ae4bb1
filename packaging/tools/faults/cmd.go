package main

var cmdFaults = []fault{
	{
		kind: slip, slip: "the exit code of a scan is lost",
		file: "cmd/orphan-reaper/scan.go", in: "app.scan",
		old: `return needs(s.Operator)`, new: `return nil`,
	},
	{
		kind: slip, slip: "a flag is there and does nothing",
		file: "cmd/orphan-reaper/quarantine.go", in: "newRestoreCommand",
		old: `uids[0], replace, n.by`, new: `uids[0], false, n.by`,
	},
	{
		kind: operator, slip: "any answer is a yes",
		file: "cmd/orphan-reaper/order.go", in: "app.ask",
		old: `strings.TrimSpace(answer) != word`, new: `strings.TrimSpace(answer) == ""`,
	},
	{
		kind: operator, slip: "an unmount does not ask where no person can answer",
		file: "cmd/orphan-reaper/unmount.go", in: "app.unmount",
		old: `return usagef("use --yes", "there is no terminal on which to ask")`, new: `return nil`,
	},
	{
		kind: operator, slip: "a dry run of unmount unmounts",
		file: "cmd/orphan-reaper/unmount.go", in: "app.unmount",
		old: `return errDryRun`, new: `return nil`,
	},
	{
		kind: operator, slip: "a command beside the daemon judges by the settings of its own file",
		file: "cmd/orphan-reaper/node.go", in: "opened.beside",
		old: `n.cfg.Beside(r.Settings)`, new: `_ = r.Settings`,
	},
	{
		kind: slip, slip: "what lies in quarantine and not in the ledger is not shown",
		file: "cmd/orphan-reaper/node.go", in: "opened.unlisted",
		old: `if len(names) > 0 {`, new: `if len(names) > mostCandidates {`,
	},
	{
		kind: slip, slip: "a reload does not reach what serves HTTP",
		file: "cmd/orphan-reaper/reload.go", in: "opened.reloads",
		old: `more(next.Judge())`, new: ``,
	},
	{
		kind: slip, slip: "a file of syslog counts as one that the kubelet writes",
		file: "cmd/orphan-reaper/sources.go", in: "sources.wanted",
		old: `Syslog: !own`, new: `Syslog: own`,
	},
	{
		kind: slip, slip: "the file of the next kubelet is not followed, since only the units are compared",
		file: "cmd/orphan-reaper/sources.go", in: "sources.follow",
		old: `if s.follower != nil && reflect.DeepEqual(c, s.following) {`, new: `if s.follower != nil && reflect.DeepEqual(c.Units, s.following.Units) {`,
	},
}
