package checks

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestRightsTold: SECURITY.md tells of each right that the chart gives to anybody.
func TestRightsTold(t *testing.T) {
	text, err := os.ReadFile("../../SECURITY.md")
	testkit.Must(t, err)
	charts, err := filepath.Glob("../chart/templates/*.yaml")
	testkit.Must(t, err)
	rights := 0
	for _, file := range charts {
		template, err := os.ReadFile(file)
		testkit.Must(t, err)
		// Each right that the chart gives; a policy's rules name what it watches.
		for _, m := range regexp.MustCompile(`(?:resources|nonResourceURLs): \[([^\]]+)\]\n +verbs:`).FindAllStringSubmatch(string(template), -1) {
			for right := range strings.SplitSeq(m[1], ", ") {
				rights++
				if !strings.Contains(string(text), strings.Trim(right, `"`)) {
					t.Errorf("%s gives %s, of which SECURITY.md does not tell", file, right)
				}
			}
		}
	}
	if rights < 8 {
		t.Errorf("only %d rights were found in the chart", rights)
	}
}
