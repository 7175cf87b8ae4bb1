package podlists

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"

	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

const (
	biggestMetrics = 32 << 20 // a kubelet usually has 100 to 500 KiB
	longestMetric  = 4 << 10  // longer lines are skipped
	mostWorking    = 64       // series of kubelet_working_pods: 1.36 has 15
)

// The kubelet's gauges, all of them ALPHA, since 1.27.
const (
	metricCleaned   = "kubelet_orphan_pod_cleaned_volumes"
	metricUncleaned = "kubelet_orphan_pod_cleaned_volumes_errors"
	metricOrphaned  = "kubelet_orphaned_runtime_pods_total"
	metricRestarted = "kubelet_restarted_pods_total"
	metricWorking   = "kubelet_working_pods"
	metricDesired   = "kubelet_desired_pods"
	metricActive    = "kubelet_active_pods"
	metricMirror    = "kubelet_mirror_pods"
)

var wantedGauges = map[string]bool{
	metricCleaned: true, metricUncleaned: true, metricOrphaned: true, metricRestarted: true,
	metricWorking: true, metricDesired: true, metricActive: true, metricMirror: true,
}

// askGauges requests the kubelet's gauges. It parses them itself, since expfmt would hold all metrics in memory.
func askGauges(ctx context.Context, a getter, base string) (policy.KubeletGauges, error) {
	g := policy.KubeletGauges{Origin: base + "/metrics"}
	err := a.Get(ctx, "/metrics", "text/plain", func(r io.Reader) error { return readGauges(r, &g) })
	if err != nil {
		// Do not use an answer that broke off: a sum may miss a series.
		return policy.KubeletGauges{Origin: g.Origin, Detail: fmt.Sprintf("not answered: %v", err)}, err
	}
	if g.Uncleaned == nil {
		g.Detail = "the kubelet has no such gauge: they came with 1.27"
	}
	return g, nil
}

func readGauges(r io.Reader, g *policy.KubeletGauges) error {
	room := &io.LimitedReader{R: r, N: biggestMetrics}
	lines := bufio.NewReaderSize(room, longestMetric)
	for long := false; ; {
		line, err := lines.ReadSlice('\n')
		if !long && (err == nil || errors.Is(err, io.EOF)) {
			readGauge(bytes.TrimSpace(line), g)
		}
		long = errors.Is(err, bufio.ErrBufferFull)
		switch {
		case err == nil, long:
		case !errors.Is(err, io.EOF):
			return err
		case room.N <= 0:
			return fmt.Errorf("the metrics are longer than %d bytes", biggestMetrics)
		default:
			return nil
		}
	}
}

// A line is NAME{LABEL="VALUE",…} NUMBER [TIMESTAMP]; the labels may be missing.
var (
	gaugeLine  = regexp.MustCompile(`^(kubelet_\w+)(?:\{((?:\w+="(?:[^"\\]|\\.)*"[, ]*)*)\})?[ \t]+(\S+)`)
	gaugeLabel = regexp.MustCompile(`(\w+)=("(?:[^"\\]|\\.)*")`)
)

func readGauge(line []byte, g *policy.KubeletGauges) {
	end := bytes.IndexAny(line, "{ \t")
	if end < 0 || !wantedGauges[string(line[:end])] { // most lines
		return
	}
	m := gaugeLine.FindSubmatch(line)
	if m == nil {
		return
	}
	v, err := strconv.ParseFloat(string(m[3]), 64)
	if err != nil || math.IsNaN(v) || math.Abs(v) > 1<<53 {
		return
	}
	n := int64(v)
	switch string(m[1]) {
	case metricCleaned:
		g.CleanedVolumes = &n
	case metricUncleaned:
		g.Uncleaned = &n
	case metricOrphaned:
		g.OrphanedRuntimePods = &n
	case metricRestarted:
		add(&g.RestartedPods, n)
	case metricDesired:
		add(&g.Desired, n)
	case metricActive:
		add(&g.Active, n)
	case metricMirror:
		g.Mirror = &n
	case metricWorking:
		if len(g.Working) < mostWorking {
			w := policy.WorkingPods{Count: n}
			w.Lifecycle, w.Config, w.Static = labelOf(m[2], "lifecycle"), labelOf(m[2], "config"), labelOf(m[2], "static")
			g.Working = append(g.Working, w)
		}
	}
}

// add adds to a sum of two series, one of static pods and one of other pods.
func add(sum **int64, n int64) {
	if *sum != nil {
		n += **sum
	}
	*sum = &n
}

func labelOf(labels []byte, name string) string {
	for _, m := range gaugeLabel.FindAllSubmatch(labels, -1) {
		if value, err := strconv.Unquote(string(m[2])); err == nil && string(m[1]) == name {
			return clean.Brief(value)
		}
	}
	return ""
}
