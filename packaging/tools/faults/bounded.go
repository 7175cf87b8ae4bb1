package main

var boundedFaults = []fault{
	{
		kind: guard, slip: "work that was abandoned leaves a goroutine for ever",
		file: "reaper/bounded/bounded.go", in: "Within",
		old: `make(chan T, 1)`, new: `make(chan T)`,
	},
	{
		kind: guard, slip: "the pods whose directories hang have threads without end",
		file: "reaper/bounded/bounded.go", in: "Guard.begin",
		old: ` || len(g.busy) >= mostStuck`, new: ``,
	},
	{
		kind: slip, slip: "work that hangs is begun again at each scan",
		file: "reaper/bounded/bounded.go", in: "Guard.begin",
		old: `g.busy[key] || `, new: ``,
	},
	{
		kind: slip, slip: "a command that was interrupted has ended well",
		file: "reaper/bounded/bounded.go", in: "Within",
		old: `return zero, context.Cause(ctx)`, new: `return zero, nil`,
	},
	{
		kind: slip, slip: "a text is cut in the middle of a rune",
		file: "reaper/bounded/text.go", in: "Cut",
		old: `!utf8.RuneStart(text[end])`, new: `!utf8.ValidString(text)`,
		tests: []string{"reaper/bounded", "reaper/audit", "cmd/internal/show"},
	},
	{
		kind: slip, slip: "a quote in a name ends the word of a command",
		file: "reaper/bounded/text.go", in: "Shell",
		old: "`'\\''`", new: "`\\'`",
	},
}
