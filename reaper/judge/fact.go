package judge

import (
	"encoding/json"
	"fmt"
	"time"
)

// Truth is the answer to one question. The zero value is Unknown.
type Truth uint8

// The three truths.
const (
	Unknown Truth = iota
	No
	Yes
)

var truthNames = [...]string{"unknown", "no", "yes"}

// String returns "unknown", "no" or "yes".
func (t Truth) String() string {
	if int(t) < len(truthNames) {
		return truthNames[t]
	}
	return truthNames[Unknown]
}

// MarshalText writes the truth as String does.
func (t Truth) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads what MarshalText writes. Any other text is an error.
func (t *Truth) UnmarshalText(b []byte) error {
	for i, name := range truthNames {
		if name == string(b) {
			*t = Truth(i)
			return nil
		}
	}
	return fmt.Errorf("cannot read %q as a truth: want unknown, no or yes", b)
}

// Fact is the answer to one question about one pod, and where it was read.
type Fact struct {
	Truth  Truth  `json:"truth"`            // unknown, no or yes
	Source string `json:"source,omitempty"` // the file, socket or directory that was read
	Detail string `json:"detail,omitempty"` // what was found there, or the error
	// Alive is true if the answer shows that the pod is alive and no pod can fake it: a ready sandbox, a running
	// container, a kubepods cgroup, the kubelet's list, a directory pods/UID that was made again, or a mount below the
	// pods directory or the quarantine in our own mount namespace. Only such an answer restores a quarantined pod and opens the
	// circuit breaker.
	Alive bool `json:"alive,omitempty"`
	// Busy is true if the answer is Unknown only because a healthy source needed more time than it had. Such a doubt
	// ends by itself: the pod waits, and no operator is asked.
	Busy bool `json:"busy,omitempty"`
}

// FactName is one question about a pod.
type FactName uint8

// The questions, in the order of the table in dead.go. Scan answers Listed to Directory. Reported, Restored and Eligible are
// computed from the log, the ledger and earlier scans.
const (
	Reported  FactName = iota // has the kubelet that runs now reported this UID in the last 30 s?
	Listed                    // does the kubelet's PodsAPI list the UID?
	Running                   // does a runtime list a ready sandbox of the pod, or a container that is not exited?
	Cgroup                    // is there a kubepods cgroup of the pod, also an empty one?
	Mounted                   // does a mount of any namespace have the UID in its root, mount point or options?
	Staged                    // is a volume of the pod staged on the node, and named by no other pod directory?
	Directory                 // is pods/UID a directory of the kubelet's root file system that has not changed?
	Restored                  // did an operator restore it?
	Eligible                  // have all facts but Reported been good at every scan for the hold?
	numFacts
)

var factNames = [numFacts]string{
	"reported", "listed", "running", "cgroup", "mounted", "staged", "directory", "restored", "eligible",
}

// String returns the name of the fact as in JSON.
func (n FactName) String() string {
	if n < numFacts {
		return factNames[n]
	}
	return fmt.Sprintf("fact(%d)", uint8(n))
}

// Facts has one answer for each question.
type Facts [numFacts]Fact

// MarshalJSON writes the facts as an object, by their names.
func (f Facts) MarshalJSON() ([]byte, error) {
	named := map[string]Fact{}
	for i, fact := range f {
		named[factNames[i]] = fact
	}
	return json.Marshal(named)
}

// UnmarshalJSON reads what MarshalJSON writes. A fact that is not there is Unknown.
func (f *Facts) UnmarshalJSON(b []byte) error {
	var named map[string]Fact
	if err := json.Unmarshal(b, &named); err != nil {
		return err
	}
	for i, name := range factNames {
		f[i] = named[name]
	}
	return nil
}

// Instant is a time by the wall clock, and by CLOCK_BOOTTIME, which cannot be set.
type Instant struct {
	Wall   time.Time     `json:"wall"`
	BootID string        `json:"boot_id"` // /proc/sys/kernel/random/boot_id
	Boot   time.Duration `json:"boot"`    // CLOCK_BOOTTIME, nanoseconds
}

// Since returns how long ago earlier was. It returns false if the machine has booted in between.
func (i Instant) Since(earlier Instant) (time.Duration, bool) {
	if i.BootID == "" || i.BootID != earlier.BootID || earlier.Boot > i.Boot {
		return 0, false
	}
	return i.Boot - earlier.Boot, true
}

// Age returns how long ago earlier was. After a boot it is the time by the wall clock, but at most the time of this boot:
// a machine without a battery clock boots into its past, and its clock is set later.
func (i Instant) Age(earlier Instant) time.Duration {
	if since, ok := i.Since(earlier); ok {
		return since
	}
	return min(max(0, i.Wall.Sub(earlier.Wall)), i.Boot)
}

// Add returns the instant d later.
func (i Instant) Add(d time.Duration) Instant {
	i.Wall, i.Boot = i.Wall.Add(d), i.Boot+d
	return i
}
