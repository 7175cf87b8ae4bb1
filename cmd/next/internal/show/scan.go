package show

import (
	"io"

	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
	"github.com/orphan-reaper/orphan-reaper/reaper/loop"
)

// Scan prints the verdict on each pod and why, and what the operator does.
func Scan(w io.Writer, s loop.Status) error {
	p := &page{now: s.At.Wall}
	p.para("", "%s", counts(&s))
	p.stopped(&s)
	p.podTable(&s)
	p.below(&s)
	return p.writeTo(w)
}

// below writes what follows a table of pods.
func (p *page) below(s *loop.Status) {
	p.waiting(s)
	if s.Hidden > 0 {
		p.WriteString("\n")
		p.para("", "The kubelet reports a pod that is kept.")
	}
	p.hidden(s)
	if s.Operator {
		p.heading("* What only you do")
		p.todo(s)
		if s.CNI != nil && s.CNI.Operator {
			p.item("  - ", "CNI files need you: `orphan-reaper doctor`")
		}
	}
	p.unread(s)
}

// waiting writes what becomes of the pods that wait for the end of their hold.
func (p *page) waiting(s *loop.Status) {
	waits := 0
	for _, pod := range s.Pods {
		for _, r := range pod.Reasons {
			if r.Reason == judge.OnHold && pod.Decision == judge.Wait {
				waits++
			}
		}
	}
	switch {
	case waits == 0 || s.Stopped != nil:
	case s.Daemon != 0:
		p.WriteString("\n")
		p.para("", "The daemon (PID %d) moves a waiting pod when its hold, which began with the daemon's first good scan, has ended.", s.Daemon)
	default:
		p.WriteString("\n")
		p.para("", "No daemon runs. This waits for the hold, and then moves and removes what is dead:")
		p.commands("orphan-reaper sweep")
	}
}
