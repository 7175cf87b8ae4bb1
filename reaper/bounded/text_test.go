package bounded

import (
	"os/exec"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestText: no text from the node moves the cursor, ends the line or changes the direction of writing.
func TestText(t *testing.T) {
	for in, want := range map[string][2]string{
		"":                   {"", ""},
		"a b-ä":              {"a b-ä", "a b-ä"},
		`a "b"`:              {`a "b"`, `a "b"`},
		"a\nb":               {`"a\nb"`, `a\nb`},
		"\x1b[31mred\x1b[0m": {`"\x1b[31mred\x1b[0m"`, `\x1b[31mred\x1b[0m`},
		"a\u202eb":           {`"a\u202eb"`, `a\u202eb`},
		"a\u00a0b":           {`"a\u00a0b"`, `a\u00a0b`},
		"a\xffb":             {`"a\xffb"`, `a\xffb`},
		"a\x00":              {`"a\x00"`, `a\x00`},
		"a\ufffdb":           {"\"a\ufffdb\"", "a\ufffdb"},
	} {
		if got := Name(in); got != want[0] {
			t.Errorf("Name(%q) is %s, not %s", in, got, want[0])
		}
		if got := Text(in); got != want[1] {
			t.Errorf("Text(%q) is %s, not %s", in, got, want[1])
		}
	}
}

// TestCut: what is cut is whole runes, and not longer than asked.
func TestCut(t *testing.T) {
	for most := 3; most < 12; most++ {
		if got := Cut("äöüä€öü", most); len(got) > most || !utf8.ValidString(got) || !strings.HasSuffix(got, "…") {
			t.Errorf("%d: %q", most, got)
		}
	}
	if got := Cut("äöü", 6); got != "äöü" {
		t.Errorf("%q", got)
	}
}

// TestShell: a shell gets each name as it is.
func TestShell(t *testing.T) {
	for _, word := range []string{"", "/a/b-1.2_3", "a b", "/a'; echo broke; '", "$(id)", "`id`", "~", "a\nb", `\`, "*", "#a", "a=b"} {
		out, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", "printf %s "+Shell(word)).Output()
		if err != nil || string(out) != word {
			t.Errorf("%q became %q: %v", word, out, err)
		}
	}
}
