package reaper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/decide"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/reported"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// fakeNode is a node in memory: pods directory, quarantine, ledger and clock. It implements every interface of the
// loop. It can be killed at any step, as by kill -9: the "disk" stays, and the next Reaper starts from it.
type fakeNode struct {
	now        policy.Instant
	node       policy.Node
	pods       map[parsers.PodUID]*fakePod
	quarantine map[string]*fakePod
	home       quarantineHome
	homeErr    error
	makes      policy.DirID // identity of the quarantine that the first move makes
	records    []policy.Record
	sent       int64
	logged     []policy.Record
	files      map[string]any
	scans      map[parsers.PodUID]policy.Fact // results of the mount scan after parking; default: no
	looks      int
	steps      int // calls that touch the disk so far
	tidied     int // number of batches without an action
	cutAt      int // panic with errCut at this step and each later one; 0: never
	ledgerErr  error
	saveErr    error
	appends    int    // writes to the ledger so far
	fullAt     int    // the disk is full at this write only
	unsynced   bool   // the fsync after parking fails
	immutable  bool   // every park fails
	stays      bool   // every removal from quarantine fails
	unwanted   string // the list that wants no pod; "": none
	// signs are the facts that looks find of pods in quarantine.
	signs map[parsers.PodUID]map[policy.FactName]policy.Truth
	// remakes are pods whose directory is made again when they go back; met reports that this has happened.
	remakes map[parsers.PodUID]policy.Truth
	met     bool
	// crowded is a pod of which a wrong directory arrives in quarantine, while a third one has taken its name in
	// place.
	crowded parsers.PodUID
	// still, if set, runs at the start of each last question.
	still func()
}

type fakePod struct {
	id        policy.DirID
	facts     map[policy.FactName]policy.Truth
	data      bool         // it holds a user's data
	ephemeral bool         // it holds an emptyDir and nothing else
	files     int          // number of files that a strip removes
	leaf      int          // number of entries in the only leaf, in place or cleared
	used      policy.Truth // whether the new directory is in use
}

var (
	errCut  = errors.New("cut off")
	errFull = errors.New("no space left on device")
)

// killed runs do and reports whether it was cut off, as by kill -9.
func killed(do func()) (cut bool) {
	defer func() {
		if r := recover(); r != nil {
			if err, ok := r.(error); !ok || !errors.Is(err, errCut) {
				panic(r)
			}
			cut = true
		}
	}()
	do()
	return false
}

// noHold returns rules without a hold; atOnce drops the confirm time, too.
func noHold() policy.Rules {
	r := testRules
	r.Hold = 0
	return r
}

func atOnce() policy.Rules {
	r := noHold()
	r.Confirm = 0
	return r
}

// resume closes the breaker, as an operator does.
func resume(t *testing.T, r *Reaper) {
	t.Helper()
	if err := r.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// purge purges the first pod's entries in quarantine.
func purge(t *testing.T, r *Reaper, shown []policy.EntryState, living bool) ([]policy.Outcome, error) {
	t.Helper()
	outs, failed, err := r.PurgeEntries(t.Context(), []parsers.PodUID{uidOf(1)}, shown, living)
	return outs, cmp.Or(err, failed[uidOf(1)])
}

func newFakeNode() *fakeNode {
	return &fakeNode{
		now: policy.Instant{Wall: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), BootID: "b", Boot: 10 * time.Hour},
		node: policy.Node{
			Kubelet: policy.Fact{Truth: policy.Yes}, KubeletID: policy.KubeletID{PID: 812, Start: time.Hour},
			RuntimeLists: policy.Fact{Truth: policy.Yes},
			MayEnforce:   policy.Fact{Truth: policy.Yes}, Agrees: policy.Fact{Truth: policy.Yes},
			FreeBytes: 0.5, FreeInodes: 0.5,
		},
		pods: map[parsers.PodUID]*fakePod{}, quarantine: map[string]*fakePod{},
		home:  quarantineHome{policy.DirID{Dev: 1, Ino: 100, Btime: 1}, policy.DirID{Dev: 1, Ino: 101, Btime: 1}},
		files: map[string]any{}, scans: map[parsers.PodUID]policy.Fact{},
	}
}

