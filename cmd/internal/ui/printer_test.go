package ui

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestJSONIsPrintable checks that a text from the node cannot control the terminal through -o json, and that its
// value is unchanged.
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

// TestGiven checks that each printed command of the program has the operator's flags, once and unbroken, and that
// other text has not.
func TestGiven(t *testing.T) {
	const uid = "0badf00d-0001-4aaa-8bbb-cccc00000001"
	var out bytes.Buffer
	p := NewPrinter(&out, func(string) string { return "" })
	const flags = `--config 'a "b".yaml'`
	p.Given = flags
	const explain = `orphan-reaper explain ` + uid + ` --config 'a "b".yaml'`
	write := func(want string, write func()) {
		t.Helper()
		out.Reset()
		write()
		if err := p.Flush(); err != nil || out.String() != want {
			t.Errorf("%v\n%s\nwant\n%s", err, out.String(), want)
		}
	}
	write(explain+"\n", func() { p.Printf("orphan-reaper %s %s\n", "explain", uid) })
	write("  sudo orphan-reaper doctor --config 'a \"b\".yaml'\n", func() { p.Printf("  sudo orphan-reaper doctor\n") })
	write("  What keeps the pod and how to go on from here is what\n  "+explain+"\n  says.\n", func() {
		p.Para("  ", "What keeps the pod and how to go on from here is what orphan-reaper explain "+uid+" says.")
	})
	write("do   see\n     "+explain+"\n     first\n", func() { p.Item("", "do", 5, "", "see orphan-reaper explain "+uid+" first") })
	write("# "+explain+"\n", func() { p.Aside(func() { p.Para("", "orphan-reaper explain "+uid) }) })
	p.colour = true
	for _, name := range []string{"sudo orphan-reaper", "orphan-reaper"} {
		write("\x1b[32mdo \x1b[0m"+name+" doctor "+flags+"\n", func() { p.Printf("%s%s doctor\n", p.Paint(Green, "do "), name) })
		write("\x1b[1m"+name+" doctor "+flags+"\x1b[0m\n", func() { p.Printf("%s\n", p.Paint(Bold, name+" doctor")) })
		write("\x1b[1m"+name+" doctor "+flags+"\x1b[0m\n", func() { p.Para("", p.Paint(Bold, name+" doctor")) })
	}
	const others = "orphan-reaper fleet list, orphan-reaper config print, orphan-reaper version, orphan-reaper takes nothing, my-orphan-reaper runs\n"
	write(others, func() { p.Printf("%s", others) })
	const named = "ls -ld '/pods/orphan-reaper run' '/a/b orphan-reaper scan'\n"
	write(named, func() { p.Printf("%s", named) })
	write("orphan-reaper scan -o json "+flags+"\n", func() { p.Printf("orphan-reaper scan -o json\n") })
	write("orphan-reaper scan --verdict=keep "+flags+"\n", func() { p.Printf("orphan-reaper scan --verdict=keep\n") })
	write("{\n  \"directory\": \"\\\"orphan-reaper run\\\"\"\n}\n", func() {
		if err := p.JSON(map[string]string{"directory": `"orphan-reaper run"`}); err != nil {
			t.Error(err)
		}
	})
	want := []string{explain, "orphan-reaper quarantine restore --batch cni-20261120-001415-000 " + flags}
	out.Reset()
	err := p.JSON([]string{"orphan-reaper explain " + uid, "orphan-reaper quarantine restore --batch cni-20261120-001415-000"})
	var got []string
	if err = errors.Join(err, json.Unmarshal(out.Bytes(), &got)); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v %q", err, got)
	}
}

func noEnv(string) string { return "" }

// TestFollow checks that with verbose each phase is written when it ends, also in a pipe, and that otherwise none is.
func TestFollow(t *testing.T) {
	var out bytes.Buffer
	if w, stop := Follow(&out, time.Now, false); w != nil {
		t.Error("progress was written to a pipe")
	} else {
		stop()
	}
	now := time.Unix(0, 0)
	w, stop := Follow(&out, func() time.Time { return now }, true)
	for i, want := range []struct {
		what, unit  string
		done, total int64
		took        time.Duration
		text        string
	}{
		{"looking at the node", "", 0, 0, 6795688 * time.Nanosecond, "looking at the node: 7ms"},
		{"sweeping the files", "file", 2, 300_000, 14_387 * time.Millisecond, "sweeping the files: 2 of 300,000 files, 14.387s"},
		{"reading a\x1b]0;x\a.log", "file", 3, 3, 2 * time.Minute, `reading a\x1b]0;x\a.log: 3 files, 2m`},
		{"removing", "entry", 70, 0, time.Second, "removing: 70 entries, 1s"},
	} {
		out.Reset()
		w.Begin(want.what, want.unit, want.total)
		w.Add(want.done)
		now = now.Add(want.took)
		if w.End(); out.String() != fmt.Sprintf("orphan-reaper: %s\n", want.text) {
			t.Errorf("%d: %q, want %q", i, out.String(), want.text)
		}
	}
	stop()
}
