package grafana

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// The played day as Prometheus would have it: a scrape at each look, and the rules evaluated as often. Looks are some time before
// the minutes at which queries ask, so that no sample lies at the edge of a range, which releases of Prometheus take differently.
const before = 53 * time.Second

// history starts a Prometheus that has the played day in blocks, and no targets: each answer is the same each time.
func history(tb testing.TB) *prometheus {
	tb.Helper()
	dir := tb.TempDir()
	blocks(tb, dir, day(tb))
	p := startPrometheus(tb, dir, new(config))
	sums := recordedDay(tb, p)
	p.stop()
	blocks(tb, dir, sums)
	return startPrometheus(tb, dir, new(config))
}

// blocks has promtool make blocks of samples in OpenMetrics' text.
func blocks(tb testing.TB, dir, text string) {
	tb.Helper()
	file := filepath.Join(dir, "samples")
	testkit.Must(tb, os.WriteFile(file, []byte(text+"# EOF\n"), 0o600))
	cmd := exec.CommandContext(tb.Context(), testkit.NeedCommand(tb, "promtool"),
		"tsdb", "create-blocks-from", "openmetrics", "--quiet", file, filepath.Join(dir, "data"))
	if out, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
}

// write adds one sample.
func write(b *strings.Builder, name string, labels map[string]string, value float64, at time.Time) {
	b.WriteString(name)
	sep := "{"
	for _, l := range slices.Sorted(maps.Keys(labels)) {
		fmt.Fprintf(b, "%s%s=%q", sep, l, labels[l])
		sep = ","
	}
	fmt.Fprintf(b, "} %s %d.%03d\n", strconv.FormatFloat(value, 'g', -1, 64), at.Unix(), at.UnixMilli()%1000)
}

// day is what scrapes of all nodes would have kept.
func day(tb testing.TB) string {
	tb.Helper()
	s := chartScrape(tb)
	var b strings.Builder
	for node := range nodes {
		d := newDaemon(node)
		target := map[string]string{"job": job, "instance": d.name}
		for number := range dayEnds + 1 {
			at := noon.Add(-time.Duration(dayEnds-number)*every - before)
			d.upTo(number, at)
			up := 1.0
			if d.silent() {
				up = 0
			}
			write(&b, "up", target, up, at)
			if up == 0 {
				continue
			}
			for _, sample := range samples(tb, d.metrics) {
				if s.kept(sample.name, sample.labels) {
					maps.Copy(sample.labels, target)
					write(&b, sample.name, sample.labels, sample.value, at)
				}
			}
		}
	}
	return b.String()
}

// recordedDay is what the rules would have recorded. A rule that asks for the sum of one before it asks for what that one asks.
func recordedDay(tb testing.TB, p *prometheus) string {
	tb.Helper()
	text, err := os.ReadFile(rulesFile)
	testkit.Must(tb, err)
	var file struct {
		Groups []struct {
			Rules []struct{ Record, Expr string }
		}
	}
	testkit.Must(tb, yaml.Unmarshal(text, &file))
	var b strings.Builder
	made := map[string]string{}
	for _, r := range file.Groups[0].Rules {
		if r.Record == "" {
			continue
		}
		made[r.Record] = recorded.ReplaceAllStringFunc(r.Expr, func(name string) string { return "(" + made[name] + ")" })
		for _, s := range p.query(tb, query{expr: made[r.Record], overTime: true}, span{noon, dayEnds * every, every}) {
			delete(s.labels, "__name__")
			for _, point := range s.points {
				write(&b, r.Record, s.labels, point.value, point.at)
			}
		}
	}
	return b.String()
}
