package checks

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestRightsTold: SECURITY.md lists each right that the chart grants.
func TestRightsTold(t *testing.T) {
	text, err := os.ReadFile("../../SECURITY.md")
	testkit.Must(t, err)
	charts, err := filepath.Glob("../chart/templates/*.yaml")
	testkit.Must(t, err)
	rights := 0
	for _, file := range charts {
		template, err := os.ReadFile(file)
		testkit.Must(t, err)
		// Each right that the chart grants; a policy's rules list the resources that it watches.
		for _, m := range regexp.MustCompile(`(?:resources|nonResourceURLs): \[([^\]]+)\]\n +verbs:`).FindAllStringSubmatch(string(template), -1) {
			for right := range strings.SplitSeq(m[1], ", ") {
				rights++
				if !strings.Contains(string(text), strings.Trim(right, `"`)) {
					t.Errorf("%s grants %s, which SECURITY.md does not list", file, right)
				}
			}
		}
	}
	if rights < 8 {
		t.Errorf("only %d rights were found in the chart", rights)
	}
}
