package reported

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
)

// Log is what one run of a kubelet has reported about orphans, by lines that are evidence. It is kept across our own
// restarts and starts again with each kubelet.
type Log struct {
	Kubelet policy.KubeletID `json:"kubelet"`
	BootID  string           `json:"boot_id"`
	// Named is when it reported each orphan last, Volumes when it reported each pod last as one with volumes.
	Named     map[parsers.PodUID]policy.Instant `json:"named,omitempty"`
	Volumes   map[parsers.PodUID]policy.Instant `json:"volumes,omitempty"`
	Teardowns map[parsers.PodUID]Teardown       `json:"held,omitempty"`
	// Last is when the last line of either kind was read. Since is when an unbroken row of such lines
	// began: for all that time the log was there and was read.
	Last  policy.Instant `json:"last,omitzero"`
	Since policy.Instant `json:"since,omitzero"`
	// Full is set once a teardown error was dropped, Dropped is when the last one was: it is not known whether the
	// kubelet holds a volume of a pod without one, until it has repeated those that still count.
	Full    bool           `json:"full,omitempty"`
	Dropped policy.Instant `json:"dropped,omitzero"`
	// Trusted is set once journald's fields showed a line to be the kubelet's: a flood in a file is then not its own.
	Trusted bool `json:"trusted,omitempty"`

	bytes int // of Teardowns, as Teardown.size counts
}

// Teardown is the kubelet's last report on the volumes of a pod that its volume manager cannot tear down.
type Teardown struct {
	At   policy.Instant `json:"at"`
	Path string         `json:"path,omitempty"` // the volume path that it named
	// Volumes has the last report on each volume, by the kubelet's name for it.
	Volumes map[string]policy.VolumeTeardown `json:"volumes,omitempty"`
}

const (
	// fresh is how long a report counts. The kubelet repeats it every 2 s until the directory is gone.
	fresh = 30 * time.Second
	// mostPods bounds each kind: a file's lines can be forged. A kubelet has a few thousand pod directories at most.
	mostPods = 16384
	// mostTeardownBytes bounds the names and paths in Teardowns. Beyond it a pod is only known to be held, and nothing
	// of it is cleared.
	mostTeardownBytes = 4 << 20
	// mostVolumes bounds what is remembered of one pod. Of a pod with more volumes that fail nothing is cleared.
	mostVolumes = 16
	// silence is longer than a kubelet that holds a volume waits to report it again: 2 min 2 s
	// (exponentialbackoff.maxDurationBeforeRetry).
	silence = 10 * time.Minute
	// unbroken is the longest time between two lines of one row: longer than between two looks while there is an orphan.
	unbroken = 6 * time.Minute
)

// Clone returns a copy that can be changed without changing l.
func (l *Log) Clone() Log {
	c := *l
	c.Named, c.Volumes, c.Teardowns = maps.Clone(l.Named), maps.Clone(l.Volumes), maps.Clone(l.Teardowns)
	return c
}

// Add adds the claims that are evident for the running kubelet, and forgets what another kubelet reported.
func (l *Log) Add(claims []Claim, n policy.Node, now policy.Instant) {
	if n.Kubelet.Truth != policy.Yes {
		return
	}
	if l.Kubelet != n.KubeletID || l.BootID != now.BootID {
		*l = Log{Kubelet: n.KubeletID, BootID: now.BootID}
	}
	if l.Named == nil {
		l.Named = map[parsers.PodUID]policy.Instant{}
	}
	if l.Volumes == nil {
		l.Volumes = map[parsers.PodUID]policy.Instant{}
	}
	if l.Teardowns == nil {
		l.Teardowns = map[parsers.PodUID]Teardown{}
	}
	if l.bytes == 0 { // it was loaded
		for _, t := range l.Teardowns {
			l.bytes += t.size()
		}
	}
	slices.SortFunc(claims, Claim.compare)
	for _, c := range claims {
		switch {
		case !c.Evident(n.KubeletID, n.LogFormat, now):
			continue
		case c.Sighting.Report == parsers.ReportTeardown:
			l.addTeardown(c)
		case c.Sighting.Kind == parsers.KindRemoval:
			l.addOrphan(c)
		case c.Sighting.Kind == parsers.KindVolumes:
			add(l.Volumes, c)
		}
		l.Trusted = l.Trusted || c.Sighting.Trusted
		l.read(c.At)
	}
	for _, c := range claims {
		if c.Dropped && (c.Sighting.Trusted || !l.Trusted) {
			l.drop(c.At)
		}
	}
}

