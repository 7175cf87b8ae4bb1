package reaper_test

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/content"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// oracle knows the truth about the node and what the program may never do, and reports what it does against that. It uses
// nothing of package judge but the types.
type oracle struct {
	failed string
	class  string // the same for all failures of a kind
	order  kind   // an operator's command that is under way, or 0
	open   bool   // the circuit breaker
	clock  time.Duration

	began   time.Duration // of the scan that is under way
	scan    map[parsers.PodUID]reading
	row     map[parsers.PodUID]row
	report  map[parsers.PodUID]proof
	volumes map[parsers.PodUID]proof

	intended  map[string]time.Duration // when an intent to move was written
	confirmed map[string]bool          // entries for which confirm had passed when a clean was intended
	purged    map[string]bool          // entries that an operator has ordered to purge
	moved     int                      // in this pass
	passBegan time.Duration
	events    map[int64]judge.Event
	sent      map[int64]time.Duration
}

// reading is what the last scan has shown of one pod.
type reading struct {
	began, ended time.Duration
	judge.Pod
	node    judge.Node
	partial bool
}

// row is an unbroken row of good scans by one process.
type row struct {
	since   time.Duration // 0: none
	id      judge.FileID
	version uint64
}

// proof is that a kubelet wrote a line.
type proof struct {
	run int
	at  time.Duration
}

func (o *oracle) init() {
	o.scan, o.row = map[parsers.PodUID]reading{}, map[parsers.PodUID]row{}
	o.report, o.volumes = map[parsers.PodUID]proof{}, map[parsers.PodUID]proof{}
	o.confirmed = map[string]bool{}
	o.intended, o.purged, o.events, o.sent = map[string]time.Duration{}, map[string]bool{}, map[int64]judge.Event{}, map[int64]time.Duration{}
	o.clock = -time.Hour
}

func (o *oracle) fail(n *node, format string, args ...any) {
	if o.failed == "" {
		o.failed, o.class = fmt.Sprintf(format, args...), format
		n.tell("FAILED: %s", o.failed)
	}
}

// starts notes that the program starts: it remembers nothing.
func (o *oracle) starts(*node) { clear(o.row) }

func (o *oracle) reports(n *node, p *pod, logged bool) {
	if logged && n.faults[linesLost] == 0 {
		o.report[p.uid] = proof{n.kubelet.run, n.now}
	}
}

func (o *oracle) hasVolumes(n *node, p *pod) { o.volumes[p.uid] = proof{n.kubelet.run, n.now} }

// scans notes that a scan begins.
func (o *oracle) scans(n *node, only []parsers.PodUID) {
	if o.began = n.now; len(only) == 0 {
		o.moved, o.passBegan = 0, n.now
	}
}

// confirms reports whether the scan that begins may confirm an entry.
func (o *oracle) confirms(n *node) bool {
	for _, d := range n.quarantine {
		if d.confirmed == 0 && n.now-d.moved >= n.settings.Confirm {
			return true
		}
	}
	return false
}

// good returns why the scan shows no dead pod, by the table of facts, and whether that is only for want of time.
func (r *reading) good() (why string, busy bool) {
	for fact := judge.Listed; fact <= judge.Directory; fact++ {
		want := judge.No
		if fact == judge.Directory {
			want = judge.Yes
		}
		if f := r.Facts[fact]; f.Truth != want {
			if why = fact.String() + " is " + f.Truth.String(); !f.Busy {
				return why, false
			}
			busy = true
		}
	}
	return why, busy
}

// scanned notes what a scan has shown.
func (o *oracle) scanned(n *node, s judge.Snapshot, partial bool) {
	for _, seen := range s.Pods {
		r := reading{o.began, n.now, seen, s.Node, partial}
		o.scan[seen.UID] = r
		if o.order != 0 {
			continue
		}
		w := o.row[seen.UID]
		why, busy := r.good()
		switch changed := w.id != seen.ID || w.version != seen.Skeleton.Sum; {
		case why != "" && !busy:
			w = row{}
		case why != "": // it was not finished
		case w.since == 0 || changed:
			w.since = n.now
		}
		if why == "" || !busy {
			w.id, w.version = seen.ID, seen.Skeleton.Sum
		}
		o.row[seen.UID] = w
	}
}

