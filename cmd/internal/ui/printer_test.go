package ui

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestJSONIsPrintable: a name or a node's text cannot control the terminal through -o json either, and the
// value is the same.
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
		testkit.Must(t, write(NewPrinter(&out, func(string) string { return "" })))
		text := out.String()
		if strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && !strconv.IsPrint(r) }) {
			t.Errorf("%s: %q", name, text)
		}
		if !strings.Contains(text, `a <b> & 'ä' 漢 😀 \\ \"`) {
			t.Errorf("%s: printable text was changed:\n%s", name, text)
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

// TestGiven: text has the flags of the call once, behind its commands, and JSON in each command; other text has none.
func TestGiven(t *testing.T) {
	const explain, flags = "orphan-reaper explain 0badf00d-0001-4aaa-8bbb-cccc00000001", `--config 'a "b".yaml'`
	var out bytes.Buffer
	p := NewPrinter(&out, noEnv)
	p.Given = flags
	shown := func(write func()) string {
		t.Helper()
		out.Reset()
		p.begun = false
		write()
		testkit.Must(t, p.Flush())
		return out.String()
	}
	const note = "\nThese flags of this call belong to each command above:\n  " + flags + "\n"
	for text, want := range map[string]string{
		"What keeps the pod and how to go on from here is what " + explain + " shows.": "  What keeps the pod and how to go on from here is what\n  " + explain + " shows.\n" + note,
		"sudo orphan-reaper doctor":                              "  sudo orphan-reaper doctor\n" + note,
		"ls '/pods/orphan-reaper run' '/a/b orphan-reaper scan'": "  ls '/pods/orphan-reaper run' '/a/b orphan-reaper scan'\n",
		"orphan-reaper fleet list, orphan-reaper config print":   "  orphan-reaper fleet list, orphan-reaper config print\n",
		"orphan-reaper run --help":                               "  orphan-reaper run --help\n",
	} {
		if got := shown(func() { p.Para("  ", text) }); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	texts := []string{explain, "orphan-reaper quarantine restore --batch cni-20261120-001415-000", `"orphan-reaper run"`}
	var got []string
	err := json.Unmarshal([]byte(shown(func() { testkit.Must(t, p.JSON(texts)) })), &got)
	if want := []string{texts[0] + " " + flags, texts[1] + " " + flags, texts[2]}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v %q", err, got)
	}
}
