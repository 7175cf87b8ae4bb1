package grafana

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// query is one that the dashboard asks.
type query struct {
	title, expr string
	overTime    bool
}

// queries are those of all panels, with the variables as Grafana sets them: all jobs, and one node.
func queries(tb testing.TB, board *dashboard) []query {
	tb.Helper()
	const shown = 24 * time.Hour
	variables := strings.NewReplacer("$job", ".+", "$node", nodeShown, "$__range_s", strconv.Itoa(int(shown.Seconds())), "$__range", "24h")
	var all []query
	for i := range board.Panels {
		p := &board.Panels[i]
		for _, q := range p.Targets {
			expr := variables.Replace(q.Expr)
			if strings.Contains(expr, "$") {
				tb.Errorf("%s asks with a variable that is not there: %s", p.Title, expr)
			}
			all = append(all, query{p.Title, expr, q.Range})
		}
	}
	return all
}

// nodeShown is the node of the dashboard's last row: one whose purges fail.
const nodeShown = "node-06"

// fallback is what shows 0 where there is nothing to count.
const fallback = " or vector(0)"

// fleet answers for all nodes: /node-01 and so on. Each scrape finds the next look of its node.
type fleet struct {
	mu      sync.Mutex
	daemons map[string]*daemon
	scrapes map[string]int
}

func newFleet() *fleet {
	f := &fleet{daemons: map[string]*daemon{}, scrapes: map[string]int{}}
	for i := range nodes {
		d := newDaemon(i)
		f.daemons[d.name] = d
	}
	return f
}

func (f *fleet) names() []string {
	var names []string
	for name := range f.daemons {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (f *fleet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	name := strings.TrimPrefix(r.URL.Path, "/")
	d := f.daemons[name]
	if f.scrapes[name]++; d.silent() && f.scrapes[name] > 2 { // it was there
		http.Error(w, "it does not run", http.StatusServiceUnavailable)
		return
	}
	d.upTo(dayEnds+f.scrapes[name], time.Now())
	promhttp.HandlerFor(d.metrics.Registry(), promhttp.HandlerOpts{}).ServeHTTP(w, r)
}

// TestQueries: each query of the dashboard, and each of its variables, is answered by a Prometheus that scrapes nodes in every
// state and keeps of them what the chart keeps: without an error or a warning, and with a series that has a value. Where a
// tile would show 0 for nothing, what it counts is there too.
func TestQueries(t *testing.T) {
	played := newFleet()
	server := httptest.NewServer(played)
	defer server.Close()
	rules, err := filepath.Abs(rulesFile)
	testkit.Must(t, err)
	p := startPrometheus(t, t.TempDir(), &config{
		Global:        map[string]string{"scrape_interval": "500ms", "evaluation_interval": "500ms"},
		RuleFiles:     []string{rules},
		ScrapeConfigs: []scrapeConfig{scrapeOf(played.names(), strings.TrimPrefix(server.URL, "http://"), chartScrape(t))},
	})
	board := load(t)
	pending := queries(t, board)
	for end := time.Now().Add(2 * time.Minute); ; {
		now := time.Now()
		pending = slices.DeleteFunc(pending, func(q query) bool {
			if counted, ok := strings.CutSuffix(q.expr, fallback); ok && p.query(t, q, span{end: now}) == 1 {
				q.expr = counted
			}
			return p.query(t, q, span{now, 10 * time.Second, time.Second}) > 0
		})
		if len(pending) == 0 {
			break
		}
		if now.After(end) {
			for _, q := range pending {
				t.Errorf("%s: nothing answers %s", q.title, q.expr)
			}
			t.FailNow()
		}
		time.Sleep(200 * time.Millisecond)
	}
	for _, v := range board.Templating.List {
		if v.Type == "query" {
			checkVariable(t, p, &v)
		}
	}
}

var labelValues = regexp.MustCompile(`^label_values\((.*), ([a-z]+)\)$`)

func checkVariable(t *testing.T, p *prometheus, v *variable) {
	t.Helper()
	m := labelValues.FindStringSubmatch(v.Definition)
	if m == nil || !strings.Contains(string(v.Query), strconv.Quote(v.Definition)) {
		t.Fatalf("%s asks %s, and says %s", v.Name, v.Query, v.Definition)
	}
	want := map[string]string{"job": job, "node": nodeShown}[v.Name]
	if got := p.values(t, m[2], strings.ReplaceAll(m[1], "$job", ".+")); !slices.Contains(got, want) {
		t.Errorf("%s may be %v", v.Name, got)
	}
}
