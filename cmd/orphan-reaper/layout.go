package main

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// pad fills s with spaces up to width columns, and leaves one space at least.
func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(1, width-utf8.RuneCountInString(s)))
}

// wrap breaks text into lines of at most width columns, at spaces, and at slashes or
// anywhere in words that are longer than a line. It returns one line at least.
func wrap(text string, width int) []string {
	width = max(width, 10)
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && runes(line)+1+runes(word) <= width {
			line += " " + word
			continue
		}
		if line != "" {
			lines = append(lines, line)
		}
		for line = word; runes(line) > width; {
			cut := cutAt(line, width)
			lines, line = append(lines, line[:cut]), line[cut:]
		}
	}
	return append(lines, line)
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

func runes(s string) int { return utf8.RuneCountInString(s) }

// clean makes text from the node safe to show: what is not printable, which takes in
// escapes and marks that turn the writing direction, is shown as Go would quote it.
func clean(s string) string {
	if strings.IndexFunc(s, unsafeRune) < 0 && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		if r == utf8.RuneError {
			if _, n := utf8.DecodeRuneInString(s[i:]); n == 1 {
				fmt.Fprintf(&b, `\x%02x`, s[i])
				continue
			}
		}
		if unsafeRune(r) {
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

func unsafeRune(r rune) bool { return r != ' ' && !unicode.IsPrint(r) }

// short cuts s to width columns and marks the cut.
func short(s string, width int) string {
	if runes(s) <= width {
		return s
	}
	return string([]rune(s)[:width-1]) + "…"
}

// shellQuoted is a name as a shell takes it.
func shellQuoted(name string) string {
	if strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-") == "" {
		return name
	}
	return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
}
