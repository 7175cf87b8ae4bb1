package term

import (
	"bytes"
	"testing"
)

// TestProgress: on a terminal one line, replaced and taken away; elsewhere nothing.
func TestProgress(t *testing.T) {
	var out bytes.Buffer
	p := &Progress{w: &out, width: 20}
	p.Show("held %d of %d", 1, 2)
	p.Show("held %d of %d", 1, 2)
	p.Show("a text that is longer than the line \x1b[2J")
	p.Clear()
	p.Clear()
	if got, want := out.String(), "\r\x1b[Kheld 1 of 2\r\x1b[Ka text that is lon…\r\x1b[K"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	out.Reset()
	silent := NewProgress(&out, func(string) string { return "" })
	silent.Show("x")
	silent.Clear()
	if out.Len() > 0 {
		t.Errorf("%q without a terminal", out.String())
	}
}
