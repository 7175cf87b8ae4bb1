package grafana

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// prometheus is a running one.
type prometheus struct {
	url string
	cmd *exec.Cmd
	log *bytes.Buffer
}

// config is a configuration of Prometheus.
type config struct {
	Global        map[string]string `yaml:"global,omitempty"`
	RuleFiles     []string          `yaml:"rule_files,omitempty"`
	ScrapeConfigs []scrapeConfig    `yaml:"scrape_configs,omitempty"`
}

type scrapeConfig struct {
	JobName              string                `yaml:"job_name"`
	StaticConfigs        []map[string][]string `yaml:"static_configs"`
	RelabelConfigs       []relabel             `yaml:"relabel_configs"`
	MetricRelabelConfigs []relabel             `yaml:"metric_relabel_configs,omitempty"`
}

type relabel struct {
	Action       string   `yaml:"action,omitempty"`
	SourceLabels []string `yaml:"source_labels,omitempty,flow"`
	Regex        string   `yaml:"regex,omitempty"`
	TargetLabel  string   `yaml:"target_label,omitempty"`
	Replacement  string   `yaml:"replacement,omitempty"`
}

// scrapeOf scrapes nodes of those names, all from one listener, as the chart's PodMonitor would with its list or without.
func scrapeOf(names []string, listener string, s *scrape) scrapeConfig {
	c := scrapeConfig{
		JobName: job, StaticConfigs: []map[string][]string{{"targets": names}},
		RelabelConfigs: []relabel{
			{SourceLabels: []string{"__address__"}, TargetLabel: "instance"},
			{SourceLabels: []string{"__address__"}, TargetLabel: "__metrics_path__", Replacement: "/$1"},
			{TargetLabel: "__address__", Replacement: listener},
		},
	}
	if s == nil {
		return c
	}
	c.MetricRelabelConfigs = []relabel{{Action: "keep", SourceLabels: []string{"__name__"}, Regex: strings.Join(s.PodMonitor.Keep, "|")}}
	for _, d := range s.PodMonitor.Drop {
		c.MetricRelabelConfigs = append(c.MetricRelabelConfigs,
			relabel{Action: "drop", SourceLabels: []string{"__name__", d.Label}, Regex: d.Metric + ";(" + strings.Join(d.Values, "|") + ")"})
	}
	return c
}

// job is the name that a PodMonitor's job has: its namespace and its own name.
const job = "orphan-reaper/orphan-reaper"

// startPrometheus starts one on loopback with its data in dir. It ends when the test does, or by stop.
func startPrometheus(tb testing.TB, dir string, c *config) *prometheus {
	tb.Helper()
	program := testkit.NeedCommand(tb, "prometheus")
	text, err := yaml.Marshal(c)
	testkit.Must(tb, err)
	file := filepath.Join(dir, "prometheus.yml")
	testkit.Must(tb, os.WriteFile(file, text, 0o600))
	for range 3 { // somebody may take the port in between
		l, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", "127.0.0.1:0")
		testkit.Must(tb, err)
		address := l.Addr().String()
		testkit.Must(tb, l.Close())
		p := &prometheus{url: "http://" + address, log: new(bytes.Buffer)}
		p.cmd = exec.CommandContext(context.WithoutCancel(tb.Context()), program,
			"--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address,
			"--storage.tsdb.retention.time=100y", "--log.level=warn")
		p.cmd.Stdout, p.cmd.Stderr, p.cmd.Dir = p.log, p.log, dir
		p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // with the thread that starts it
		runtime.LockOSThread()
		tb.Cleanup(runtime.UnlockOSThread)
		testkit.Must(tb, p.cmd.Start())
		if p.ready(tb) {
			tb.Cleanup(p.stop)
			return p
		}
		if !strings.Contains(p.log.String(), "address already in use") {
			tb.Fatalf("Prometheus ended:\n%s", p.log)
		}
	}
	tb.Fatal("no port for Prometheus")
	return nil
}

// ready waits until it answers, or reports that it has ended.
func (p *prometheus) ready(tb testing.TB) bool {
	tb.Helper()
	ended := make(chan struct{})
	go func() { defer close(ended); _ = p.cmd.Wait() }()
	for {
		select {
		case <-ended:
			return false
		case <-time.After(50 * time.Millisecond):
		}
		if code, _ := p.get(tb, "/-/ready", nil); code == http.StatusOK {
			return true
		}
	}
}

// stop ends it; ready's goroutine waits for it.
func (p *prometheus) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	for p.cmd.Process.Signal(syscall.Signal(0)) == nil {
		time.Sleep(10 * time.Millisecond)
	}
}

func (p *prometheus) get(tb testing.TB, path string, form url.Values) (int, []byte) {
	tb.Helper()
	req, err := http.NewRequestWithContext(tb.Context(), http.MethodGet, p.url+path+"?"+form.Encode(), nil)
	testkit.Must(tb, err)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil
	}
	defer func() { _ = res.Body.Close() }()
	var b bytes.Buffer
	_, err = b.ReadFrom(res.Body)
	testkit.Must(tb, err)
	return res.StatusCode, b.Bytes()
}

// answer is what the API says.
type answer struct {
	Status, Error   string
	Warnings, Infos []string
	Data            json.RawMessage
}

// ask fails the test where the answer is an error, or comes with a warning.
func (p *prometheus) ask(tb testing.TB, path string, form url.Values, data any) {
	tb.Helper()
	code, text := p.get(tb, path, form)
	var a answer
	if err := json.Unmarshal(text, &a); err != nil || code != http.StatusOK || a.Status != "success" || a.Warnings != nil || a.Infos != nil {
		tb.Fatalf("%s %s: %d, %v, %.500s\n%s", path, form.Get("query"), code, err, text, p.log)
	}
	testkit.Must(tb, json.Unmarshal(a.Data, data))
}

// span is when a query is asked for, and for a range how far back and in which steps.
type span struct {
	end        time.Time
	back, step time.Duration
}

// query runs one query of the dashboard as Grafana would, and returns how many series have a value.
func (p *prometheus) query(tb testing.TB, q query, at span) int {
	tb.Helper()
	seconds := func(t time.Time) string { return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', 3, 64) }
	form := url.Values{"query": {q.expr}, "time": {seconds(at.end)}}
	path := "/api/v1/query"
	if q.overTime {
		path += "_range"
		form = url.Values{
			"query": {q.expr}, "start": {seconds(at.end.Add(-at.back))}, "end": {seconds(at.end)}, "step": {strconv.FormatFloat(at.step.Seconds(), 'f', 3, 64)},
		}
	}
	var data struct {
		Result []struct {
			Value  []any
			Values [][]any
		}
	}
	p.ask(tb, path, form, &data)
	all := 0
	for _, r := range data.Result {
		if r.Value != nil {
			r.Values = append(r.Values, r.Value)
		}
		if slices.ContainsFunc(r.Values, func(pair []any) bool { return isValue(tb, pair) }) {
			all++
		}
	}
	return all
}

// isValue takes a pair of time and text; what is no number is no value.
func isValue(tb testing.TB, pair []any) bool {
	tb.Helper()
	text, ok := pair[1].(string)
	value, err := strconv.ParseFloat(text, 64)
	if !ok || err != nil {
		tb.Fatalf("%v is no point", pair)
	}
	return !math.IsNaN(value) && !math.IsInf(value, 0)
}

// values are the values of a label, for a variable.
func (p *prometheus) values(tb testing.TB, label, match string) []string {
	tb.Helper()
	var values []string
	p.ask(tb, "/api/v1/label/"+label+"/values", url.Values{"match[]": {match}}, &values)
	return values
}
