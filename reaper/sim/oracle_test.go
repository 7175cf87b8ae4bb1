package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
)

// oracle knows the truth and reports what the program has done wrong.
type oracle struct {
	failed    string
	class     string // the same for all failures of a kind
	person    bool   // an operator's command is under way
	open      bool   // the breaker
	wasOpen   bool   // when the look began
	looked    time.Duration
	report    reaper.Report // of the last pass
	readings  *readings     // of its look
	intents   map[string]policy.Kind
	unclosed  map[string]policy.Kind           // the intents of which no outcome but a failure is written
	begun     map[string]policy.Kind           // these when the look began
	parks     bool                             // something lay in quarantine then
	intended  map[string]time.Duration         // when each intent was written down
	kubelets  map[string]policy.KubeletID      // that ran when each entry was parked, until it is confirmed
	confirmed map[string]*readings             // of the look by which the first strip of an entry was intended
	asked     map[parsers.PodUID]question      // the last one about each pod
	signs     map[parsers.PodUID]time.Duration // the last look in which something spoke for the pod
	good      map[parsers.PodUID]goodness
	scan      error                   // of the last scan of the mounts
	scanned   map[parsers.PodUID]bool // whether it found one
	scannedAt time.Duration
	moved     []*dir          // in this pass
	lives     *pod            // what the look saw to live though it was parked, and never comes back
	scans     bool            // an operator's scan is under way
	ordered   map[string]bool // the entries that an operator has begun to purge whole
	misled    map[string]bool // the entries for which the breaker opened when the pod misled; it opens again if the outcome is not written
}

// goodness is for how long the evidence about a pod has been good. The time from a look with a doubt about the node to the next one does not
// count.
type goodness struct {
	sum, looked time.Duration
	doubt       bool
}

// until is the sum at a later look.
func (g goodness) until(looked time.Duration) time.Duration {
	if g.doubt || g.looked == 0 {
		return g.sum
	}
	return g.sum + looked - g.looked
}

// question is what the last question found.
type question struct {
	at time.Duration
	*readings
}

func (o *oracle) begin() {
	o.intents, o.unclosed, o.intended = map[string]policy.Kind{}, map[string]policy.Kind{}, map[string]time.Duration{}
	o.kubelets, o.misled, o.ordered = map[string]policy.KubeletID{}, map[string]bool{}, map[string]bool{}
	o.confirmed = map[string]*readings{}
	o.asked, o.signs = map[parsers.PodUID]question{}, map[parsers.PodUID]time.Duration{}
	o.good = map[parsers.PodUID]goodness{}
}

func (o *oracle) fail(n *node, format string, args ...any) {
	if o.failed == "" {
		o.failed, o.class = fmt.Sprintf(format, args...), format
		n.tell("FAILED: %s", o.failed)
	}
}

// exchange is how long a living pod may be without its directory: as long as the question after the rename may take, and what follows.
const exchange = 20 * time.Second

// looks notes that a look begins.
func (o *oracle) looks(n *node) {
	o.looked, o.readings, o.moved, o.lives = n.now, nil, nil, nil
	o.begun, o.parks, o.wasOpen = maps.Clone(o.unclosed), len(n.quarantine) > 0, o.open
}

// starts notes that the program starts. What it was shown and could not write down it has forgotten.
func (o *oracle) starts(n *node) {
	for _, p := range n.pods {
		p.shown = p.shown && (!p.stated || p.known || n.faults.unwritten < p.shownAt)
	}
}

// written takes in a record that the ledger has.
func (o *oracle) written(n *node, r policy.Record) {
	switch {
	case r.Kind.Means().Intent:
		o.intents[r.Entry], o.unclosed[r.Entry], o.intended[r.Entry] = r.Kind, r.Kind, n.now
	case r.Entry != "":
		if delete(o.intents, r.Entry); r.Kind != policy.KindFailed {
			delete(o.unclosed, r.Entry)
		}
	}
	if r.Kind == policy.KindPurging {
		o.ordered[r.Entry] = o.ordered[r.Entry] || o.person
	}
	if r.Kind == policy.KindParking || r.Kind == policy.KindParked {
		o.kubelets[r.Entry] = r.Kubelet
	}
	if _, begun := o.confirmed[r.Entry]; r.Kind == policy.KindStripping && !begun {
		o.confirmed[r.Entry] = o.readings // a strip that is cut short goes on under whatever kubelet runs then
	}
	if r.Kind == policy.KindBreaker || r.Kind == policy.KindResumed {
		o.open = r.Kind == policy.KindBreaker
	}
	if r.Kind == policy.KindRestored || r.Kind == policy.KindForgotten {
		n.byUID[r.UID].restored = r.Kind == policy.KindRestored
	}
	if r.Kind == policy.KindBreaker && n.misleads(n.byUID[r.UID]) {
		o.misled[r.Entry] = true
	} else if r.Kind == policy.KindBreaker && !o.misled[r.Entry] {
		o.fail(n, "the breaker opened, though no judgement was wrong: %s, %v", n.byUID[r.UID], r.Why)
	}
}

