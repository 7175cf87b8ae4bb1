// The simulator runs the daemon's loop, the judge and the ledger against a model of a node, by a clock that only the model
// moves. One number, the seed, makes a node and all that happens on it; the same number makes the same run.
//
//	sim_scenario_test.go  what a seed decides
//	sim_node_test.go      time, pods and their directories
//	sim_kubelet_test.go   the kubelet, as releases 1.19 to 1.37 behave
//	sim_log_test.go       its lines, and lines that others forge
//	sim_act_test.go       what happens to the node
//	sim_scan_test.go      the node as the loop reads it
//	sim_disk_test.go      the node as the loop changes it
//	sim_memory_test.go    the state directory, which loses what was not synced
//	sim_program_test.go   how the program starts and ends, and the operator's commands
//	sim_oracle_test.go    what the program may never do
//	sim_end_test.go       what must have gone in the end
//
// Where the real thing is not certain, the model does the worst that it may.
package reaper_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

var (
	seeds = flag.Uint64("seeds", 300, "simulate this many seeds")
	short = flag.Bool("shrink", true, "remove from what fails whatever it fails without")
	seed  = flag.Uint64("seed", 1, "the first of these seeds")
)

// TestSimulate lives through the seeds.
func TestSimulate(t *testing.T) {
	var next, lives atomic.Uint64
	var failures atomic.Int32
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < *seeds && failures.Load() < 5; i = next.Add(1) - 1 {
				s := newScenario(*seed + i)
				n := simulate(s, false)
				for _, p := range n.pods {
					lives.Add(uint64(p.lives))
				}
				if n.oracle.failed != "" {
					failures.Add(1)
					if *short {
						s = shrink(s)
					}
					t.Errorf("seed %d: %s\n%s\nTo keep it in testdata:\n%s", *seed+i, n.oracle.failed, strings.Join(simulate(s, true).story, "\n"), s.text())
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d lives", lives.Load())
}

// TestKeptStories lives through what has failed before. Each file begins with what was wrong.
func TestKeptStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for throw := range uint64(8) { // the dice fall otherwise as soon as the model changes
			s := kept(t, string(text))
			s.throw += throw
			if n := simulate(s, throw == 0); n.oracle.failed != "" {
				t.Errorf("%s: %s\n%s", file, n.oracle.failed, strings.Join(n.story, "\n"))
			}
		}
	}
}

// TestSameRun has a seed make the same run again, also from the text that is kept of it.
func TestSameRun(t *testing.T) {
	for seed := range uint64(20) {
		s := newScenario(seed)
		if first, again := simulate(s, true), simulate(kept(t, s.text()), true); !slices.Equal(first.story, again.story) {
			t.Fatalf("seed %d: two runs have two stories:\n%s\n\n%s", seed, strings.Join(first.story, "\n"), strings.Join(again.story, "\n"))
		}
	}
}

// shrink removes from a scenario whatever it fails without.
func shrink(s scenario) scenario {
	class := simulate(s, false).oracle.class
	for cut := len(s.acts); cut > 0; cut /= 2 {
		for at := 0; at+cut <= len(s.acts); {
			less := s
			less.acts = slices.Delete(slices.Clone(s.acts), at, at+cut)
			found := false
			for throw := uint64(0); throw < 6 && !found; throw++ { // the dice fall otherwise with fewer acts
				try := less
				try.throw += throw
				if found = simulate(try, false).oracle.class == class; found {
					s = try
				}
			}
			if !found {
				at += cut
			}
		}
	}
	return s
}

func (s *scenario) fields() []any {
	r := &s.settings
	return []any{&s.throw, &s.version, &s.file, &s.json, &s.verbosity, &s.quick, &s.calm, &r.Hold, &r.Confirm, &r.Retention, &r.MaxPerScan, &r.Observe}
}

func (p *spec) fields() []any {
	return []any{&p.uid, &p.static, &p.marked, &p.secret, &p.volume, &p.leaves, &p.sandbox, &p.publish}
}

func (a *act) fields() []any {
	return []any{&a.at, &a.step, &a.skip, &a.kind, &a.pod, &a.lasts, &a.arg}
}

// text returns the scenario as it is kept. Times are in nanoseconds.
func (s scenario) text() string {
	var b strings.Builder
	line := func(of string, fields []any) {
		b.WriteString(of)
		for _, f := range fields {
			switch v := reflect.ValueOf(f).Elem(); {
			case v.CanInt():
				fmt.Fprint(&b, " ", v.Int())
			case v.CanUint():
				fmt.Fprint(&b, " ", v.Uint())
			default:
				fmt.Fprint(&b, " ", v)
			}
		}
		b.WriteByte('\n')
	}
	line("node", s.fields())
	for i := range s.pods {
		line("pod", s.pods[i].fields())
	}
	for i := range s.acts {
		line("act", s.acts[i].fields())
	}
	return b.String()
}

// kept returns the scenario of a text. A line of another kind is a comment.
func kept(t *testing.T, text string) (s scenario) {
	t.Helper()
	for line := range strings.Lines(text) {
		var fields []any
		of, values, _ := strings.Cut(line, " ")
		switch of {
		case "node":
			fields = s.fields()
		case "pod":
			s.pods = append(s.pods, spec{})
			fields = s.pods[len(s.pods)-1].fields()
		case "act":
			s.acts = append(s.acts, act{})
			fields = s.acts[len(s.acts)-1].fields()
		default:
			continue
		}
		if _, err := fmt.Sscan(values, fields...); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
	}
	return s
}
