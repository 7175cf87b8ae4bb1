package policy

import (
	"fmt"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

// CNIKind says which program wrote a file below the CNI directories.
type CNIKind string

// The kinds of files that CNI leaves.
const (
	CNICache   CNIKind = "cache"   // libcni's result cache: results/NETWORK-CONTAINER-IFNAME
	CNIMultus  CNIKind = "multus"  // Multus' delegates of one sandbox: multus/CONTAINER
	CNIFlannel CNIKind = "flannel" // flannel's delegate configuration: flannel/CONTAINER
	CNIAddress CNIKind = "address" // host-local's reservation: networks/NETWORK/ADDRESS
)

// FileID tells one file, in one state, from another that has taken its name or from the
// same one written anew.
type FileID struct {
	Dev   uint64 `json:"dev"`
	Ino   uint64 `json:"ino"`
	Size  int64  `json:"size"`
	Ctime int64  `json:"ctime"` // nanoseconds since the epoch
}

// CNIFactName names one question about one file. The names are those of the JSON output.
type CNIFactName uint8

// The questions that one look answers for a file, most of them about the container that
// it belongs to.
const (
	CNITied    CNIFactName = iota // do name and content tie it to exactly one container?
	CNIListed                     // does the runtime list that container or sandbox, in any state?
	CNIReady                      // does it list it as ready or running?
	CNIAlive                      // has it a task, a cgroup or a process?
	CNINetns                      // is its network namespace still there?
	CNIForeign                    // may it be another engine's, or is its network in no configuration?
	NumCNIFacts
)

var cniFactNames = [NumCNIFacts]string{"tied", "listed", "ready", "alive", "netns", "foreign"}

// String returns the fact's name as it stands in JSON and in records.
func (n CNIFactName) String() string {
	if n < NumCNIFacts {
		return cniFactNames[n]
	}
	return fmt.Sprintf("fact(%d)", uint8(n))
}

// CNIFile is all that one look found out about one file that CNI wrote.
type CNIFile struct {
	Kind      CNIKind
	Dir       string // as configured; Name below it may hold any byte but slash and NUL
	Name      string
	ID        FileID
	Container string // the sandbox's full ID, "" where the file is tied to none
	Network   string
	IfName    string
	UID       parsers.PodUID // "" where the file does not tell
	Namespace string
	PodName   string
	// Changed is the later of the file's change and modification times by the wall clock.
	Changed time.Time
	// Broken: it is empty or cannot be parsed. Such a cache file makes every teardown of its
	// sandbox fail (containerd#8197, cni#1055).
	Broken bool
	// Runtime names, for a broken cache file, the container runtime whose teardown it may
	// hinder, and its version: which one it is decides whether it does.
	Runtime string
	// Reaped: the pod's own directory was taken and confirmed dead by us.
	Reaped bool
	Facts  [NumCNIFacts]Fact
}

// Set records the answer to one question.
func (f *CNIFile) Set(n CNIFactName, t Truth, origin, detail string) {
	f.Facts[n] = Fact{Truth: t, Origin: origin, Detail: detail}
}

// Listing is what the runtime has listed since a moment, in an unbroken row of whole
// answers. It stands for a hold of every file at once: container IDs are never used twice,
// so an ID that no answer since then has held, of a file that was there before, has been
// absent in every look since. It costs the memory of what lives, not of what is left over.
type Listing struct {
	Since Instant         `json:"since"`
	IDs   map[string]bool `json:"ids"`
}

// Listings are two overlapping listings, so that what lived long ago is forgotten. The
// older one is what counts; after a hold the younger takes its place.
type Listings struct {
	Older   Listing `json:"older"`
	Younger Listing `json:"younger"`
}

// Learn takes one answer of the runtime, asked at now: the full IDs of all sandboxes and
// containers. An answer that is not whole breaks the row, and so does another boot.
func (l *Listings) Learn(ids []string, whole Truth, hold time.Duration, now Instant) {
	if whole != Yes {
		*l = Listings{}
		return
	}
	if _, ok := now.Since(l.Older.Since); !ok {
		l.Older = Listing{Since: now}
	}
	if _, ok := now.Since(l.Younger.Since); !ok {
		l.Younger = Listing{Since: now}
	}
	if since, _ := now.Since(l.Younger.Since); since >= hold {
		l.Older, l.Younger = l.Younger, Listing{Since: now}
	}
	for _, g := range [...]*Listing{&l.Older, &l.Younger} {
		if g.IDs == nil {
			g.IDs = map[string]bool{}
		}
		for _, id := range ids {
			g.IDs[id] = true
		}
	}
}

// cniRules: the one truth of each fact that lets a file go, and the reasons that keep it
// otherwise.
var cniRules = [...]struct {
	fact     CNIFactName
	dead     Truth
	alive    Reason
	unknown  Reason
	waivable bool
}{
	{CNITied, Yes, ReasonUntied, ReasonUntied, false},
	{CNIListed, No, ReasonSandbox, ReasonRuntimeUnknown, true},
	{CNIAlive, No, ReasonInUse, ReasonInUse, false},
	{CNINetns, No, ReasonNetns, ReasonNetns, false},
	{CNIForeign, No, ReasonForeign, ReasonForeign, false},
}

// JudgeCNI says what may happen to one file that CNI wrote. It goes when its sandbox is
// provably gone: absent from the runtime in every look for a hold, without a task, a cgroup
// or a network namespace, and when the file is older than Rules.CNIOlderThan; that of a
// pod whose directory we took need only be older than a hold.
//
// A broken cache file goes also where its sandbox is listed and not ready: it blocks the
// teardown of that very sandbox, and the plugin is asked to delete without it anyway.
func JudgeCNI(f CNIFile, n Node, l Listing, r Rules, now Instant) Verdict {
	v := Verdict{UID: f.UID, Name: f.Name, Decision: Reap}
	if r.Waive {
		v.Why = addWhy(v.Why, ReasonWaived, "--runtime-endpoint none: no kubelet and no runtime were asked")
	} else {
		v.settled(n, r, now)
	}
	repair := f.Broken && f.Kind == CNICache && f.Facts[CNIListed].Truth == Yes && f.Facts[CNIReady].Truth == No
	for _, rule := range cniRules {
		switch fact := f.Facts[rule.fact]; {
		case fact.Truth == rule.dead:
		case repair && (rule.fact == CNIListed || rule.fact == CNINetns):
			// Its sandbox is to be torn down; what is left of it is no reason to keep what hinders that.
		case fact.Truth != Unknown:
			v.keep(Keep, rule.alive, fact.Detail)
		case rule.waivable && r.Waive:
		case rule.unknown == ReasonRuntimeUnknown && n.RuntimeLists.Truth == No:
			v.keep(Keep, ReasonRuntimeEmpty, n.RuntimeLists.Detail)
		default:
			detail := fact.Detail
			if detail == "" {
				detail = rule.fact.String() + " is not known"
			}
			v.keep(Keep, rule.unknown, detail)
		}
	}
	good := v.Decision == Reap
	least := max(r.CNIOlderThan, r.Hold)
	if f.Reaped || repair {
		least = r.Hold
	}
	v.cniAge(f.Changed, least, now)
	if good && !r.Waive {
		v.absent(f, l, repair, r, now)
	}
	return v
}

// settled: for a while after its start the kubelet makes and tears down sandboxes that the
// runtime and the caches know differently.
func (v *Verdict) settled(n Node, r Rules, now Instant) {
	if n.Kubelet.Truth != Yes {
		if n.Agrees.Truth == No { // the better answer to why none is known
			v.keep(Keep, ReasonContradiction, n.Agrees.Detail)
		}
		v.keep(Keep, ReasonKubeletUnknown, unknownDetail(FactNamed, n.Kubelet))
		return
	}
	if up := now.Boot - n.KubeletID.Start; up < r.Settle {
		v.keep(Wait, ReasonKubeletStarting, fmt.Sprintf("the kubelet (PID %d) has run for %s of %s",
			n.KubeletID.PID, up.Round(time.Second), r.Settle))
		v.due(r.Settle - up)
	}
}

// cniAge waits until the file is old enough by the wall clock, which file times use. A time
// in the future is young: the clock was set back, and doubt waits.
func (v *Verdict) cniAge(changed time.Time, least time.Duration, now Instant) {
	if least <= 0 {
		return
	}
	if changed.IsZero() {
		v.keep(Keep, ReasonYoung, "the file's age is not known")
		return
	}
	age := now.Wall.Sub(changed)
	if age >= least {
		return
	}
	detail := fmt.Sprintf("changed %s ago, less than %s", age.Round(time.Second), least)
	if age < 0 {
		detail = fmt.Sprintf("changed at %s, which the clock has not reached", changed.UTC().Format(time.RFC3339))
	}
	v.keep(Wait, ReasonYoung, detail)
	v.due(least - age)
}

// absent waits until the runtime has not listed the container for a hold, in at least two
// looks; the file must be older than the first of them. What is repaired is listed, and
// only its file's age tells that nobody is writing it now.
func (v *Verdict) absent(f CNIFile, l Listing, repair bool, r Rules, now Instant) {
	since, ok := now.Since(l.Since)
	if !ok || (r.Hold > 0 && !f.Changed.Before(l.Since.Wall)) {
		since = 0
	}
	switch {
	case since < r.Hold:
		v.keep(Wait, ReasonHold, fmt.Sprintf("the evidence has been good for %s of %s", since.Round(time.Second), r.Hold))
		v.due(r.Hold - since)
	case !repair && l.IDs[f.Container]:
		v.keep(Wait, ReasonHold, "the runtime has listed the container not long ago")
		v.due(r.Hold)
	}
}
