package reaper

import (
	"errors"
	"fmt"
	"slices"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// home is the directory in which the quarantine lies that the ledger's entries are in.
type home struct {
	ID policy.DirID `json:"id"`
}

// errNotHome ends a pass before it begins.
var errNotHome = errors.New("nothing that the ledger knows of lies in the quarantine, and the directory that it is in is another one than before")

// atHome refuses to work with a quarantine in which none of the ledger's entries can be:
// the kubelet's root directory is on a disk of its own that is not mounted yet, and a
// kubelet that was faster has made a pods directory below the mount point. There each
// entry would be written off as gone, and a parked pod would never be put back. The
// directory is told by inode and birth time, since device numbers are given anew at each
// boot. One entry that is found shows that it is the right one, as after a move to
// another disk. That somebody emptied the quarantine, in the same directory, is no doubt.
func (r *Reaper) atHome() error {
	known := policy.Listed(r.Ledger.Entries())
	if len(known) == 0 || r.Store == nil {
		return nil
	}
	var was home
	remembered, err := r.Store.Load("home", &was)
	if err != nil {
		return err
	}
	now, err := r.Remover.Home()
	if err == nil && remembered && now.Ino == was.ID.Ino && now.Btime == was.ID.Btime {
		return nil
	}
	if err == nil {
		var names []string
		names, err = r.Remover.List()
		if err == nil && slices.ContainsFunc(known, func(e policy.EntryState) bool { return slices.Contains(names, e.Entry) }) {
			return r.Store.Save("home", home{now})
		}
	}
	if !remembered {
		return nil // an older program has filled it
	}
	text := "is its disk mounted? If what lay there is gone for good, move home.json out of the state directory"
	if err != nil {
		return fmt.Errorf("%w (%w); %s", errNotHome, err, text)
	}
	return fmt.Errorf("%w; %s", errNotHome, text)
}

// comeHome remembers where the quarantine is, before anything is moved there.
func (r *Reaper) comeHome(plan policy.Batch) error {
	moves := func(a policy.Action) bool { return a.Kind == policy.Park || a.Kind == policy.Clear }
	if r.Store == nil || !slices.ContainsFunc(plan.Actions, moves) {
		return nil
	}
	now, err := r.Remover.Home()
	if err != nil || now == r.home.ID {
		return err
	}
	if err := r.Store.Save("home", home{now}); err != nil {
		return err
	}
	r.home.ID = now
	return nil
}
