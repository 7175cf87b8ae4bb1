// Package human formats values for people: sizes, durations, times, counts, and lines of a width. Its functions are pure.
package human

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Size returns a number of bytes in binary units.
func Size(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	v := float64(n)
	for _, unit := range [...]string{"KiB", "MiB", "GiB", "TiB"} {
		v /= 1024
		switch {
		case v < 9.95:
			return fmt.Sprintf("%.1f %s", v, unit)
		case v < 999.5:
			return fmt.Sprintf("%.0f %s", v, unit)
		}
	}
	return fmt.Sprintf("%.0f PiB", v/1024)
}

// Span formats a duration without zero units: 5m, not 5m0s.
func Span(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Age returns a duration in its one or two largest units.
func Age(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd", int(d.Hours())/24)
}

// Count returns a number with its noun: "1 pod", "2 pods", "1 entry", "2,000 entries".
func Count[N int | int64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if stem, ok := strings.CutSuffix(noun, "y"); ok {
		return Thousands(n) + " " + stem + "ies"
	}
	for _, sibilant := range [...]string{"s", "x", "ch", "sh"} {
		if strings.HasSuffix(noun, sibilant) {
			return Thousands(n) + " " + noun + "es"
		}
	}
	return Thousands(n) + " " + noun + "s"
}

// Plural returns one or many for a number: "is" or "are".
func Plural[N int | int64](n N, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// Verb returns a number with its verb: "1 waits", "2 wait".
func Verb[N int | int64](n N, one, many string) string {
	return Thousands(n) + " " + Plural(n, one, many)
}

// When returns a time in UTC, as the records have it.
func When(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// Clock returns the time of day in UTC, with the date if it is not today.
func Clock(t, now time.Time) string {
	t, now = t.UTC(), now.UTC()
	if t.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return t.Format("15:04 UTC")
	}
	return t.Format("2006-01-02 15:04 UTC")
}

// Thousands returns a number with a comma every three digits.
func Thousands[N int | int64](n N) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Pad fills s with spaces up to width columns, with at least one space.
func Pad(s string, width int) string {
	return s + strings.Repeat(" ", max(1, width-utf8.RuneCountInString(s)))
}

// unbroken stands for a space at which Wrap breaks no line.
const unbroken = "\x00"

// Unbroken marks text, such as a command, so that Wrap does not break it, even if it is longer than a line.
func Unbroken(text string) string { return strings.ReplaceAll(text, " ", unbroken) }

// Wrap breaks text into lines of at most width columns, at spaces. It breaks longer words at slashes, or anywhere. It returns at
// least one line.
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

// cutAt returns where to cut a word: after the last slash that fits, else at the width.
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
