package policy

import (
	"errors"
	"fmt"
	"strings"
)

// Truth is the answer to one question. The zero value is Unknown, and Unknown never releases anything.
type Truth uint8

// The three truths.
const (
	Unknown Truth = iota
	No
	Yes
)

// String returns "unknown", "no" or "yes".
func (t Truth) String() string {
	switch t {
	case No:
		return "no"
	case Yes:
		return "yes"
	case Unknown:
	}
	return "unknown"
}

// MarshalText writes the truth as String does.
func (t Truth) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads what MarshalText writes; anything else is an error.
func (t *Truth) UnmarshalText(b []byte) error {
	for _, v := range []Truth{Unknown, No, Yes} {
		if v.String() == string(b) {
			*t = v
			return nil
		}
	}
	return fmt.Errorf("cannot read %q as a truth: want unknown, no or yes", b)
}

// Fact is the answer to one question about one pod, with where it was read.
type Fact struct {
	Truth  Truth  `json:"value"`
	Origin string `json:"origin,omitempty"` // the file, socket or directory that was read
	Detail string `json:"detail,omitempty"` // what was found there, or the error
	// Own is true where an Unknown is a doubt about this pod alone: it restarts the hold, and does not pause it.
	Own bool `json:"-"`
}

// FactName names one question. The names are those of the JSON output.
type FactName uint8

// The questions that one look answers for a pod.
const (
	FactDirectory    FactName = iota // is pods/UID a directory, and no symlink?
	FactOwnMount                     // is pods/UID a mount point of its own?
	FactMounted                      // does a mount of any namespace name the UID?
	FactSandbox                      // does the runtime list a ready sandbox?
	FactContainer                    // does the runtime list a container that has not exited?
	FactCgroup                       // is there a cgroup of the pod?
	FactNamed                        // has the kubelet that runs now reported this UID as an orphan in the last 30 s?
	FactTeardown                     // does its volume manager still work on the pod?
	FactKubeletLists                 // does the kubelet's own pod list, where it can be had, have the UID?
	FactAPILists                     // does the API server, where one was named, bind a pod of this UID to the node?
	FactStaticPod                    // does a manifest of a static pod own the UID?
	FactStaged                       // is a volume of the pod staged or mapped on the node?
	FactInUse                        // does a process hold something below it open?
	FactRestored                     // did an operator restore it from quarantine?
	FactContent                      // could its content be read and classed?
	FactRemade                       // parked pods only: is there a pods/UID again?
	FactUsed                         // parked pods only: does a mount, an open file or its content show that the new one is used?
	NumFacts
)

var factNames = [NumFacts]string{
	"directory", "own_mount", "mounted", "sandbox", "container", "cgroup", "named",
	"held", "kubelet_lists", "api_lists", "static_pod", "staged", "in_use", "restored", "content",
	"remade", "used",
}

// String returns the fact's name as it stands in JSON and in records.
func (n FactName) String() string {
	if n < NumFacts {
		return factNames[n]
	}
	return fmt.Sprintf("fact(%d)", uint8(n))
}

// Facts are the answers for one pod. In the zero value each is Unknown.
type Facts [NumFacts]Fact

// Set records the answer to one question.
func (f *Facts) Set(n FactName, t Truth, origin, detail string) {
	f[n] = Fact{Truth: t, Origin: origin, Detail: detail}
}

// Count returns a number with its noun: "1 pod", "2 pods", "2 entries".
func Count(n int, noun string) string {
	stem, y := strings.CutSuffix(noun, "y")
	switch {
	case n == 1:
	case y:
		noun = stem + "ies"
	case strings.HasSuffix(noun, "s"), strings.HasSuffix(noun, "x"):
		noun += "es"
	default:
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// OneLine joins errors as one line, each text once: details stand in tables and records.
func OneLine(errs ...error) error {
	var texts []string
	seen := map[string]bool{}
	for _, err := range errs {
		if err == nil || seen[err.Error()] {
			continue
		}
		seen[err.Error()] = true
		texts = append(texts, err.Error())
	}
	if texts == nil {
		return nil
	}
	return errors.New(strings.Join(texts, "; "))
}
