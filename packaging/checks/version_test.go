package checks

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestVersion: the output of packaging/version.sh along a history, and that dpkg sorts the versions as the
// commits.
func TestVersion(t *testing.T) {
	script, err := os.ReadFile("../version.sh")
	testkit.Must(t, err)
	dir := t.TempDir()
	lay := func(name, text string) {
		t.Helper()
		testkit.Must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	run := func(env string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir),
			"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b", "TZ=Asia/Tokyo", "PACKAGE_VERSION=", env)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	lay("packaging/version.sh", string(script))
	changelog := func(version string) {
		lay("CHANGELOG.md", "# Changelog\n\n## ["+version+"] - Unreleased\n\n- A change.\n")
	}

	changelog("1.2.0")
	if got := run("", "sh", "packaging/version.sh"); got != "v1.2.0-dev" {
		t.Errorf("without git it is %s", got)
	}
	if got := run("PACKAGE_VERSION=99.0.0~rc.1", "sh", "packaging/version.sh"); got != "v99.0.0-rc.1" {
		t.Errorf("with PACKAGE_VERSION=99.0.0~rc.1 it is %s", got)
	}
	if _, err := exec.LookPath("git"); err != nil {
		testkit.Skip(t, "this needs git")
	}
	run("", "git", "init", "-q")
	packages := []string{"1.1.99"}
	for _, c := range []struct{ hour, top, tag, want string }{
		{"01", "1.2.0", "", `v1\.2\.0-dev\.20260203010000\+[0-9a-f]{12}`},
		{"02", "1.2.0", "", `v1\.2\.0-dev\.20260203020000\+[0-9a-f]{12}`},
		{"03", "1.2.0", "v1.2.0-rc.1", `v1\.2\.0-rc\.1`},
		{"04", "1.2.0", "", `v1\.2\.0-rc\.1\+20260203040000\.[0-9a-f]{12}`},
		{"05", "1.2.0", "v1.2.0", `v1\.2\.0`},
		{"06", "1.2.0", "", `v1\.2\.0\+20260203060000\.[0-9a-f]{12}`}, // the next section is missing
		{"07", "1.2.1", "", `v1\.2\.1-dev\.20260203070000\+[0-9a-f]{12}`},
		{"08", "1.2.1", "v1.2.1", `v1\.2\.1`},
	} {
		changelog(c.top)
		at := "2026-02-03T" + c.hour + ":00:00Z"
		run("", "git", "add", ".")
		run("GIT_COMMITTER_DATE="+at, "git", "commit", "-q", "--allow-empty", "-m", c.hour)
		if c.tag != "" {
			run("", "git", "tag", c.tag)
		}
		got := run("", "sh", "packaging/version.sh")
		if !regexp.MustCompile(`^` + c.want + `$`).MatchString(got) {
			t.Errorf("commit %s with tag %q is %s, want %s", c.hour, c.tag, got, c.want)
		}
		packages = append(packages, strings.ReplaceAll(strings.TrimPrefix(got, "v"), "-", "~"))
	}
	run("", "git", "tag", "v1.2.1-rc.9")
	if got := run("", "sh", "packaging/version.sh"); got != "v1.2.1" {
		t.Errorf("with the tags v1.2.1 and v1.2.1-rc.9 it is %s", got)
	}
	lay("new", "")
	if got := run("", "sh", "packaging/version.sh"); !regexp.MustCompile(`^v1\.2\.1\+20260203080000\.[0-9a-f]{12}\.dirty$`).MatchString(got) {
		t.Errorf("with a change that is not committed it is %s", got)
	}
	if _, err := exec.LookPath("dpkg"); err != nil {
		testkit.Skip(t, "this needs dpkg")
	}
	for i := range packages[1:] {
		run("", "dpkg", "--compare-versions", packages[i], "lt", packages[i+1])
	}
}

// TestNextVersion: what names the version in the tree names the one that CHANGELOG.md begins with.
func TestNextVersion(t *testing.T) {
	read := func(path string) string {
		t.Helper()
		text, err := os.ReadFile("../../" + path)
		testkit.Must(t, err)
		return string(text)
	}
	top := regexp.MustCompile(`(?m)^## \[(\d+\.\d+\.\d+)\] - (Unreleased|\d{4}-\d\d-\d\d)$`).FindStringSubmatch(read("CHANGELOG.md"))
	first, _, _ := strings.Cut(read("CHANGELOG.md")[strings.Index(read("CHANGELOG.md"), "\n## ")+1:], "\n")
	if top == nil || first != top[0] {
		t.Fatalf("CHANGELOG.md begins with %q, want '## [1.2.3] - Unreleased' or a date", first)
	}
	for path, pattern := range map[string]string{
		"packaging/chart/Chart.yaml": `(?m)^(?:v|appV)ersion: "?([^"\n]+)`,
	} {
		all := regexp.MustCompile(pattern).FindAllStringSubmatch(read(path), -1)
		if len(all) == 0 {
			t.Errorf("%s names no version", path)
		}
		for _, m := range all {
			if m[1] != top[1] {
				t.Errorf("%s has %q, CHANGELOG.md begins with version %s", path, strings.TrimSpace(m[0]), top[1])
			}
		}
	}
}
