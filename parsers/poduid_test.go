package parsers

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
)

const (
	testUID  = "5da3387d-ad1c-11ea-a025-525400767782"
	otherUID = "9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d"
)

func parse(line string) (Report, bool) { return Find([]byte(line)) }

// badUIDs are directory names below pods/ that are not UIDs. The kubelet reports them like any other name.
func badUIDs() []string {
	u := testUID
	return []string{
		"", " ", ".", "..", "...", "/", "//", "../..", "../" + u, u + "/..", "./" + u, u + "/", "/" + u, "/etc/passwd",
		"-rf", "--", "*", "?", "~", "$(reboot)", "`id`", "$HOME", u + ";rm -rf /", u + "|sh", u + "&", u + "\n", "\n" + u,
		" " + u, u + " ", "\t" + u, u + "\t", u + "\x00", "\x00" + u, u + "\r", u[:35], u + "0", u[:34], u[1:], u[:8], u[:35] + "g",
		strings.ToUpper(u), "5Da3387d-ad1c-11ea-a025-525400767782", "{" + u + "}", "urn:uuid:" + u, strings.ReplaceAll(u, "-", "_"),
		strings.ReplaceAll(u, "-", "–"), strings.ReplaceAll(u, "-", "‐"), strings.ReplaceAll(u, "-", ""), strings.Replace(u, "-", "", 1) + "0",
		"5da3387-dad1c-11ea-a025-525400767782", "5da3387d-ad1c-11ea-a0255-25400767782", "5da3387d--d1c-11ea-a025-525400767782", strings.Repeat("-", 36),
		"а" + u[1:], "\u202e" + u, u + "\u200b", "\ufeff" + u, strings.Replace(u, "5", "５", 1), strings.Replace(u, "0", "٠", 1), "é\u2028",
		strings.ToUpper("7f8e47b71a845b4eb634a44a94e20069"), "7f8e47b71a845b4eb634a44a94e2006", "7f8e47b71a845b4eb634a44a94e200690", "7f8e47b71a845b4eb634a44a94e2006g",
		"7f8e47b7-1a845b4eb634a44a94e20069", "0x7f8e47b71a845b4eb634a44a94e200", "lost+found", "null", "undefined", "<nil>", "%!s(MISSING)", "%2e%2e", "%s", "\\", "a\\b", "a\"b",
		"xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", "xxxxxx", "***", "<pod UID>", u + ".bak", u + "-old", u + "~", "." + u, u + "," + otherUID, u + " " + otherUID, u + u,
		u + `" found, but volume paths are still present on disk`, `x" found, orphaned pod "` + u, `x\" found, orphaned pod \"` + u, `" orphaned pod "` + u + `"`,
		strings.Repeat("a", 300), strings.Repeat("a", 100000), "1a2b3c4d-...", u[:13] + "…", "\xff\xfe" + u[2:], u[:35] + "\xff", "+" + u[1:], "1e10", "0",
	}
}

func TestBadUIDsNameNothing(t *testing.T) {
	for _, bad := range badUIDs() {
		if uid, ok := ParsePodUID(bad); ok && bad != strings.ReplaceAll(testUID, "-", "") {
			t.Errorf("ParsePodUID(%q) = %q", bad, uid)
		}
		if _, ok := ParsePodUID(bad); ok {
			continue
		}
		q := strconv.Quote(bad)
		err := "orphaned pod " + q + " found, but error occurred when trying to remove the volumes dir: not a directory"
		object, jerr := json.Marshal(err)
		if jerr != nil {
			t.Fatal(jerr)
		}
		for _, inner := range []string{
			`kubelet_volumes.go:154] Orphaned pod ` + q + ` found, but volume paths are still present on disk : There were a total of 1 errors similar to this. Turn up verbosity to see them.`,
			`kubelet_volumes.go:154] Orphaned pod "` + bad + `" found, but volume paths are still present on disk`,
			`kubelet_volumes.go:263] "There were many similar errors. Turn up verbosity to see them." err=` + strconv.Quote(err) + ` numErrs=1`,
			`kubelet_volumes.go:147] Failed to remove orphaned pod ` + q + ` dir; err: busy`,
			`kubelet_volumes.go:163] "Orphaned pod found, but volumes are not cleaned up" podUID=` + q,
			`kubelet_volumes.go:163] "Orphaned pod found, but volumes are not cleaned up" podUID=` + bad,
		} {
			line := "E0831 14:21:49.324206 2240370 " + inner
			for _, line := range []string{line, "Aug 31 14:21:49 mgt02 kubelet[2240370]: " + line} {
				s, ok := parse(line)
				// 1.21 to 1.26 print podUID without quotes: there a name's space ends the
				// value, and a newline the line.
				rest, same := strings.CutPrefix(bad, testUID)
				bare := strings.HasSuffix(inner, "podUID="+bad) && same && strings.ContainsAny(rest[:1], " \r\n")
				if ok && !bare {
					t.Errorf("%q is parsed as %s from\n%s", bad, s.UID, line)
				}
			}
		}
		if s, ok := parse(`{"ts":1693491709324.2,"caller":"kubelet/kubelet_volumes.go:263","msg":"There were many similar errors. Turn up verbosity to see them.","numErrs":1,"err":` + string(object) + `}`); ok {
			t.Errorf("%q is parsed as %s from JSON", bad, s.UID)
		}
	}
}

// TestMutatedUIDs replaces each byte of a UID by each byte of a set: no line of the kubelet with the result is a report.
func TestMutatedUIDs(t *testing.T) {
	for i := range testUID {
		for _, c := range []string{"g", "-", "A", " ", "\"", "\\", "/", "\x00", "é", ""} {
			bad := testUID[:i] + c + testUID[i+1:]
			if bad == testUID {
				continue
			}
			if s, ok := parse(`E0831 14:21:49.324206 2240370 kubelet_volumes.go:263] "Orphan pod" err="orphaned pod \"` + bad + `\" found, but volumes are still mounted"`); ok {
				t.Errorf("%q is parsed as %q", bad, s.UID)
			}
		}
	}
}
