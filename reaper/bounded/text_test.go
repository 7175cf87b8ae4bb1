package bounded

import (
	"os/exec"
	"testing"
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

// TestShell: a shell gets each name as it is.
func TestShell(t *testing.T) {
	for _, word := range []string{"", "/a/b-1.2_3", "a b", "/a'; echo broke; '", "$(id)", "`id`", "~", "a\nb", `\`, "*", "#a", "a=b"} {
		out, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", "printf %s "+Shell(word)).Output()
		if err != nil || string(out) != word {
			t.Errorf("%q became %q: %v", word, out, err)
		}
	}
}