func uidOf(i int) parsers.PodUID {
	return parsers.PodUID(fmt.Sprintf("00000000-0000-4000-8000-%012x", i))
}

func (n *fakeNode) add(i int, facts map[policy.FactName]policy.Truth) *fakePod {
	p := &fakePod{id: policy.DirID{Dev: 1, Ino: uint64(i + 1), Btime: 1}, facts: facts, files: 3, used: policy.No}
	n.pods[uidOf(i)] = p
	return p
}

// reaper returns a Reaper on the node, as in a daemon that has just been started.
func (n *fakeNode) reaper(t *testing.T, rules policy.Rules) *Reaper {
	t.Helper()
	r := &Reaper{
		Prober: n, Remover: n, Ledger: n, Store: n, Clock: n, Recorder: n, Meter: testkit.Meter{},
		Log: slog.New(slog.DiscardHandler), Rules: rules,
	}
	if err := r.Load(); err != nil {
		t.Fatal(err)
	}
	return r
}

func (n *fakeNode) pass(d time.Duration) {
	n.now.Boot += d
	n.now.Wall = n.now.Wall.Add(d)
}

// step counts one change of the disk. A cut comes before the change.
func (n *fakeNode) step() {
	n.steps++
	if n.cutAt > 0 && n.steps >= n.cutAt {
		panic(errCut)
	}
}

func (n *fakeNode) Now() policy.Instant { return n.now }

func (n *fakeNode) evidence(uid parsers.PodUID, p *fakePod) policy.Evidence {
	e := policy.Evidence{Name: string(uid), UID: uid, ID: p.id, Changed: n.now.Wall.Add(-time.Hour)}
	for f := range policy.NumFacts {
		e.Facts.Set(f, policy.No, "fake", "")
	}
	e.Facts.Set(policy.FactDirectory, policy.Yes, "fake", "")
	e.Facts.Set(policy.FactContent, policy.Yes, "fake", "")
	if p.leaf > 0 {
		e.Residue = []policy.Residue{{Path: fakeLeaf, Class: contents.ClassData, Entries: int64(p.leaf) + 1}}
	}
	e.Unwanted = n.unwanted
	for f, v := range p.facts {
		e.Facts.Set(f, v, "fake", "set by the test")
	}
	return e
}

func (n *fakeNode) Look(_ context.Context, parked []policy.EntryState, _ []parsers.PodUID) (policy.Look, error) {
	n.looks++
	look := policy.Look{At: n.now, Node: n.node}
	for _, uid := range slices.Sorted(maps.Keys(n.pods)) {
		look.Pods = append(look.Pods, n.evidence(uid, n.pods[uid]))
	}
	for _, s := range parked {
		if s.Rests {
			e := n.evidence(s.UID, &fakePod{facts: n.signs[s.UID]})
			e.Entry = s.Entry
			e.Facts.Set(policy.FactDirectory, policy.Unknown, "/q/"+s.Entry, "it rests")
			if n.pods[s.UID] != nil {
				e.Facts.Set(policy.FactRemade, policy.Yes, "/pods", "there is a pods/UID again")
			}
			look.Resting = append(look.Resting, e)
			continue
		}
		e := policy.Evidence{UID: s.UID, Entry: s.Entry}
		e.Facts.Set(policy.FactDirectory, policy.No, "fake", "")
		if p := n.quarantine[s.Entry]; p != nil {
			e = n.evidence(s.UID, p)
			e.Entry = s.Entry
		}
		if n.pods[s.UID] != nil {
			e.Facts.Set(policy.FactRemade, policy.Yes, "fake", "there is a pods/UID again")
			e.Facts.Set(policy.FactUsed, n.pods[s.UID].used, "fake", "set by the test")
		}
		for f, v := range n.signs[s.UID] {
			e.Facts.Set(f, v, "fake", "set by the test")
		}
		look.Parked = append(look.Parked, e)
	}
	return look, nil
}

