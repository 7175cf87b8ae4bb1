package decide

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/reported"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

var update = flag.Bool("update", os.Getenv("UPDATE_GOLDEN") != "", "rewrite the golden files")

// play is a node over several passes. Decide's plans are carried out in memory, with the outcomes that the disk would
// give, and folded as in the ledger.
type play struct {
	*testkit.Scene
	pods    map[string]*policy.Evidence // in the pods directory, by pod number
	memory  Memory
	entries map[string]*policy.EntryState
	breaker bool
	refused map[string]bool // pods of which the kernel refuses the move
	mounted map[parsers.PodUID]bool
	named   []string                // pods that the kubelet reports; nil: all that are not held
	held    map[parsers.PodUID]bool // the volume manager cannot remove the leaf of this pod
	said    strings.Builder
}

func newPlay() *play {
	s := testkit.DeadPod()
	s.Rules.MaxPerLook = 10
	return &play{
		Scene: s, pods: map[string]*policy.Evidence{}, entries: map[string]*policy.EntryState{}, refused: map[string]bool{},
		mounted: map[parsers.PodUID]bool{}, held: map[parsers.PodUID]bool{},
	}
}

func uidOf(pod string) parsers.PodUID {
	n, _ := strconv.Atoi(pod)
	return parsers.PodUID(fmt.Sprintf("0badf00d-0000-4000-8000-%012d", n))
}

func podOf(uid parsers.PodUID) string { return strings.TrimLeft(string(uid[24:]), "0") }

// do applies one line of a play: "pods 3", "fact 1 cgroup yes", "wait 5m", "look" ...
func (p *play) do(t *testing.T, line string) {
	t.Helper()
	f := strings.Fields(line)
	switch f[0] {
	case "pods":
		n, _ := strconv.Atoi(f[1])
		for i := range n {
			e := testkit.DeadPod().Pod
			e.UID = uidOf(strconv.Itoa(i + 1))
			e.Name, e.ID.Ino = string(e.UID), uint64(i)+1
			p.pods[strconv.Itoa(i+1)] = &e
		}
	case "fact":
		p.pods[f[1]].Facts[factOf(t, f[2])].Truth = truthOf(t, f[3])
	case "named": // only these are reported from now on
		p.named = f[1:]
	case "leaf":
		p.held[uidOf(f[1])] = true
		p.pods[f[1]].Residue = []policy.Residue{{Path: testkit.Leaf, Class: contents.ClassData, Entries: 2}}
	case "wait":
		d := durationOf(t, f[1])
		p.Now.Wall, p.Now.Boot = p.Now.Wall.Add(d), p.Now.Boot+d
	case "restart":
		p.memory = Memory{Holds: p.memory.Holds, Recorded: p.memory.Recorded, Log: p.memory.Log}
	case "refuse":
		p.refused[f[1]] = !p.refused[f[1]]
	case "mount": // between the look and the move
		p.mounted[uidOf(f[1])] = true
	case "made-again":
		e := testkit.DeadPod().Pod
		e.UID, e.ID.Ino = uidOf(f[1]), 99
		e.Name = string(e.UID)
		p.pods[f[1]] = &e
	case "resume":
		p.breaker = false
	case "look":
		p.look(t)
	case "kubelet", "agrees", "enforce":
		p.setNode(t, f)
	case "rules":
		p.setRules(t, f)
	default:
		t.Fatalf("no such line: %s", line)
	}
}

// setNode applies one line about the node: "kubelet runs no", "enforce may no" ...
func (p *play) setNode(t *testing.T, f []string) {
	t.Helper()
	switch f[0] + " " + f[1] {
	case "kubelet restarted":
		p.Node.KubeletID = policy.KubeletID{PID: 4711, Start: p.Now.Boot - durationOf(t, f[2])}
	case "kubelet runs":
		p.Node.Kubelet.Truth = truthOf(t, f[2])
	case "agrees is":
		p.Node.Agrees.Truth = truthOf(t, f[2])
	case "enforce may":
		p.Node.MayEnforce.Truth = truthOf(t, f[2])
	default:
		t.Fatalf("no such line: %s", f)
	}
}

// setRules applies one line about the rules: "rules hold 0s" ...
func (p *play) setRules(t *testing.T, f []string) {
	t.Helper()
	switch f[1] {
	case "hold":
		p.Rules.Hold = durationOf(t, f[2])
	case "observe":
		p.Rules.Observe = true
	case "most":
		n, err := strconv.Atoi(f[2])
		if err != nil {
			t.Fatal(err)
		}
		p.Rules.MaxPerLook = n
	default:
		t.Fatalf("no such line: %s", f)
	}
}

