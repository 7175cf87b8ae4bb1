package policy

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
)

var update = flag.Bool("update", os.Getenv("UPDATE_GOLDEN") != "", "rewrite the golden files")

const testUID = parsers.PodUID("2c9a1c3e-5f0e-4c39-9d3b-0d6a1e9f6b11")

// scene is a node with a pod, as the golden cases describe them. Each starts with a pod that is dead in every
// respect, and each line changes one thing.
type scene struct {
	ev     Evidence
	parked Parked
	node   Node
	hold   Hold
	rules  Rules
	now    Instant
	own    bool // doubts concern this pod alone
}

func deadScene() *scene {
	now := Instant{Wall: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), BootID: "boot-1", Boot: 100 * time.Hour}
	s := &scene{
		now:   now,
		rules: Rules{Hold: 5 * time.Minute, Confirm: 2 * time.Minute, Retention: 24 * time.Hour},
		node: Node{
			Kubelet: Fact{Truth: Yes}, KubeletID: KubeletID{PID: 812, Start: time.Hour},
			RuntimeLists: Fact{Truth: Yes}, MayEnforce: Fact{Truth: Yes}, Agrees: Fact{Truth: Yes}, FreeBytes: 0.5, FreeInodes: 0.5,
		},
		ev: Evidence{Name: string(testUID), UID: testUID, ID: DirID{1, 2, 3}, Changed: now.Wall.Add(-time.Hour)},
	}
	for n := range NumFacts {
		s.ev.Facts.Set(n, No, "test", "")
	}
	for _, n := range []FactName{FactDirectory, FactContent, FactNamed} {
		s.ev.Facts.Set(n, Yes, "test", "")
	}
	s.hold = Hold{Since: s.ago(6 * time.Minute), ID: s.ev.ID}
	s.parked = Parked{At: s.ago(3 * time.Minute), Kubelet: s.node.KubeletID}
	return s
}

func (s *scene) ago(d time.Duration) Instant {
	return Instant{Wall: s.now.Wall.Add(-d), BootID: s.now.BootID, Boot: s.now.Boot - d}
}

