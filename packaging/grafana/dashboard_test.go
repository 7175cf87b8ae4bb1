// Package grafana holds the dashboard: what it asks for is exported and kept at the scrape, each of its queries is run against a
// real Prometheus with the rules of the fleet.
//
// The nodes are played: the daemon's own registry, told of looks and outcomes that never were, behind one listener on loopback.
package grafana

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/orphan-reaper/orphan-reaper/reaper/audit"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

const (
	root          = "../.."
	dashboardFile = "orphan-reaper-fleet.json"
	rulesFile     = root + "/packaging/prometheus/orphan-reaper-fleet.rules.yaml"
	valuesFile    = root + "/packaging/chart/values.yaml"
	docsURL       = "https://github.com/orphan-reaper/orphan-reaper/blob/main/docs/"
)

// dashboard is what we use of Grafana's model: https://grafana.com/docs/grafana/latest/dashboards/build-dashboards/view-dashboard-json-model/.
type dashboard struct {
	UID, Title, Description, Timezone, Refresh, WeekStart      string
	Tags                                                       []string
	SchemaVersion, Version, GraphTooltip, FiscalYearStartMonth int
	Editable, LiveNow                                          bool
	Time, Timepicker                                           map[string]string
	Annotations                                                json.RawMessage
	Links                                                      []link
	Templating                                                 struct{ List []variable }
	Panels                                                     []panel
}

type link struct {
	Title, URL, Type, Icon, Tooltip                string
	Tags                                           []string
	TargetBlank, AsDropdown, IncludeVars, KeepTime bool
}

// source is a data source: always the variable.
type source struct{ Type, UID string }

type variable struct {
	Name, Label, Description, Type, Definition, AllValue, Regex string
	Query                                                       json.RawMessage
	Current                                                     json.RawMessage
	Datasource                                                  source
	Hide, Refresh, Sort                                         int
	Multi, IncludeAll, SkipURLSync                              bool
	Options                                                     []string
}

type panel struct {
	ID                       int
	Type, Title, Description string
	Datasource               source
	GridPos                  struct{ H, W, X, Y int }
	Links                    []link
	Targets                  []target
	Transformations          []transformation
	FieldConfig              struct {
		Defaults  field
		Overrides []override
	}
	Options   options
	Collapsed bool
	Panels    []panel
}

type target struct {
	RefID, Expr, LegendFormat, Format string
	Instant, Range                    bool
}

type transformation struct {
	ID      string
	Options struct {
		ExcludeByName map[string]bool
		IndexByName   map[string]int
		RenameByName  map[string]string
	}
}

type field struct {
	Unit     string
	Min      *float64
	Color    color
	Mappings []struct {
		Type    string
		Options map[string]struct {
			Text, Color string
			Index       int
		}
	}
	Thresholds struct {
		Mode  string
		Steps []step
	}
	Custom struct {
		DrawStyle, LineInterpolation, ShowPoints, Align string
		LineWidth, FillOpacity                          int
		SpanNulls, Filterable                           bool
		Stacking                                        struct{ Mode, Group string }
	}
}

type color struct{ Mode, FixedColor string }

type step struct {
	Color string
	Value *float64
}

type override struct {
	Matcher    struct{ ID, Options string }
	Properties []struct {
		ID    string
		Value json.RawMessage
	}
}

type options struct {
	ColorMode, GraphMode, JustifyMode, Orientation, TextMode, CellHeight string
	ReduceOptions                                                        struct {
		Calcs  []string
		Fields string
		Values bool
	}
	Legend struct {
		DisplayMode, Placement string
		ShowLegend             bool
		Calcs                  []string
	}
	Tooltip    struct{ Mode, Sort string }
	ShowHeader bool
	SortBy     []struct {
		DisplayName string
		Desc        bool
	}
}

// load reads the dashboard; what the types above do not have is an error.
func load(tb testing.TB) *dashboard {
	tb.Helper()
	text, err := os.ReadFile(dashboardFile)
	testkit.Must(tb, err)
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	var board dashboard
	testkit.Must(tb, d.Decode(&board))
	return &board
}

// TestModel: the panels are of Grafana's own kinds, do not overlap, say what they show, and lead to the docs.
func TestModel(t *testing.T) {
	board := load(t)
	if board.UID != "orphan-reaper-fleet" || board.SchemaVersion < 39 || len(board.Panels) < 30 {
		t.Errorf("%s of schema %d has %d panels", board.UID, board.SchemaVersion, len(board.Panels))
	}
	var names []string
	for _, v := range board.Templating.List {
		names = append(names, v.Name)
		if len(v.Description) < 20 || v.Type == "query" && v.Datasource != prometheusSource {
			t.Errorf("variable %s: %q, %v", v.Name, v.Description, v.Datasource)
		}
	}
	if !slices.Equal(names, []string{"datasource", "job", "node"}) {
		t.Errorf("variables %v", names)
	}
	ids, cells := map[int]bool{}, map[[2]int]string{}
	for _, p := range board.Panels {
		if p.ID <= 0 || ids[p.ID] {
			t.Errorf("%s has the ID %d", p.Title, p.ID)
		}
		ids[p.ID] = true
		for i := range p.GridPos.W * p.GridPos.H {
			at := [2]int{p.GridPos.X + i%p.GridPos.W, p.GridPos.Y + i/p.GridPos.W}
			if at[0] > 23 || cells[at] != "" {
				t.Errorf("%s lies on %s at %v", p.Title, cells[at], at)
			}
			cells[at] = p.Title
		}
		if p.Type == "row" {
			continue
		}
		checkPanel(t, &p)
	}
	for _, l := range board.Links {
		checkLink(t, l.URL)
	}
}