// read records that a line was read.
func (l *Log) read(at policy.Instant) {
	gap, ok := at.Since(l.Last)
	if !ok && at.BootID == l.Last.BootID {
		return // an older one, read late
	}
	if !ok || gap > unbroken {
		l.Since = at
	}
	l.Last = at
}

// drop records that a teardown error was dropped.
func (l *Log) drop(at policy.Instant) {
	if l.Full = true; l.Dropped.BootID != at.BootID || l.Dropped.Boot < at.Boot {
		l.Dropped = at
	}
}

func (l *Log) addTeardown(c Claim) {
	uid := c.Sighting.UID
	t, ok := l.Teardowns[uid]
	if !ok && len(l.Teardowns) >= mostPods {
		l.drop(c.At)
		return
	}
	l.bytes -= t.size()
	t.add(c.Sighting, c.At)
	if l.bytes+t.size() > mostTeardownBytes {
		t = bare(c.At) // still held, and kept for it
	}
	l.bytes += t.size()
	l.Teardowns[uid] = t
}

// addOrphan records that the kubelet reported the pod as an orphan, which it does only once its volume manager has no
// volume of it (podVolumesExist). After a restart it tries once to clean up what it cannot reconstruct, fails with a
// TearDown error, and reports the pod from then on.
func (l *Log) addOrphan(c Claim) {
	uid := c.Sighting.UID
	if t, ok := l.Teardowns[uid]; ok && c.At.Boot > t.At.Boot {
		l.bytes -= t.size()
		delete(l.Teardowns, uid)
	}
	add(l.Named, c)
}

// add records when a pod was reported.
func add(last map[parsers.PodUID]policy.Instant, c Claim) {
	uid, at := c.Sighting.UID, c.Written()
	was, known := last[uid]
	if !known && len(last) >= mostPods {
		delete(last, eldest(last)) // it is reported again, or waits
	}
	if !known || at.Boot >= was.Boot {
		last[uid] = at
	}
}

// eldest returns the pod that was reported longest ago, and of several the one with the smallest UID.
func eldest(last map[parsers.PodUID]policy.Instant) parsers.PodUID {
	return slices.MinFunc(slices.Collect(maps.Keys(last)), func(a, b parsers.PodUID) int {
		return cmp.Or(cmp.Compare(last[a].Boot, last[b].Boot), strings.Compare(string(a), string(b)))
	})
}

// over reports whether the volume manager has given up, or finished: the kubelet has reported other things for so long since
// that it must have tried again. It cleans up once, at its start, what it cannot reconstruct, and then reports such pods
// one at a time; a backlog of them need not wait for that.
func (l *Log) over(at policy.Instant) bool {
	since, ok := l.Last.Since(at)
	row, here := l.Last.Since(l.Since)
	return ok && here && min(since, row) > silence
}

// empty reports whether no line of this kubelet was read. It repeats its reports at least every 2 min 2 s, so beside a
// directory that stays an empty log is one that is not read.
func (l *Log) empty() bool { return l.Last.BootID == "" && len(l.Named)+len(l.Teardowns) == 0 }

// Complete sets FactNamed, Unmountable, FactTeardown and the leaves. If no kubelet runs they stay unknown.
func (l *Log) Complete(e *policy.Evidence, n policy.Node, now policy.Instant) {
	if n.Kubelet.Truth != policy.Yes || l.Kubelet != n.KubeletID {
		return
	}
	origin := fmt.Sprintf("log of the kubelet, PID %d", l.Kubelet.PID)
	named, detail := l.named(e.UID, now)
	e.Facts.Set(policy.FactNamed, named, origin, detail)
	e.Unmountable = isFresh(l.Volumes, e.UID, now)
	teardown, detail := l.teardown(e, now)
	e.Facts.Set(policy.FactTeardown, teardown, origin, detail)
}

