package sim

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// number is a setting from the environment: make simulate passes SEEDS, LIVES and SEED.
func number(name string, otherwise int) int {
	if v, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return v
	}
	return otherwise
}

// TestSimulate lives through so many seeds of so many lives each. SEED is the first of them; without it, in a short run, the same are lived
// each time.
func TestSimulate(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(1600))
	first, seeds, lives := uint64(number("SEED", 1)), uint64(number("SEEDS", 600)), number("LIVES", 10)
	failures := uint64(number("FAILURES", 10))
	var next, lived, failed atomic.Uint64
	var wg sync.WaitGroup
	began := time.Now()
	for range number("THREADS", 2) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < seeds && failed.Load() < failures; i = next.Add(1) - 1 {
				s := newScenario(first+i, lives)
				n := simulate(s, plant{}, false)
				for _, p := range n.pods {
					lived.Add(uint64(p.lives))
				}
				if (i+1)%20_000 == 0 {
					t.Logf("%d seeds with %d lives", i+1, lived.Load())
				}
				if n.oracle.failed != "" {
					failed.Add(1)
					small, told := s, n
					if number("SHRINK", 1) > 0 {
						small, told = shrink(s, func() plant { return plant{} })
					}
					t.Errorf("seed %d: %s\nThe shortest run that ends so:\n%s\n\nKeep it in testdata once it is mended:\n%s",
						first+i, n.oracle.failed, strings.Join(told.story, "\n"), small.text())
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d seeds from %d with %d lives in %s", next.Load()-uint64(number("THREADS", 2)), first, lived.Load(), time.Since(began).Round(time.Millisecond))
}

// shrink removes from a scenario whatever it fails without, and returns the rest. A run in which less happens has other dice at each
// moment, so several throws are tried.
func shrink(s scenario, planted func() plant) (scenario, *node) {
	same := simulate(s, planted(), false).oracle.class
	fails := func(s scenario) (scenario, bool) {
		for throw := range uint64(16) {
			try := s
			if try.throw += throw; simulate(try, planted(), false).oracle.class == same {
				return try, true
			}
		}
		return s, false
	}
	for cut := len(s.acts); cut > 0; cut /= 2 { // also single ones
		for at := 0; at+cut <= len(s.acts); {
			less := s
			less.acts = slices.Delete(slices.Clone(s.acts), at, at+cut)
			if less, ok := fails(less); ok {
				s = less
			} else {
				at += cut
			}
		}
	}
	for i := range s.acts { // simpler acts, and an earlier end
		for _, simpler := range [...]func(a *act){func(a *act) { a.skip = 0 }, func(a *act) { a.step = atOnce }, func(a *act) { a.lasts = 0 }} {
			less := s
			less.acts = slices.Clone(s.acts)
			if simpler(&less.acts[i]); less.acts[i] != s.acts[i] {
				if less, ok := fails(less); ok {
					s = less
				}
			}
		}
	}
	for s.calm > 2*time.Minute {
		less := s
		less.calm = s.calm * 3 / 4
		if less, ok := fails(less); ok {
			s = less
			continue
		}
		break
	}
	return s, simulate(s, planted(), true)
}

// fields are the values of a scenario as they are kept in testdata: a line each for the node, each pod and each act.
func (s *scenario) fields() []any {
	r := &s.rules
	return []any{
		&s.throw, &s.version, &s.calm, &r.Hold, &r.Confirm, &r.Retention, &r.CNIOlderThan, &r.MaxPerLook,
		&s.byJournal, &s.partial, &s.quick, &s.brisk,
	}
}

func (p *spec) fields() []any {
	return []any{
		&p.uid, &p.name.Namespace, &p.name.Name, &p.static, &p.stated, &p.waits, &p.secret, &p.volume, &p.leaves,
	}
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

// kept returns the scenario of which this is the text.
func kept(text string) (s scenario) {
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
			continue // what was wrong
		}
		if _, err := fmt.Sscan(values, fields...); err != nil {
			panic(err)
		}
	}
	return s
}

// TestKept runs what has failed before. Each file of testdata begins with what was wrong then.
func TestKept(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for throw := range uint64(8) { // the dice fall otherwise as soon as the model changes
			s := kept(string(text))
			s.throw += throw
			if n := simulate(s, plant{}, throw == 0); n.oracle.failed != "" {
				t.Errorf("%s: %s\n%s", file, n.oracle.failed, strings.Join(n.story, "\n"))
			}
		}
	}
}

// TestSameRun: a seed makes the same run, event for event, also from what is kept of it.
func TestSameRun(t *testing.T) {
	for seed := range uint64(20) {
		s := newScenario(seed, 10)
		first, again := simulate(s, plant{}, true), simulate(kept(s.text()), plant{}, true)
		if !slices.Equal(first.story, again.story) {
			t.Fatalf("seed %d: two runs have two stories", seed)
		}
	}
}

// TestShrinks: of a defect that is planted, few events and a short story are left.
func TestShrinks(t *testing.T) {
	s, n := found(t, "K1")
	small, n2 := shrink(s, plants["K1"])
	if n2.oracle.class != n.oracle.class || len(small.acts) > 2*len(s.acts)/3 {
		t.Errorf("%d acts are left of %d: %q, was %q\n%s", len(small.acts), len(s.acts), n2.oracle.failed, n.oracle.failed, small.text())
	}
	t.Logf("%s\n%s", strings.Join(n2.story, "\n"), small.text())
}
