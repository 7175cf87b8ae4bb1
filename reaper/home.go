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

// atHome refuses to work with a quarantine in which none of the ledger's entries can be.
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
	q := policy.Quarantine{Known: len(known), Remembered: remembered}
	now, err := r.Remover.Home()
	if err == nil && now.Is(was.ID) {
		q.Dir = policy.Yes
	} else if err == nil {
		var names []string
		names, err = r.Remover.List()
		if slices.ContainsFunc(known, func(e policy.EntryState) bool { return slices.Contains(names, e.Entry) }) {
			q.Found = policy.Yes
		}
	}
	switch {
	case q.Found == policy.Yes:
		return r.Store.Save("home", home{now})
	case q.Same():
		return nil
	}
	text := "is its disk mounted? If what lay there is gone for good, move home.json out of the state directory"
	if err != nil {
		return fmt.Errorf("%w (%w); %s", errNotHome, err, text)
	}
	return fmt.Errorf("%w; %s", errNotHome, text)
}

// comeHome remembers where the quarantine is, before anything is moved there.
func (r *Reaper) comeHome(batch policy.Batch) error {
	moves := func(a policy.Action) bool { return a.Kind == policy.Park || a.Kind == policy.Clear }
	if r.Store == nil || !slices.ContainsFunc(batch.Actions, moves) {
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