// misleads reports whether a pod that is dead, or that came back after it had ended, looks like one that lived all along.
func (n *node) misleads(p *pod) bool {
	for _, d := range n.quarantine {
		if d.uid == p.uid && d.touched {
			return true // what an agent mounts in quarantine cannot be distinguished from what a kubelet mounts
		}
		if d.uid == p.uid && n.program.began > d.parked && slices.ContainsFunc(d.mounts, func(m mount) bool { return m.since < d.parked }) {
			return true // the same for what was mounted just before a move that a kill cut short
		}
	}
	if n.steps > 1 || n.steps > 0 && n.booted > 0 {
		return true // of two sandboxes, or of one of an earlier boot and the parking, it is then not known which is older
	}
	if r := n.oracle.readings; r != nil && (r.so(p, policy.ReasonRuntimeEmpty) || r.so(p, policy.ReasonRuntimeUnknown)) {
		return true // the age of its sandbox is not known
	}
	if p.deserted {
		return true // it was misjudged, since its kubelet was, and the API server was not asked
	}
	// Its UID looks like the API server's, whose pods never come back, and no look has shown that it is static, in this life or before.
	return p.stated && !p.shown && !p.known
}

// begins checks that an action has its intent in the ledger.
func (o *oracle) begins(n *node, a policy.Action) {
	want := map[policy.ActionKind]policy.Kind{
		policy.Park: policy.KindParking, policy.Clear: policy.KindClearing, policy.PutBack: policy.KindPutting,
		policy.Strip: policy.KindStripping, policy.Purge: policy.KindPurging,
	}[a.Kind]
	if a.Kind == policy.PutBack && a.ByPerson {
		want = policy.KindRestoring
	}
	switch r := o.readings; {
	case o.scans:
		o.fail(n, "%s of %s by a scan", a.Kind, n.byUID[a.UID])
	case a.Take == contents.TakeNone && a.Kind == policy.Strip || o.person && a.Kind == policy.PutBack:
	case r == nil && o.person: // a command that has not looked
	case r == nil || r.mayEnforce.Truth != policy.Yes, !o.person && r.agrees.Truth != policy.Yes && a.Kind != policy.PutBack:
		o.fail(n, "%s of %s, though the program does not see the node's mounts, or its settings contradict the kubelet", a.Kind, n.byUID[a.UID])
	}
	if !a.ByPerson && !o.person && (n.observes || o.open && a.Kind != policy.PutBack && a.Take != contents.TakeNone) {
		o.fail(n, "%s of %s, though the breaker is open or the mode is observe", a.Kind, n.byUID[a.UID])
	}
	if o.intents[a.Entry] != want {
		o.fail(n, "%s of %s without an intent in the ledger", a.Kind, n.byUID[a.UID])
	}
	if by, ok := o.kubelets[a.Entry]; ok && a.Kind == policy.Strip && a.Take != contents.TakeNone {
		p, seen := n.byUID[a.UID], o.confirmed[a.Entry]
		if delete(o.kubelets, a.Entry); by != seen.id {
			o.fail(n, "%s was confirmed dead by another kubelet than ran when it was parked", p)
		}
	}
	for name, f := range n.state.files {
		if f.dirty && (strings.HasPrefix(name, "ledger") || strings.HasSuffix(name, ".json")) {
			o.fail(n, "%s of %s before %s was synced", a.Kind, n.byUID[a.UID], name)
		}
	}
}

