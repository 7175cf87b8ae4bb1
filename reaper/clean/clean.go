// Package clean makes text from the node safe to print: names, paths and messages may have
// characters that move a terminal's cursor, reverse the direction of writing or end a line.
//
// Its results are for people: they go to no system call and are never compared.
package clean

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Name returns a name or path as it is, or all of it quoted as in Go where it holds anything
// that is not printable, or bytes that are no UTF-8.
func Name(s string) string {
	if strings.IndexFunc(s, unprintable) >= 0 {
		return strconv.Quote(s)
	}
	return s
}

// Text returns a text of several words with each rune that is not printable, and each byte
// that is no UTF-8, as Go would quote it. The rest stays readable.
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

// unprintable is also true of U+FFFD: ranging over a string gives it for a byte that is no UTF-8.
func unprintable(r rune) bool { return r == utf8.RuneError || !strconv.IsPrint(r) }

// mostBrief bounds what is printed of another program's message.
const mostBrief = 200

// Brief returns one short printable line of another program's message.
func Brief(s string) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "?")), " ")
	if len(s) > mostBrief {
		s = Cut(s, mostBrief)
	}
	return Name(s)
}

// Cut returns text with at most so many bytes, with an ellipsis and no part of a rune at its end.
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