// begins judges what holds for every change of the disk.
func (o *oracle) begins(n *node, m judge.Move) {
	p, back := n.byUID[m.UID], m.Action == judge.Restore || m.Action == judge.Exchange
	if d := n.quarantine[m.Entry]; back && o.order == 0 && d != nil && d.confirmed > 0 {
		o.fail(n, "%s is restored, and a part of it was removed", p)
	}
	switch f := n.memory.files["ledger.jsonl"]; {
	case o.order == operatorScans:
		o.fail(n, "%s of %s by a scan", m.Action, p)
	case f == nil || f.dirty:
		o.fail(n, "%s of %s before its intent was synced", m.Action, p)
	}
	if n.program.up || o.order != 0 {
		phase := map[judge.Action]judge.Phase{
			judge.Quarantine: judge.Moving, judge.Restore: judge.Restoring, judge.Exchange: judge.Restoring, judge.Clean: judge.Cleaning, judge.Purge: judge.Purging,
		}[m.Action]
		_ = n.program.store.Refresh()
		if got := n.program.store.Entries()[m.Entry].Phase; got != phase {
			o.fail(n, "%s of %s without an intent: the entry is %q", m.Action, p, got)
		}
	}
	r := o.scan[m.UID]
	orders := o.order == operatorRestores || o.order == operatorReplaces
	if r.node.SeesMounts.Truth != judge.Yes && !orders {
		o.fail(n, "%s of %s, though the program does not see the node's mounts", m.Action, p)
	}
	if o.order == 0 && !back && (n.settings.Observe || o.open || r.node.KubeletKnown.Truth != judge.Yes) {
		o.fail(n, "%s of %s, though the breaker is open, no kubelet is known, or the mode is observe", m.Action, p)
	}
}

// moves judges a rename to quarantine.
func (o *oracle) moves(n *node, d *dir, m judge.Move) {
	p, r, w := n.byUID[d.uid], o.scan[d.uid], o.row[d.uid]
	if o.moved++; n.settings.MaxPerScan > 0 && o.moved > n.settings.MaxPerScan {
		o.fail(n, "%d pods were moved in one pass", o.moved)
	}
	why, _ := r.good()
	hold := n.settings.Hold
	if p.returned > 0 {
		hold *= 10
	}
	last := o.report[p.uid]
	switch {
	case r.ended < o.intended[m.Entry] || !r.partial:
		o.fail(n, "%s was moved without a scan after the intent", p)
	case why != "":
		o.fail(n, "%s was moved, though the scan before showed that %s", p, why)
	case r.ID != d.id:
		o.fail(n, "another directory of %s was moved than was scanned", p)
	case r.node.KubeletKnown.Truth != judge.Yes:
		o.fail(n, "%s was moved without a kubelet", p)
	case last.at == 0 || r.ended-last.at > 30*time.Second && n.now-o.clock > 5*time.Minute:
		o.fail(n, "%s was moved, though the kubelet has not reported it for %s", p, r.ended-last.at)
	case last.at <= r.ended && 1000+last.run != r.node.Kubelet.PID: // else it came while the rename hung
		o.fail(n, "%s was moved by the report of an earlier kubelet", p)
	case o.volumes[p.uid].run == last.run && o.volumes[p.uid].at > last.at && n.now-o.volumes[p.uid].at < 25*time.Second && n.logIsWell():
		o.fail(n, "%s was moved, though the kubelet has volumes of it", p)
	case o.order == 0 && (w.since == 0 || r.ended-w.since < hold-time.Second):
		o.fail(n, "%s was moved after good scans for %s (%t)", p, r.ended-w.since, w.since > 0)
	case p.restored:
		o.fail(n, "%s was moved, though an operator has restored it", p)
	case p.publishing == d.id.Ino && d.youngest < r.began:
		o.fail(n, "%s was moved during a NodePublish", p)
	case p.cgroup && p.began < r.began:
		o.fail(n, "%s is alive, and its directory was moved", p)
	}
	for _, mount := range d.mounts {
		if mount.since < r.began {
			o.fail(n, "the directory of %s was moved with a mount in it", p)
		}
	}
	o.row[d.uid] = row{}
	o.watch(n, p, d, m.Entry)
}

