package judge

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

// Logged is a report with the time of its arrival.
type Logged struct {
	parsers.Report
	At Instant
}

// Log has the last credible report of each kind about one pod, and when the first one was written. The zero value has none.
type Log struct {
	Removal, Volumes Logged
	First            time.Time
}

// lasts reports whether the kubelet has reported the pod for longer than it needs to destroy a cgroup.
func (l *Log) lasts(now Instant) bool {
	return !l.First.IsZero() && now.Wall.Sub(l.First) >= time.Minute
}

// reported returns the fact Reported: Yes if the kubelet that runs now has reported in the last 30 seconds that it cannot
// remove the pod's directory, and not that it still has volumes of it.
func (l *Log) reported(n Node, now Instant) Fact {
	if why := Credible(l.Volumes, n, now); why == "" && l.Volumes.Kind == parsers.Volumes {
		return Fact{Truth: No, Source: l.Volumes.Source, Detail: "the kubelet has volumes of this pod: " + l.Volumes.Words}
	}
	if l.Removal.UID == "" || l.Removal.Kind != parsers.Removal {
		return Fact{Truth: No, Detail: "the kubelet has not reported this pod"}
	}
	f := Fact{Truth: Yes, Source: l.Removal.Source, Detail: l.Removal.Words}
	if why := Credible(l.Removal, n, now); why != "" {
		f.Truth, f.Detail = No, why
	}
	return f
}

// Credible returns why a line is no report of the kubelet that runs now, "" if it is one: by its source, its PID,
// its format, its neighbours and its times. A line that is none only asks for a scan.
func Credible(l Logged, n Node, now Instant) string {
	if why := ByKubelet(l, n); why != "" {
		return why
	}
	return l.stale(now)
}

// ByKubelet returns why a line is not by the kubelet that runs now, whatever its age, "" if it is.
func ByKubelet(l Logged, n Node) string {
	k := n.Kubelet
	switch {
	case l.UID == "" || l.Kind == parsers.None:
		return "there is no report"
	case n.KubeletKnown.Truth != Yes:
		return "it is not known which kubelet runs: " + n.KubeletKnown.Detail
	case !l.fromLogOf(n):
		return "the line is not from the log of the kubelet that runs now: " + l.Source
	case !l.byProcess(k):
		return fmt.Sprintf("the line is not by the kubelet that runs now, PID %d", k.Inner)
	case l.Mixed || k.JSON == Yes && !l.JSON || k.JSON == No && l.JSON:
		return "the line is not in the format in which this kubelet writes its log"
	case !l.Whole:
		return "the line may be a part of another message"
	}
	return ""
}

// fromLogOf reports whether the line comes from a log that only this kubelet writes: journald's unit of its process, a
// file that is its fd 1 or 2, or RKE2's kubelet.log. A syslog file counts only if there is no journal, since any user can
// write to it.
func (l *Logged) fromLogOf(n Node) bool {
	switch {
	case l.Journal != nil: // a file may have journald's fields, too, in a text that anybody has written
		return l.File == nil && n.Kubelet.Unit != "" && l.Journal.Unit == n.Kubelet.Unit
	case l.File == nil:
		return false
	}
	_, ok := n.Kubelet.log(*l.File)
	return ok || l.Syslog && n.Journal == No
}

// log returns the kubelet's log that is this file.
func (k *Kubelet) log(f parsers.File) (LogFile, bool) {
	for _, own := range k.Logs {
		if own.ID.Dev == f.Dev && own.ID.Ino == f.Ino {
			return own, true
		}
	}
	return LogFile{}, false
}

// byProcess reports whether the line has the kubelet's PID: in klog's header, or, since a JSON object has none, in
// journald's field. A JSON line of a file that is the kubelet's own fd needs a time after the kubelet's start. A line of klog
// does, too: in a container of its own the next kubelet has the same PID.
func (l *Logged) byProcess(k Kubelet) bool {
	started := l.At.Wall.Add(k.Start - l.At.Boot)
	switch {
	case !l.JSON:
		return l.PID == k.Inner && k.Inner != 0 && l.Written().After(started)
	case l.Journal != nil:
		return l.Journal.PID == k.PID && k.PID != 0
	}
	own, ok := k.log(*l.File)
	if !ok || !own.Own || l.Header.IsZero() {
		return false
	}
	return l.Header.After(started)
}

// clockSkew is how far in the future a time may be: klog and journald round, and clocks are slewed.
const clockSkew = 2 * time.Second

// stale returns why the line is too old by one of the times that it carries: its arrival, journald's, its header's.
func (l *Logged) stale(now Instant) string {
	since, ok := now.Since(l.At)
	if !ok || since > reportAge {
		return "the last report is older than " + reportAge.String()
	}
	recent := func(t time.Time) bool {
		age := now.Wall.Sub(t)
		return age >= -clockSkew && age <= reportAge
	}
	switch {
	case l.Journal != nil && !recent(l.Journal.Time):
		return "journald has the line from " + l.Journal.Time.UTC().Format(time.RFC3339)
	case l.Journal != nil && l.Journal.BootID != strings.ReplaceAll(now.BootID, "-", ""): // the kernel writes it with dashes, journald without
		return "the line is of an earlier boot"
	case l.HeaderZone && !recent(l.Header):
		return "the line is from " + l.Header.UTC().Format(time.RFC3339)
	case !l.HeaderZone && !l.Header.IsZero() && !slices.ContainsFunc(zones(), func(z *time.Location) bool { return recent(inZone(l.Header, now.Wall, z)) }):
		return "the line is from " + l.Header.Format("Jan 2 15:04:05") + " in the kubelet's zone"
	case l.Header.IsZero():
		return "the line has no time"
	}
	return ""
}

// Written returns when the line was written: by journald, by its header, or else when it arrived.
func (l *Logged) Written() time.Time {
	switch {
	case l.Journal != nil && !l.Journal.Time.IsZero():
		return l.Journal.Time
	case l.HeaderZone:
		return l.Header
	case l.Header.IsZero():
		return l.At.Wall
	}
	nearest := inZone(l.Header, l.At.Wall, time.UTC)
	if local := inZone(l.Header, l.At.Wall, time.Local); l.At.Wall.Sub(local).Abs() < l.At.Wall.Sub(nearest).Abs() {
		nearest = local
	}
	return nearest
}

// zones are those in which a kubelet may write the time of klog's header: the node's, or UTC in a container.
func zones() []*time.Location { return []*time.Location{time.Local, time.UTC} }

// inZone completes the time of klog's header, which has neither year nor zone, to the time nearest to now in the zone.
func inZone(header, now time.Time, zone *time.Location) time.Time {
	_, month, day := header.Date()
	_, offset := now.In(zone).Zone() // in the hour that comes twice in autumn, time.Date may take the other one
	zone = time.FixedZone("", offset)
	at := time.Date(now.In(zone).Year(), month, day, header.Hour(), header.Minute(), header.Second(), header.Nanosecond(), zone)
	switch d := at.Sub(now); {
	case d > 180*24*time.Hour:
		return at.AddDate(-1, 0, 0)
	case d < -180*24*time.Hour:
		return at.AddDate(1, 0, 0)
	}
	return at
}
