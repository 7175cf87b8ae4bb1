package checks

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestSteps: the table, the closing lines and the exit code of scripts that source steps.sh.
func TestSteps(t *testing.T) {
	bash := testkit.NeedCommand(t, "bash")
	testkit.NeedCommand(t, "setsid")
	for _, c := range []struct {
		script string
		fails  bool
		table  string // without the seconds
	}{
		{"step a true; step b true", false, "a ok, b ok"},
		{"step a false; step b true", true, "a FAILED"},
		{"goon=1; step a false; step b true", true, "a FAILED, b ok"},
		{"begin a true; step b true; join a", false, "b ok, a ok"},
		{"begin a sh -c 'exit 3'; step b true; join a; step c true", true, "b ok, a FAILED"},
		{"goon=1; begin a false; join a; step c true", true, "a FAILED, c ok"},
		{"begin a sleep 1000; step b false", true, "b FAILED, a not finished"},
		{"begin a true; wait ${started[a]}; step b false", true, "b FAILED, a ok"},
		{"step a true; no-such-command", true, "a ok"},
	} {
		cmd := exec.CommandContext(t.Context(), bash, "-c", ". ./steps.sh; "+c.script+"; step last echo 'ok  x 1s'")
		cmd.Env = append(os.Environ(), "goon=")
		b, err := cmd.CombinedOutput()
		out := string(b)
		if (err != nil) != c.fails {
			t.Errorf("%s: %v\n%s", c.script, err, out)
		}
		_, closing, _ := strings.Cut(out, "closing lines\n")
		last := strings.HasPrefix(closing, "ok  x 1s\n")
		want := c.table
		if last {
			want += ", last ok"
		}
		var got []string
		for _, m := range regexp.MustCompile(`(?m)^(\w+) +(?:\d+|-)  (ok|FAILED|not finished)$`).FindAllStringSubmatch(closing, -1) {
			got = append(got, m[1]+" "+m[2])
		}
		if text := strings.Join(got, ", "); text != want || last != (!c.fails || strings.HasPrefix(c.script, "goon")) {
			t.Errorf("%s: the table is %q, want %q\n%s", c.script, text, want, out)
		}
		if !regexp.MustCompile(`\ntotal +\d+\n$`).MatchString(out) {
			t.Errorf("%s: no total at the end\n%s", c.script, out)
		}
	}
}
