package grafana

import (
	"fmt"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/audit"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// noon is when the played day ends.
var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// A played day: looks every five minutes, told by their number. Within it the last nodes that observed begin to enforce,
// and one after the other goes wrong.
const (
	every   = 5 * time.Minute
	dayEnds = 288
	rollout = 96  // nodes 6 to 8 are set to enforce, with a new version
	failing = 150 // node 5 cannot purge
	opens   = 200 // the breaker of node 4
	falls   = 230 // node 10 falls silent
	hangs   = 240 // node 11 looks no more, and hears no log
	nodes   = 12
)

// daemon is a played daemon.
type daemon struct {
	node    int
	name    string
	metrics *audit.Metrics
	left    *cni.Metrics
	number  int // of the last look
}

func newDaemon(node int) *daemon {
	d := &daemon{node: node, name: fmt.Sprintf("node-%02d", node+1), number: -1}
	d.start("1.3.0")
	if node >= 6 {
		d.start("1.2.0")
	}
	return d
}

func (d *daemon) start(version string) {
	d.metrics = audit.NewMetrics(version)
	d.left = cni.NewMetrics(d.metrics)
	d.metrics.Enforcing(d.enforces())
}

func (d *daemon) enforces() bool { return d.node < 6 || d.node < 9 && d.number >= rollout }

// silent reports whether the daemon answers no more.
func (d *daemon) silent() bool { return d.node == 10 && d.number >= falls }

// dice is a number below n that the node and the hour decide.
func (d *daemon) dice(n int) int {
	x := uint32(d.node*1000+(d.number+d.node*5)/12) * 2654435761 //nolint:gosec // small numbers
	x = (x ^ x>>15) * 2246822519
	return int((x^x>>13)%1000) * n / 1000
}

// upTo plays all looks up to a number, of which the last one is at the given time.
func (d *daemon) upTo(number int, at time.Time) {
	for d.number < number {
		d.number++
		d.look(at.Add(-time.Duration(number-d.number) * every))
	}
}

func (d *daemon) look(at time.Time) {
	if d.number == rollout && d.node >= 6 && d.node < 9 {
		d.start("1.3.0")
	}
	if hung := d.node == 11 && d.number >= hangs; hung {
		d.metrics.Failure(audit.OpLook)
		d.metrics.Source("journald", false, at)
		return
	}
	d.metrics.Source("journald", true, at)
	d.orphans(at)
	if d.enforces() {
		d.reap()
	}
	if d.node == 5 && d.number >= failing && d.number%2 == 0 {
		d.metrics.Outcome(policy.Outcome{Action: policy.Action{Kind: policy.Purge}, Result: policy.Failed})
	}
	if d.node == 4 && d.number == opens {
		d.metrics.Outcome(policy.Outcome{Action: policy.Action{Kind: policy.PutBack}, Result: policy.Done})
	}
	d.metrics.Breaker(d.node == 4 && d.number >= opens)
	d.quarantine()
	d.cni()
	d.metrics.Success(policy.Instant{Wall: at})
	if d.node != 1 || d.number < falls { // the API server takes the report of node 1 no more
		d.metrics.Reported(at)
	}
}

// orphans tells of a look that finds some for each verdict.
func (d *daemon) orphans(at time.Time) {
	stuck := map[int]int{2: 2, 7: 1, 9: 4}[d.node] // something is mounted in these
	reap := d.dice(2)
	if !d.enforces() {
		reap = 3 + d.number/48
	}
	var look policy.Look
	var verdicts []policy.Verdict
	add := func(n int, age time.Duration, v policy.Verdict) {
		for range n {
			e := policy.Evidence{UID: parsers.PodUID(fmt.Sprint("pod-", len(look.Pods))), Changed: at.Add(-age)}
			e.Facts.Set(policy.FactNamed, policy.Yes, "", "")
			look.Pods, verdicts = append(look.Pods, e), append(verdicts, v)
		}
	}
	add(stuck, time.Duration(d.number+60*d.node)*every, policy.Verdict{Decision: policy.Keep, Why: []policy.Why{{Reason: policy.ReasonMounted}}})
	add(d.dice(3), time.Hour, policy.Verdict{Decision: policy.Wait, Why: []policy.Why{{Reason: policy.ReasonHold}}})
	dead, yes := policy.Verdict{Decision: policy.Reap}, policy.Fact{Truth: policy.Yes}
	dead.Gate(policy.Node{MayEnforce: yes, Agrees: yes}, false, policy.Rules{Observe: !d.enforces()})
	add(reap, 2*time.Hour, dead)
	pods := int64(28 + d.node%4 + d.dice(4))
	look.At = policy.Instant{Wall: at}
	look.Node.Gauges = policy.KubeletGauges{
		Desired: new(pods), Active: new(pods - 1), Mirror: new(int64(3)), Working: []policy.WorkingPods{{Count: pods + int64(d.dice(3))}},
		OrphanedRuntimePods: new(int64(d.number / 60)), RestartedPods: new(int64(d.number / 90)),
	}
	d.metrics.Look(look, verdicts, 150*time.Millisecond)
}

// reap tells of pods that were reaped, more of them around the end of the day.
func (d *daemon) reap() {
	if d.node == 4 && d.number >= opens {
		return
	}
	busy := max(0, 6-max(d.number-170, 170-d.number)/16)
	for i := range d.dice(3+busy) / 2 {
		size := int64(1+(d.number+i)%9) << 20
		d.metrics.Outcome(policy.Outcome{Action: policy.Action{Kind: policy.Park}, Result: policy.Done})
		d.metrics.Quiet(180) // as many as a kubelet writes in six minutes
		d.metrics.Outcome(policy.Outcome{Action: policy.Action{Kind: policy.Strip}, Result: policy.Done, Taken: map[contents.Class]policy.Tally{
			contents.ClassSkeleton: {Entries: 12, Bytes: 49152}, contents.ClassProjected: {Entries: 9, Bytes: size / 8},
			contents.ClassEphemeral: {Entries: 40, Bytes: size},
		}})
	}
}

func (d *daemon) quarantine() {
	entries := map[string]*policy.EntryState{}
	if d.enforces() {
		entries["a"] = &policy.EntryState{Phase: policy.PhaseParked}
		for i := range 2 + d.dice(3) {
			left := []policy.Residue{{Class: contents.ClassEphemeral, Bytes: int64(d.node+1) << 27}, {Class: contents.ClassSkeleton, Bytes: 1 << 20}}
			entries[fmt.Sprint("b", i)] = &policy.EntryState{Phase: policy.PhaseConfirmed, Left: left}
		}
	}
	if d.node == 3 {
		entries["c"] = &policy.EntryState{Phase: policy.PhaseConflict, Left: []policy.Residue{
			{Class: contents.ClassData, Bytes: int64(d.number) << 25}, {Class: contents.ClassProjected, Bytes: 1 << 22},
		}}
	}
	d.metrics.Quarantine(entries)
}

func (d *daemon) cni() {
	live, leaked := int64(25+d.dice(4)), int64(0)
	if d.node == 8 {
		leaked = int64(d.number / 4)
	}
	files := map[string]policy.Tally{}
	for state, n := range map[string]int64{
		cni.Live: live, cni.Dead: int64(d.dice(4)), cni.Waiting: int64(d.dice(3)), cni.Kept: leaked, cni.Unreadable: int64(d.node / 10), cni.OfOthers: 1,
	} {
		files[state] = policy.Tally{Entries: n, Bytes: n * 1500}
	}
	d.left.CNI(&cni.Census{
		Files: map[cni.Kind]map[string]policy.Tally{cni.Cache: files}, Reserved: map[string]int64{"cbr0": live + leaked}, InUse: map[string]int64{"cbr0": live},
	})
}

// sample is one series.
type sample struct {
	name   string
	labels map[string]string
}

func samples(tb testing.TB, m *audit.Metrics) []sample {
	tb.Helper()
	families, err := m.Registry().Gather()
	testkit.Must(tb, err)
	var all []sample
	for _, f := range families {
		for _, m := range f.GetMetric() {
			s := sample{name: f.GetName(), labels: map[string]string{}}
			for _, l := range m.GetLabel() {
				s.labels[l.GetName()] = l.GetValue()
			}
			all = append(all, s)
		}
	}
	return all
}
