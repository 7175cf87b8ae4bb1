package audit

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

const (
	rulesFile = "../../packaging/prometheus/orphan-reaper.rules.yaml"
	ruleTests = "../../packaging/prometheus/orphan-reaper.test.yaml"
	dayTests  = "../../packaging/prometheus/days.test.yaml" // of the alerts that wait for days, also the fleet's
)

// exported returns the names of all metrics.
func exported(t *testing.T) map[string]bool {
	t.Helper()
	m := busy()
	families, err := m.Registry().Gather()
	testkit.Must(t, err)
	names := map[string]bool{}
	for _, f := range families {
		names[f.GetName()] = true
	}
	return names
}

var metricName = regexp.MustCompile(`\borphan_reaper_[a-z_]+`)

// alertRule is one alert of the Prometheus rules.
type alertRule struct {
	Alert       string
	Expr        string
	Labels      map[string]string
	Annotations map[string]string
}

func alertRules(t *testing.T) []alertRule {
	t.Helper()
	text, err := os.ReadFile(rulesFile)
	testkit.Must(t, err)
	var file struct{ Groups []struct{ Rules []alertRule } }
	testkit.Must(t, yaml.Unmarshal(text, &file))
	if len(file.Groups) != 1 || len(file.Groups[0].Rules) < 8 {
		t.Fatalf("%d groups", len(file.Groups))
	}
	return file.Groups[0].Rules
}

// TestAlertRules checks that each alert uses exported metrics, and has an instruction, a test case and a paragraph in
// the docs.
func TestAlertRules(t *testing.T) {
	names := exported(t)
	tests := textOf(t, ruleTests, dayTests)
	for _, r := range alertRules(t) {
		for _, name := range metricName.FindAllString(r.Expr, -1) {
			if !names[name] {
				t.Errorf("%s uses %s, which is not exported", r.Alert, name)
			}
		}
		if !strings.Contains(r.Annotations["summary"], "{{ $labels.instance }}") {
			t.Errorf("%s lacks the instance: %v", r.Alert, r.Annotations)
		}
		checkAlert(t, r, tests)
	}
}

// checkAlert checks what every alert must have.
func checkAlert(t *testing.T, r alertRule, tests string) {
	t.Helper()
	if !slices.Contains([]string{"critical", "warning", "info"}, r.Labels["severity"]) || len(r.Annotations["description"]) < 60 {
		t.Errorf("%s: labels %v, annotations %v", r.Alert, r.Labels, r.Annotations)
	}
	link, ok := strings.CutPrefix(r.Annotations["runbook_url"], "https://github.com/orphan-reaper/orphan-reaper/blob/main/")
	if !ok || !strings.HasSuffix(link, "#"+strings.ToLower(r.Alert)) {
		t.Errorf("%s has the runbook %s", r.Alert, r.Annotations["runbook_url"])
	}
	checkLink(t, "../..", link)
	if _, cases, _ := strings.Cut(tests, "alertname: "+r.Alert+"\n"); !strings.Contains(cases, "exp_labels") {
		t.Errorf("no test in which %s fires", r.Alert)
	}
}

// textOf returns the content of files.
func textOf(t *testing.T, files ...string) (all string) {
	t.Helper()
	for _, file := range files {
		text, err := os.ReadFile(file)
		testkit.Must(t, err)
		all += string(text)
	}
	return all
}

// TestAlertRulesFire runs Prometheus' own tests on the rules.
func TestAlertRulesFire(t *testing.T) {
	rulesPass(t, rulesFile, ruleTests, dayTests)
}

func rulesPass(t *testing.T, file string, tests ...string) {
	t.Helper()
	promtool := testkit.NeedCommand(t, "promtool")
	for _, args := range [][]string{{"check", "rules", file}, append([]string{"test", "rules"}, tests...)} {
		out, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "SUCCESS") {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}

// pages returns the documents for users, by path from the top.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, pattern := range []string{
		"docs/*.md", "*.md", "packaging/man/*", "packaging/tarball.md", "packaging/config.yaml", "packaging/orphan-reaper.catalog",
	} {
		files, err := filepath.Glob(filepath.Join("../..", pattern))
		testkit.Must(t, err)
		for _, file := range files {
			b, err := os.ReadFile(file)
			testkit.Must(t, err)
			all[strings.TrimPrefix(file, "../../")] = string(b)
		}
	}
	if len(all) < 18 {
		t.Fatalf("%d pages", len(all))
	}
	return all
}

// notExported returns the names in a text that look like a metric and are not exported. A name that ends in _ or *
// stands for several, one in _t is a type of SELinux.
func notExported(names map[string]bool, text string) (missing []string) {
	for _, name := range metricName.FindAllString(text, -1) {
		if !names[name] && !strings.HasSuffix(name, "_") && !strings.HasSuffix(name, "_t") {
			missing = append(missing, name)
		}
	}
	return missing
}

// TestMetricsDoc checks that docs/metrics.md has every metric, and that no page has any other.
func TestMetricsDoc(t *testing.T) {
	names := exported(t)
	for page, text := range pages(t) {
		for _, name := range notExported(names, text) {
			t.Errorf("%s describes %s, which is not exported", page, name)
		}
	}
	table := pages(t)["docs/metrics.md"]
	for name := range names {
		if !strings.Contains(table, "`"+name+"`") {
			t.Errorf("docs/metrics.md does not describe %s", name)
		}
	}
	if wrong := notExported(names, "orphan_reaper_orphans, orphan_reaper_pod"); !slices.Equal(wrong, []string{"orphan_reaper_pod"}) {
		t.Errorf("notExported misses an unknown metric: %v", wrong)
	}
}