// set applies one line of a case: "fact mounted yes", "kubelet up 10s", "hold none" ...
func (s *scene) set(t *testing.T, line string) {
	t.Helper()
	f := strings.Fields(line)
	arg := func(i int) string {
		if i >= len(f) {
			t.Fatalf("%q is too short", line)
		}
		return f[i]
	}
	dur := func() time.Duration {
		d, err := time.ParseDuration(arg(2))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	truth := func() (v Truth) {
		if err := v.UnmarshalText([]byte(arg(2))); err != nil {
			t.Fatal(err)
		}
		return v
	}
	switch f[0] + " " + arg(1) {
	case "kubelet up":
		s.node.KubeletID.Start = s.now.Boot - dur()
	case "kubelet restarted":
		s.node.KubeletID = KubeletID{PID: 4711, Start: s.now.Boot - dur()}
	case "kubelet runs":
		s.node.Kubelet.Truth = truth()
	case "runtime lists":
		s.node.RuntimeLists.Truth = truth()
	case "hold none":
		s.hold = Hold{}
	case "hold since":
		s.hold.Since = s.ago(dur())
	case "hold boot":
		s.hold.Since.BootID = arg(2)
	case "hold directory":
		s.hold.ID.Ino++
	case "changed ago":
		s.ev.Changed = s.now.Wall.Add(-dur())
	case "changed unknown":
		s.ev.Changed = time.Time{}
	case "parked ago":
		s.parked.At = s.ago(dur())
	case "parked boot":
		s.parked.At.BootID = arg(2)
	case "made ago":
		s.ev.Made.Add(s.now.Wall.Add(-dur()))
	case "rules waive":
		s.rules.Waive = true
	case "rules need-api":
		s.rules.NeedAPI = true
	case "agrees is":
		s.node.Agrees = Fact{Truth: truth(), Detail: "--runtime-endpoint is another socket than the kubelet's"}
	case "rules hold":
		s.rules.Hold = dur()
	case "name is":
		s.ev.Name, s.ev.UID = arg(2), ""
	case "held leaf":
		s.leaf(2, 10*time.Second)
	case "held empty":
		s.leaf(1, dur())
	default:
		s.setFact(t, f[0], arg(1), truth())
	}
}

func (s *scene) setFact(t *testing.T, word, name string, v Truth) {
	t.Helper()
	i := slices.Index(factNames[:], name)
	if word != "fact" || i < 0 {
		t.Fatalf("no such line: %s %s", word, name)
	}
	s.ev.Facts[i].Truth = v
}

// verdict returns the verdict on the scene in the format of the golden files.
func (s *scene) verdict(parked bool) string {
	var b strings.Builder
	if parked {
		v := JudgeParked(s.ev, s.node, s.parked, s.rules, s.now)
		words := map[Decision]string{Reap: "strip", Return: "put-back", Wait: "wait", Keep: "conflict"}
		fmt.Fprintf(&b, "%s alive=%t\n", words[v.Decision], v.Alive)
		writeWhy(&b, v.Why)
		return b.String()
	}
	v := Judge(s.ev, s.node, s.hold, s.rules, s.now)
	fmt.Fprintf(&b, "%s due=%s\n", v.Decision, v.Due)
	for _, leaf := range v.Leaves {
		fmt.Fprintf(&b, "clear %s\n", leaf)
	}
	writeWhy(&b, v.Why)
	return b.String()
}

// leaf makes the pod one that the volume manager keeps because its leaf is not empty, and of which the kubelet has
// reported nothing, as after its restart.
func (s *scene) leaf(entries int64, ago time.Duration) {
	s.ev.Facts.Set(FactTeardown, Yes, "test", "the kubelet's volume manager cannot tear down /v: it is not empty")
	s.ev.Facts[FactNamed].Truth = No
	s.ev.Leaves = []VolumeTeardown{{At: s.ago(ago), Leaf: testLeaf}}
	s.ev.Residue = []Residue{{Path: testLeaf, Class: contents.ClassData, Entries: entries}}
}

const testLeaf = "volumes/kubernetes.io~nfs/vol"

func writeWhy(b *strings.Builder, why []Why) {
	for _, w := range why {
		fmt.Fprintf(b, "%s: %s\n", w.Reason, w.Detail)
	}
}

// TestGolden runs the cases of testdata. Each archive is a list of pairs: a case and its verdict.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, file := range files {
		ar, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		parked := strings.Contains(file, "parked")
		for i := range ar.Files {
			f := &ar.Files[i]
			in, want, _ := bytesCut(f.Data)
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar")+"/"+f.Name, func(t *testing.T) {
				s := deadScene()
				for line := range strings.Lines(in) {
					if line = strings.TrimSpace(line); line != "" {
						s.set(t, line)
					}
				}
				got := s.verdict(parked)
				if *update {
					f.Data = []byte(in + "=>\n" + got)
				} else if got != want {
					t.Errorf("got\n%s\nwant\n%s", got, want)
				}
			})
		}
		if *update {
			if err := os.WriteFile(file, txtar.Format(ar), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func bytesCut(data []byte) (in, want string, ok bool) {
	return strings.Cut(string(data), "=>\n")
}

// allScenes calls f for scenes with every fact in every truth, one or two changed at a time.
func allScenes(f func(name string, s *scene)) {
	for a := range NumFacts {
		for b := a; b < NumFacts; b++ {
			for _, va := range []Truth{Unknown, No, Yes} {
				for _, vb := range []Truth{Unknown, No, Yes} {
					s := deadScene()
					s.ev.Facts[a].Truth, s.ev.Facts[b].Truth = va, vb
					f(fmt.Sprintf("%s=%s %s=%s", a, va, b, vb), s)
				}
			}
		}
	}
}

// TestTableWhole checks that the table of rules has each fact once.
func TestTableWhole(t *testing.T) {
	var rows [NumFacts]int
	for _, r := range rules {
		rows[r.fact]++
	}
	for n, times := range rows {
		if times != 1 {
			t.Errorf("%s is %d times in the table", FactName(n), times)
		}
	}
}

// TestDoubtKeeps checks that a fact that turns Unknown never turns Keep or Wait into Reap, in place or in quarantine
// (law 2).
func TestDoubtKeeps(t *testing.T) {
	for _, waive := range []bool{false, true} {
		allScenes(func(name string, s *scene) {
			s.rules.Waive, s.rules.NeedAPI = waive, true
			before := Judge(s.ev, s.node, s.hold, s.rules, s.now)
			parked := JudgeParked(s.ev, s.node, s.parked, s.rules, s.now)
			for n := range NumFacts {
				if s.rules.onlyYesCounts(n) {
					continue // TestSilentFacts
				}
				if waive && mayWaive(n) {
					// The operator has waived the kubelet: only a yes counts.
					continue
				}
				e := s.ev
				e.Facts[n] = Fact{}
				if after := Judge(e, s.node, s.hold, s.rules, s.now); before.Decision != Reap && after.Decision == Reap {
					t.Errorf("waive=%t %s: with %s unknown the verdict turns from %s to reap", waive, name, n, before.Decision)
				}
				if after := JudgeParked(e, s.node, s.parked, s.rules, s.now); parked.Decision != Reap && after.Decision == Reap {
					t.Errorf("waive=%t %s: with %s unknown a parked pod turns from %s to strip", waive, name, n, parked.Decision)
				}
			}
			for _, forget := range []func(*Node){
				func(n *Node) { n.Kubelet = Fact{} }, func(n *Node) { n.RuntimeLists = Fact{} },
			} {
				n := s.node
				forget(&n)
				if after := Judge(s.ev, n, s.hold, s.rules, s.now); before.Decision != Reap && after.Decision == Reap {
					t.Errorf("waive=%t %s: an unknown node fact turns %s to reap", waive, name, before.Decision)
				}
			}
		})
	}
}

// TestAliveNeverReaps checks that a fact that turns alive never turns Keep or Wait into Reap, in place or in
// quarantine (law 2).
func TestAliveNeverReaps(t *testing.T) {
	alive := func(n FactName) Truth {
		for _, r := range alone() {
			if r.fact == n && r.dead == Yes {
				return No
			}
		}
		if n == FactNamed {
			return No // its yes releases a pod
		}
		return Yes
	}
	for _, waive := range []bool{false, true} {
		allScenes(func(name string, s *scene) {
			s.rules.Waive = waive
			before := Judge(s.ev, s.node, s.hold, s.rules, s.now)
			parked := JudgeParked(s.ev, s.node, s.parked, s.rules, s.now)
			for n := range NumFacts {
				e := s.ev
				e.Facts[n] = Fact{Truth: alive(n)}
				if after := Judge(e, s.node, s.hold, s.rules, s.now); before.Decision != Reap && after.Decision == Reap {
					t.Errorf("waive=%t %s: with %s alive the verdict turns from %s to reap", waive, name, n, before.Decision)
				}
				if after := JudgeParked(e, s.node, s.parked, s.rules, s.now); parked.Decision != Reap && after.Decision == Reap {
					t.Errorf("waive=%t %s: with %s alive a parked pod turns from %s to strip", waive, name, n, parked.Decision)
				}
			}
		})
	}
}

// TestSilentFacts checks that only the kubelet's pod list and an optional API server may be Unknown without keeping a pod. Their yes keeps the pod in every case. Their no equals
// their silence, and neither releases a pod that would be kept without them.
func TestSilentFacts(t *testing.T) {
	for n := range NumFacts {
		for _, need := range []bool{false, true} {
			want := n == FactKubeletLists || n == FactAPILists && !need
			if (Rules{NeedAPI: need}).onlyYesCounts(n) != want {
				t.Errorf("%s, NeedAPI %t: onlyYesCounts is wrong", n, need)
			}
		}
	}
	for fact, reason := range map[FactName]Reason{FactKubeletLists: ReasonKubeletLists, FactAPILists: ReasonAPILists} {
		allScenes(func(name string, s *scene) {
			with := func(v Truth) (Verdict, Verdict) {
				e := s.ev
				e.Facts[fact] = Fact{Truth: v}
				return Judge(e, s.node, s.hold, s.rules, s.now), JudgeParked(e, s.node, s.parked, s.rules, s.now)
			}
			silent, parkedSilent := with(Unknown)
			without, parkedWithout := with(No)
			listed, parkedListed := with(Yes)
			if silent.Decision != without.Decision || len(silent.Why) != len(without.Why) ||
				parkedSilent.Decision != parkedWithout.Decision || len(parkedSilent.Why) != len(parkedWithout.Why) {
				t.Errorf("%s, %s: silence gives %v, %v; a list without the pod gives %v, %v", fact, name, silent, parkedSilent, without, parkedWithout)
			}
			f := s.ev.Facts
			goesBack := parkedListed.Decision == Return || f[FactRemade].Truth == Yes && parkedListed.Decision != Reap
			lives := parkedListed.Alive || f[FactStaticPod].Truth == Yes // its manifest came back
			if listed.Decision != Keep || !listed.For(reason) || !goesBack || !lives {
				t.Errorf("%s lists it, %s: %v, %v", fact, name, listed, parkedListed)
			}
		})
	}
}

// alone lists the rules that keep a pod by themselves, without the report: see TestOnlyTheReportReleases.
func alone() []rule {
	return slices.DeleteFunc(slices.Clone(rules[:]), func(r rule) bool { return r.about == aboutKubelet || r.about == aboutEntry })
}

func mayWaive(n FactName) bool {
	for _, r := range rules {
		if r.fact == n {
			return r.has(waivable)
		}
	}
	return false
}

// TestOneAliveSourceWins checks that one fact that shows life keeps the pod, waived or not.
func TestOneAliveSourceWins(t *testing.T) {
	for _, r := range alone() {
		for _, waive := range []bool{false, true} {
			s := deadScene()
			s.rules.Waive = waive
			alive := Yes
			if r.dead == Yes {
				alive = No
			}
			s.ev.Facts[r.fact].Truth = alive
			if v := Judge(s.ev, s.node, s.hold, s.rules, s.now); v.Decision == Reap || !v.For(r.alive) {
				t.Errorf("%s=%s waive=%t: %s %v", r.fact, alive, waive, v.Decision, v.Why)
			}
		}
	}
}

// TestNothingKnownNothingReaped checks that the zero values reap nothing under any rules.
func TestNothingKnownNothingReaped(t *testing.T) {
	for _, waive := range []bool{false, true} {
		e := Evidence{UID: testUID, Name: string(testUID)}
		if v := Judge(e, Node{}, Hold{}, Rules{Waive: waive}, Instant{}); v.Decision != Keep {
			t.Errorf("waive=%t: the verdict on zero values is %s", waive, v.Decision)
		}
		if v := JudgeParked(e, Node{}, Parked{}, Rules{Waive: waive}, Instant{}); v.Decision == Reap {
			t.Errorf("waive=%t: a parked pod is stripped by zero values", waive)
		}
	}
}

// TestOnlyTheReportReleases checks that nothing but the running kubelet's report releases a pod (law 1): without it each
// pod is kept, whatever else is known.
func TestOnlyTheReportReleases(t *testing.T) {
	allScenes(func(name string, s *scene) {
		for _, named := range []Truth{Unknown, No} {
			s.ev.Facts[FactNamed].Truth = named
			if v := Judge(s.ev, s.node, s.hold, s.rules, s.now); v.Decision == Reap {
				t.Errorf("%s: released, and named is %s", name, named)
			}
		}
	})
	s := deadScene()
	s.ev.Facts[FactNamed].Truth = No
	v := Judge(s.ev, s.node, s.hold, s.rules, s.now)
	if v.Decision != Keep || !v.OnlyUnreported() || v.Hold != s.hold {
		t.Errorf("unreported: %+v", v)
	}
}

// TestRuntimeMayRemember checks that a pod with stopped sandboxes and exited containers is released.
func TestRuntimeMayRemember(t *testing.T) {
	s := deadScene()
	s.ev.Sandboxes = []Sandbox{{ID: "stopped"}}
	if v := Judge(s.ev, s.node, s.hold, s.rules, s.now); v.Decision != Reap {
		t.Errorf("%+v", v)
	}
}

// FuzzJudge checks the laws on any mixture of facts, times and rules.
func FuzzJudge(f *testing.F) {
	var dead []byte
	for _, fact := range deadScene().ev.Facts {
		dead = append(dead, byte(fact.Truth))
	}
	silent := slices.Clone(dead)
	silent[FactNamed] = byte(No)
	for bits := range byte(6) { // with all three truths of the kubelet
		f.Add(dead, int64(time.Hour), int64(time.Hour), bits)
		f.Add(silent, int64(time.Hour), int64(time.Hour), bits)
	}
	f.Fuzz(func(t *testing.T, facts []byte, hold, changed int64, bits byte) {
		s := deadScene()
		for i := range min(len(facts), int(NumFacts)) {
			s.ev.Facts[i].Truth = Truth(facts[i] % 3)
		}
		s.hold.Since = s.ago(time.Duration(hold))
		s.ev.Changed = s.now.Wall.Add(-time.Duration(changed))
		s.rules.Waive, s.rules.NeedAPI = bits&1 != 0, bits&128 != 0
		s.node.Kubelet.Truth = Truth(bits >> 1 % 3)
		v := Judge(s.ev, s.node, s.hold, s.rules, s.now)
		if again := Judge(s.ev, s.node, s.hold, s.rules, s.now); again.Decision != v.Decision {
			t.Fatal("two calls of Judge differ")
		}
		if v.Decision != Reap {
			if len(v.Why) == 0 {
				t.Fatal("kept without a reason")
			}
			return
		}
		for _, r := range alone() {
			if tr := s.ev.Facts[r.fact].Truth; tr != r.dead && (!s.rules.Waive || !r.has(waivable) || tr != Unknown) &&
				(!s.rules.onlyYesCounts(r.fact) || tr != Unknown) {
				t.Fatalf("reaped with %s %s", r.fact, tr)
			}
		}
		if held := time.Duration(hold); held < s.rules.Hold || time.Duration(changed) < s.rules.Hold {
			t.Fatalf("reaped after %s, changed %s ago", held, time.Duration(changed))
		}
		for n := range NumFacts {
			switch {
			case s.ev.Facts[n].Truth == Unknown, s.rules.onlyYesCounts(n), s.rules.Waive && ruleOf(n).has(waivable),
				n == FactRemade, n == FactUsed:
				continue
			}
			e := s.ev
			e.Facts[n].Truth = Unknown
			if w := Judge(e, s.node, s.hold, s.rules, s.now); w.Decision == Reap {
				t.Fatalf("reaped while %s is unknown", n)
			}
		}
	})
}

// TestDirectoryNotRead checks that a name that could not be opened is a doubt and not a symbolic link.
func TestDirectoryNotRead(t *testing.T) {
	s := deadScene()
	s.ev.Facts[FactDirectory] = Fact{Detail: "too many open files"}
	v := Judge(s.ev, s.node, Hold{}, s.rules, s.now)
	if v.Decision != Keep || !v.For(ReasonContentUnknown) || v.For(ReasonNotADirectory) {
		t.Errorf("%+v", v)
	}
}
