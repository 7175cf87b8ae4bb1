package term

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

// TestJSONIsPrintable: what a name or a node holds moves no terminal through -o json either, and
// the value stays the same.
func TestJSONIsPrintable(t *testing.T) {
	want := map[string]string{
		"plain": "a <b> & 'ä' 漢 😀 \\ \"", "csi": "a\u009b2Jb", "esc": "\x1b[2J", "del": "a\x7fb", "bidi": "a\u202eb",
		"tag": "a\U000e0041b", "line": "a\u2028b\nc\td", "key\u009b": "", "bad": "a\ufffdb",
	}
	for name, write := range map[string]func(p *Printer) error{
		"JSON":     func(p *Printer) error { return p.JSON(want) },
		"JSONLine": func(p *Printer) error { _ = p.JSONLine(want); return p.Flush() },
	} {
		var out bytes.Buffer
		if err := write(NewPrinter(&out, func(string) string { return "" })); err != nil {
			t.Fatal(err)
		}
		text := out.String()
		if strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && !strconv.IsPrint(r) }) {
			t.Errorf("%s: %q", name, text)
		}
		if !strings.Contains(text, `a <b> & 'ä' 漢 😀 \\ \"`) {
			t.Errorf("%s: what is printable is not left as it is:\n%s", name, text)
		}
		got := map[string]string{}
		if err := json.Unmarshal(out.Bytes(), &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
}

func TestColour(t *testing.T) {
	p := &Printer{colour: true}
	if got := p.Paint(Red, "x"); got != "\x1b[31mx\x1b[0m" {
		t.Errorf("%q", got)
	}
	if p.colour = false; p.Paint(Red, "x") != "x" {
		t.Error("colour where there is none")
	}
}

// TestScreen: nothing is written before all is there, and no more than fits.
func TestScreen(t *testing.T) {
	for rows, want := range map[int]string{
		0:  "\x1b[H\x1b[2Jtitle\n\n1\n2\n3\n4\n",
		12: "\x1b[H\x1b[2Jtitle\n\n1\n2\n3\n4\n",
		8:  "\x1b[H\x1b[2Jtitle\n\n1\n2\n3\n4\n",
		7:  "\x1b[H\x1b[2Jtitle\n\n1\n2\n3\n… and 1 line more: a higher terminal shows them\n",
		5:  "\x1b[H\x1b[2Jtitle\n\n1\n… and 3 lines more: a higher terminal shows them\n",
	} {
		var out bytes.Buffer
		p := NewPrinter(&out, func(string) string { return "" })
		p.rows = rows
		p.NewScreen("title")
		p.Printf("%s", strings.Repeat("0\n", 5000))
		if out.Len() > 0 {
			t.Error("half a screen was written")
		}
		p.screen.text.Reset()
		p.w.Reset(p.screen.text)
		p.Printf("title\n\n1\n2\n3\n4\n")
		if err := p.Flush(); err != nil || out.String() != want {
			t.Errorf("%d rows: %v %q, want %q", rows, err, out.String(), want)
		}
		p.Printf("after")
		if err := p.Flush(); err != nil || out.String() != want+"after" {
			t.Errorf("after a screen: %v %q", err, out.String())
		}
	}
}
