package checks

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// hourLines is what somebody who has not seen the code reads in an hour, with care.
const hourLines = 2650

// TestHour: the reading list of docs/why-it-is-safe.md is no longer than it says, row by row and
// in all.
func TestHour(t *testing.T) {
	doc, err := os.ReadFile("../../docs/why-it-is-safe.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, ok := strings.Cut(string(doc), "\n## In an hour\n")
	if !ok {
		t.Fatal("docs/why-it-is-safe.md has no reading list")
	}
	list, _, _ = strings.Cut(list, "\n## ")
	all, minutes := 0, 0
	for row := range strings.Lines(list) {
		cells := strings.Split(row, "|")
		if len(cells) < 5 || !strings.Contains(row, "](") {
			continue
		}
		said, _ := strconv.Atoi(strings.TrimSpace(cells[2]))
		took, _ := strconv.Atoi(strings.TrimSpace(cells[4]))
		lines := 0
		for _, link := range regexp.MustCompile(`\]\(\.\./([^)]+)\)`).FindAllStringSubmatch(cells[1], -1) {
			text, err := os.ReadFile("../../" + link[1])
			if err != nil {
				t.Error(err)
			}
			lines += strings.Count(string(text), "\n")
		}
		if off := lines - said; off > 30 || off < -30 {
			t.Errorf("%s: %d lines, the list says %d", strings.TrimSpace(cells[1]), lines, said)
		}
		all, minutes = all+lines, minutes+took
	}
	if all < hourLines/2 || all > hourLines || minutes > 60 {
		t.Errorf("the list is %d lines long and takes %d minutes, want at most %d and 60", all, minutes, hourLines)
	}
}
