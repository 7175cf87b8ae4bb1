package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/parsers"
)

// TestSymptomForms: each form of the complaint that README.md and docs/symptom.md show is one that
// the parsers take for a kubelet's report.
func TestSymptomForms(t *testing.T) {
	const uid = "2c9a1c3e-5f0e-4c39-9d3b-0d6a1e9f6b11"
	read := func(path string) string {
		t.Helper()
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	readme, symptom := read("../../README.md"), read("../../docs/symptom.md")
	_, block, _ := strings.Cut(readme, "```\n")
	block, _, _ = strings.Cut(block, "```")
	const klog = `E0331 15:47:45.892216    3416 kubelet_volumes.go:263] `
	var forms []string
	for line := range strings.Lines(block) {
		forms = append(forms, klog+strings.Replace(strings.TrimSpace(line), "…", uid, 1))
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `(found, but [^`]*)`").FindAllStringSubmatch(symptom, -1) {
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

// TestSymptomCommands: the commands of docs/symptom.md are there, and what it says of times and exit codes is
// what holds.
func TestSymptomCommands(t *testing.T) {
	b, err := os.ReadFile("../../docs/symptom.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	found := 0
	for _, m := range regexp.MustCompile("(?m)^(?:sudo )?orphan-reaper ([a-z ]+[a-z])|`orphan-reaper ([a-z ]+[a-z])[ `]").FindAllStringSubmatch(page, -1) {
		found++
		var c *cobra.Command
		if c, _, err = testRoot().Find(strings.Fields(m[1] + m[2])); err != nil || !c.Runnable() || c.HasSubCommands() {
			t.Errorf("no command %s%s", m[1], m[2])
		}
	}
	if found < 7 {
		t.Errorf("%d commands", found)
	}
	if d := config.Default(); d.Hold.Minutes() != 5 || d.HoldReported.Minutes() != 1 || d.Confirm.Minutes() != 5 ||
		!strings.Contains(page, "one minute for a pod that the kubelet reported (`hold_reported`), five for all others (`hold`)") {
		t.Errorf("hold %v, hold_reported %v and confirm %v are other times than the page has", d.Hold, d.HoldReported, d.Confirm)
	}
	table := page[strings.Index(page, "| --- | --- |\n| A volume"):]
	for _, says := range regexp.MustCompile(`(?m)^\| (?:… )?([A-Za-z][^|]*) \|`).FindAllStringSubmatch(table, -1) {
		if !strings.Contains(doctorSays(t), says[1]) {
			t.Errorf("doctor never says %q", says[1])
		}
	}
}

// doctorSays is the source of the sentences that doctor says.
func doctorSays(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, name := range []string{"plain.go", "screen.go", "text.go", "parked.go"} {
		b, err := os.ReadFile("../internal/view/doctor/" + name)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(b)
	}
	return all.String()
}
