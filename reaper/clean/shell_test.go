package clean

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestShell: a shell gets each name as it is.
func TestShell(t *testing.T) {
	for _, word := range []string{"", "/a/b-1.2_3", "a b", "/a'; echo broke; '", "$(id)", "`id`", "~", "a\nb", `\`, "*", "#a", "a=b"} {
		out, err := exec.Command("/bin/sh", "-c", "printf %s "+Shell(word)).Output()
		if err != nil || string(out) != word {
			t.Errorf("%q became %q: %v", word, out, err)
		}
	}
}

// TestNoQuotesByHand: a name between single quotes in a format breaks out where it has one itself.
func TestNoQuotesByHand(t *testing.T) {
	files := 0
	for _, dir := range []string{"../../reaper", "../../cmd", "../../parsers"} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			files++
			for i, line := range strings.Split(string(text), "\n") {
				if byHand(line) {
					t.Errorf("%s:%d: %s: use clean.Shell", path, i+1, strings.TrimSpace(line))
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if files < 100 {
		t.Errorf("only %d files were read", files)
	}
	for _, bad := range []string{`"swapoff '%s'"`, `"delete '%[1]s'"`, `"x '%v'"`, `"nsenter -t 1"`, `"cp -anT "`} {
		if !byHand(bad) {
			t.Errorf("%s is not found", bad)
		}
	}
}

func byHand(line string) bool {
	for _, bad := range []string{"'%s'", "'%[1]s'", "'%[2]s'", "'%v'", "nsenter -t", "cp -an"} {
		if strings.Contains(line, bad) {
			return true
		}
	}
	return false
}