// CompleteEntry does for a pod in quarantine what Complete does for the others.
func (l *Log) CompleteEntry(e *policy.Evidence, n policy.Node) {
	if _, named := l.Named[e.UID]; named && n.Kubelet.Truth == policy.Yes && l.Kubelet == n.KubeletID {
		e.Facts[policy.FactNamed].Truth = policy.Yes
	}
}

// isFresh reports whether a pod was reported in the last 30 s.
func isFresh(last map[parsers.PodUID]policy.Instant, uid parsers.PodUID, now policy.Instant) bool {
	at, ok := last[uid]
	since, sameBoot := now.Since(at)
	return ok && sameBoot && since <= fresh
}

// named reports whether the kubelet's fresh reports release the pod, and why not.
func (l *Log) named(uid parsers.PodUID, now policy.Instant) (policy.Truth, string) {
	at, ok := l.Named[uid]
	switch {
	case isFresh(l.Volumes, uid, now):
		return policy.No, "the kubelet reports that volumes of the pod are not cleaned up"
	case isFresh(l.Named, uid, now):
		return policy.Yes, "reported at " + at.Wall.UTC().Format(time.RFC3339)
	case ok:
		return policy.No, "the kubelet reported the pod last at " + at.Wall.UTC().Format(time.RFC3339)
	}
	return policy.No, "the kubelet that runs now has not reported the pod in its log"
}

// teardown returns whether the volume manager still works on the pod, and sets the leaves.
func (l *Log) teardown(e *policy.Evidence, now policy.Instant) (policy.Truth, string) {
	t, ok := l.Teardowns[e.UID]
	switch {
	case ok && l.over(t.At):
		return policy.No, "its volume manager could not tear down " + cmp.Or(t.Path, "a volume") + ", and no longer tries"
	case ok:
		detail := "the kubelet's volume manager cannot tear down " + cmp.Or(t.Path, "one of its volumes")
		if e.Leaves = t.leaves(now); e.Leaves != nil {
			detail += ": it is not empty"
		}
		return policy.Yes, detail
	case l.Full && !l.over(l.Dropped):
		return policy.Unknown, "the log has more errors about volumes than can be kept, so one of this pod may have been dropped"
	case l.empty() && !e.RuntimeOnly:
		return policy.Unknown, "no line of the kubelet was read since its start, so it may work on a volume: check that its log is read (--log-source)"
	}
	return policy.No, ""
}

// add records one teardown error.
func (t *Teardown) add(s parsers.Sighting, at policy.Instant) {
	t.At, t.Path = at, s.Path
	if t.Volumes = maps.Clone(t.Volumes); t.Volumes == nil {
		t.Volumes = map[string]policy.VolumeTeardown{}
	}
	v := policy.VolumeTeardown{At: at}
	if _, ok := contents.SplitLeaf(s.Leaf); ok {
		v.Leaf = s.Leaf
	}
	name := s.Volume
	if _, ok := t.Volumes[name]; !ok && len(t.Volumes) >= mostVolumes {
		name, v.Leaf = "", "" // one too many: a volume without a leaf
	}
	t.Volumes[name] = v
}

// size is about how many bytes the names and paths take.
func (t Teardown) size() int {
	n := len(t.Path)
	for name, v := range t.Volumes {
		n += 128 + len(name) + len(v.Leaf)
	}
	return n
}

// bare is of a pod that is held by a volume of which no more is known.
func bare(at policy.Instant) Teardown {
	return Teardown{At: at, Volumes: map[string]policy.VolumeTeardown{"": {At: at}}}
}

// leaves returns the directories that the kubelet cannot remove since they are not empty, or none if it fails for any other
// reason, too. An error that it no longer repeats does not count.
func (t Teardown) leaves(now policy.Instant) []policy.VolumeTeardown {
	var all []policy.VolumeTeardown
	for _, v := range t.Volumes {
		if since, ok := now.Since(v.At); v.Leaf == "" && ok && since > policy.LastWord {
			continue
		}
		if v.Leaf == "" {
			return nil
		}
		all = append(all, v)
	}
	slices.SortFunc(all, func(a, b policy.VolumeTeardown) int { return strings.Compare(a.Leaf, b.Leaf) })
	return all
}