// lastReasons are those of which none may be so at the last question before a rename, and alive those of which none may be so in the look by
// which something is parked or removed.
var (
	lastReasons = []policy.Reason{
		policy.ReasonMounted, policy.ReasonMountsUnknown, policy.ReasonSandbox, policy.ReasonContainer, policy.ReasonRuntimeUnknown,
		policy.ReasonCgroup, policy.ReasonCgroupUnknown, policy.ReasonKubeletLists,
	}
	alive = append(slices.Clip(lastReasons), policy.ReasonInUse)
)

// moves judges by what a directory goes to quarantine: nothing that was read may speak for the pod, nothing that speaks may be unread, and
// nothing may be too soon.
func (o *oracle) moves(n *node, d *dir, entry string) {
	p, r := n.byUID[d.uid], o.readings
	if o.moved = append(o.moved, d); n.rules.MaxPerLook > 0 && len(o.moved) > n.rules.MaxPerLook {
		o.fail(n, "%d pods were parked in one look, of %d at the most", len(o.moved), n.rules.MaxPerLook)
	}
	last, hold := o.asked[p.uid], n.rules.Hold
	o.speaks(n, r, p, append(alive, policy.ReasonRuntimeEmpty, policy.ReasonRestored))
	if last.readings == nil || last.at < o.intended[entry] {
		o.fail(n, "%s was parked without the last question", p)
		return
	}
	o.speaks(n, last.readings, p, lastReasons)
	// A sign of life that could not be written down is forgotten with the process that saw it.
	sign := o.signs[p.uid]
	forgotten := sign > 0 && n.faults.unwritten >= sign && n.program.began > sign
	switch {
	case !r.kubeletOK:
		o.fail(n, "%s was parked without a kubelet", p)
	case r.contentErr != nil:
		o.fail(n, "%s was parked, though what lies in its directory could not be read", p)
	case r.of[p.index].staged:
		o.fail(n, "%s was parked, though its volume is staged", p)
	case n.log.fresh(p, o.looked, 32*time.Second, r.id) == 0:
		o.fail(n, "%s was parked, though its kubelet had not reported it in the last 30 s", p)
	case o.good[p.uid].until(o.looked) < hold-time.Second && !forgotten:
		o.fail(n, "%s was parked after the evidence had been good for %s", p, o.good[p.uid].until(o.looked))
	case n.now-n.booted < hold:
		o.fail(n, "%s was parked %s after the machine was switched on", p, n.now-n.booted)
	case r.at.Wall.Sub(r.of[p.index].seen.changed) < hold:
		o.fail(n, "%s was parked, though its directory had just changed", p)
	case o.signs[p.uid] > n.faults.last && n.now-o.signs[p.uid] < hold:
		o.fail(n, "%s was parked %s after a look saw a sign of life", p, n.now-o.signs[p.uid])
	}
}

// speaks fails where one of the reasons is so.
func (o *oracle) speaks(n *node, r *readings, p *pod, reasons []policy.Reason) {
	for _, reason := range reasons {
		if r.so(p, reason) {
			o.fail(n, "the directory of %s was parked or emptied, though this spoke against it: %s", p, reason)
		}
	}
}

// parked judges that a directory went to quarantine.
func (o *oracle) parked(n *node, d *dir) {
	p := n.byUID[d.uid]
	d.by, d.steps, d.looked = n.kubelet.run, n.steps, o.looked
	switch {
	case o.person:
	case o.hidden(p):
	case p.alive() && !p.static:
		o.fail(n, "%s lives, and its directory was parked", p)
	case p.alive() && p.wanted && p.since < o.looked && p.home == d.id.Ino:
		o.fail(n, "%s has lived since before the look, and its directory was parked", p)
	}
	for _, m := range d.mounts {
		if m.since < o.looked {
			o.fail(n, "the directory of %s was parked with something mounted in it", p)
		}
	}
	o.miss(n, p, d)
}

// hidden reports whether the node shows nothing of a pod that lives: the kubelet does not want it, since it has no API server.
// docs/why-it-is-safe.md has it.
func (o *oracle) hidden(p *pod) bool { return p.deserted }

