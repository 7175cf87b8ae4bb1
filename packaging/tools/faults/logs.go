package main

var logsFaults = []fault{
	{
		kind: slip, slip: "the first lines of a followed file count",
		file: "reaper/logs/file.go", in: "Follower.file",
		old: "if !f.cfg.Recent {",
		new: "if f.cfg.Recent {",
	},
	{
		kind: model, slip: "a line is dated by the clock of its reader",
		file: "reaper/logs/file.go", in: "waits.each",
		old: "began := w.now()\n\t\t\tline, ok := <-lines\n\t\t\tw.at = w.at.Add(max(0, w.now().Sub(began)))",
		new: "line, ok := <-lines\n\t\t\tw.at = w.now()",
	},
	{
		kind: guard, slip: "lines that journald has dropped do not matter",
		file: "reaper/logs/journal.go", in: "Follower.next",
		old: "if j.Dropped() {",
		new: "if j.Dropped() && len(streams) > mostStreams {",
	},
	{
		kind: slip, slip: "the first entry of a stream counts",
		file: "reaper/logs/journal.go", in: "Follower.next",
		old: "streams[key].Begin(j.Time)\n",
		new: "",
	},
	{
		kind: slip, slip: "journalctl is not asked for the field that shows a cut line",
		file: "reaper/logs/journal.go", in: "outputFields",
		old: "_LINE_BREAK,",
		new: "",
	},
	{
		kind: slip, slip: "journalctl shortens long messages",
		file: "reaper/logs/journal.go", in: "Follower.arguments",
		old: `"--all", `,
		new: "",
	},
	{
		kind: slip, slip: "a line of a full channel is dropped",
		file: "reaper/logs/logs.go", in: "Follower.send",
		old: "case <-ctx.Done():",
		new: "default:",
	},
	{
		kind: guard, slip: "what is no regular file is followed",
		file: "reaper/logs/logs.go", in: "identify",
		old: " || !info.Mode().IsRegular()",
		new: "",
	},
}