func (n *node) logIsWell() bool {
	return n.faults[linesLate] == 0 && n.faults[linesLost] == 0 && n.now-n.trouble > time.Minute
}

// watch has the oracle see that a living pod does not stay in quarantine.
func (o *oracle) watch(n *node, p *pod, d *dir, entry string) {
	n.after(20*time.Second, func() {
		q := n.quarantine[entry]
		if q == nil || q.id != d.id {
			return
		}
		o.watch(n, p, d, entry)
		from := max(p.began, n.trouble, n.program.began, q.moved, n.booted+n.kubelet.start)
		if p.began == 0 || !p.cgroup || n.now-from < 75*time.Second || !n.program.up || n.program.busy || n.settings.Observe || n.anyTrouble() {
			return
		}
		_ = n.program.store.Refresh()
		if e := n.program.store.Entries()[entry]; e.Phase == judge.Quarantined || e.Phase == judge.Restoring {
			if e.Err == "" {
				o.fail(n, "%s has been alive for %s, and is in quarantine", p, n.now-p.began)
			}
		}
	})
}

func (n *node) anyTrouble() bool {
	return slices.ContainsFunc(n.faults[:], func(n int) bool { return n > 0 })
}

// exchanges judges that a newer directory is replaced.
func (o *oracle) exchanges(n *node, d *dir, m judge.Move) {
	if p := n.byUID[d.uid]; p.home == d.id.Ino && p.runs && !m.Replace {
		o.fail(n, "the directory that %s uses was replaced", p)
	}
}

// removes judges a removal in quarantine.
func (o *oracle) removes(n *node, d *dir, m judge.Move, class content.Class) {
	p, r := n.byUID[d.uid], o.scan[d.uid]
	if o.purged[m.Entry] {
		o.purges(n, p, r, m)
		return
	}
	for _, fact := range [...]judge.FactName{judge.Listed, judge.Running, judge.Cgroup, judge.Mounted} {
		if r.Facts[fact].Truth != judge.No {
			o.fail(n, "something of %s was removed, though by the scan %s is %s", p, fact, r.Facts[fact].Truth)
		}
	}
	retention := n.settings.Retention
	if n.faults[diskFull] > 0 || r.node.FreeBytes < 0.1 {
		retention = min(retention, 10*time.Minute)
	}
	switch {
	case m.Action == judge.Purge:
		o.fail(n, "%s was purged without an order", p)
	case r.Present != judge.No:
		o.fail(n, "something of %s was removed, though it has a directory again", p)
	case class == content.Data:
		o.fail(n, "data of %s was removed", p)
	case !o.confirmed[m.Entry]:
		o.fail(n, "something of %s was removed %s after it was moved", p, min(n.now-d.moved, n.now-n.booted))
	case class == content.Ephemeral && n.now-max(d.confirmed, n.booted) < retention && n.booted == 0 && n.now-o.clock > retention:
		o.fail(n, "emptyDirs of %s were removed %s after it was confirmed dead", p, n.now-d.confirmed)
	case p.alive() && p.cgroup && p.began < r.began:
		o.fail(n, "%s is alive, and something of it was removed", p)
	}
}

