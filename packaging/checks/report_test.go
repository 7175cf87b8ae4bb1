package checks

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestReport: what make test prints at its end of a log with so many tests that could not run.
func TestReport(t *testing.T) {
	skip := "=== RUN   TestX\n    x_test.go:1: this needs git\n--- SKIP: TestX (0.00s)\n"
	for _, c := range []struct{ log, missing, want string }{
		{"", "", ""},
		{skip, "", "\n1 test could not run here:\n  1 test: this needs git\n"},
		{skip + skip, "", "\n2 tests could not run here:\n  2 tests: this needs git\n"},
		{
			skip, "git  mandoc ", "\n1 test could not run here:\n  1 test: this needs git\n\nHow they can:\n" +
				"  apt-get install git mandoc has the programs that tests call; make test as root on Debian gets them\n",
		},
	} {
		cmd := exec.CommandContext(t.Context(), "awk", "-v", "root=0", "-v", "canary=canary", "-v", "missing="+c.missing, "-f", "skipped.awk")
		cmd.Stdin = strings.NewReader(c.log)
		got, err := cmd.CombinedOutput()
		testkit.Must(t, err)
		if string(got) != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// TestFailed checks that the output of what failed is printed: of a test, and of a package that ran too long.
func TestFailed(t *testing.T) {
	const passed = "=== RUN   TestA\nhello\n--- PASS: TestA (0.00s)\n"
	const failed = "    b_test.go:1: wrong\n--- FAIL: TestB (0.00s)\n"
	const late = "panic: test timed out after 1s\n\trunning tests:\n\t\tTestA (1s)\n\ngoroutine 1 [running]:\n"
	const end = "FAIL\tx/y\t1.0s\n"
	for log, want := range map[string]string{
		passed + "=== RUN   TestB\n" + failed + "FAIL\n" + end: failed + end,
		"=== RUN   TestA\nhello\n" + late + end + "FAIL\n":     late + end,
	} {
		cmd := exec.CommandContext(t.Context(), "awk", "-f", "failed.awk")
		cmd.Stdin = strings.NewReader(log)
		got, err := cmd.CombinedOutput()
		testkit.Must(t, err)
		if string(got) != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
