package ui

import (
	"encoding/json"
	"regexp"
	"strings"
)

// Given is the flags of this call, quoted for a shell. The commands of this program that are printed need them, too, so
// that they are about the same node and judge it alike: JSON has them in each command, text once at its end.
type Given string

// own matches a command of this program that accepts these flags, with its arguments. It may follow the end of a colour,
// whose last byte is a letter.
var own = regexp.MustCompile(`(?:\x1b\[[0-9;]*m|\b)(?:sudo )?orphan-reaper ` +
	`(?:config check|doctor|explain|quarantine (?:forget|list|purge|restore|resume)|report|run|scan|sweep|unmount)\b` +
	`(?: (?:-o [a-z]+|--?[a-z][a-z-]*(?:=[a-z]+)?|UID|POD|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}|cni-[0-9-]+))*`)

// commands returns the place of each command of text. What is within a shell's quotes, or behind an escaped quote of JSON,
// may be the name of a file.
func commands(text string) (found [][]int) {
	for _, m := range own.FindAllStringIndex(text, -1) {
		line := text[strings.LastIndexByte(text[:m[0]], '\n')+1 : m[0]]
		quote := strings.LastIndexByte(line, '\'')
		named := strings.HasSuffix(line, "/") || strings.HasSuffix(line, `\"`) || quote == 0 || quote > 0 && line[quote-1] == ' '
		if !named && !strings.HasSuffix(text[m[0]:m[1]], " --help") { // a page is about every node
			found = append(found, m)
		}
	}
	return found
}

// Needed reports whether text has a command that needs the flags.
func (g Given) Needed(text string) bool { return g != "" && len(commands(text)) > 0 }

// inJSON adds the flags to each command in text, which is JSON.
func (g Given) inJSON(text string) string {
	quoted, err := json.Marshal(string(g))
	if g == "" || err != nil {
		return text // a string has its JSON
	}
	var b strings.Builder
	last := 0
	for _, m := range commands(text) {
		b.WriteString(text[last:m[1]] + " " + string(quoted[1:len(quoted)-1]))
		last = m[1]
	}
	return b.String() + text[last:]
}
