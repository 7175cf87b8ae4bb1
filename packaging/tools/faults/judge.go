package main

var judgeFaults = []fault{
	{
		kind: refused, slip: "Dead takes a fact that could not be read for a good one",
		file: "reaper/judge/dead.go", in: "Case.judge",
		old: "case f.Truth == r.passes ||", new: "case f.Truth == r.passes || f.Truth == Unknown ||",
	},
	{
		kind: slip, slip: "the table has no row for staged volumes",
		file: "reaper/judge/dead.go", in: "table",
		old: "{Staged, No, IsStaged}", new: "{Mounted, No, IsMounted}",
	},
	{
		kind: model, slip: "a wall clock set back makes a volume young for ever",
		file: "reaper/judge/dead.go", in: "Case.young",
		old: "left = min(left, operation-since)", new: "left = max(left, operation-since)",
	},
	{
		kind: slip, slip: "a report counts for five minutes",
		file: "reaper/judge/dead.go", in: "reportAge",
		old: "30 * time.Second", new: "5 * time.Minute",
	},
	{
		kind: guard, slip: "a mount in the skeleton does not stop an exchange",
		file: "reaper/judge/entry.go", in: "JudgedEntry.alive",
		old: "p.SkeletonOnly == Yes && p.Facts[Mounted].Truth == No", new: "p.SkeletonOnly == Yes",
	},
	{
		kind: model, slip: "Since compares two boots by their boot clocks",
		file: "reaper/judge/fact.go", in: "Instant.Since",
		old: `i.BootID == "" || i.BootID != earlier.BootID || `, new: "",
	},
	{
		kind: operator, slip: "purge of a conflict passes over a mount table that could not be read",
		file: "reaper/judge/operator.go", in: "PurgeOrder",
		old: "case p.Facts[Mounted].Truth == Unknown:", new: "case p.Facts[Mounted].Truth == Unknown && e.Phase != InConflict:",
	},
	{
		kind: operator, slip: "restore is carried out while a purge of the entry is not finished",
		file: "reaper/judge/operator.go", in: "Entry.open",
		old: "case Moving, Restoring, Cleaning, Purging:", new: "case Moving, Restoring, Cleaning:",
	},
	{
		kind: refused, slip: "the gate lets a process remove that does not see the node's mounts",
		file: "reaper/judge/gate.go", in: "Standing.gate",
		old: "case !sees:", new: "case !sees && !s.Operator:",
	},
	{
		kind: model, slip: "confirm goes by the wall clock, and a machine boots into its past",
		file: "reaper/judge/entry.go", in: "Input.confirmLeft",
		old: "since, ok := in.Now.Since(e.MovedAt); ok", new: "since := in.Now.Wall.Sub(e.MovedAt.Wall); true",
	},
	{
		kind: model, slip: "a kubelet that has just started gives no time to a pod in confirm",
		file: "reaper/judge/entry.go", in: "Input.confirmLeft",
		old: "waited = min(waited, since)", new: "waited = since",
	},
}
