package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestConfigCheck: a wrong file ends with 2 and every error with its line, whatever else is printed; a good one with each
// setting and its origin.
func TestConfigCheck(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	check := func(text string, flags ...string) (code int, out, errors string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var stdout, stderr bytes.Buffer
		code = run(append([]string{"config", "check", "--config", file}, flags...), strings.NewReader(""), &stdout, &stderr)
		return code, stdout.String(), stderr.String()
	}
	code, out, errors := check("hold: 2m\n\nhodl: 3m\nmode: on\n")
	if code != 2 || out != "" || !strings.Contains(errors, file+`:3: unknown key "hodl"`) || !strings.Contains(errors, file+":4: mode: ") {
		t.Errorf("%d\n%s\n%s", code, out, errors)
	}
	code, out, errors = check("hold: 2m\n", "--confirm", "7m")
	lines := strings.Join(strings.Fields(out), " ")
	if code != 0 || errors != "" || !strings.Contains(lines, "hold 2m "+file+":1 ") || !strings.Contains(lines, "confirm 7m --confirm ") {
		t.Errorf("%d\n%s\n%s", code, out, errors)
	}
}
