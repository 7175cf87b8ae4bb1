package reaper

import (
	"errors"
	"fmt"
	"slices"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// quarantineParent is the directory in which the quarantine lies that the ledger's entries are in.
type quarantineParent struct {
	ID policy.DirID `json:"id"`
}

// errOtherQuarantine ends a pass before it begins.
var errOtherQuarantine = errors.New("no entry of the ledger lies in the quarantine, and the directory that it is in is another one than before")

// checkQuarantine refuses to work with a quarantine in which none of the ledger's entries can be: each would be recorded as
// gone, and a parked pod would never be put back. The root directory may have been a guess at the boot of a node whose
// kubelet starts late (k0s, microk8s), or be on a disk that is not mounted yet.
//
// One entry that is found shows that the quarantine is the right one. An empty one in the same directory was emptied by an
// operator.
func (r *Reaper) checkQuarantine() error {
	known := policy.Listed(r.Ledger.Entries())
	if len(known) == 0 || r.Store == nil {
		return nil
	}
	var was quarantineParent
	remembered, err := r.Store.Load("home", &was)
	if err != nil {
		return err
	}
	now, err := r.Remover.QuarantineParent()
	if err == nil && now.Is(was.ID) {
		return nil
	}
	if err == nil {
		var names []string
		names, err = r.Remover.List()
		if slices.ContainsFunc(known, func(e policy.EntryState) bool { return slices.Contains(names, e.Entry) }) {
			return r.Store.Save("home", quarantineParent{now})
		}
	}
	if !remembered {
		return nil
	}
	text := "is its disk mounted? If what lay there is gone for good, move home.json out of the state directory"
	if err != nil {
		return fmt.Errorf("%w (%w); %s", errOtherQuarantine, err, text)
	}
	return fmt.Errorf("%w; %s", errOtherQuarantine, text)
}

// rememberQuarantine remembers where the quarantine is, before anything is moved there.
func (r *Reaper) rememberQuarantine(batch policy.Batch) error {
	moves := func(a policy.Action) bool { return a.Kind == policy.Park || a.Kind == policy.Clear }
	if r.Store == nil || !slices.ContainsFunc(batch.Actions, moves) {
		return nil
	}
	now, err := r.Remover.QuarantineParent()
	if err != nil || now == r.parent.ID {
		return err
	}
	if err := r.Store.Save("home", quarantineParent{now}); err != nil {
		return err
	}
	r.parent.ID = now
	return nil
}
