package checks

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

var makeCall = regexp.MustCompile("(?m)(?:`|^)make ([a-z][a-z0-9-]*)")

// nameFaults returns the make targets that a page names and that the Makefile lacks.
func nameFaults(text, makefile string) (faults []string) {
	for _, m := range makeCall.FindAllStringSubmatch(text, -1) {
		if !regexp.MustCompile(`(?m)^` + m[1] + `:|^\.PHONY:.* ` + m[1] + `\b`).MatchString(makefile) {
			faults = append(faults, "make has no "+m[1])
		}
	}
	return faults
}

// TestNamed: the Makefile has each target that a page names.
func TestNamed(t *testing.T) {
	files := readTree(t, nil)
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, page := range slices.Sorted(maps.Keys(files)) {
		if filepath.Ext(page) != ".md" || page == "CHANGELOG.md" {
			continue
		}
		named += len(makeCall.FindAllString(files[page], -1))
		for _, fault := range nameFaults(files[page], string(makefile)) {
			t.Errorf("%s: %s", page, fault)
		}
	}
	if named < 10 {
		t.Errorf("only %d make targets were found", named)
	}
}

// TestNamedFinds: what is not there is found.
func TestNamedFinds(t *testing.T) {
	for _, c := range []struct {
		text string
		want int
	}{
		{"`make test`", 0},
		{"```\nmake test  # runs them\n```", 0},
		{"`make tests`", 1},
	} {
		faults := nameFaults(c.text, "test:\n\tgo test\n")
		if len(faults) != c.want {
			t.Errorf("%q: %q", c.text, faults)
		}
	}
}
