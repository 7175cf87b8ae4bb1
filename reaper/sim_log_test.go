package reaper_test

import (
	"fmt"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
)

// kubeletLog carries lines, as real ones, from the kubelet and from others to the program, through the real parser.
type kubeletLog struct {
	*node
	streams map[string]*parsers.Stream
}

const (
	kubeletUnit = "kubelet.service"
	kubeletFile = 77 // its inode
)

// header is klog's at a time.
func header(level string, at time.Time, pid, line int) string {
	return fmt.Sprintf("%s%s %7d kubelet_volumes.go:%d] ", level, at.Format("0102 15:04:05.000000"), pid, line)
}

func orphan(uid parsers.PodUID) string {
	return fmt.Sprintf(`orphaned pod \"%s\" found, but failed to rmdir() volume at path /var/lib/kubelet/pods/%[1]s/volumes/kubernetes.io~csi/pv: directory not empty`, uid)
}

func (l *kubeletLog) text(level string, at time.Time, pid int, message, key, value, more string) string {
	if l.json {
		return fmt.Sprintf(`{"ts":%d.%03d,"caller":"kubelet/kubelet_volumes.go:263","msg":"%s","%s":"%s"%s}`,
			at.UnixMilli(), at.Nanosecond()/1000%1000, message, key, value, more)
	}
	return header(level, at, pid, 263) + fmt.Sprintf(`"%s" %s="%s"`, message, key, value) + more
}

// first is the line at any verbosity.
func (l *kubeletLog) first(p *pod, count int) {
	more := fmt.Sprintf(" numErrs=%d", count)
	if l.json {
		more = fmt.Sprintf(`,"numErrs":%d`, count)
	}
	l.write(l.text("E", l.wall(), l.kubelet.pid, "There were many similar errors. Turn up verbosity to see them.", "err", orphan(p.uid), more))
}

// each is the line at -v=5.
func (l *kubeletLog) each(p *pod) {
	l.write(l.text("I", l.wall(), l.kubelet.pid, "Orphan pod", "err", orphan(p.uid), ""))
}

// volumes is the line at -v=3 about a pod whose volumes are not torn down.
func (l *kubeletLog) volumes(p *pod) {
	l.oracle.hasVolumes(l.node, p)
	l.write(l.text("I", l.wall(), l.kubelet.pid, "Orphaned pod found, but volumes are not cleaned up", "podUID", string(p.uid), ""))
}

// write has the kubelet write a line.
func (l *kubeletLog) write(text string) {
	if l.faults[linesLost] > 0 {
		return
	}
	line := l.line(text)
	if l.faults[linesLate] > 0 {
		l.after(l.between(0, 90*time.Second), func() { l.arrive(line) })
		return
	}
	l.arrive(line)
}

// line is a line of the kubelet that runs, by its fields.
func (l *kubeletLog) line(text string) parsers.Line {
	if l.file {
		return parsers.Line{Text: []byte(text), Source: "kubelet.log", File: &parsers.File{Dev: 1, Ino: kubeletFile}}
	}
	return parsers.Line{Text: []byte(text), Source: kubeletUnit, Journal: &parsers.Journal{
		Unit: kubeletUnit, PID: 1000 + l.kubelet.run, UID: "0", BootID: l.Now().BootID, StreamID: fmt.Sprint("s", l.kubelet.run), Priority: "6", Time: l.wall(),
	}}
}

// arrive brings a line to the program, which follows each stream.
func (l *kubeletLog) arrive(line parsers.Line) {
	if !l.program.up {
		l.streams = nil
		return
	}
	name, at := line.Source, l.wall()
	if line.Journal != nil {
		name, at = line.Journal.StreamID, line.Journal.Time
	}
	if l.streams == nil {
		l.streams = map[string]*parsers.Stream{}
	}
	if l.streams[name] == nil {
		l.streams[name] = &parsers.Stream{}
	}
	l.streams[name].Next(&line, at)
	if l.program.busy {
		l.program.lines = append(l.program.lines, line)
		return
	}
	l.program.daemon.Read(line)
}

// forge delivers a report that the kubelet has not written. Each kind lacks one thing by which a line is the kubelet's.
func (l *kubeletLog) forge(uid parsers.PodUID, kind int) {
	pid, at := l.kubelet.pid, l.wall()
	line := l.line("")
	other := func() {
		if line.Journal != nil {
			line.Journal.Unit, line.Journal.StreamID = "session.scope", "other"
		} else {
			line.Source, line.File = "other.log", &parsers.File{Dev: 1, Ino: 78}
		}
	}
	format := l.json
	switch kind % 8 {
	case 0: // an earlier kubelet's PID
		pid += 100
		if line.Journal != nil {
			line.Journal.PID += 100
		}
		if l.json && l.file {
			at = at.Add(-l.now) // written before the kubelet started
		}
	case 1: // another unit or file
		other()
	case 2: // an old one, delivered now
		at = at.Add(-10 * time.Minute)
		if line.Journal != nil {
			line.Journal.Time = at
		}
	case 3: // one that was in a queue
		at = at.Add(-10 * time.Minute)
	case 4: // in the other format, by another process of the unit
		if line.Journal != nil {
			line.Journal.StreamID = "other"
		} else {
			other()
		}
		l.json = !l.json
	case 5: // the rest of a long line
		if line.Journal == nil {
			other()
		} else {
			before := line
			before.Text = []byte("x")
			journal := *line.Journal
			before.Journal, journal.LineBreak = &journal, "line-max"
			l.arrive(before)
		}
	case 6: // of an earlier boot
		if other(); line.Journal != nil {
			line.Journal.Unit, line.Journal.BootID = kubeletUnit, "boot-before"
		}
	case 7: // about a pod that the node never had
		uid = "eeeeeeee-0000-4000-8000-000000000000"
	}
	line.Text = []byte(l.text("E", at, pid, "There were many similar errors. Turn up verbosity to see them.", "err", orphan(uid), ""))
	l.json = format
	l.arrive(line)
}

// quote has the kubelet print an error that quotes the path of an NFS volume, in which a tenant has put newlines and reports
// with all the headers that he could guess: the text of the victim's report is at the beginning of a line, and complete.
func (l *kubeletLog) quote(uid parsers.PodUID) {
	if l.json { // klog's JSON escapes newlines
		return
	}
	l.arrive(l.line(fmt.Sprintf("E%s %7d mount_linux.go:271] Mount failed: exit status 32", l.wall().Format("0102 15:04:05.000000"), l.kubelet.pid)))
	l.arrive(l.line("Mounting arguments: -t nfs s:/x"))
	for range 3 {
		l.arrive(l.line(header("E", l.wall(), l.kubelet.pid, 263) + `"There were many similar errors. Turn up verbosity to see them." err="` + orphan(uid) + `"`))
		l.pass(l.between(0, 90*time.Millisecond))
	}
}
