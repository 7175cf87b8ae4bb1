package main

var parsersFaults = []fault{
	{
		kind: slip, slip: "a path of a pod whose name begins like this one counts as its own",
		file: "parsers/reason.go", in: "namesOther",
		old: "name == string(uid) ||",
		new: "strings.HasPrefix(name, string(uid)) ||",
	},
	{
		kind: refused, slip: "the text that the kubelet still has volumes releases a pod",
		file: "parsers/reason.go", in: "classify",
		old: `{"volumes not yet removed", Other, Volumes}`,
		new: `{"volumes not yet removed", Other, Removal}`,
	},
	{
		kind: refused, slip: "of two equal keys in JSON the last one counts",
		file: "parsers/json.go", in: "parseObject",
		old: "_, twice := o[key]; !ok || twice",
		new: "!ok",
	},
	{
		kind: refused, slip: "a line whose fields name two pods is a report",
		file: "parsers/message.go", in: "agrees",
		old: "ok && namesOther(f.Value, uid)",
		new: "ok && f.Cut && namesOther(f.Value, uid)",
	},
	{
		kind: refused, slip: "another program's line is a report",
		file: "parsers/parse.go", in: "envelope.report",
		old: "e.named && !kubeletProgram(e.program)",
		new: `e.named && e.program == ""`,
	},
	{
		kind: refused, slip: "the line of a journal entry by another user is a report",
		file: "parsers/parse.go", in: "envelope.report",
		old: `e.journal.UID != "" && e.journal.UID != "0" `,
		new: `e.journal.UID == "nobody" `,
	},
	{
		kind: refused, slip: "a UID in capitals is a pod",
		file: "parsers/poduid.go", in: "allHex",
		old: "(c < 'a' || c > 'f')",
		new: "(c|0x20 < 'a' || c|0x20 > 'f')",
	},
	{
		kind: guard, slip: "a piece that a transport has cut off counts as a whole line",
		file: "parsers/parse.go", in: "envelope.report",
		old: "l.Whole && !e.pieces",
		new: "l.Whole",
	},
	{
		kind: guard, slip: "an entry of the journal after one that quotes a text counts",
		file: "parsers/stream.go", in: "Stream.Next",
		old: "!part && !quoted && !breaks(l)",
		new: "!part && (!quoted || l.Journal != nil) && !breaks(l)",
	},
	{
		kind: guard, slip: "a message of many lines ends after a second",
		file: "parsers/stream.go", in: "Stream.within",
		old: "*until = later",
		new: "_ = later",
	},
	{
		kind: model, slip: "a clock that was set back keeps all lines parts of a message",
		file: "parsers/stream.go", in: "Stream.within",
		old: " || at.Before(until.Add(-2*moment))",
		new: "",
	},
	{
		kind: slip, slip: "the line after one that was cut counts",
		file: "parsers/stream.go", in: "Stream.Next",
		old: "s.known, s.last = !breaks(l), at",
		new: "s.known, s.last = true, at",
	},
	{
		kind: slip, slip: "an NFS path in mount's error is no quoted text",
		file: "parsers/follows.go", in: "quoting",
		old: `[WEF]\d{4} [\d:.]+ +\d+ [\w./-]+:\d+\] [^"]|`,
		new: "",
	},
}
