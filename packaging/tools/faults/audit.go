package main

var auditFaults = []fault{
	{
		kind: audit, slip: "a record that journald has not got is written",
		file: "reaper/audit/journal.go", in: "Journal.Record",
		old: `return fmt.Errorf("cannot write record %d: %w", e.Seq, err)`,
		new: `j.log.Warn("cannot write a record", slog.Any("error", err)); return nil`,
	},
	{
		kind: audit, slip: "a journald that hangs gets each record again while it hangs",
		file: "reaper/audit/journal.go", in: "Journal.Record",
		old: `&j.guard`, new: `new(bounded.Guard)`,
	},
	{
		kind: audit, slip: "a record on a machine without journald has no number",
		file: "reaper/audit/journal.go", in: "Journal.show",
		old: `slog.Int64("seq", e.Seq)`, new: `slog.Int64("seq", 0)`,
	},
	{
		kind: audit, slip: "two kinds of events have the same message ID",
		file: "reaper/audit/records.go", in: "Records",
		old: `ID: "ddf81eaf044b43d4a86427be02007dc2"`, new: `ID: "6a93a6434c9a4daf903b978f44b7218b"`,
	},
	{
		kind: audit, slip: "a long error pushes the command out of a record",
		file: "reaper/audit/text.go", in: "message",
		old: `maxText-len(end)`, new: `maxText`,
	},
	{
		kind: audit, slip: "the name of a pod has a line of its own in a record",
		file: "reaper/audit/text.go", in: "message",
		old: `bounded.Text(r.text(e))`, new: `r.text(e)`,
	},
	{
		kind: audit, slip: "the command that restores CNI files does not quote their archive",
		file: "reaper/audit/text.go", in: "Undo",
		old: `bounded.Shell(e.Archive)`, new: `e.Archive`,
	},
	{
		kind: slip, slip: "the kubelet's last report is that of the last scan",
		file: "reaper/audit/metrics.go", in: "Metrics.Status",
		old: `if p.LastReport.After(m.view.lastReport) {`, new: `if m.view.lastReport = (time.Time{}); !p.LastReport.IsZero() {`,
	},
	{
		kind: slip, slip: "what was removed of CNI counts as bytes of pods",
		file: "reaper/audit/metrics.go", in: "Metrics.Event",
		old: `e.Kind == judge.EventCNIRemoved`, new: `e.Kind == judge.EventCNIRemoving`,
	},
	{
		kind: slip, slip: "a call that hangs does not show in the metrics",
		file: "reaper/audit/table.go", in: "stoppedBy",
		old: ` || v.hangs && r == judge.Stuck`, new: ``,
	},
	{
		kind: slip, slip: "a fact that nothing on the node shows is 0",
		file: "reaper/audit/table.go", in: "pods",
		old: `known := len(v.Pods) == 0 || slices.ContainsFunc(v.Pods, func(p reaper.PodStatus) bool { return !unknown(p) }); known`,
		new: `unknown != nil`,
	},
	{
		kind: slip, slip: "a full network among many has no series",
		file: "reaper/audit/table.go", in: "networks",
		old: `cmp.Compare(flag(b.Full), flag(a.Full))`, new: `cmp.Compare(flag(a.Full), flag(b.Full))`,
	},
	{
		kind: slip, slip: "the umask hides the metrics file from the node exporter",
		file: "reaper/audit/textfile.go", in: "create",
		old: `err = f.Chmod(0o644)`, new: `err = f.Sync()`,
	},
	{
		kind: slip, slip: "the daemon leaves its last metrics behind",
		file: "reaper/audit/textfile.go", in: "Textfile.Run",
		old: `f.within(steps, func() (string, error) { return "", remove(path) })`,
		new: `f.within(ctx, func() (string, error) { return "", remove(path) })`,
	},
	{
		kind: politeStop, slip: "a write of the metrics that is cut off by the stop comes after their removal",
		file: "reaper/audit/textfile.go", in: "Textfile.Run",
		old: `f.update(steps)`, new: `f.update(ctx)`,
	},
	{
		kind: slip, slip: "a metrics file that could not be written whole replaces the old one",
		file: "reaper/audit/textfile.go", in: "create",
		old: `return errors.Join(err, f.Close())`, new: `return f.Close()`,
	},
	{
		kind: slip, slip: "a metrics file goes through the link that another user has put in its place",
		file: "reaper/audit/textfile.go", in: "replace",
		old: `tmp := "." + name + ".tmp"`, new: `tmp := name`,
	},
	{
		kind: slip, slip: "a warning has the priority of information",
		file: "reaper/audit/log.go", in: "prioritized.of",
		old: `level >= slog.LevelWarn:`, new: `level > slog.LevelWarn:`,
	},
}