func (n *fakeNode) Mounts(_ context.Context, uids []parsers.PodUID) map[parsers.PodUID]policy.Fact {
	facts := map[parsers.PodUID]policy.Fact{}
	for _, uid := range uids {
		facts[uid] = policy.Fact{Truth: policy.No}
		if f, ok := n.scans[uid]; ok {
			facts[uid] = f
		}
	}
	return facts
}

// Still returns the pods' present facts, wherever their directories are.
func (n *fakeNode) Still(ctx context.Context, pods []policy.Evidence) []policy.Evidence {
	if n.still != nil {
		n.still()
	}
	now := slices.Clone(pods)
	for i := range now {
		uid := now[i].UID
		p := n.pods[uid]
		for _, q := range n.quarantine {
			if p == nil && q.id == now[i].ID {
				p = q
			}
		}
		if p == nil {
			p = &fakePod{}
		}
		is := n.evidence(uid, p)
		for _, f := range policy.LastFacts() {
			now[i].Facts[f] = is.Facts[f]
		}
		if slices.ContainsFunc(slices.Collect(maps.Keys(n.quarantine)), func(entry string) bool { return strings.HasPrefix(entry, string(uid)) }) {
			now[i].Facts[policy.FactMounted] = n.Mounts(ctx, []parsers.PodUID{uid})[uid]
		}
	}
	return now
}

func (n *fakeNode) MountsParked(ctx context.Context, uids []parsers.PodUID) map[parsers.PodUID]policy.Fact {
	return n.Mounts(ctx, uids)
}

func (n *fakeNode) Where(uid parsers.PodUID, entry string) (inPods, inQuarantine bool, err error) {
	return n.pods[uid] != nil, n.quarantine[entry] != nil, nil
}

func (n *fakeNode) Home() (parent, quarantine policy.DirID, err error) {
	return n.home.Parent, n.home.Quarantine, n.homeErr
}

func (n *fakeNode) Movable() error { return nil }

func (n *fakeNode) Means() policy.Means { return policy.Means{} }

// shown returns what the commands list of a pod in quarantine.
func (n *fakeNode) shown(i int) []policy.EntryState {
	names, _ := n.List()
	all := append(policy.Listed(n.Entries()), decide.Unlisted(names, n.Entries())...)
	return slices.DeleteFunc(all, func(e policy.EntryState) bool { return e.UID != uidOf(i) })
}

func (n *fakeNode) List() ([]string, error) {
	return slices.Sorted(maps.Keys(n.quarantine)), nil
}

func (n *fakeNode) Execute(_ context.Context, _ policy.Permit, plan policy.Batch) []policy.Outcome {
	if len(plan.Actions) == 0 {
		n.tidied++
	}
	if n.home.Quarantine == (policy.DirID{}) {
		n.home.Quarantine = n.makes
	}
	outs := make([]policy.Outcome, 0, len(plan.Actions))
	for _, a := range plan.Actions {
		switch {
		case a.Kind == policy.Clear:
			outs = append(outs, n.clear(a))
		case a.Kind == policy.PutBack && strings.HasSuffix(a.Entry, policy.LeafSuffix):
			outs = append(outs, n.fill(a))
		case a.Kind == policy.Park || a.Kind == policy.PutBack:
			outs = append(outs, n.move(a))
		default:
			outs = append(outs, n.take(a))
		}
	}
	return outs
}

