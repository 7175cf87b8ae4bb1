package policy

import (
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
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
)

// play is a node over several passes: Decide's plan is carried out on paper, by what the disk
// would answer, and folded as the ledger does.
type play struct {
	*scene
	pods    map[string]*Evidence // in the pods directory, by the number of the pod
	memory  Memory
	entries map[string]*EntryState
	breaker bool
	refused map[string]bool // the kernel refuses what is to be done with this pod
	mounted map[parsers.PodUID]bool
	held    map[parsers.PodUID]bool // the volume manager cannot remove the leaf of this pod
	said    strings.Builder
}

func newPlay() *play {
	s := deadScene()
	s.rules.MaxPerLook = 10
	return &play{
		scene: s, pods: map[string]*Evidence{}, entries: map[string]*EntryState{}, refused: map[string]bool{},
		mounted: map[parsers.PodUID]bool{}, held: map[parsers.PodUID]bool{},
	}
}

func uidOf(pod string) parsers.PodUID {
	n, _ := strconv.Atoi(pod)
	return parsers.PodUID(fmt.Sprintf("0badf00d-0000-4000-8000-%012d", n))
}

func podOf(uid parsers.PodUID) string { return strings.TrimLeft(string(uid[24:]), "0") }

// do takes one line of a play: "pods 3", "fact 1 cgroup yes", "wait 5m", "look" ...
func (p *play) do(t *testing.T, line string) {
	t.Helper()
	f := strings.Fields(line)
	switch f[0] {
	case "pods":
		n, _ := strconv.Atoi(f[1])
		for i := range n {
			e := deadScene().ev
			e.UID = uidOf(strconv.Itoa(i + 1))
			e.Name, e.ID.Ino = string(e.UID), uint64(i)+1
			p.pods[strconv.Itoa(i+1)] = &e
		}
	case "fact":
		var v Truth
		i := slices.Index(factNames[:], f[2])
		if err := v.UnmarshalText([]byte(f[3])); err != nil || i < 0 {
			t.Fatalf("no such line: %s", line)
		}
		p.pods[f[1]].Facts[i].Truth = v
	case "leaf":
		p.held[uidOf(f[1])] = true
		p.pods[f[1]].Residue = []Residue{{Path: testLeaf, Class: contents.ClassData, Entries: 2}}
	case "wait":
		d, err := time.ParseDuration(f[1])
		if err != nil {
			t.Fatal(err)
		}
		p.now.Wall, p.now.Boot = p.now.Wall.Add(d), p.now.Boot+d
	case "restart":
		p.memory = Memory{Holds: p.memory.Holds, Told: p.memory.Told, Heard: p.memory.Heard}
	case "refuse":
		p.refused[f[1]] = !p.refused[f[1]]
	case "mount": // between the look and the move
		p.mounted[uidOf(f[1])] = true
	case "made-again":
		e := deadScene().ev
		e.UID, e.ID.Ino = uidOf(f[1]), 99
		e.Name = string(e.UID)
		p.pods[f[1]] = &e
	case "resume":
		p.breaker = false
	case "look":
		p.look(t)
	default:
		p.set(t, line)
	}
}