var prometheusSource = source{"prometheus", "${datasource}"}

func checkPanel(t *testing.T, p *panel) {
	t.Helper()
	if !slices.Contains([]string{"stat", "timeseries", "table"}, p.Type) || p.Datasource != prometheusSource || len(p.Targets) == 0 {
		t.Errorf("%s is a %s of %v with %d targets", p.Title, p.Type, p.Datasource, len(p.Targets))
	}
	if len(p.Description) < 25 || !strings.HasSuffix(p.Description, ".") || len(p.Links) == 0 {
		t.Errorf("%s: %d links, %q", p.Title, len(p.Links), p.Description)
	}
	for _, l := range p.Links {
		checkLink(t, l.URL)
	}
	for _, q := range p.Targets {
		if q.Instant == q.Range || q.Range != (p.Type == "timeseries") || (q.Format == "table") != (p.Type == "table") {
			t.Errorf("%s asks %+v", p.Title, q)
		}
	}
}

// checkLink: the page is in docs, or beside it, and has the heading.
func checkLink(t *testing.T, url string) {
	t.Helper()
	page, ok := strings.CutPrefix(url, docsURL)
	page, anchor, _ := strings.Cut(page, "#")
	text, err := os.ReadFile(root + "/docs/" + page)
	if !ok || err != nil {
		t.Errorf("%s: %v", url, err)
		return
	}
	for line := range strings.Lines(string(text)) {
		if h := strings.TrimLeft(line, "#"); h != line && strings.ReplaceAll(strings.ToLower(strings.TrimSpace(h)), " ", "-") == anchor {
			return
		}
	}
	if anchor != "" {
		t.Errorf("%s: no such heading", url)
	}
}

var (
	metricName = regexp.MustCompile(`\borphan_reaper_[a-z_]+`)
	recorded   = regexp.MustCompile(`\bjob[a-z_]*:[a-z0-9_]+:[a-z0-9_]+`)
)

// scrape is what the chart keeps and drops at the scrape.
type scrape struct {
	PodMonitor struct {
		Keep []string
		Drop []struct {
			Metric, Label string
			Values        []string
		}
	} `yaml:"podMonitor"`
}

func chartScrape(tb testing.TB) *scrape {
	tb.Helper()
	text, err := os.ReadFile(valuesFile)
	testkit.Must(tb, err)
	s := new(scrape)
	testkit.Must(tb, yaml.Unmarshal(text, s))
	return s
}

// kept reports whether a series is there after the scrape.
func (s *scrape) kept(name string, labels map[string]string) bool {
	for _, d := range s.PodMonitor.Drop {
		if d.Metric == name && slices.Contains(d.Values, labels[d.Label]) {
			return false
		}
	}
	return slices.Contains(s.PodMonitor.Keep, name)
}

// TestKeepList: what the rules of the fleet and the dashboard ask for is exported and kept, nothing else is kept, the sums that the
// dashboard asks for are made, and a node with one network has few series.
func TestKeepList(t *testing.T) {
	text, err := os.ReadFile(rulesFile)
	testkit.Must(t, err)
	var file struct {
		Groups []struct {
			Rules []struct{ Record, Expr string }
		}
	}
	testkit.Must(t, yaml.Unmarshal(text, &file))
	made, asked := map[string]bool{}, map[string]bool{}
	ask := func(expr string) {
		for _, name := range metricName.FindAllString(recorded.ReplaceAllString(expr, ""), -1) {
			asked[name] = true
		}
	}
	for _, r := range file.Groups[0].Rules {
		made[r.Record] = true
		ask(r.Expr)
	}
	for _, q := range queries(t, load(t)) {
		ask(q.expr)
		for _, name := range recorded.FindAllString(q.expr, -1) {
			if !made[name] {
				t.Errorf("%s asks for %s, which no rule makes", q.title, name)
			}
		}
	}
	s := chartScrape(t)
	for name := range asked {
		if !slices.Contains(s.PodMonitor.Keep, name) {
			t.Errorf("%s is asked for, and the chart does not keep it", name)
		}
	}
	for _, name := range s.PodMonitor.Keep {
		if !asked[name] {
			t.Errorf("the chart keeps %s, for which nobody asks", name)
		}
	}
	checkSeries(t, s)
}

// mostSeries is how many series of a node with one network, one log and a kubelet that answers are kept: what a Prometheus of
// 5,000 nodes pays for (docs/benchmarks.md).
const mostSeries = 56

func checkSeries(t *testing.T, s *scrape) {
	t.Helper()
	d := newDaemon(0)
	d.upTo(1, noon)
	all, kept, names := 0, 0, map[string]bool{}
	for _, sample := range samples(t, d.metrics) {
		all++
		names[sample.name] = true
		if s.kept(sample.name, sample.labels) {
			kept++
		}
	}
	if kept > mostSeries || kept < 40 || all < 250 {
		t.Errorf("%d series of %d are kept", kept, all)
	}
	t.Logf("%d series of %d are kept", kept, all)
	for _, name := range s.PodMonitor.Keep {
		if !names[name] {
			t.Errorf("the chart keeps %s, which nobody exports", name)
		}
	}
	fresh := audit.NewMetrics("1")
	cni.NewMetrics(fresh)
	for _, drop := range s.PodMonitor.Drop { // each value is one that is exported
		for _, value := range drop.Values {
			if !slices.ContainsFunc(samples(t, fresh), func(s sample) bool { return s.name == drop.Metric && s.labels[drop.Label] == value }) {
				t.Errorf("the chart drops %s of %s %s, which nobody exports", drop.Metric, drop.Label, value)
			}
		}
	}
}
