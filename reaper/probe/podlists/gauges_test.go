package podlists

import (
	"fmt"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

func number(n *int64) string {
	if n == nil {
		return "?"
	}
	return fmt.Sprint(*n)
}

func TestGauges(t *testing.T) {
	long := "x_bucket{le=\"" + strings.Repeat("9", longestMetric) + " kubelet_orphan_pod_cleaned_volumes 77\"} 1\n"
	for _, c := range []struct{ name, text, want string }{
		{"all", testkit.SomeMetrics, "4 3 1 3, 3 series"},
		{"long lines", long + testkit.SomeMetrics + long, "4 3 1 3, 3 series"},
		{"no newline at the end", "kubelet_orphan_pod_cleaned_volumes_errors 3", "? 3 ? ?, 0 series"},
		{"old", "kubelet_running_pods 5\n", "? ? ? ?, 0 series"},
		{
			"no numbers", "kubelet_orphan_pod_cleaned_volumes NaN\nkubelet_orphan_pod_cleaned_volumes_errors many\nkubelet_orphaned_runtime_pods_total +Inf\n",
			"? ? ? ?, 0 series",
		},
		{"cut labels", "kubelet_working_pods{config=\"desired\n", "? ? ? ?, 0 series"},
		{"spoilt labels", "kubelet_working_pods{config} 1\nkubelet_working_pods{a=b} 1\nkubelet_working_pods\n", "? ? ? ?, 0 series"},
		{"escapes", `kubelet_working_pods{config="a\"}b",lifecycle="sync",} 1` + "\n", "? ? ? ?, 1 series"},
		{"no end of series", strings.Repeat("kubelet_working_pods{config=\"x\"} 1\n", 1000), fmt.Sprintf("? ? ? ?, %d series", mostWorking)},
	} {
		t.Run(c.name, func(t *testing.T) {
			var g policy.KubeletGauges
			testkit.Must(t, readGauges(strings.NewReader(c.text), &g))
			got := fmt.Sprintf("%s %s %s %s, %d series", number(g.CleanedVolumes), number(g.Uncleaned), number(g.OrphanedRuntimePods), number(g.RestartedPods),
				len(g.Working))
			if got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
	var g policy.KubeletGauges
	testkit.Must(t, readGauges(strings.NewReader(testkit.SomeMetrics), &g))
	if got := number(g.Desired) + " " + number(g.Active) + " " + number(g.Mirror); got != "9 8 2" {
		t.Errorf("desired, active, mirror: %s", got)
	}
	if n, ok := g.WorkingOn("sync", "desired"); n != 6 || !ok {
		t.Errorf("%d pods are worked on: %+v", n, g.Working)
	}
}