// purges judges a removal by an operator's order: of a pod that is alive only what is no longer its directory goes.
func (o *oracle) purges(n *node, p *pod, r reading, m judge.Move) {
	conflict := n.program.store.Entries()[m.Entry].Before == judge.InConflict
	for _, fact := range [...]judge.FactName{judge.Mounted, judge.Listed, judge.Running, judge.Cgroup} {
		if truth := r.Facts[fact].Truth; truth != judge.No && (fact == judge.Mounted || !conflict) {
			o.fail(n, "an operator's purge of %s was carried out, though %s is %s", p, fact, truth)
		}
	}
}

// stopped judges a polite stop: a pod that was moved in this pass was scanned once more.
func (o *oracle) stopped(n *node) {
	for _, d := range n.quarantine {
		r := o.scan[d.uid]
		why := r.began < d.moved || r.Facts[judge.Cgroup].Truth == judge.Unknown || r.Facts[judge.Running].Truth == judge.Unknown
		if d.moved >= o.passBegan && why && n.trouble < o.passBegan && !n.anyTrouble() && o.order == 0 {
			o.fail(n, "the program ended after the move of %s, and did not scan it again", n.byUID[d.uid])
		}
	}
}

// written takes in an event that is in the ledger.
func (o *oracle) written(n *node, e judge.Event, batch []judge.Event) {
	if !e.Kind.Intent() {
		o.events[e.Seq] = e
	}
	p, r := n.byUID[e.UID], o.scan[e.UID]
	switch e.Kind { //nolint:exhaustive // the others prove nothing
	case judge.EventMoving:
		o.intended[e.Entry] = n.now
	case judge.EventCleaning: // one that is cut short goes on after a boot
		if d := n.quarantine[e.Entry]; d != nil && min(n.now-d.moved, n.now-n.booted) >= n.settings.Confirm {
			o.confirmed[e.Entry] = true
		}
	case judge.EventPurging:
		if o.purged[e.Entry] = o.purged[e.Entry] || o.order == operatorPurges; !o.purged[e.Entry] {
			o.fail(n, "%s is to be purged without an order", p)
		}
	case judge.EventBreaker:
		o.open = true
		shown := slices.ContainsFunc(r.Facts[:], func(f judge.Fact) bool { return f.Truth == judge.Yes && f.Alive })
		if !shown && r.Present != judge.Yes || e.Static || len(p.uid) == 32 {
			o.fail(n, "the breaker opens for %s, though nothing showed that it was misjudged", p)
		}
	case judge.EventResumed:
		o.open = false
	case judge.EventRestoring:
		opens := o.open || slices.ContainsFunc(batch, func(e judge.Event) bool { return e.Kind == judge.EventBreaker })
		if o.order == 0 && !opens && !p.static {
			o.fail(n, "%s is restored since it is alive, and the breaker stays closed", p)
		}
	case judge.EventRestored:
		if e.Operator {
			p.restored = true
		} else {
			p.restored = false
			p.returned++
		}
	case judge.EventReleased:
		p.restored = false
	}
}

// recorded judges that each event reaches the journal once.
func (o *oracle) recorded(n *node, e judge.Event) {
	if at, twice := o.sent[e.Seq]; twice && at > n.program.began && n.memory.unwritten < 0 && o.order == 0 {
		o.fail(n, "the journal gets event %d twice", e.Seq)
	}
	o.sent[e.Seq] = n.now
}

// passed judges a pass that has ended.
func (o *oracle) passed(n *node) {
	for _, name := range slices.Sorted(maps.Keys(n.quarantine)) {
		d := n.quarantine[name]
		p, r := n.byUID[d.uid], o.scan[d.uid]
		e := n.program.store.Entries()[name]
		shown := r.Present == judge.Yes
		for fact := judge.Listed; fact <= judge.Cgroup; fact++ {
			shown = shown || r.Facts[fact].Truth == judge.Yes && r.Facts[fact].Alive
		}
		if shown && (e.Phase == judge.Quarantined || e.Phase == judge.Moving) && e.Err == "" && r.began >= o.passBegan && n.trouble < o.passBegan && !n.anyTrouble() {
			o.fail(n, "a scan has shown that %s is alive, and it is still in quarantine", p)
		}
	}
}
