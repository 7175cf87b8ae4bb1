package openfiles

import (
	"errors"
	"fmt"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/procfs"
)

// What cannot be read of a process is a doubt about its own pod. It is a doubt about the node, or about
// the pod that a path names, only where it is near: see procfs. Another process that holds a file of a dead
// pod keeps that file open: a removal takes the name only, as the kubelet's own does.

// known is what is known of a process, once it was asked for.
type known struct {
	procfs.Owner
	pid string
	// near reports that what is unknown of it is a doubt about more than its own pod.
	near bool
}

func (s *scan) whose(p *procfs.Process) known {
	if s.known.pid != p.PID {
		o, err := s.Whose(p.PID)
		s.known = known{o, p.PID, err == nil && s.Near(p.PID, s.regions(), o)}
	}
	return s.known
}

// doubt notes a doubt about a pod that a file of the process names.
func (s *scan) doubt(p *procfs.Process, uid parsers.PodUID, words string) {
	if !s.whose(p).near {
		uid = s.whose(p).Pod
	}
	if s.wanted[uid] && s.doubts[uid] == "" {
		s.doubts[uid] = words
	}
}

// over notes that not all of a process was read, where that belongs.
func (s *scan) over(p *procfs.Process, why error) {
	of := s.whose(p)
	who := "PID " + procfs.Who(s.ProcDir, p.PID)
	switch {
	case of.Pod != "":
		who += " of pod " + string(of.Pod)
		if s.wanted[of.Pod] {
			s.doubts[of.Pod] = who + ": " + why.Error()
		}
	case of.UID != "":
		who += " of user ID " + of.UID
	}
	if s.partly++; s.partly == 1 {
		s.partOf = who
	}
	if s.Err == nil && (of.near || !errors.Is(why, procfs.ErrShare)) {
		s.Err = fmt.Errorf("cannot read the open and mapped files of %s: %w", who, why)
	}
}

// regions are the directories of the pods, none where one of them is not known.
func (s *scan) regions() []procfs.Region {
	if s.shown != nil {
		return s.shown
	}
	for _, h := range []*bounded.Handle{s.places.pods, s.places.quarantine} {
		if h == nil {
			continue
		}
		r, err := procfs.RegionOf(s.ProcDir, h.FD)
		if err != nil {
			return nil
		}
		s.shown = append(s.shown, r)
	}
	return s.shown
}
