package grafana

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// Looks of a scale benchmark, and how long each takes: as many samples as an hour has at a scrape a minute. The rules' ranges of an hour
// and more hold all of them.
const (
	scaleLooks = 60
	scaleEvery = 10 * time.Second
)

// crowd answers for very many nodes, each of which does what one of the played ones does; what they say was written before.
type crowd struct {
	said    [nodes][scaleLooks][]byte
	scrapes []atomic.Int32
}

func newCrowd(tb testing.TB, many int) *crowd {
	tb.Helper()
	c := &crowd{scrapes: make([]atomic.Int32, many)}
	began := time.Now()
	for i := range nodes {
		d := newDaemon(i)
		for n := range scaleLooks {
			d.upTo(hangs-scaleLooks/2+n, began.Add(time.Duration(n)*scaleEvery))
			families, err := d.metrics.Registry().Gather()
			testkit.Must(tb, err)
			var b bytes.Buffer
			for _, f := range families {
				_, err := expfmt.MetricFamilyToText(&b, f)
				testkit.Must(tb, err)
			}
			if !d.silent() {
				c.said[i][n] = b.Bytes()
			}
		}
	}
	return c
}

func (c *crowd) names() []string {
	var names []string
	for i := range c.scrapes {
		names = append(names, fmt.Sprintf("node-%05d", i))
	}
	return names
}

func (c *crowd) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/node-"))
	if err != nil || i >= len(c.scrapes) {
		http.NotFound(w, r)
		return
	}
	text := c.said[i%nodes][min(int(c.scrapes[i].Add(1)), scaleLooks)-1]
	if text == nil {
		http.Error(w, "it does not run", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	_, _ = w.Write(text)
}

// BenchmarkPrometheus is what a Prometheus of ORPHAN_REAPER_NODES nodes costs with what the chart keeps, and with everything: memory, the
// time of the rules, the time of the dashboard's slowest query.
func BenchmarkPrometheus(b *testing.B) {
	many, err := strconv.Atoi(os.Getenv("ORPHAN_REAPER_NODES"))
	if err != nil {
		b.Skip("this takes ten minutes twice: ORPHAN_REAPER_NODES=5000")
	}
	for name, s := range map[string]*scrape{"kept": chartScrape(b), "all": nil} {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				benchmarkScale(b, many, s)
			}
		})
	}
}

func benchmarkScale(b *testing.B, many int, s *scrape) {
	b.Helper()
	played := newCrowd(b, many)
	server := httptest.NewServer(played)
	defer server.Close()
	rules, err := filepath.Abs(rulesFile)
	testkit.Must(b, err)
	p := startPrometheus(b, b.TempDir(), &config{
		Global:        map[string]string{"scrape_interval": scaleEvery.String(), "evaluation_interval": (3 * scaleEvery).String()},
		RuleFiles:     []string{rules},
		ScrapeConfigs: []scrapeConfig{scrapeOf(played.names(), strings.TrimPrefix(server.URL, "http://"), s)},
	})
	time.Sleep((scaleLooks + 1) * scaleEvery)
	var head struct{ HeadStats struct{ NumSeries int } }
	p.ask(b, "/api/v1/status/tsdb", nil, &head)
	b.ReportMetric(float64(head.HeadStats.NumSeries), "series")
	b.ReportMetric(p.memory(b, "VmRSS"), "MB")
	b.ReportMetric(p.memory(b, "VmHWM"), "MB-peak")
	b.ReportMetric(p.processor(b)/scaleLooks, "s-processor/scrape")
	b.ReportMetric(p.rules(b), "s-rules")
	var took []timed
	for _, q := range queries(b, load(b)) {
		q.expr = strings.ReplaceAll(q.expr, nodeShown, "node-00005")
		began := time.Now()
		if p.query(b, q, span{began, 24 * time.Hour, 5 * time.Minute}) == 0 {
			b.Errorf("%s shows nothing: %s", q.title, q.expr)
		}
		took = append(took, timed{q.title, time.Since(began).Seconds()})
	}
	b.ReportMetric(slowest(b, took), "s-slowest")
	b.ReportMetric(0, "ns/op") // which says nothing here
	p.stop()
}

// memory is a figure of the process, in millions of bytes.
func (p *prometheus) memory(tb testing.TB, field string) float64 {
	tb.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	testkit.Must(tb, err)
	m := regexp.MustCompile(field + `:\s+(\d+) kB`).FindSubmatch(text)
	if m == nil {
		tb.Fatalf("no %s in %s", field, text)
	}
	kib, err := strconv.ParseFloat(string(m[1]), 64)
	testkit.Must(tb, err)
	return kib * 1024 / 1e6
}

// rules is how long all rules together took when they were last evaluated.
func (p *prometheus) rules(tb testing.TB) float64 {
	tb.Helper()
	var data struct {
		Groups []struct {
			EvaluationTime float64
			Rules          []struct {
				Name, Health, LastError string
				EvaluationTime          float64
			}
		}
	}
	p.ask(tb, "/api/v1/rules", nil, &data)
	var took []timed
	for _, r := range data.Groups[0].Rules {
		if r.Health != "ok" {
			tb.Errorf("%s: %s", r.Name, r.LastError)
		}
		took = append(took, timed{r.Name, r.EvaluationTime})
	}
	slowest(tb, took)
	return data.Groups[0].EvaluationTime
}

// processor is how much processor time the process took so far, in seconds: proc_pid_stat(5), in ticks of which a second has 100.
func (p *prometheus) processor(tb testing.TB) float64 {
	tb.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	testkit.Must(tb, err)
	_, after, _ := strings.Cut(string(text), ") ")
	total := 0.0
	for _, field := range strings.Fields(after)[11:13] {
		ticks, err := strconv.ParseFloat(field, 64)
		testkit.Must(tb, err)
		total += ticks
	}
	return total / 100
}

// timed is something that took some seconds.
type timed struct {
	name string
	took float64
}

// slowest logs the three that took longest, and returns how long the first one took.
func slowest(tb testing.TB, all []timed) float64 {
	tb.Helper()
	slices.SortFunc(all, func(a, b timed) int { return cmp.Compare(b.took, a.took) })
	for _, one := range all[:3] {
		tb.Logf("%s: %.2f s", one.name, one.took)
	}
	return all[0].took
}
