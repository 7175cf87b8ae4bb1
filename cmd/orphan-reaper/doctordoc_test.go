package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestSymptomForms: each form of the complaint that README.md and docs/faq.md show is one that
// the parsers take for a kubelet's report.
func TestSymptomForms(t *testing.T) {
	const uid = "2c9a1c3e-5f0e-4c39-9d3b-0d6a1e9f6b11"
	read := func(path string) string {
		t.Helper()
		b, err := os.ReadFile(path)
		testkit.Must(t, err)
		return string(b)
	}
	readme, faq := read("../../README.md"), read("../../docs/faq.md")
	_, block, _ := strings.Cut(readme, "```\n")
	block, _, _ = strings.Cut(block, "```")
	const klog = `E0331 15:47:45.892216    3416 kubelet_volumes.go:263] `
	var forms []string
	for line := range strings.Lines(block) {
		forms = append(forms, klog+strings.Replace(strings.TrimSpace(line), "…", uid, 1))
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `(found, but [^`]*)`").FindAllStringSubmatch(faq, -1) {
		forms = append(forms, klog+`orphaned pod "`+uid+`" `+m[1])
	}
	if len(forms) != 14 {
		t.Errorf("%d forms", len(forms))
	}
	for _, form := range forms {
		if s, ok := parsers.ParseLine(parsers.Line{Text: []byte(form)}); !ok || s.UID != uid || s.Report == parsers.ReportTeardown {
			t.Errorf("%t %+v: %s", ok, s, form)
		}
	}
}
