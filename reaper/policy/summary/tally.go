package summary

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

// Said is what a log says of one pod.
type Said struct {
	UID    parsers.PodUID
	Source string
	// Lines were counted, and LastHour of them were written in the last hour. Untimed of them have no
	// time that is certain: a klog header names no year and no zone.
	Lines, LastHour, Untimed int
	First, Last              time.Time // of those that have one
	// Now is true where a line came while the log was read: the kubelet still says it.
	Now bool
	// Words is what the last line complains of, and Teardown is true where it is no report of an
	// orphan but of a volume that cannot be torn down.
	Words    string
	Teardown bool
}

// mostSaid bounds the pods of one source: who can make lines can make up UIDs.
const mostSaid = 4096

// Tally counts what the logs say, by source and pod. The zero value is ready.
type Tally struct {
	now  time.Time
	said map[tallyKey]*Said
	size map[string]int
}

type tallyKey struct {
	source string
	uid    parsers.PodUID
}

// NewTally returns a tally for a moment by the wall clock: the last hour ends there.
func NewTally(now time.Time) *Tally {
	return &Tally{now: now, said: map[tallyKey]*Said{}, size: map[string]int{}}
}

// Add counts one sighting of a source. again reports that the line is counted elsewhere, and is here only
// since it came just now.
func (t *Tally) Add(s parsers.Sighting, source, words string, again bool) {
	key := tallyKey{source, s.UID}
	said := t.said[key]
	if said == nil {
		if t.size[source] >= mostSaid {
			return
		}
		t.size[source]++
		said = &Said{UID: s.UID, Source: source}
		t.said[key] = said
	}
	said.Now = said.Now || !s.CatchUp
	if !again {
		said.Lines++
	}
	if s.Time.IsZero() {
		said.Words, said.Teardown = words, s.Report == parsers.ReportTeardown
		if !again {
			said.Untimed++
		}
		return
	}
	if !again && t.now.Sub(s.Time) < time.Hour {
		said.LastHour++
	}
	if said.First.IsZero() || s.Time.Before(said.First) {
		said.First = s.Time
	}
	if !s.Time.Before(said.Last) {
		said.Last, said.Words, said.Teardown = s.Time, words, s.Report == parsers.ReportTeardown
	}
}

// Pods returns what was said of each pod, those first that were named most. Several logs may have the same
// lines: the one counts that has most.
func (t *Tally) Pods() []Said {
	most := map[parsers.PodUID]Said{}
	for _, s := range t.said {
		old, ok := most[s.UID]
		if !ok || cmp.Or(cmp.Compare(s.Lines, old.Lines), cmp.Compare(old.Source, s.Source)) > 0 {
			now := *s
			now.Now = now.Now || old.Now
			most[s.UID] = now
		} else if s.Now {
			old.Now = true
			most[s.UID] = old
		}
	}
	all := make([]Said, 0, len(most))
	for _, s := range most {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b Said) int { return cmp.Or(cmp.Compare(b.Lines, a.Lines), cmp.Compare(a.UID, b.UID)) })
	return all
}

// Total adds up what was said of all pods; Words are those of the pod that was named last.
func Total(pods []Said) (all Said) {
	for i, s := range pods {
		all.Lines += s.Lines
		all.LastHour += s.LastHour
		all.Untimed += s.Untimed
		all.Now = all.Now || s.Now
		if all.First.IsZero() || !s.First.IsZero() && s.First.Before(all.First) {
			all.First = s.First
		}
		// A report of an orphan is what people search for: it comes before a tear-down error.
		if i == 0 || all.Teardown && !s.Teardown || all.Teardown == s.Teardown && s.Last.After(all.Last) {
			all.UID, all.Words, all.Teardown, all.Source = s.UID, s.Words, s.Teardown, s.Source
		}
		if s.Last.After(all.Last) {
			all.Last = s.Last
		}
	}
	return all
}

// RootNamed is the directory before "/pods/UID" in what was said of a pod, "" where none was said that a shell
// takes as it stands. It is a hint for an operator: whoever can write a line chooses it.
func RootNamed(said []Said) string {
	for _, s := range said {
		before, _, found := strings.Cut(s.Words, "/pods/"+string(s.UID))
		from := strings.LastIndexAny(before, "\"'= (") + 1
		if root := before[from:]; found && len(root) > 1 && root[0] == '/' && strings.Trim(root, plainPath) == "" && !strings.Contains(root, "/..") {
			return root
		}
	}
	return ""
}

// plainPath are the characters that no shell reads as anything but themselves.
const plainPath = "/abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
