package audit

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

const (
	fleetFile     = "../../packaging/chart/files/orphan-reaper-fleet.rules.yaml"
	fleetTests    = "../../packaging/prometheus/orphan-reaper-fleet.test.yaml"
	dashboardFile = "../../packaging/chart/files/orphan-reaper-fleet.json"
)

var recorded = regexp.MustCompile(`\bjob[a-z_]*:[a-z0-9_]+:[a-z0-9_]+`)

// fleetRule is a recording rule or an alert of the file for many nodes.
type fleetRule struct {
	Record    string
	alertRule `yaml:",inline"`
}

func fleetRules(t *testing.T) []fleetRule {
	t.Helper()
	text, err := os.ReadFile(fleetFile)
	testkit.Must(t, err)
	var file struct{ Groups []struct{ Rules []fleetRule } }
	testkit.Must(t, yaml.Unmarshal(text, &file))
	if len(file.Groups) != 1 { // the order of groups is undefined
		t.Fatalf("%d groups", len(file.Groups))
	}
	return file.Groups[0].Rules
}

// TestFleetRules checks that each rule uses exported metrics and defined sums, and that each alert has an
// instruction, a test case and a paragraph in the docs.
func TestFleetRules(t *testing.T) {
	names := exported(t)
	made := map[string]bool{}
	asked := map[string]bool{}
	text := textOf(t, fleetTests, dayTests)
	for _, r := range fleetRules(t) {
		printed := r.Expr + r.Annotations["description"]
		for _, name := range metricName.FindAllString(recorded.ReplaceAllString(printed, ""), -1) {
			if !names[name] {
				t.Errorf("%s%s uses %s, which is not exported", r.Record, r.Alert, name)
			}
		}
		for _, name := range recorded.FindAllString(printed, -1) {
			if asked[name] = true; !made[name] {
				t.Errorf("%s uses %s, which no earlier rule defines", r.Alert, name)
			}
		}
		if r.Record != "" {
			made[r.Record] = true
			continue
		}
		if strings.Contains(r.Expr, "instance") {
			t.Errorf("%s has an expression about single nodes: %s", r.Alert, r.Expr)
		}
		checkAlert(t, r.alertRule, text)
		if !strings.Contains(text, "alertname: "+r.Alert+", exp_alerts: []") {
			t.Errorf("no test in which %s does not fire", r.Alert)
		}
	}
}

// TestFleetRulesFire runs Prometheus' own tests on the rules.
func TestFleetRulesFire(t *testing.T) { rulesPass(t, fleetFile, fleetTests) }

// TestDashboard checks that promtool accepts each query of the dashboard, that its metrics are exported or defined by
// a rule, and that the chart keeps exactly these at the scrape.
func TestDashboard(t *testing.T) {
	promtool := testkit.NeedCommand(t, "promtool")
	text, err := os.ReadFile(dashboardFile)
	testkit.Must(t, err)
	var board struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	testkit.Must(t, json.Unmarshal(text, &board))
	text, err = os.ReadFile("../../packaging/chart/values.yaml")
	testkit.Must(t, err)
	var values struct {
		PodMonitor struct{ Keep []string } `yaml:"podMonitor"`
	}
	testkit.Must(t, yaml.Unmarshal(text, &values))
	var asked []string
	sums := map[string]bool{}
	for _, r := range fleetRules(t) {
		sums[r.Record] = true
		asked = append(asked, metricName.FindAllString(recorded.ReplaceAllString(r.Expr, ""), -1)...)
	}
	var b strings.Builder
	b.WriteString("groups:\n- name: dashboard\n  rules:\n")
	variables := strings.NewReplacer("$cluster", ".*", "$job", ".+", "$node", "n1", "$__range_s", "86400", "$__range", "24h")
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			fmt.Fprintf(&b, "  - {record: query, expr: %q}\n", variables.Replace(target.Expr))
			asked = append(asked, metricName.FindAllString(recorded.ReplaceAllString(target.Expr, ""), -1)...)
			for _, name := range recorded.FindAllString(target.Expr, -1) {
				if !sums[name] {
					t.Errorf("the dashboard uses %s, which no rule defines", name)
				}
			}
		}
	}
	slices.Sort(asked)
	if asked = slices.Compact(asked); !slices.Equal(asked, slices.Sorted(slices.Values(values.PodMonitor.Keep))) {
		t.Errorf("the chart keeps\n%v\nbut the dashboard and the rules use:\n%v", values.PodMonitor.Keep, asked)
	}
	for _, name := range asked {
		if !exported(t)[name] {
			t.Errorf("the dashboard or a rule uses %s, which is not exported", name)
		}
	}
	out, err := exec.CommandContext(t.Context(), promtool, "check", "rules", "--lint=none", testkit.File(t, "queries.yaml", b.String())).CombinedOutput()
	if err != nil || strings.Count(b.String(), "expr:") < 28 {
		t.Errorf("%v\n%s", err, out)
	}
}
