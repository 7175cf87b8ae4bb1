package bounded

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Names, paths and messages from the node may contain characters that move a terminal's cursor, reverse the direction of
// writing or end a line. The results of these functions are for display: never pass them to a system call.

// Name returns a name or path unchanged, or quoted as in Go if it contains an unprintable rune or invalid UTF-8.
func Name(s string) string {
	if strings.IndexFunc(s, unprintable) >= 0 {
		return strconv.Quote(s)
	}
	return s
}

// Text returns text with each unprintable rune, and each byte of invalid UTF-8, escaped as in Go.
func Text(s string) string {
	if strings.IndexFunc(s, unprintable) < 0 {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case strconv.IsPrint(r):
			b.WriteRune(r)
		default:
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		s = s[n:]
	}
	return b.String()
}

// unprintable includes U+FFFD: a range over a string yields it for invalid UTF-8.
func unprintable(r rune) bool { return r == utf8.RuneError || !strconv.IsPrint(r) }

// Brief returns another program's message as one printable line of at most 200 bytes.
func Brief(s string) string {
	return Name(Cut(strings.Join(strings.Fields(strings.ToValidUTF8(s, "?")), " "), 200))
}

// Cut shortens text to at most most bytes, with an ellipsis at the end. It cuts between runes.
func Cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	end := most - len("…")
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

const plainInShell = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-:@,"

// Shell quotes one word of a command for a shell. Every command that an operator may paste quotes its names with it.
func Shell(word string) string {
	if word != "" && strings.Trim(word, plainInShell) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
