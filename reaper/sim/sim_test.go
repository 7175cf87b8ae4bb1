package sim

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

func number(name string, otherwise int) int {
	if v, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return v
	}
	return otherwise
}

func TestOne(t *testing.T) {
	seed := uint64(number("SEED", 1))
	s, pods := newScenario(seed, number("LIVES", 10))
	n := simulate(s, pods, plant{}, true)
	t.Logf("%s", strings.Join(n.story, "\n"))
	t.Logf("failed: %q", n.oracle.failed)
	for i, v := range n.oracle.report.Verdicts {
		t.Logf("%s %s %v", n.byUID[v.UID], v.Decision, v.Why)
		_ = i
	}
	for i, v := range n.oracle.report.Parked {
		t.Logf("parked %s %s %v", n.byUID[n.oracle.report.Look.Parked[i].UID], v.Decision, v.Why)
	}
	t.Logf("rules %+v 1.%d next %s", n.rules, n.version, n.oracle.report.Next)
}

func TestSimulate(t *testing.T) {
	began := time.Now()
	fails := map[string]int{}
	seeds := number("SEEDS", 200)
	for i := range seeds {
		seed := uint64(number("FIRST", 1) + i)
		s, pods := newScenario(seed, number("LIVES", 10))
		n := simulate(s, pods, plant{}, false)
		if f := n.oracle.failed; f != "" {
			fails[f]++
			if len(fails) < 30 {
				t.Errorf("seed %d: %s", seed, f)
			}
		}
	}
	t.Logf("%d seeds in %s", seeds, time.Since(began))
}
