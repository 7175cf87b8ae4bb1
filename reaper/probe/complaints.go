package probe

import (
	"errors"
	"fmt"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/lists"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/kubelet"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/poddir"
)

func (l *gathering) complain(err error) {
	if err != nil && err.Error() != "" {
		l.errors = append(l.errors, err.Error())
	}
}

// complainOf tells what could not be read, of each source.
func (l *gathering) complainOf(found kubelet.Answer) {
	for _, err := range [...]error{l.mounts.Err, l.cgroups.Err, l.inStateFiles.Err, l.openFiles.Err, l.blocks.Err, l.runtime.Err} {
		l.complain(err)
	}
	if found.Runs.Truth == policy.Unknown && !l.probe.cfg.Waive {
		l.complain(errors.New(found.Runs.Detail))
	} else if found.Agrees.Truth != policy.Yes {
		l.complain(errors.New(found.Agrees.Detail))
	}
	if found.Running != nil && lists.AnyStatic(l.wanted) {
		l.complain(l.static.Err)
	}
	l.complain(l.podList.Err)
	l.complain(l.api.Err)
}

// mostComplaints bounds the errors of single pods in one look.
const mostComplaints = 50

func (l *gathering) complainOfPods(reads []*poddir.Answer) {
	more := 0
	for _, r := range reads {
		switch err := r.Complaint(); {
		case err == nil:
		case len(l.errors) < mostComplaints:
			l.complain(err)
		default:
			more++
		}
	}
	if more > 0 {
		l.complain(fmt.Errorf("and %s that could not be read", policy.Count(more, "more pod")))
	}
}
