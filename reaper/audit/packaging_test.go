package audit

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const (
	packaging  = "../../packaging/"
	monitoring = packaging + "chart/files/"
)

func text(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestCatalog: the packaged catalog has the texts of the table.
func TestCatalog(t *testing.T) {
	if text(t, packaging+"orphan-reaper.catalog") != Catalog() {
		t.Error("the catalog is not that of the table of records: run go generate ./...")
	}
}

var (
	metricName = regexp.MustCompile(`\borphan_reaper_[a-z_]+`)
	selector   = regexp.MustCompile(`\borphan_reaper_([a-z_]+)\{([^}]*)\}`)
	matcher    = regexp.MustCompile(`(\w+)=~?"([^"$]+)"`)
)

// checkMetrics checks that each metric and each value of a label in a query is exported: a query with a wrong one returns
// nothing, and an alert on it never fires.
func checkMetrics(t *testing.T, query string) {
	t.Helper()
	families, err := busy().Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	exported := map[string]bool{}
	for _, f := range families {
		exported[f.GetName()] = true
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				exported[f.GetName()+" "+l.GetName()+" "+l.GetValue()] = true
			}
		}
	}
	for _, name := range metricName.FindAllString(query, -1) {
		if !exported[name] {
			t.Errorf("%s is not exported: %s", name, query)
		}
	}
	for _, s := range selector.FindAllStringSubmatch(query, -1) {
		for _, m := range matcher.FindAllStringSubmatch(s[2], -1) {
			for value := range strings.SplitSeq(m[2], "|") {
				if !exported[Prefix+s[1]+" "+m[1]+" "+value] {
					t.Errorf("%s never has %s %q: %s", s[1], m[1], value, query)
				}
			}
		}
	}
}

// TestAlerts: Prometheus accepts the alerts, each fires in a test of promtool, and each uses metrics that there are.
func TestAlerts(t *testing.T) {
	rules, tests := text(t, monitoring+"orphan-reaper.rules.yaml"), text(t, monitoring+"orphan-reaper.rules.test.yaml")
	checkMetrics(t, rules)
	alerts := regexp.MustCompile(`(?m)^      - alert: (\w+)$`).FindAllStringSubmatch(rules, -1)
	if len(alerts) != strings.Count(rules, "alert:") || len(alerts) != strings.Count(rules, "description: >-") {
		t.Errorf("%d alerts, not each with a description", len(alerts))
	}
	for _, a := range alerts {
		if !strings.Contains(tests, `alertname="`+a[1]+`"`) {
			t.Errorf("no test in which %s fires", a[1])
		}
	}
	promtool(t, "check", "rules", monitoring+"orphan-reaper.rules.yaml")
	promtool(t, "test", "rules", monitoring+"orphan-reaper.rules.test.yaml")
}

// TestDashboard: Prometheus accepts each query of the dashboard, and its metrics exist.
func TestDashboard(t *testing.T) {
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(text(t, monitoring+"dashboard.json")), &board); err != nil {
		t.Fatal(err)
	}
	var queries strings.Builder
	queries.WriteString("groups:\n- name: dashboard\n  rules:\n")
	for _, p := range board.Panels {
		if len(p.Targets) == 0 {
			t.Errorf("%s has no query", p.Title)
		}
		for _, target := range p.Targets {
			checkMetrics(t, target.Expr)
			queries.WriteString(fmt.Sprintf("  - {record: query, expr: %q}\n", target.Expr))
		}
	}
	file := filepath.Join(t.TempDir(), "queries.yaml")
	if err := os.WriteFile(file, []byte(queries.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "check", "rules", "--lint=none", file)
}

func promtool(t *testing.T, args ...string) {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("this needs promtool: make e2e-runtime")
	}
	out, err := exec.CommandContext(t.Context(), path, args...).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "SUCCESS") {
		t.Errorf("promtool %v: %v\n%s", args, err, out)
	}
}
