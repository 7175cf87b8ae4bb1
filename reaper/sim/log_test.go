package sim

import (
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

// log carries a line from the kubelet to the program.
type log struct {
	*node
	journald bool          // else a file, whose lines have no time that is certain
	late     time.Duration // how much later a line comes
	lost     bool          // nothing comes
	unread   []parsers.Sighting
	tornDown map[parsers.PodUID]proof         // the last line about each pod of which a volume could not be torn down
	said     map[parsers.PodUID]int           // the last kubelet of which a line about each of them came
	named    map[parsers.PodUID]time.Duration // when a line about each of them was read last
	proved   map[parsers.PodUID]proof         // the first line in which a kubelet reported each of them
	current  parsers.Sighting
}

// proof is a line in which the kubelet itself reported a pod.
type proof struct {
	run int // of the kubelet
	at  time.Duration
}

// by reports whether the kubelet that runs wrote the line, and the program read it before then and since its start.
func (by proof) by(n *node, then time.Duration) bool {
	return by.run == n.kubelet.run && by.at < then && by.at > n.program.began && n.steps == 0
}

// reported reports whether the program read before then, since it and the kubelet were started, a line in which the kubelet reported the pod.
func (l *log) reported(p *pod, then time.Duration) bool {
	return l.proved[p.uid].by(l.node, then)
}

// write is one line of the kubelet that runs.
func (l *log) write(s parsers.Sighting) {
	s.PID, s.Trusted, s.Whole = l.kubelet.id.PID, l.journald, true
	if l.journald {
		s.Time = l.wall()
	}
	run := l.kubelet.run
	arrive := func() {
		l.said[s.UID] = run
		if l.arrive(s); s.Report == parsers.ReportTeardown {
			l.tornDown[s.UID] = proof{run, l.now}
		}
		if by := l.proved[s.UID]; l.program.up && s.Report != parsers.ReportTeardown && (by.run != run || by.at < l.program.began) {
			l.proved[s.UID] = proof{run, l.now}
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
	l.current, l.named[s.UID] = s, l.now
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
		UID: uid, Report: parsers.ReportNotADirectory, Count: parsers.NoCount, PID: l.kubelet.id.PID, Whole: true, Trusted: l.journald, Time: l.wall(),
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
		s.Report, s.Leaf, s.Volume = parsers.ReportTeardown, "volumes/kubernetes.io~nfs/other", "other"
	}
	l.arrive(s)
}
