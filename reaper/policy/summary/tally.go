package summary

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

// Said sums up the lines of a log about one pod.
type Said struct {
	UID    parsers.PodUID
	Source string
	// LastHour of the Lines were written in the last hour. Untimed of them have no certain time: klog writes neither year
	// nor zone, and a time to come is a wrong one.
	Lines, LastHour, Untimed int
	First, Last              time.Time // of those that have one
	// Now is true if a line came while the log was read: the kubelet still repeats it.
	Now bool
	// Words is the report of the last line, and Teardown is true if that is about a volume that cannot be torn down.
	Words    string
	Teardown bool
}

// mostSaid bounds the pods of one source, other than those that have a directory: forged lines may have any UID.
const mostSaid = 4096

// mostAhead is how much later than the moment of the tally a line may be: it goes on while the log is read.
const mostAhead = 5 * time.Minute

// Tally counts lines by source and pod.
type Tally struct {
	now  time.Time
	here func(parsers.PodUID) bool
	said map[tallyKey]*Said
	size map[string]int
}

type tallyKey struct {
	source string
	uid    parsers.PodUID
}

// NewTally returns a tally for a moment by the wall clock: the last hour ends there. here reports whether a pod has a
// directory on this node.
func NewTally(now time.Time, here func(parsers.PodUID) bool) *Tally {
	return &Tally{now: now, here: here, said: map[tallyKey]*Said{}, size: map[string]int{}}
}

// Add counts one sighting of a source. again reports that the line is counted elsewhere, and only shows that it came now.
func (t *Tally) Add(s parsers.Sighting, source, words string, again bool) {
	key := tallyKey{source, s.UID}
	said := t.said[key]
	if said == nil {
		if t.size[source] >= mostSaid && !t.here(s.UID) {
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
	if s.Time.IsZero() || s.Time.Sub(t.now) > mostAhead {
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

// Pods returns the sums of all pods, the most lines first. Several logs may have the same lines: the one with most counts.
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

// Total adds up all pods; Words are those of the pod of the last line.
func Total(pods []Said) (all Said) {
	for i, s := range pods {
		all.Lines += s.Lines
		all.LastHour += s.LastHour
		all.Untimed += s.Untimed
		all.Now = all.Now || s.Now
		if all.First.IsZero() || !s.First.IsZero() && s.First.Before(all.First) {
			all.First = s.First
		}
		// A report of an orphan comes before a tear-down error.
		if i == 0 || all.Teardown && !s.Teardown || all.Teardown == s.Teardown && s.Last.After(all.Last) {
			all.UID, all.Words, all.Teardown, all.Source = s.UID, s.Words, s.Teardown, s.Source
		}
		if s.Last.After(all.Last) {
			all.Last = s.Last
		}
	}
	return all
}

// RootNamed is the directory before "/pods/UID" in a line, "" if none needs no quoting. It is a hint: a forged line may have
// any.
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

// plainPath are the characters that no shell interprets.
const plainPath = "/abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