// miss has the oracle look whether a living pod got back what it has.
func (o *oracle) miss(n *node, p *pod, d *dir) {
	n.after(exchange, func() {
		if d.entry == "" || n.quarantine[d.entry] != d {
			return
		}
		missing := p.alive() && p.home == d.id.Ino
		for _, m := range d.mounts {
			missing = missing || m.since < d.parked && n.dirs[d.uid] == nil // else its pod has another one, which is used
		}
		wait := exchange
		if n.faults.last > d.parked { // what could not go back is tried again after 30 s, and then after twice as long
			wait += 40*time.Second + n.faults.last - d.parked
		}
		if from := max(d.parked, n.program.began, n.faults.last); n.now-from < wait || !n.program.up || n.observes {
			o.miss(n, p, d)
		} else if missing {
			o.fail(n, "%s has been without its directory for %s", p, (n.now - d.parked).Round(time.Second))
		} else if n.now-d.parked < time.Hour {
			o.miss(n, p, d)
		}
	})
}

// removes judges that something in quarantine is removed.
func (o *oracle) removes(n *node, d *dir, a policy.Action, class contents.Class, count int) {
	p := n.byUID[d.uid]
	retention := n.rules.Confirm + n.rules.Retention
	if o.ordered[a.Entry] {
		retention = n.rules.Retention // an order to purge it, which failed, has confirmed the pod
	}
	if n.faults.full || n.now-n.faults.wasFull < time.Hour { // as the last look that saw the disk full has it
		retention = min(n.rules.Retention, 10*time.Minute)
	}
	if o.person {
		o.purges(n, p)
		return
	}
	o.speaks(n, o.readings, p, alive)
	if found, asked := o.scanned[p.uid]; found || !asked || o.scan != nil || o.scannedAt < o.looked {
		o.fail(n, "something of %s was removed, and the mounts were not read right before, or one was found", p)
	}
	if a.Leaf == "" && o.readings.of[p.index].seen != nil {
		o.fail(n, "something of %s was removed, though it has a directory again", p)
	}
	switch {
	case o.hidden(p), a.By != nil, a.Take == contents.TakeAll && o.ordered[a.Entry]:
	case p.alive() && p.home == d.id.Ino:
		o.fail(n, "%s lives, and what it uses was removed", p)
	case n.now-d.parked < n.rules.Confirm:
		o.fail(n, "something of %s was removed %s after it was parked", p, n.now-d.parked)
	case count == 0:
	case class == contents.ClassData:
		o.fail(n, "data of %s was removed, without an operator's command", p)
	case class == contents.ClassEphemeral && n.now-d.parked < retention:
		o.fail(n, "the emptyDir of %s was removed %s after it was parked", p, n.now-d.parked)
	}
	for _, m := range d.mounts {
		if m.since < o.looked && !o.person {
			o.fail(n, "something of %s was removed while a mount is in it", p)
		}
	}
}

// purges judges a removal by an operator's command without --force.
func (o *oracle) purges(n *node, p *pod) {
	for _, reason := range [...]policy.Reason{
		policy.ReasonSandbox, policy.ReasonContainer, policy.ReasonCgroup, policy.ReasonKubeletLists,
	} {
		if o.readings.so(p, reason) {
			o.fail(n, "the operator purged what lay of %s in quarantine, though it showed a sign of life: %s", p, reason)
		}
	}
	if o.scan != nil || o.scanned[p.uid] {
		o.fail(n, "the operator purged what lay of %s in quarantine, though something is mounted there or may be", p)
	}
}

// unlinks judges that a file of CNI is removed.
func (o *oracle) unlinks(n *node, f *cacheFile) {
	switch {
	case f.runs():
		o.fail(n, "the CNI cache of a sandbox of %s, which runs, was removed", f.pod)
	case n.observes || o.open:
		o.fail(n, "a CNI cache of %s was removed, though the breaker is open or the mode is observe", f.pod)
	}
}

// stays judges what a pass has parked: it was asked about once more, and went back at once where anything showed that it lives.
func (o *oracle) stays(n *node, d *dir) {
	p, last := n.byUID[d.uid], o.asked[d.uid]
	if last.at < d.parked {
		o.fail(n, "%s was parked, and nothing was asked after that", p)
	}
	if n.quarantine[d.entry] != d || n.dirs[d.uid] != nil || n.faults.broken >= o.looked {
		return
	}
	of := last.of[p.index]
	if last.mountErr != nil || of.mounted || of.cgroup || of.ready || of.container || last.so(p, policy.ReasonKubeletLists) {
		o.fail(n, "%s was parked, showed a sign of life right after that, and did not go back", p)
	}
}
