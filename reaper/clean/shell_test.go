package clean

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
				strings.HasSuffix(path, "clean/shell.go") || strings.Contains(path, "/testkit/") {
				return err
			}
			text, err := os.ReadFile(path)
			files++
			for i, line := range strings.Split(string(text), "\n") {
				if byHand.MatchString(line) {
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
	for _, bad := range []string{
		`"swapoff '%s'"`, `"delete '%[1]s'"`, `"x '%v'"`, `"x '%12.3s"`, `"rm '" + name`, `"rm '"+name`, `name + "' now"`, `"nsenter -t 1"`, `"nsenter --target 1"`,
		`"cp -anT "`, `"cp --archive "`,
	} {
		if !byHand.MatchString(bad) {
			t.Errorf("%s is not found", bad)
		}
	}
}

// byHand matches a name between single quotes, in a format or put together, and the commands that are never printed: one
// that enters a container's namespace runs the container's own program as root, and one that copies into a living pod's
// directory follows the links that its containers make.
var byHand = regexp.MustCompile(`'%[-+# 0-9.\[\]*]*[svqx]|'" ?\+|\+ ?"'[" ]|nsenter -|"cp -`)
