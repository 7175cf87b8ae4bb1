package sim

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// shrink takes from a scenario that failed whatever it fails without, and returns what is left. A run in which less happens has other dice at
// each moment, so several throws are tried.
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

// text is a scenario as it is kept in testdata, one value to a word.
func (s scenario) text() string {
	var b strings.Builder
	r := s.rules
	fmt.Fprintln(&b, "node", s.throw, s.version, s.calm, r.Hold, r.HoldReported, r.Settle, r.Confirm, r.Retention, r.CNIOlderThan, r.MaxPerLook,
		r.NeedAPI, s.byJournal, s.asksKubelet, s.asksAPI, s.asksResources, s.partial, s.quick, s.brisk)
	for _, p := range s.pods {
		fmt.Fprintln(&b, "pod", p.uid, p.name.Namespace, p.name.Name, p.static, p.stated, p.waits, p.device, p.secret, p.volume, uint8(p.leaves))
	}
	for _, a := range s.acts {
		fmt.Fprintln(&b, "act", a.at, uint8(a.step), a.skip, uint8(a.kind), a.pod, a.lasts, a.arg)
	}
	return b.String()
}

// words reads what text wrote, word for word.
type words struct{ rest []string }

func (w *words) next() (word string) {
	word, w.rest = w.rest[0], w.rest[1:]
	return word
}

func (w *words) yes() bool { return w.next() == "true" }

func (w *words) number() int {
	v, err := strconv.Atoi(w.next())
	if err != nil {
		panic(err)
	}
	return v
}

func (w *words) time() time.Duration {
	d, err := time.ParseDuration(w.next())
	if err != nil {
		panic(err)
	}
	return d
}

func kept(text string) (s scenario) {
	for line := range strings.Lines(text) {
		w := &words{strings.Fields(line)}
		switch w.next() {
		case "node":
			s.throw, _ = strconv.ParseUint(w.next(), 10, 64)
			s.version, s.calm = w.number(), w.time()
			s.rules = policy.Rules{
				Hold: w.time(), HoldReported: w.time(), Settle: w.time(), Confirm: w.time(), Retention: w.time(), CNIOlderThan: w.time(),
				MaxPerLook: w.number(), NeedAPI: w.yes(),
			}
			s.byJournal, s.asksKubelet, s.asksAPI, s.asksResources = w.yes(), w.yes(), w.yes(), w.yes()
			s.partial, s.quick, s.brisk = w.yes(), w.yes(), w.yes()
		case "pod":
			p := spec{uid: parsers.PodUID(w.next()), name: policy.PodName{Namespace: w.next(), Name: w.next()}}
			p.static, p.stated, p.waits, p.device, p.secret = w.yes(), w.yes(), w.yes(), w.yes(), w.yes()
			p.volume, p.leaves = w.number(), leftover(w.number())
			s.pods = append(s.pods, p)
		case "act":
			s.acts = append(s.acts, act{
				at: w.time(), step: step(w.number()), skip: w.number(), kind: kind(w.number()), pod: w.number(), lasts: w.time(), arg: w.number(),
			})
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
		for throw := range uint64(20) { // the dice fall otherwise as soon as the model changes
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
	s, n := found(t, "K3")
	small, n2 := shrink(s, plants["K3"])
	if n2.oracle.class != n.oracle.class || len(small.acts) > 2*len(s.acts)/3 {
		t.Errorf("%d acts are left of %d: %q, was %q\n%s", len(small.acts), len(s.acts), n2.oracle.failed, n.oracle.failed, small.text())
	}
	t.Logf("%s\n%s", strings.Join(n2.story, "\n"), small.text())
}
