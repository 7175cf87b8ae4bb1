package checks

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	namedTest = regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Za-z]+)")
	makeCall  = regexp.MustCompile("(?m)(?:`|^)make ([a-z][a-z0-9-]*)")
)

// nameFaults are the tests, benchmarks and make targets that a page names and that are not there.
func nameFaults(text, tests, makefile string) (faults []string) {
	for _, m := range namedTest.FindAllStringSubmatch(text, -1) {
		if !strings.Contains(tests, "func "+m[1]+"(") {
			faults = append(faults, m[1]+" is not there")
		}
	}
	for _, m := range makeCall.FindAllStringSubmatch(text, -1) {
		if !regexp.MustCompile(`(?m)^` + m[1] + `:|^\.PHONY:.* ` + m[1] + `\b`).MatchString(makefile) {
			faults = append(faults, "make has no "+m[1])
		}
	}
	return faults
}

// TestNamed: each test, benchmark and make target that a page names is there.
func TestNamed(t *testing.T) {
	files := readTree(t, nil)
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	tests := allTests(t)
	named := 0
	for _, page := range slices.Sorted(maps.Keys(files)) {
		if filepath.Ext(page) != ".md" || page == "CHANGELOG.md" {
			continue
		}
		named += len(namedTest.FindAllString(files[page], -1))
		for _, fault := range nameFaults(files[page], tests, string(makefile)) {
			t.Errorf("%s: %s", page, fault)
		}
	}
	if named < 100 {
		t.Errorf("only %d tests and benchmarks were found", named)
	}
}

// TestNamedFinds: what is not there is found.
func TestNamedFinds(t *testing.T) {
	for _, c := range []struct {
		text string
		want int
	}{
		{"`TestHere`, `BenchmarkHere/sub`, `make test`", 0},
		{"```\nmake test  # runs them\n```", 0},
		{"`TestGone`", 1},
		{"`make tests`", 1},
	} {
		faults := nameFaults(c.text, "func TestHere(\nfunc BenchmarkHere(\n", "test:\n\tgo test\n")
		if len(faults) != c.want {
			t.Errorf("%q: %q", c.text, faults)
		}
	}
}

// allTests are the first lines of all tests and benchmarks.
func allTests(t *testing.T) string {
	t.Helper()
	find := exec.CommandContext(t.Context(), "grep", "-rhoE", "--include=*_test.go", "--exclude-dir=.cache", `^func (Test|Fuzz|Benchmark)[A-Za-z]+\(`, "../..")
	tests, err := find.Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(tests)
}
