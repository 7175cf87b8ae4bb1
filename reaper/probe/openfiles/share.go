package openfiles

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/procfs"
)

// Each process has a share of a look. One that goes over it is left, and the look goes on. What was
// not read of it is a doubt about its own pod. It is a doubt about the node only where the process
// may enter any pod's directory, and has more of them before it than its own: see procfs. Another one that holds a
// file of a dead pod keeps that file open: a removal takes the name only, as the kubelet's own does.
const (
	shareBytes   = 64 << 20 // of mappings
	shareEntries = 100_000  // open files
	// shareStrays bounds the files that are remembered of one process, and strangersStrays those of
	// all processes without such capabilities.
	shareStrays, strangersStrays = 20_000, 100_000
	longestStray                 = 256
)

var errShare = errors.New("it has more open or mapped than is read of one process")

// begin starts the share of a process. Its time is above that of one file that does not answer. All
// processes of one owner share what one has, and all owners end before the look does: what is left
// then is a doubt like that of one process over its share.
func (s *scan) begin(pid string) error {
	now := time.Now()
	s.began, s.entries, s.added, s.owner = now, 0, 0, procfs.OwnerOf(s.ProcDir, pid)
	if s.deadline.IsZero() {
		s.deadline = now.Add(s.Guard.Limit() * 3 / 4)
	}
	s.until = now.Add(s.Guard.Limit()/4 - s.spent[s.account()])
	if s.deadline.Before(s.until) {
		s.until = s.deadline
	}
	if !s.until.After(now) {
		return errShare
	}
	return nil
}

// account is what a process spends of: a pod's, since it may take any user ID there, or a user's.
func (s *scan) account() string {
	if s.owner.Pod != "" {
		return "pod " + string(s.owner.Pod)
	}
	return s.owner.UID
}

// end counts what a process spent.
func (s *scan) end(pid string, err error) {
	s.spent[s.account()] += time.Since(s.began)
	s.Slow.Note(s.ProcDir, s.part, pid, errors.Is(err, errShare))
}

// last says which processes are read last: those that used up their share before.
func (s *scan) last(pid string) bool { return s.Slow.Was(s.ProcDir, s.part, pid) }

// spends takes one entry of the share.
func (s *scan) spends() error {
	if s.entries++; s.entries > s.limits.entries || time.Now().After(s.until) {
		return errShare
	}
	return nil
}

// over puts the doubt of a process over its share where it belongs, and returns what is a doubt
// about the node.
func (s *scan) over(pid string, err error) error {
	if !errors.Is(err, errShare) {
		return err
	}
	pod := s.owner.Pod
	who := "PID " + procfs.Who(s.ProcDir, pid)
	switch {
	case pod != "":
		who += " of pod " + string(pod)
		if s.wanted[pod] {
			s.doubts[pod] = who + ": " + err.Error()
		}
	case s.owner.UID != "":
		who += " of user ID " + s.owner.UID
	}
	s.partly = append(s.partly, who)
	if s.owner.Enters && procfs.Shows(s.ProcDir, pid, s.regions(), pod) {
		return fmt.Errorf("%w (%s)", err, who)
	}
	return nil
}

// Name puts the names of pods beside their UIDs, where processes of theirs went over their share.
func (a *Answer) Name(names map[parsers.PodUID]policy.PodName) {
	for uid, name := range names {
		old := " of pod " + string(uid)
		if !strings.Contains(strings.Join(a.partly, "\n"), old) || !policy.IsDNSName(name.Namespace) || !policy.IsDNSName(name.Name) {
			continue
		}
		with := " of pod " + name.Namespace + "/" + name.Name + ", " + string(uid)
		a.origin = strings.ReplaceAll(a.origin, old, with)
		a.doubts[uid] = strings.ReplaceAll(a.doubts[uid], old, with)
		if a.Err != nil && strings.Contains(a.Err.Error(), old) {
			a.Err = errors.New(strings.ReplaceAll(a.Err.Error(), old, with))
		}
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

// remember notes a stray of the process that is read.
func (s *scan) remember(id inode, held stray) error {
	if _, known := s.strays[id]; known {
		return nil
	}
	if len(held.path) > longestStray && held.sure {
		held.path = held.path[:longestStray]
	}
	if s.added++; s.added > s.limits.strays {
		return errShare
	}
	if !s.owner.Enters {
		if s.strangers++; s.strangers > strangersStrays {
			return errShare
		}
	}
	s.stray(id, held)
	return nil
}