func durationOf(t *testing.T, s string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func truthOf(t *testing.T, s string) (v policy.Truth) {
	t.Helper()
	if err := v.UnmarshalText([]byte(s)); err != nil {
		t.Fatal(err)
	}
	return v
}

func factOf(t *testing.T, name string) policy.FactName {
	t.Helper()
	for n := range policy.NumFacts {
		if n.String() == name {
			return n
		}
	}
	t.Fatalf("no such fact: %s", name)
	return 0
}

// look runs one pass.
func (p *play) look(t *testing.T) {
	t.Helper()
	look := policy.Look{At: p.Now, Node: p.Node}
	for _, pod := range slices.Sorted(maps.Keys(p.pods)) {
		look.Pods = append(look.Pods, *p.pods[pod])
	}
	for _, s := range InWork(p.entries, p.Rules, p.Now, p.memory.Pressed) {
		e := testkit.DeadPod().Pod
		e.UID, e.Entry, e.ID = s.UID, s.Entry, s.ID
		if p.pods[podOf(s.UID)] != nil {
			e.Facts.Set(policy.FactRemade, policy.Yes, "test", "there is a pods/UID again")
		}
		if s.Rests {
			look.Resting = append(look.Resting, e)
		} else {
			look.Parked = append(look.Parked, e)
		}
	}
	p.memory.Log = reported.Log{
		Kubelet: p.Node.KubeletID, BootID: p.Now.BootID,
		Named: map[parsers.PodUID]policy.Instant{}, Teardowns: map[parsers.PodUID]reported.Teardown{},
	}
	for pod := range p.pods {
		uid := uidOf(pod)
		if p.named == nil && !p.held[uid] || slices.Contains(p.named, pod) {
			p.memory.Log.Named[uid] = p.Now
		}
		if p.held[uid] {
			p.memory.Log.Teardowns[uid] = reported.Teardown{At: p.Now, Volumes: map[string]policy.VolumeTeardown{"vol": {At: p.Now, Leaf: testkit.Leaf}}}
		}
	}
	c := Case{Look: look, Memory: p.memory, Entries: p.entries, Breaker: p.breaker, Rules: p.Rules}
	d := Decide(c)
	if again := Decide(c); !reflect.DeepEqual(d, again) { //nolint:govet // deepequalerrors: both have the errors of one look
		t.Errorf("the second decision of the same case differs:\n%+v\n%+v", d, again)
	}
	p.memory = d.Memory
	for v := range policy.At(d.Pods, policy.InPlace) {
		fmt.Fprintf(&p.said, "  pod %s: %s", podOf(v.UID), v.Decision)
		for _, w := range v.Why {
			fmt.Fprintf(&p.said, " %s", w.Reason)
		}
		p.said.WriteString("\n")
	}
	words := map[policy.Decision]string{policy.Reap: "strip", policy.Return: "put-back", policy.Wait: "wait", policy.Keep: "conflict"}
	for v := range policy.At(d.Pods, policy.InQuarantine) {
		fmt.Fprintf(&p.said, "  parked %s: %s\n", podOf(v.UID), words[v.Decision])
	}
	for _, r := range d.Plan.Frozen {
		fmt.Fprintf(&p.said, "  -> %s %s\n", r.Kind, podOf(r.UID))
		policy.Fold(p.entries, r)
	}
	if d.Plan.Breaker != nil && !p.breaker {
		p.breaker = true
		fmt.Fprintf(&p.said, "  -> breaker, pod %s\n", podOf(d.Plan.Breaker.UID))
	}
	outs := p.carryOut(d.Plan)
	clear(p.mounted)
	next, pending := d.nextAfter(p, outs)
	fmt.Fprintf(&p.said, "  next in %s, pending %t\n", next, pending)
}

func (d Ruling) nextAfter(p *play, outs []policy.Outcome) (time.Duration, bool) {
	d.Memory = p.memory
	return d.Next(outs, policy.Listed(p.entries), p.Rules, p.Now)
}

// carryOut executes the plan in the order of the loop.
func (p *play) carryOut(plan Plan) (outs []policy.Outcome) {
	mounts := map[parsers.PodUID]policy.Fact{}
	for _, e := range p.entries {
		mounts[e.UID] = policy.Fact{Truth: policy.No}
	}
	for pod := range p.pods {
		mounts[uidOf(pod)] = policy.Fact{Truth: policy.No}
	}
	for uid := range p.mounted {
		mounts[uid] = policy.Fact{Truth: policy.Yes, Detail: "mounted since the look"}
	}
	outs = append(outs, p.execute(policy.Batch{Actions: plan.Undo})...)
	outs = append(outs, p.execute(policy.Batch{Actions: plan.Remove}.Unmounted(mounts))...)
	moved := p.execute(policy.Batch{Actions: plan.Moves})
	outs = append(outs, moved...)
	var answers []policy.Evidence
	for _, o := range moved {
		e := testkit.DeadPod().Pod
		e.UID, e.Name = o.Action.UID, string(o.Action.UID)
		e.Facts[policy.FactMounted] = mounts[e.UID]
		answers = append(answers, e)
	}
	back := policy.PutBacks(slices.DeleteFunc(moved, func(o policy.Outcome) bool { return !o.Moved() }), answers)
	return append(outs, p.execute(policy.Batch{Actions: back})...)
}

func (p *play) execute(b policy.Batch) (outs []policy.Outcome) {
	for _, a := range b.Actions {
		pod := podOf(a.UID)
		o := policy.Outcome{Action: a, Result: policy.Done, At: p.Now}
		switch {
		case p.refused[pod]:
			o.Result, o.Why = policy.Refused, []policy.Why{{Reason: policy.ReasonCannotMove, Detail: "the kernel refuses it"}}
		case a.Kind == policy.Park:
			delete(p.pods, pod)
		case a.Kind == policy.PutBack:
			e := testkit.DeadPod().Pod
			e.UID, e.Name, e.ID = a.UID, string(a.UID), a.ID
			p.pods[pod] = &e
		case a.Kind == policy.Clear:
			p.pods[pod].Residue = nil
		}
		fmt.Fprintf(&p.said, "  -> %s %s %s\n", a.Kind, pod, o.Result)
		policy.Fold(p.entries, policy.Intent(a, p.Node, p.Now))
		for _, r := range policy.Recorded(o, p.Node, p.Now) {
			policy.Fold(p.entries, r)
		}
		outs = append(outs, o)
	}
	p.memory.Ended(outs, p.Now)
	return outs
}

// TestPlays runs the plays of testdata: each line is applied and printed, followed by the indented verdicts and
// plans.
func TestPlays(t *testing.T) {
	const file = "testdata/plays.txtar"
	ar, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for i := range ar.Files {
		f := &ar.Files[i]
		t.Run(f.Name, func(t *testing.T) {
			p := newPlay()
			for line := range strings.Lines(string(f.Data)) {
				if strings.HasPrefix(line, "  ") || strings.TrimSpace(line) == "" {
					continue
				}
				p.said.WriteString(line)
				p.do(t, strings.TrimSpace(line))
			}
			if *update {
				f.Data = []byte(p.said.String())
			} else if got := p.said.String(); got != string(f.Data) {
				t.Errorf("got\n%s\nwant\n%s", got, f.Data)
			}
		})
	}
	if *update {
		if err := os.WriteFile(file, txtar.Format(ar), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSameRuling checks that the same case gives the same ruling in any order of map iteration.
func TestSameRuling(t *testing.T) {
	s := testkit.DeadPod()
	s.Pod.PodName = ""
	c := Case{Look: policy.Look{Node: s.Node, At: s.Now}, Rules: s.Rules, Entries: map[string]*policy.EntryState{}}
	for i := range 8 {
		lives := s.Pod
		lives.UID = uidOf(strconv.Itoa(i))
		lives.Facts[policy.FactSandbox].Truth = policy.Yes
		c.Look.RuntimeOnly = append(c.Look.RuntimeOnly, lives)
		entry := fmt.Sprintf("%s.%d", s.Pod.UID, i)
		c.Entries[entry] = &policy.EntryState{Entry: entry, UID: s.Pod.UID, PodName: entry, Phase: policy.PhaseGone, Restored: true}
	}
	c.Look.Pods = []policy.Evidence{s.Pod}
	kubelet := reported.Log{Kubelet: s.Node.KubeletID, BootID: s.Now.BootID, Named: map[parsers.PodUID]policy.Instant{}}
	for i := range reported.MostClaims {
		uid := uidOf(strconv.Itoa(100 + i))
		kubelet.Named[uid] = s.Ago(time.Hour)
	}
	c.Memory.Log = kubelet
	c.Claims = []reported.Claim{{At: s.Now, Sighting: parsers.Sighting{UID: s.Pod.UID, PID: s.Node.KubeletID.PID, Kind: parsers.KindRemoval, Whole: true}}}
	want := Decide(c)
	_, eldest := want.Memory.Log.Named[uidOf("100")]
	if _, named := want.Memory.Log.Named[s.Pod.UID]; want.Pods[0].PodName == "" || eldest || !named {
		t.Fatalf("the case has no plan to compare: %+v", want.Plan)
	}
	for range 10 {
		if got := Decide(c); !reflect.DeepEqual(got, want) { //nolint:govet // deepequalerrors: both have the errors of one look
			t.Fatalf("the pod's name is %q, then %q", want.Pods[0].PodName, got.Pods[0].PodName)
		}
	}
}