func (n *fakeNode) move(a policy.Action) policy.Outcome {
	o := policy.Outcome{Action: a, Result: policy.Done}
	if used, again := n.remakes[a.UID]; again && a.Kind == policy.PutBack && n.pods[a.UID] == nil {
		n.pods[a.UID] = &fakePod{id: policy.DirID{Dev: 1, Ino: 2000, Btime: 2}, files: 3, used: used}
		n.met = true
	}
	there, parked := n.pods[a.UID], n.quarantine[a.Entry]
	if a.Kind == policy.Park && a.UID == n.crowded {
		n.quarantine[a.Entry+policy.ConflictSuffix] = &fakePod{files: 3}
		o.Result, o.Conflict, o.Why = policy.Failed, a.Entry+policy.ConflictSuffix, []policy.Why{{Reason: policy.ReasonCannotMove}}
		return o
	}
	switch {
	case a.Kind == policy.Park && n.immutable:
		o.Result, o.Why = policy.Refused, []policy.Why{{Reason: policy.ReasonCannotMove, Detail: "operation not permitted"}}
	case a.Kind == policy.PutBack && parked == nil && there != nil && there.id == a.ID: // an earlier, killed run has put it back
		if name := a.Entry + policy.ConflictSuffix; n.quarantine[name] != nil {
			o.Result, o.Conflict = policy.Conflict, name
		}
	case a.Kind == policy.Park && there == nil, a.Kind == policy.PutBack && parked == nil:
		o.Result = policy.Gone
	case a.Kind == policy.Park:
		n.step()
		delete(n.pods, a.UID)
		n.quarantine[a.Entry] = there
		if n.unsynced {
			o.Result, o.Err, o.Why = policy.Failed, "input/output error", []policy.Why{{Reason: policy.ReasonRemoval, Detail: "not synced"}}
		}
	case a.Kind == policy.PutBack && there != nil && there.used != policy.No:
		o.Result, o.Err, o.Why = policy.Refused, "used", []policy.Why{{Reason: policy.ReasonRemade, Detail: "used"}}
		if o.Remade = true; there.used == policy.Yes {
			o.Conflict = a.Entry
		}
	default:
		n.step()
		n.pods[a.UID] = parked
		delete(n.quarantine, a.Entry)
		if there != nil {
			o.Result, o.Conflict = policy.Conflict, a.Entry+policy.ConflictSuffix
			n.quarantine[o.Conflict] = there
		}
	}
	return o
}

const fakeLeaf = "volumes/kubernetes.io~nfs/vol"

// clear moves the leaf's contents to quarantine, one entry a step.
func (n *fakeNode) clear(a policy.Action) policy.Outcome {
	o := policy.Outcome{Action: a, Result: policy.Gone}
	p := n.pods[a.UID]
	if p == nil || p.leaf == 0 {
		return o
	}
	if n.immutable {
		o.Result, o.Why = policy.Refused, []policy.Why{{Reason: policy.ReasonCannotMove, Detail: "operation not permitted"}}
		return o
	}
	n.step()
	made := &fakePod{id: policy.DirID{Dev: 1, Ino: uint64(1000 + n.steps), Btime: 1}, data: true}
	n.quarantine[a.Entry] = made
	for p.leaf > 0 {
		n.step()
		p.leaf--
		made.leaf++
	}
	o.Result, o.ID, o.Left = policy.Done, made.id, []policy.Residue{{Path: a.Leaf, Class: contents.ClassData, Entries: int64(made.leaf)}}
	return o
}

// fill moves them back.
func (n *fakeNode) fill(a policy.Action) policy.Outcome {
	o := policy.Outcome{Action: a, Result: policy.Done}
	made, p := n.quarantine[a.Entry], n.pods[a.UID]
	switch {
	case made == nil:
		return o
	case p == nil:
		o.Result, o.ID, o.Left = policy.Partly, made.id, []policy.Residue{{Path: a.Leaf, Class: contents.ClassData, Entries: int64(made.leaf)}}
		return o
	}
	for made.leaf > 0 {
		n.step()
		made.leaf--
		p.leaf++
	}
	n.step()
	delete(n.quarantine, a.Entry)
	return o
}

func (n *fakeNode) take(a policy.Action) policy.Outcome {
	o := policy.Outcome{Action: a, Result: policy.Done}
	p := n.quarantine[a.Entry]
	if p == nil {
		o.Result = policy.Gone
		return o
	}
	if a.Take == contents.TakeNone {
		o.Result, o.Why = policy.Refused, []policy.Why{{Reason: policy.ReasonContentUnknown, Detail: "it is there again"}}
		return o
	}
	if n.stays {
		o.Result, o.Err = policy.Failed, "operation not permitted"
		return o
	}
	if p.ephemeral && !a.Take.Has(contents.ClassEphemeral) {
		o.Result, o.Left = policy.Partly, []policy.Residue{{Path: "volumes", Class: contents.ClassEphemeral}}
		return o
	}
	for ; p.files > 0; p.files-- {
		n.step()
	}
	if p.data && !a.Take.Has(contents.ClassData) {
		o.Result, o.Left = policy.Partly, []policy.Residue{{Path: "volumes", Class: contents.ClassData}}
		return o
	}
	n.step()
	delete(n.quarantine, a.Entry)
	return o
}