// look takes one pass.
func (p *play) look(t *testing.T) {
	t.Helper()
	look := Look{At: p.now, Node: p.node}
	for _, pod := range slices.Sorted(maps.Keys(p.pods)) {
		look.Pods = append(look.Pods, *p.pods[pod])
	}
	for _, s := range InWork(p.entries, p.rules, p.now, p.memory.Pressed) {
		e := deadScene().ev
		e.UID, e.Entry, e.ID = s.UID, s.Entry, s.ID
		if p.pods[podOf(s.UID)] != nil {
			e.Facts.Set(FactRemade, Yes, "test", "there is a pods/UID again")
		}
		if s.Rests {
			look.Resting = append(look.Resting, e)
		} else {
			look.Parked = append(look.Parked, e)
		}
	}
	p.memory.Heard = Heard{Kubelet: p.node.KubeletID, BootID: p.now.BootID, Named: map[parsers.PodUID]bool{}, Teardowns: map[parsers.PodUID]Teardown{}}
	for pod := range p.pods {
		uid := uidOf(pod)
		p.memory.Heard.Named[uid] = !p.held[uid]
		if p.held[uid] {
			p.memory.Heard.Teardowns[uid] = Teardown{At: p.now, Volumes: map[string]VolumeTeardown{"vol": {At: p.now, Leaf: testLeaf}}}
		}
	}
	c := Case{Look: look, Memory: p.memory, Entries: p.entries, Breaker: p.breaker, Rules: p.rules}
	d := Decide(c)
	if again := Decide(c); !reflect.DeepEqual(d, again) {
		t.Errorf("the same case is decided otherwise the second time:\n%+v\n%+v", d, again)
	}
	p.memory = d.Memory
	for i, v := range d.Verdicts {
		fmt.Fprintf(&p.said, "  pod %s: %s", podOf(d.Look.Pods[i].UID), v.Decision)
		for _, w := range v.Why {
			fmt.Fprintf(&p.said, " %s", w.Reason)
		}
		p.said.WriteString("\n")
	}
	for i, v := range d.Parked {
		fmt.Fprintf(&p.said, "  parked %s: %s\n", podOf(d.Look.Parked[i].UID), v.Decision)
	}
	for _, r := range d.Plan.Frozen {
		fmt.Fprintf(&p.said, "  -> %s %s\n", r.Kind, podOf(r.UID))
		Fold(p.entries, r)
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

func (d Ruling) nextAfter(p *play, outs []Outcome) (time.Duration, bool) {
	d.Memory = p.memory
	return d.Next(outs, Listed(p.entries), p.rules, p.now)
}

// carryOut does what the loop does, in its order.
func (p *play) carryOut(plan Plan) (outs []Outcome) {
	mounts := map[parsers.PodUID]Fact{}
	for _, e := range p.entries {
		mounts[e.UID] = Fact{Truth: No}
	}
	for pod := range p.pods {
		mounts[uidOf(pod)] = Fact{Truth: No}
	}
	for uid := range p.mounted {
		mounts[uid] = Fact{Truth: Yes, Detail: "mounted since the look"}
	}
	for _, b := range plan.Parked {
		outs = append(outs, p.execute(b.Unmounted(mounts))...)
	}
	var moved []Outcome
	for _, b := range plan.Take {
		moved = append(moved, p.execute(b)...)
	}
	outs = append(outs, moved...)
	for _, b := range PutBacks(slices.DeleteFunc(moved, func(o Outcome) bool { return !o.Moved() }), mounts) {
		outs = append(outs, p.execute(b)...)
	}
	return outs
}

func (p *play) execute(b Batch) (outs []Outcome) {
	for _, a := range b.Actions {
		pod := podOf(a.UID)
		o := Outcome{Action: a, Result: Done}
		switch {
		case p.refused[pod]:
			o.Result, o.Why = Refused, []Why{{ReasonCannotMove, "the kernel refuses it"}}
		case a.Kind == Park:
			delete(p.pods, pod)
		case a.Kind == PutBack:
			e := deadScene().ev
			e.UID, e.Name, e.ID = a.UID, string(a.UID), a.ID
			p.pods[pod] = &e
		case a.Kind == Clear:
			p.pods[pod].Residue = nil
		}
		fmt.Fprintf(&p.said, "  -> %s %s %s\n", a.Kind, pod, o.Result)
		Fold(p.entries, Intent(a, p.node, p.now))
		for _, r := range Recorded(o, p.node, p.now) {
			Fold(p.entries, r)
		}
		outs = append(outs, o)
	}
	p.memory.Ended(outs, p.now)
	return outs
}

// TestPlays runs the plays of testdata/plays: each line is done and repeated, and what the
// rules said and planned stands below it, indented.
func TestPlays(t *testing.T) {
	const file = "testdata/plays/decide.txtar"
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
				t.Errorf("the rules say\n%s\nwant\n%s", got, f.Data)
			}
		})
	}
	if *update {
		if err := os.WriteFile(file, txtar.Format(ar), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
