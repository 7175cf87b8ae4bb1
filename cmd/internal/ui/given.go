package ui

import (
	"encoding/json"
	"regexp"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
)

// Given returns the flags that a command of this program carries where it is shown, as a shell takes them: those of this
// call that mean something to it. Pasted, it is about the same node and judges it alike. nil is none.
type Given func(command string) string

// own is a command of this program that takes these flags, and what follows it and belongs to it. "config print" is
// none of them: it is named where the file cannot be read. It may follow a colour's end, whose last byte is a letter.
var own = regexp.MustCompile(`(?:\x1b\[[0-9;]*m|\b)(?:sudo )?orphan-reaper ` +
	`(?:config check|doctor|explain|quarantine (?:forget|list|purge|restore|resume)|report|run|scan|sweep)\b` +
	`(?: (?:--?[a-z][a-z-]*(?:=[a-z]+)?|UID|POD|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}|cni-[0-9-]+))*`)

// In has each command of text carry the flags.
func (g Given) In(text string) string {
	if g == nil {
		return text
	}
	return each(text, g.carried)
}

// each replaces the commands of text. What stands within a shell's quotes is somebody's name for a file, and what a
// string of JSON has before it may be one.
func each(text string, replace func(string) string) string {
	var b strings.Builder
	last := 0
	for _, m := range own.FindAllStringIndex(text, -1) {
		line := text[strings.LastIndexByte(text[:m[0]], '\n')+1 : m[0]]
		quote := strings.LastIndexByte(line, '\'')
		if strings.HasSuffix(line, "/") || strings.HasSuffix(line, `\"`) || quote == 0 || quote > 0 && line[quote-1] == ' ' {
			continue
		}
		b.WriteString(text[last:m[0]])
		b.WriteString(replace(text[m[0]:m[1]]))
		last = m[1]
	}
	b.WriteString(text[last:])
	return b.String()
}

// carried is one command with the flags.
func (g Given) carried(command string) string {
	if g == nil || strings.HasSuffix(command, " --help") { // a page is about every node
		return command
	}
	return strings.TrimRight(command+" "+g(command), " ")
}

// unbroken has each command carry the flags, and marks it so that no line's end breaks it.
func (g Given) unbroken(text string) string {
	return each(text, func(command string) string { return human.Unbroken(g.carried(command)) })
}

// quoted returns the flags within a string of JSON.
func (g Given) quoted(command string) string {
	b, err := json.Marshal(g(command))
	if err != nil {
		return "" // a string has its JSON
	}
	return string(b[1 : len(b)-1])
}