func (n *fakeNode) Enter(context.Context) (func(), error) { return func() {}, nil }

func (n *fakeNode) Append(records ...policy.Record) ([]policy.Record, error) {
	if n.ledgerErr != nil {
		return nil, n.ledgerErr
	}
	if n.appends++; n.appends == n.fullAt {
		return nil, errFull
	}
	for _, r := range records {
		n.step() // a torn write keeps the whole lines before the tear
		r.Seq = int64(len(n.records) + 1)
		n.records = append(n.records, r)
	}
	return records, nil
}

func (n *fakeNode) Entries() map[string]*policy.EntryState {
	states := map[string]*policy.EntryState{}
	for _, r := range n.records {
		policy.Fold(states, r)
	}
	return states
}

func (n *fakeNode) Unmounting() map[parsers.PodUID]policy.Record {
	open := map[parsers.PodUID]policy.Record{}
	for _, r := range n.records {
		switch r.Kind {
		case policy.KindUnmounting:
			open[r.UID] = r
		case policy.KindUnmounted, policy.KindNotUnmounted:
			delete(open, r.UID)
		default:
		}
	}
	return open
}

func (n *fakeNode) BreakerOpen() bool {
	open := false
	for _, r := range n.records {
		open = (open || r.Kind == policy.KindBreaker) && r.Kind != policy.KindResumed
	}
	return open
}

func (n *fakeNode) Unsent() []policy.Record {
	return n.records[n.sent:]
}

func (n *fakeNode) Sent(seq int64) error {
	n.sent = seq
	return nil
}

func (n *fakeNode) Record(r policy.Record) error {
	n.logged = append(n.logged, r)
	return nil
}

func (n *fakeNode) Load(name string, v any) (bool, error) {
	switch v := v.(type) {
	case *memory:
		if m, ok := n.files[name].(memory); ok {
			kept := decide.Memory{Holds: maps.Clone(m.Holds), Recorded: maps.Clone(m.Recorded)}
			kept.Refused = map[parsers.PodUID]decide.Refusal{}
			for uid, no := range m.Refused {
				kept.Refused[uid] = decide.Refusal{Why: no.Why} // as in the file
			}
			*v = memory{Memory: kept, CNI: m.CNI}
		}
	case *quarantineHome:
		if h, ok := n.files[name].(quarantineHome); ok {
			*v = h
		}
	case *reported.Log:
		if h, ok := n.files[name].(reported.Log); ok {
			*v = h
		}
	case *reported.Messages:
		if q, ok := n.files[name].(reported.Messages); ok {
			*v = q.Clone()
		}
	}
	return n.files[name] != nil, nil
}

func (n *fakeNode) Save(name string, v any) error {
	n.step()
	if n.saveErr != nil {
		return n.saveErr
	}
	if q, ok := v.(reported.Messages); ok {
		v = q.Clone()
	}
	n.files[name] = v
	return nil
}

func (n *fakeNode) kinds(uid parsers.PodUID) []policy.Kind {
	var kinds []policy.Kind
	for _, r := range n.logged {
		if r.UID == uid {
			kinds = append(kinds, r.Kind)
		}
	}
	return kinds
}

// reports are the lines of a kubelet at -v=5, which reports each dead pod.
func (n *fakeNode) reports() (claims []reported.Claim) {
	for uid, p := range n.pods {
		if c := n.claim(0); p.facts == nil {
			c.Sighting.UID = uid
			claims = append(claims, c)
		}
	}
	return claims
}

// claim is the kubelet's line about a pod, identified by journald's trusted fields.
func (n *fakeNode) claim(i int) reported.Claim {
	return reported.Claim{At: n.now, Sighting: parsers.Sighting{
		UID: uidOf(i), Report: parsers.ReportNotADirectory, Kind: parsers.KindRemoval, Count: parsers.NoCount, PID: n.node.KubeletID.PID, Trusted: true, Whole: true, Time: n.now.Wall,
	}}
}
