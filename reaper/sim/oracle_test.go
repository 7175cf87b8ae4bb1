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

// oracle knows the truth, and says what the program has done wrong.
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
	cutShort  bool                             // an operator's command left something half done
	intended  map[string]time.Duration         // when each intent was written down
	kubelets  map[string]policy.KubeletID      // that ran when each entry was parked, until it is confirmed
	confirmed map[string]*readings             // of the look by which the first strip of an entry was intended
	asked     map[parsers.PodUID]question      // the last one about each pod
	signs     map[parsers.PodUID]time.Duration // the last look in which something spoke for the pod
	scan      error                            // of the last scan of the mounts
	scanned   map[parsers.PodUID]bool          // whether it found one
	scannedAt time.Duration
	moved     []*dir          // in this pass
	lives     *pod            // what the look saw to live though it was parked, and never comes back
	scans     bool            // an operator's scan is under way
	first     map[string]bool // what was parked since the start and is not confirmed
	proven    bool            // one of these was confirmed
}

// question is what the last question found.
type question struct {
	at time.Duration
	*readings
}

func (o *oracle) begin() {
	o.intents, o.unclosed, o.intended, o.kubelets = map[string]policy.Kind{}, map[string]policy.Kind{}, map[string]time.Duration{}, map[string]policy.KubeletID{}
	o.confirmed = map[string]*readings{}
	o.asked, o.signs = map[parsers.PodUID]question{}, map[parsers.PodUID]time.Duration{}
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

// starts notes that the program starts.
func (o *oracle) starts() { o.first, o.proven = map[string]bool{}, false }

// written takes in a record that the ledger has.
func (o *oracle) written(n *node, r policy.Record) {
	// A strip that failed was of a confirmed entry all the same.
	o.proven = o.proven || o.first[r.Entry] && r.Kind == policy.KindFailed && o.intents[r.Entry] == policy.KindStripping
	switch {
	case r.Kind.Means().Intent:
		o.intents[r.Entry], o.unclosed[r.Entry], o.intended[r.Entry] = r.Kind, r.Kind, n.now
	case r.Entry != "":
		if delete(o.intents, r.Entry); r.Kind != policy.KindFailed {
			delete(o.unclosed, r.Entry)
		}
	}
	if r.Kind == policy.KindPurging { // an operator has taken the pod out of the slow start
		delete(o.first, r.Entry)
	}
	if r.Kind == policy.KindParking || r.Kind == policy.KindParked {
		o.kubelets[r.Entry] = r.Kubelet
	}
	if first := o.first[r.Entry]; first && !r.Kind.Means().Intent && r.Kind != policy.KindParked && r.Kind != policy.KindFailed {
		delete(o.first, r.Entry)
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
	if r.Kind == policy.KindBreaker && !n.misleads(n.byUID[r.UID]) {
		o.fail(n, "the breaker opened, though no judgement was wrong: %s, %v", n.byUID[r.UID], r.Why)
	}
}

// ended takes in how an action ended, which may not be written down.
func (o *oracle) ended(out policy.Outcome) {
	done := out.Result == policy.Done || out.Result == policy.Partly
	o.proven = o.proven || o.first[out.Action.Entry] && out.Action.Kind == policy.Strip && done
}

// misleads reports whether a pod that is dead, or that came back after it had ended, looks like one that lived all along.
func (n *node) misleads(p *pod) bool {
	for _, d := range n.quarantine {
		if d.uid == p.uid && d.touched {
			return true // what an agent mounts in quarantine cannot be told from what a kubelet mounts
		}
	}
	if n.steps > 1 {
		return true // of two sandboxes it is then not known which is the older one
	}
	if p.deserted {
		return true // it was misjudged, since its kubelet was, and nobody asked the API server
	}
	// Its UID looks like the API server's, whose pods never come back, and neither its sandbox nor its manifest was there in any look.
	return p.stated && !p.shown
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
		if seen.network.Truth != policy.Yes && !n.asksAPI && !n.released(p) {
			o.fail(n, "%s was confirmed dead while the pods' network was not ready, and its kubelet did not release it", p)
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
	alive = append(slices.Clip(lastReasons), policy.ReasonAPILists, policy.ReasonInUse)
)

// moves judges by what a directory goes to quarantine: nothing that was read may speak for the pod, nothing that speaks may be unread, and
// nothing may be too soon.
func (o *oracle) moves(n *node, d *dir, entry string) {
	p, r := n.byUID[d.uid], o.readings
	if o.moved = append(o.moved, d); n.rules.MaxPerLook > 0 && len(o.moved) > n.rules.MaxPerLook {
		o.fail(n, "%d pods were parked in one look, of %d at the most", len(o.moved), n.rules.MaxPerLook)
	}
	o.slowly(n, p)
	o.first[entry] = true
	last, hold := o.asked[p.uid], n.rules.Hold
	if n.released(p) {
		hold = min(hold, n.rules.HoldReported)
	}
	o.speaks(n, r, p, append(alive, policy.ReasonRuntimeEmpty, policy.ReasonKubeletStarting, policy.ReasonRestored))
	if last.readings == nil || last.at < o.intended[entry] {
		o.fail(n, "%s was parked without the last question", p)
		return
	}
	o.speaks(n, last.readings, p, lastReasons)
	static := len(p.uid) == policy.StaticUIDLen
	lists := n.version >= 37 || n.asksKubelet || n.asksAPI
	ran, spoke := r.id.PID-800, 0 // the kubelet of the look, and the last one that named any pod
	for _, run := range n.log.said {
		spoke = max(spoke, run)
	}
	file := r.of[p.index].file && (n.log.named[p.uid] == 0 || n.steps == 0 && r.written.After(epoch.Add(n.log.named[p.uid]+n.skew)))
	switch {
	case !r.kubeletOK:
		o.fail(n, "%s was parked without a kubelet", p)
	case static && (r.static.Err != nil || last.static.Err != nil):
		o.fail(n, "%s was parked, though the manifests could not be read", p)
	case r.of[p.index].staged:
		o.fail(n, "%s was parked, though its volume is staged", p)
	case r.fileErr != nil, !lists && file:
		o.fail(n, "%s was parked, though a state file names it or cannot be read", p)
	case p.held && n.log.tore[p.uid].by(n, o.looked) && n.now-n.log.tore[p.uid].at < 10*time.Minute:
		o.fail(n, "%s was parked, though its kubelet tears down a volume of it", p)
	case p.held && spoke < ran:
		o.fail(n, "%s was parked, though its kubelet tears down a volume of it, of which no line was read", p)
	case !lists && n.log.said[p.uid] < ran && (r.logs.Pods[p.uid] || r.logs.Err != nil || r.network.Truth != policy.Yes || spoke < ran):
		o.fail(n, "%s was parked, though its kubelet did not release it", p)
	case n.now-n.booted < hold:
		o.fail(n, "%s was parked %s after the machine was switched on", p, n.now-n.booted)
	case r.at.Wall.Sub(r.of[p.index].seen.changed) < hold:
		o.fail(n, "%s was parked, though its directory had just changed", p)
	case o.signs[p.uid] > n.faults.last && n.now-o.signs[p.uid] < hold:
		o.fail(n, "%s was parked %s after a look saw a sign of life", p, n.now-o.signs[p.uid])
	}
}

// slowly judges that the first pod after a start is confirmed before others follow. One that its kubelet released follows once the first has
// been quiet for a while.
func (o *oracle) slowly(n *node, p *pod) {
	if o.proven {
		return
	}
	r, quiet, first := o.readings, false, false
	for name := range o.first {
		d := n.quarantine[name]
		if d == nil {
			continue
		}
		quiet = quiet || n.now-d.parked >= n.rules.HoldReported
		of := &r.of[n.byUID[d.uid].index] // what is back, or is only in use, says nothing of the others
		first = first || !of.manifest && of.seen == nil && !of.used && r.useErr == nil && r.static.Err == nil && !n.nameless(n.byUID[d.uid])
	}
	if first && (!n.released(p) || n.rules.HoldReported == 0 || !quiet) {
		o.fail(n, "%s was parked before the first pod since the start was confirmed", p)
	}
}

// released reports whether the kubelet that the look saw may have released the pod itself, by a line or a list. It counts also if another
// has started since.
func (n *node) released(p *pod) bool {
	return n.version >= 37 || n.asksKubelet || 800+n.log.said[p.uid] == n.oracle.readings.id.PID
}

// speaks fails where one of the reasons is so.
func (o *oracle) speaks(n *node, r *readings, p *pod, reasons []policy.Reason) {
	for _, reason := range reasons {
		if r.so(p, reason) {
			o.fail(n, "the directory of %s was parked or emptied, though this spoke against it: %s", p, reason)
		}
	}
	if r.of[p.index].manifest {
		o.fail(n, "the directory of %s was parked or emptied, though its manifest was there", p)
	}
}

// parked judges that a directory went to quarantine.
func (o *oracle) parked(n *node, d *dir) {
	p := n.byUID[d.uid]
	d.by, d.steps = n.kubelet.run, n.steps
	switch {
	case o.person:
	case p.deserted && o.readings.api.Silent != "":
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

// miss has the oracle look whether a living pod got back what it has.
func (o *oracle) miss(n *node, p *pod, d *dir) {
	n.after(exchange, func() {
		if d.entry == "" || n.quarantine[d.entry] != d {
			return
		}
		missing := p.alive() && p.home == d.id.Ino
		for _, m := range d.mounts {
			missing = missing || m.since < d.parked
		}
		if from := max(d.parked, n.program.began, n.faults.last); n.now-from < exchange || !n.program.up {
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
	if n.faults.full || n.now-n.faults.wasFull < time.Hour { // as the last look that saw the disk full has it
		retention = min(n.rules.Retention, 10*time.Minute)
	}
	if o.person {
		o.purges(n, p)
		return
	}
	if a.Kind == policy.Strip && o.readings.static.Err != nil && len(p.uid) == policy.StaticUIDLen { // of what is confirmed it is no doubt
		o.fail(n, "%s was confirmed dead, though the manifests could not be read", p)
	}
	o.speaks(n, o.readings, p, alive)
	if found, asked := o.scanned[p.uid]; found || !asked || o.scan != nil || o.scannedAt < o.looked {
		o.fail(n, "something of %s was removed, and the mounts were not read right before, or one was found", p)
	}
	if a.Leaf == "" && o.readings.of[p.index].seen != nil {
		o.fail(n, "something of %s was removed, though it has a directory again", p)
	}
	switch {
	case p.deserted && o.readings.api.Silent != "", a.By != nil, a.Take == contents.TakeAll:
	case p.alive() && p.home == d.id.Ino:
		o.fail(n, "%s lives, and what it uses was removed", p)
	case p.wanted && p.since < o.looked:
		o.fail(n, "%s has lived since before the look, and what lay of it in quarantine was removed", p)
	case n.now-d.parked < n.rules.Confirm:
		o.fail(n, "something of %s was removed %s after it was parked", p, n.now-d.parked)
	case count == 0:
	case class == contents.ClassData:
		o.fail(n, "data of %s was removed, and nobody asked for that", p)
	case class == contents.ClassEphemeral && n.now-d.parked < retention:
		o.fail(n, "the emptyDir of %s was removed %s after it was parked", p, n.now-d.parked)
	}
	for _, m := range d.mounts {
		if m.since < o.looked && !o.person {
			o.fail(n, "something of %s was removed while a mount is in it", p)
		}
	}
}

// purges judges a removal by an operator's command, who has not said that the pod lives.
func (o *oracle) purges(n *node, p *pod) {
	for _, reason := range [...]policy.Reason{
		policy.ReasonSandbox, policy.ReasonContainer, policy.ReasonCgroup, policy.ReasonKubeletLists, policy.ReasonAPILists,
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

// passed judges a pass that has ended: each reason that the program gives must be so in the world, at the moment at which its source was read.
func (o *oracle) passed(n *node) {
	r := o.readings
	if r == nil || !n.program.up {
		return
	}
	o.names(n)
	if o.lives != nil && !o.open && n.faults.last < o.looked {
		o.fail(n, "%s was parked and turned out to live, and the breaker did not open", o.lives)
	}
	for _, d := range o.moved {
		o.stays(n, d)
	}
	for i, p := range n.pods {
		if of := &r.of[i]; len(of.sandboxes) > 0 || of.cgroup || of.mounted || of.manifest {
			o.signs[p.uid] = o.looked
		}
	}
	for v := range policy.At(o.report.Pods, policy.InPlace, policy.InRuntime) {
		p := n.byUID[v.UID]
		if len(v.Why) == 0 && o.idle(n, p) {
			o.fail(n, "the program keeps %s, and gives no reason", p)
		}
		for _, w := range v.Why {
			if !r.so(p, w.Reason) {
				o.fail(n, "the program keeps a pod for %s, which is not so (%s, %s)", w.Reason, w.Detail, p)
			}
		}
	}
}

// idle reports whether a pass did nothing to a pod, though nothing that came up after its look forbade it.
func (o *oracle) idle(n *node, p *pod) bool {
	acted := slices.ContainsFunc(o.report.Outcomes, func(out policy.Outcome) bool { return out.Action.UID == p.uid })
	stopped := o.open && !o.wasOpen || !o.proven && len(o.first) > 0
	return !acted && !stopped && n.faults.broken < o.looked
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
	if last.mountErr != nil || of.mounted || of.cgroup || len(of.sandboxes) > 0 || of.container || last.so(p, policy.ReasonKubeletLists) ||
		of.manifest && (p.stated || p.named) {
		o.fail(n, "%s was parked, showed a sign of life right after that, and did not go back", p)
	}
}

// names notes of which pods the program knows the name now: it remembers that for as long as the pod has a directory, unless it could not be
// written down.
func (o *oracle) names(n *node) {
	has := map[parsers.PodUID]bool{}
	for e := range policy.At(o.report.Pods, policy.InPlace, policy.InQuarantine, policy.Resting) {
		p := n.byUID[e.UID]
		has[e.UID], p.named = true, p.named || e.CertainName && n.faults.last < o.looked
	}
	for _, p := range n.pods {
		p.named = p.named && has[p.uid]
	}
}

// so reports whether a reason for keeping a pod is true. One that this node never gives, and a new one, is not.
func (r *readings) so(p *pod, reason policy.Reason) bool {
	n, i := r.node, p.index
	d := r.of[i].seen
	switch reason { //nolint:exhaustive // the others are never given by this node
	case policy.ReasonMounted:
		return r.of[i].mounted
	case policy.ReasonMountsUnknown:
		return r.mountErr != nil
	case policy.ReasonSandbox, policy.ReasonSandboxOrphaned, policy.ReasonTerminating:
		return len(r.of[i].sandboxes) > 0
	case policy.ReasonContainer:
		return r.of[i].container
	case policy.ReasonRuntimeUnknown:
		return r.runtimeErr() != nil && r.lists.Truth != policy.No
	case policy.ReasonRuntimeEmpty:
		return r.lists.Truth == policy.No
	case policy.ReasonCgroup:
		return r.of[i].cgroup
	case policy.ReasonCgroupUnknown:
		return r.cgroupErr != nil
	case policy.ReasonNotRunning:
		return r.of[i].cgroup && !r.of[i].busy
	case policy.ReasonKubeletUnknown:
		return !r.kubeletOK || !n.log.heard(p, n.oracle.looked)
	case policy.ReasonKubeletStarting:
		return r.kubeletOK && r.at.Boot-r.id.Start < n.rules.Settle
	case policy.ReasonKubeletHolds:
		return n.log.tore[p.uid].run > 0
	case policy.ReasonKubeletFile:
		return r.of[i].file || r.fileErr != nil
	case policy.ReasonPodLogs:
		return r.logs.Pods[p.uid]
	case policy.ReasonPodResources:
		return r.resources.Names[p.name]
	case policy.ReasonKubeletLists:
		return r.list.Pods[p.uid] || r.list.Own.Pods[p.uid]
	case policy.ReasonAPILists:
		return r.api.Pods[p.uid]
	case policy.ReasonAPIUnknown:
		return n.rules.NeedAPI && !r.api.Pods[p.uid]
	case policy.ReasonStaticPod:
		return r.static.Err != nil || p.static && len(r.static.Manifests) > 0
	case policy.ReasonStaged:
		return d != nil && d.csi > 0
	case policy.ReasonInUse:
		return r.of[i].used || r.useErr != nil
	case policy.ReasonRestored:
		return p.restored || n.oracle.restores(p)
	case policy.ReasonYoung:
		return d != nil && r.at.Wall.Sub(d.changed) < n.rules.Hold
	case policy.ReasonHold:
		return true // its end is what patience measures
	case policy.ReasonContentUnknown:
		return r.contentErr != nil || r.of[i].ready || r.of[i].busy
	case policy.ReasonCannotMove:
		return n.faults.refused > 0
	case policy.ReasonLimit:
		return n.rules.MaxPerLook > 0 || n.oracle.parks || len(n.oracle.begun) > 0 || n.oracle.reaps()
	case policy.ReasonBreaker:
		return n.oracle.open
	case policy.ReasonObserve:
		return n.observes
	case policy.ReasonNamespaces:
		return r.mayEnforce.Truth != policy.Yes
	case policy.ReasonContradiction:
		return r.agrees.Truth != policy.Yes
	}
	return false
}

// restores reports whether a restore of the pod was begun when the look began, and the ledger has no outcome of it.
func (o *oracle) restores(p *pod) bool {
	for entry, kind := range o.begun {
		if kind == policy.KindRestoring && strings.HasPrefix(entry, string(p.uid)) {
			return true
		}
	}
	return false
}

// reaps reports whether another pod was to go in this pass, also if the ledger could then not be written or the last question kept it.
func (o *oracle) reaps() bool {
	return slices.ContainsFunc(o.report.Pods, func(p policy.Judged) bool { return p.Stage == policy.InPlace && p.Goes() })
}

// patience is how long a dead pod may take to leave from the moment at which nothing keeps it: the kubelet's start, the hold and the confirm
// time, and two looks, whose distance is five minutes at the most; the first pod after a start goes before the others.
func (n *node) patience() time.Duration {
	r := n.rules
	d := r.Settle + max(r.Hold, r.HoldReported) + r.Confirm + 5*time.Minute + time.Duration(len(n.pods))*n.turns()
	if tries := n.faults.refused; tries > 0 { // what was refused is tried again at longer and longer intervals
		d += min(5*time.Minute<<min(tries-1, 4), time.Hour)
	}
	if n.oracle.cutShort { // the daemon sees it at its next look
		d += time.Hour
	}
	return d + n.back // for so long, file times may lie ahead of the clock
}

// turns is how long each pod of a backlog may hold up the next: up to 1.36 a kubelet names one at a time, and what it names is its only word
// on a pod that a state file still has.
func (n *node) turns() time.Duration {
	if n.version >= 37 {
		return 2 * time.Second
	}
	return 15 * time.Second // two looks have at least 10 s between them, and each takes some
}

// ends judges what is left once nothing more has happened for long.
func (o *oracle) ends(n *node) {
	if o.failed != "" {
		return
	}
	for _, p := range n.pods {
		if d := n.dirs[p.uid]; d != nil {
			if why := n.keeps(p, d); why == "" {
				o.fail(n, "%s is dead, nothing keeps it, and its directory is still there; the program says %v", p, o.says(p))
			}
		}
		if p.wanted && !p.waits && !p.done && !p.runs() && p.stage != hasVolumes && n.now-max(p.since, n.booted+n.kubelet.id.Start) > 20*time.Minute {
			o.fail(n, "%s is wanted and cannot start", p)
		}
	}
	if err := n.program.store.Refresh(); err != nil {
		o.fail(n, "the ledger cannot be read at the end: %v", err)
	}
	for _, name := range slices.Sorted(maps.Keys(n.quarantine)) {
		d := n.quarantine[name]
		e := n.program.store.Entries()[name]
		if e == nil || e.Phase.Over() {
			o.fail(n, "%s lies in quarantine, and the ledger does not have it", n.byUID[d.uid])
			continue
		}
		due := n.now-d.parked > n.rules.Confirm+5*time.Minute
		// A kubelet that has started since wrote down what it had read, and it names no pod that has no directory.
		if n.kubelet.inFile[d.uid] && d.by != n.kubelet.run {
			continue
		}
		if e.Phase == policy.PhaseConfirmed && n.agedFor(d) > n.rules.Retention+10*time.Minute && n.keeps(n.byUID[d.uid], d) == "" {
			o.fail(n, "the emptyDir of %s lies in quarantine %s after it was confirmed dead", n.byUID[d.uid], n.agedFor(d))
		}
		if due && (e.Phase == policy.PhaseParked || e.Phase.Intent()) && n.keeps(n.byUID[d.uid], d) == "" {
			o.fail(n, "%s was parked %s ago, and what holds no data is still there (%s)", n.byUID[d.uid], n.now-d.parked, e.Phase)
		}
	}
}

// agedFor is for how long an emptyDir has lain in quarantine since its pod was confirmed; 0 is none.
func (n *node) agedFor(d *dir) time.Duration {
	if d.has[contents.ClassEphemeral] == 0 || d.confirmed == 0 {
		return 0
	}
	return n.now - d.confirmed
}

// keeps is what truly keeps a pod's directory where it is; "" is nothing.
func (n *node) keeps(p *pod, d *dir) string {
	switch {
	case p.alive():
		return "it lives"
	case p.admitted || p.ending:
		return "the kubelet has it"
	case p.cgroup:
		return "it has a cgroup"
	case len(p.sandboxes) > 0:
		return "the runtime has a sandbox"
	case len(d.mounts) > 0:
		return "something is mounted in it"
	case d.csi > 0 && n.runtime.staged[d.csi]:
		return "its volume is staged"
	case p.restored:
		return "the operator restored it"
	case p.held:
		return "the kubelet tears down its volume"
	case n.listsNothing():
		return "the runtime lists no pod"
	case len(n.parkedMounts(p)) > 0:
		return "something is mounted in what lies of it in quarantine"
	case n.nameless(p):
		return "nobody knows its name, and there is a manifest"
	case n.rules.NeedAPI && !slices.ContainsFunc(n.pods, func(q *pod) bool { return !q.static && q.wanted && q.runs() }):
		return "nothing shows that the API server's list is of this node"
	case n.undated(d):
		return "a state file names it, and the clock was set since it was parked"
	case d.entry == "" && !n.oracle.proven && slices.ContainsFunc(slices.Collect(maps.Keys(n.oracle.first)), func(name string) bool {
		return n.quarantine[name] != nil && n.undated(n.quarantine[name])
	}):
		return "the first pod since the start waits for a state file"
	case n.kubelet.inFile[p.uid] && n.hides(p):
		return "a state file names it, and the kubelet names another before it"
	}
	return ""
}

// undated reports whether it is not known if the state file that names what lies in quarantine was written since it was parked. The kubelet
// writes it anew when it takes in the next pod.
func (n *node) undated(d *dir) bool {
	return d.entry != "" && n.kubelet.inFile[d.uid] && n.steps > d.steps
}

// nameless reports whether the program cannot know whose a static pod's directory is: in no look since the directory was made there was a
// sandbox or a log directory of it.
func (n *node) nameless(p *pod) bool {
	return p.static && !p.stated && !p.named && slices.ContainsFunc(n.pods, func(q *pod) bool { return q.static && !q.stated && q.wanted })
}

func (n *node) listsNothing() bool {
	return !slices.ContainsFunc(n.pods, func(q *pod) bool { return len(q.sandboxes) > 0 })
}

func (n *node) parkedMounts(p *pod) []mount {
	_, parked := n.mountsOf(p.uid)
	return parked
}

// hides reports whether the kubelet names another pod before this one, of which something keeps the directory.
func (n *node) hides(p *pod) bool {
	first := p
	for _, q := range n.pods {
		if d := n.dirs[q.uid]; d != nil && q.uid < first.uid && !q.alive() && d.stuck() {
			first = q
		}
	}
	return first != p && n.keeps(first, n.dirs[first.uid]) != ""
}

// says is why the program keeps a pod.
func (o *oracle) says(p *pod) []policy.Why {
	for v := range policy.At(o.report.Pods, policy.InPlace) {
		if v.UID == p.uid {
			return v.Why
		}
	}
	return nil
}
