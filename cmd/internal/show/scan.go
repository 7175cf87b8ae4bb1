package show

import (
	"io"
	"slices"

	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// Scan prints the verdict on each pod and why, and what the operator does.
func Scan(w io.Writer, s reaper.Status) error {
	p := newPage(&s)
	p.para("", "%s", counts(&s))
	p.stopped(&s, "")
	p.podTable(&s)
	p.waiting(&s)
	p.below(&s)
	return p.writeTo(w)
}

// below writes what follows a table of pods.
func (p *page) below(s *reaper.Status) {
	p.hidden(s)
	if s.Operator {
		p.heading("* What only you do")
		p.todo(s)
	}
	p.unread(s)
}

// waiting writes what becomes of the pods that wait for the end of their hold.
func (p *page) waiting(s *reaper.Status) {
	i := slices.IndexFunc(s.Pods, func(pod reaper.PodStatus) bool {
		return pod.Decision == judge.Wait && !pod.Next.IsZero() && len(pod.Reasons) == 1 && pod.Reasons[0].Reason == judge.OnHold
	})
	if i < 0 || s.Stopped != nil {
		return
	}
	hold := span(s.Pods[i].Next.Sub(s.At.Wall)) // this process begins it with this scan
	p.WriteString("\n")
	switch {
	case s.Daemon != 0:
		p.para("", "A pod with the reason hold is moved by the daemon (PID %d), %s after its first good scan.", s.Daemon, hold)
		return
	case s.Sweep != 0:
		p.para("", "A sweep (PID %d) runs now, and moves dead pods when their hold is over. No daemon runs.", s.Sweep)
		return
	}
	p.para("", "No daemon runs. A sweep waits %s, and then moves and cleans what is dead:", hold)
	p.commands("orphan-reaper sweep")
}
