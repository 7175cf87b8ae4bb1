package checks

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestRightsTold: SECURITY.md tells of each right that the chart gives to anybody.
func TestRightsTold(t *testing.T) {
	text, err := os.ReadFile("../../SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	charts, err := filepath.Glob("../chart/templates/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	rights := 0
	for _, file := range charts {
		template, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
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
