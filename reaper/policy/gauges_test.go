package policy

import "testing"

func TestWorkingOn(t *testing.T) {
	g := KubeletGauges{Working: []WorkingPods{
		{"sync", "desired", "true", 2}, {"sync", "desired", "", 5}, {"terminating", "desired", "", 1}, {"terminating", "runtime_only", "unknown", 3},
	}}
	for _, c := range []struct {
		lifecycle, config string
		want              int64
	}{{"sync", "desired", 7}, {"terminating", "", 4}, {"", "runtime_only", 3}, {"terminated", "", 0}, {"", "", 11}} {
		if n, ok := g.WorkingOn(c.lifecycle, c.config); n != c.want || !ok {
			t.Errorf("%q, %q: %d, %t; want %d", c.lifecycle, c.config, n, ok, c.want)
		}
	}
	if n, ok := (KubeletGauges{}).WorkingOn("", ""); n != 0 || ok {
		t.Errorf("no gauges: %d, %t", n, ok)
	}
}
