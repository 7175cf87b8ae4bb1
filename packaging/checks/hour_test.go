package checks

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestHour: the reading list of docs/why-it-is-safe.md is as long as it says, row by row and in all.
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
	said, _ := strconv.Atoi(strings.ReplaceAll(regexp.MustCompile(`some ([0-9,]+) lines`).FindStringSubmatch(list)[1], ",", ""))
	if off := all - said; off > 100 || off < -100 || minutes > 65 {
		t.Errorf("the list is %d lines long and takes %d minutes, want some %d and an hour", all, minutes, said)
	}
}
