package sim

import (
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// log carries a line from the kubelet to the program.
type log struct {
	*node
	journald bool          // else a file, whose lines have no time that is certain
	late     time.Duration // how much later a line comes
	lost     bool          // nothing comes
	unread   []parsers.Sighting
	tornDown map[parsers.PodUID]proof   // the last line about each pod of which a volume could not be torn down
	heard    map[parsers.PodUID][]proof // the last lines of a kubelet's own that were read, in which it reported each of them
	current  parsers.Sighting
}

// proof is a line in which the kubelet itself reported a pod.
type proof struct {
	run int // of the kubelet
	at  time.Duration
}

// fresh is how many of the kubelet's own reports about the pod were read in so long before then, by the kubelet that the look saw.
func (l *log) fresh(p *pod, then, in time.Duration, id policy.KubeletID) (n int) {
	for _, by := range l.heard[p.uid] {
		if 800+by.run == id.PID && by.at <= then && then-by.at <= in {
			n++
		}
	}
	return n
}

// reported reports whether the program must know a fresh report of the pod: several were read in the last seconds before a look.
func (l *log) reported(p *pod, then time.Duration, id policy.KubeletID) bool {
	return then-l.program.began > 10*time.Second && l.steps == 0 && l.fresh(p, then, 10*time.Second, id) > 2
}

// write is one line of the kubelet that runs.
func (l *log) write(s parsers.Sighting) {
	s.PID, s.Trusted, s.Whole = l.kubelet.id.PID, l.journald, true
	if l.journald {
		s.Time = l.wall()
	}
	run, wrote := l.kubelet.run, l.now
	arrive := func() {
		if l.arrive(s); s.Report == parsers.ReportTeardown {
			l.tornDown[s.UID] = proof{run, l.now}
			return
		}
		at := l.now
		if l.journald { // the line has its time
			at = wrote
		}
		if l.heard[s.UID] = append(l.heard[s.UID], proof{run, at}); len(l.heard[s.UID]) > 20 {
			l.heard[s.UID] = l.heard[s.UID][1:]
		}
	}
	switch {
	case l.lost:
	case l.late > 0:
		l.after(l.between(0, l.late), arrive)
	default:
		arrive()
	}
}

// arrive brings a line to where the program follows the log. While the program does not run, the last lines wait.
func (l *log) arrive(s parsers.Sighting) {
	if !l.program.up {
		if l.unread = append(l.unread, s); len(l.unread) > 8 {
			l.unread = l.unread[1:]
		}
		return
	}
	l.current = s
	l.program.daemon.Read(parsers.Line{CatchUp: s.CatchUp})
}

// rotate has the program read on where it was: what was there already comes as old lines.
func (l *log) rotate() {
	old := l.unread
	l.unread = nil
	for _, s := range old {
		s.CatchUp = true
		l.arrive(s)
	}
}

// parse is the program's parser: each line is the sighting that it was made of.
func (l *log) parse(parsers.Line) (parsers.Sighting, bool) { return l.current, true }

// forge is a line that another process made, about any pod. Each kind lacks one of the five things by which a line is the kubelet's: the
// process, the time, the format, that it is whole, or the pod.
func (l *log) forge(uid parsers.PodUID, kind int) {
	s := parsers.Sighting{
		UID: uid, Report: parsers.ReportNotADirectory, Kind: parsers.KindRemoval, Count: parsers.NoCount, PID: l.kubelet.id.PID, Whole: true, Trusted: l.journald, Time: l.wall(),
	}
	switch kind % 6 {
	case 0:
		s.PID += 7
	case 1:
		s.Whole = false
	case 2:
		s.Time = l.wall().Add(-24 * time.Hour)
	case 3:
		s.Time, s.CatchUp, s.Trusted = time.Time{}, true, false
	case 4:
		s.JSON = true
	case 5: // one that the node never had
		s.UID = "eeeeeeee-0000-4000-8000-000000000000"
	}
	if kind/6%2 == 0 && kind%6 != 5 {
		s.Report, s.Kind, s.Leaf, s.Volume = parsers.ReportTeardown, "", "volumes/kubernetes.io~nfs/other", "other"
	}
	l.arrive(s)
}
