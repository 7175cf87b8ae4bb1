package ui

import (
	"encoding/json"
	"regexp"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
)

// Given is the flags of this call, quoted for a shell. Each command of this program that is printed carries them, so that
// it is about the same node and judges it alike when it is pasted.
type Given string

// own matches a command of this program that accepts these flags, with its arguments. It may follow the end of
// a colour, whose last byte is a letter.
var own = regexp.MustCompile(`(?:\x1b\[[0-9;]*m|\b)(?:sudo )?orphan-reaper ` +
	`(?:config check|doctor|explain|quarantine (?:forget|list|purge|restore|resume)|report|run|scan|sweep|unmount)\b` +
	`(?: (?:-o [a-z]+|--?[a-z][a-z-]*(?:=[a-z]+)?|UID|POD|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}|cni-[0-9-]+))*`)

// In has each command of text carry the flags. What is within a shell's quotes, or behind an escaped quote of JSON,
// may be the name of a file.
func (g Given) In(text string) string {
	if g == "" {
		return text
	}
	var b strings.Builder
	last := 0
	for _, m := range own.FindAllStringIndex(text, -1) {
		line := text[strings.LastIndexByte(text[:m[0]], '\n')+1 : m[0]]
		quote := strings.LastIndexByte(line, '\'')
		named := strings.HasSuffix(line, "/") || strings.HasSuffix(line, `\"`) || quote == 0 || quote > 0 && line[quote-1] == ' '
		if named || strings.HasSuffix(text[m[0]:m[1]], " --help") { // a page is about every node
			continue
		}
		b.WriteString(text[last:m[1]] + " " + string(g))
		last = m[1]
	}
	return b.String() + text[last:]
}

// unbroken is In, with each command marked so that no line's end breaks it.
func (g Given) unbroken(text string) string {
	return own.ReplaceAllStringFunc(Given(human.Unbroken(string(g))).In(text), human.Unbroken)
}

// quoted returns the flags as they are within a string of JSON.
func (g Given) quoted() Given {
	b, err := json.Marshal(string(g))
	if err != nil {
		return "" // a string has its JSON
	}
	return Given(b[1 : len(b)-1])
}
