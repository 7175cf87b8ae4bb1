package policy

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

const passwd = "root:x:0:0:root:/root:/bin/bash\nalice:x:1000:1000::/home/alice:/bin/sh\nother:x:1000:1000::/:/bin/sh\nevil/../x:x:7:7::/:/bin/sh\n"

// TestUserOf checks that the kernel's login user counts, and that its number for "no login" is no user.
func TestUserOf(t *testing.T) {
	for _, c := range []struct{ loginUID, sudoUser, name, words string }{
		{"1000", "", "alice", "alice"},
		{"1000\n", "alice", "alice", "alice"},
		{"0", "", "root", "root"},
		{"1000", "bob", "alice", "alice (SUDO_USER bob)"},
		{"4711", "", "4711", "4711"},
		{"4294967295", "bob", "", "bob (SUDO_USER)"},
		{"4294967295", "", "", ""},
		{"", "", "", ""},
		{"-1", "", "", ""},
		{"10000000000", "", "", ""},
		{"7", "", "evil?..?x", "evil?..?x"},
	} {
		p := UserOf(c.loginUID, passwd, c.sudoUser)
		if p.Name() != c.name || p.String() != c.words || (p == nil) != (c.words == "") {
			t.Errorf("loginuid %q, SUDO_USER %q: %+v, %q, %q", c.loginUID, c.sudoUser, p, p.Name(), p)
		}
	}
}

// TestSudoUserIsText checks that SUDO_USER, which the user chooses, is cleaned.
func TestSudoUserIsText(t *testing.T) {
	for given, want := range map[string]string{
		"bob": "bob", "CORP\\bob@corp": "CORP\\bob@corp", "bob. Undo: rm": "bob.?Undo:?rm", "../../etc/passwd": "..?..?etc?passwd",
		"a\x00b\x1b[31m\nMESSAGE=forged": "a?b?[31m?MESSAGE=forged", "a\u202eb\u2028": "a?b?", "\xff\xfe": "??",
		strings.Repeat("ä", 1000): strings.Repeat("ä", 30) + "…",
	} {
		got := UserOf("", "", given).SudoUser
		if got != want || len(got) > mostUserName || !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q: %q, want %q", given, got, want)
		}
	}
}
