package clean

import "testing"

func TestClean(t *testing.T) {
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
