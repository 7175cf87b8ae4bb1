package human

import (
	"strings"
	"unicode/utf8"
)

// Pad fills s with spaces up to width columns, and leaves one space at least.
func Pad(s string, width int) string {
	return s + strings.Repeat(" ", max(1, width-utf8.RuneCountInString(s)))
}

// unbroken stands for a space at which no line ends.
const unbroken = "\x00"

// Unbroken marks text, as a command, so that Wrap leaves it whole, even where it is longer than a line.
func Unbroken(text string) string { return strings.ReplaceAll(text, " ", unbroken) }

// Wrap breaks text into lines of at most width columns, at spaces, and at slashes or
// anywhere in words that are longer than a line. It returns one line at least.
func Wrap(text string, width int) []string {
	width = max(width, 10)
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && Columns(line)+1+Columns(word) <= width {
			line += " " + word
			continue
		}
		if line != "" {
			lines = append(lines, line)
		}
		for line = word; Columns(line) > width && !strings.Contains(line, unbroken); {
			cut := cutAt(line, width)
			lines, line = append(lines, line[:cut]), line[cut:]
		}
	}
	lines = append(lines, line)
	for i := range lines {
		lines[i] = strings.ReplaceAll(lines[i], unbroken, " ")
	}
	return lines
}

// cutAt returns where to cut a word: after the last slash that fits, so that names stay
// whole, else at the width.
func cutAt(word string, width int) int {
	end := 0
	for range width {
		_, n := utf8.DecodeRuneInString(word[end:])
		end += n
	}
	if i := strings.LastIndexByte(word[:end], '/'); i > 0 {
		return i + 1
	}
	return end
}

// Columns returns the width of s in columns.
func Columns(s string) int { return utf8.RuneCountInString(s) }

// Short cuts s to width columns and marks the cut.
func Short(s string, width int) string {
	if Columns(s) <= width {
		return s
	}
	return string([]rune(s)[:width-1]) + "…"
}
