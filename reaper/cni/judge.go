package cni

import (
	"fmt"
	"slices"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// Kind says which program wrote a file below the CNI directories.
type Kind string

// The kinds of files that CNI leaves.
const (
	Cache   Kind = "cache"   // libcni's result cache: results/NETWORK-CONTAINER-IFNAME
	Multus  Kind = "multus"  // Multus' delegates of one sandbox: multus/CONTAINER
	Flannel Kind = "flannel" // flannel's delegate configuration: flannel/CONTAINER
	Address Kind = "address" // host-local's reservation: networks/NETWORK/ADDRESS
)

// FileID tells one file, in one state, from another that has taken its name or from the
// same one written anew.
type FileID struct {
	Dev   uint64 `json:"dev"`
	Ino   uint64 `json:"ino"`
	Size  int64  `json:"size"`
	Ctime int64  `json:"ctime"` // nanoseconds since the epoch
}

// FactName names one question about one file. The names are those of the JSON output.
type FactName uint8

// The questions that one look answers for a file, most of them about the container that
// it belongs to.
const (
	Tied    FactName = iota // do name and content tie it to exactly one container?
	Listed                  // does the runtime list that container or sandbox, in any state?
	Ready                   // does it list it as ready or running?
	Alive                   // has it a task, a cgroup or a process?
	Netns                   // is its network namespace still there?
	Foreign                 // may it be another engine's, or is its network in no configuration?
	NumFacts
)

var factNames = [NumFacts]string{"tied", "listed", "ready", "alive", "netns", "foreign"}

// String returns the fact's name as it stands in JSON and in records.
func (n FactName) String() string {
	if n < NumFacts {
		return factNames[n]
	}
	return fmt.Sprintf("fact(%d)", uint8(n))
}

// File is all that one look found out about one file that CNI wrote.
type File struct {
	Kind      Kind
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
	Facts  [NumFacts]policy.Fact
}

// Set records the answer to one question.
func (f *File) Set(n FactName, t policy.Truth, origin, detail string) {
	f.Facts[n] = policy.Fact{Truth: t, Origin: origin, Detail: detail}
}

// Listing is what the runtime has listed since a moment, in an unbroken row of whole
// answers. It stands for a hold of every file at once: container IDs are never used twice,
// so an ID that no answer since then has held, of a file that was there before, has been
// absent in every look since. It costs the memory of what lives, not of what is left over.
type Listing struct {
	Since policy.Instant  `json:"since"`
	IDs   map[string]bool `json:"ids"`
}

// Listings are two overlapping listings, so that what lived long ago is forgotten. The
// older one is what counts; after a hold the younger takes its place.
type Listings struct {
	Older   Listing `json:"older"`
	Younger Listing `json:"younger"`
}

// Add takes one answer of the runtime, asked at now: the full IDs of all sandboxes and
// containers. An answer that is not whole breaks the row, and so does another boot.
func (l *Listings) Add(ids []string, whole policy.Truth, hold time.Duration, now policy.Instant) {
	if whole != policy.Yes {
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

// rules: the one truth of each fact that lets a file go, and the reasons that keep it
// otherwise.
var rules = [...]struct {
	fact     FactName
	dead     policy.Truth
	alive    policy.Reason
	unknown  policy.Reason
	waivable bool
}{
	{Tied, policy.Yes, policy.ReasonUntied, policy.ReasonUntied, false},
	{Listed, policy.No, policy.ReasonSandbox, policy.ReasonRuntimeUnknown, true},
	{Alive, policy.No, policy.ReasonInUse, policy.ReasonInUse, false},
	{Netns, policy.No, policy.ReasonNetns, policy.ReasonNetns, false},
	{Foreign, policy.No, policy.ReasonForeign, policy.ReasonForeign, false},
}

// Judge says what may happen to one file that CNI wrote. It goes when its sandbox is
// provably gone: absent from the runtime in every look for a hold, without a task, a cgroup
// or a network namespace, and when the file is older than Rules.CNIOlderThan; that of a
// pod whose directory we took need only be older than a hold.
//
// A broken cache file goes also where its sandbox is listed and not ready: it blocks the
// teardown of that very sandbox, and the plugin is asked to delete without it anyway.
func Judge(f File, n policy.Node, l Listing, r policy.Rules, now policy.Instant) policy.Verdict {
	v := policy.Verdict{UID: f.UID, Name: f.Name, Decision: policy.Reap}
	if r.Waive {
		v.Waived()
	} else {
		v.NeedKubelet(n, r, now)
	}
	repair := f.Broken && f.Kind == Cache && f.Facts[Listed].Truth == policy.Yes && f.Facts[Ready].Truth == policy.No
	for _, rule := range rules {
		switch fact := f.Facts[rule.fact]; {
		case fact.Truth == rule.dead:
		case repair && (rule.fact == Listed || rule.fact == Netns):
			// Its sandbox is to be torn down; what is left of it is no reason to keep what hinders that.
		case fact.Truth != policy.Unknown:
			v.KeepFor(rule.alive, fact.Detail)
		case rule.waivable && r.Waive:
		case rule.unknown == policy.ReasonRuntimeUnknown && n.RuntimeLists.Truth == policy.No:
			v.KeepFor(policy.ReasonRuntimeEmpty, n.RuntimeLists.Detail)
		default:
			detail := fact.Detail
			if detail == "" {
				detail = rule.fact.String() + " is not known"
			}
			v.KeepFor(rule.unknown, detail)
		}
	}
	good := v.Decision == policy.Reap
	least := max(r.CNIOlderThan, r.Hold)
	if f.Reaped || repair {
		least = r.Hold
	}
	v.Aged("file", f.Changed, least, least.String(), now)
	if good && !r.Waive {
		absent(&v, f, l, repair, r, now)
	}
	return v
}

// absent waits until the runtime has not listed the container for a hold, in at least two
// looks; the file must be older than the first of them. What is repaired is listed, and
// only its file's age tells that nobody is writing it now.
func absent(v *policy.Verdict, f File, l Listing, repair bool, r policy.Rules, now policy.Instant) {
	since, ok := now.Since(l.Since)
	if !ok || (r.Hold > 0 && !f.Changed.Before(l.Since.Wall)) {
		since = 0
	}
	v.Good(since, r)
	if since >= r.Hold && !repair && l.IDs[f.Container] {
		v.WaitFor(r.Hold, policy.ReasonHold, "the runtime has listed the container not long ago")
	}
}

// OutlookOf says what a verdict on a file asks of a person. in-use is a task or a cgroup of
// the container: it lives, and keeps its file.
func OutlookOf(d policy.Decision, why []policy.Why) policy.Outlook {
	if d == policy.Keep && slices.ContainsFunc(why, func(w policy.Why) bool { return w.Reason == policy.ReasonInUse }) {
		return policy.OutlookAlive
	}
	return policy.OutlookOf(d, why)
}

// Refused returns the outcomes of files of which nothing was changed, because of err.
func Refused(files []Content, err error) []Outcome {
	outs := make([]Outcome, len(files))
	for i := range files {
		outs[i] = Outcome{File: files[i].File, Result: policy.Refused, Err: err.Error()}
	}
	return outs
}
