package reaper

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// quarantineHome identifies the quarantine that the ledger's entries are in.
type quarantineHome struct {
	Parent policy.DirID `json:"id"`
	// Quarantine is zero where the quarantine was not made yet.
	Quarantine policy.DirID `json:"quarantine,omitzero"`
}

// errOtherQuarantine ends a pass before it begins.
var errOtherQuarantine = errors.New("no entry of the ledger lies in the quarantine, and it is another directory than before")

// checkQuarantine returns an error if none of the ledger's entries can be in this quarantine: each would be recorded as gone,
// and a parked pod would never be put back. The root directory may have been a guess at the boot of a node whose kubelet
// starts late (k0s, microk8s), its disk may not be mounted yet, or an operator may have moved the quarantine.
func (r *Reaper) checkQuarantine() error {
	home, known, err := r.findQuarantine()
	switch {
	case err != nil:
		return err
	case known:
		r.home = home
	case home != quarantineHome{}:
		r.saveHome(home)
	}
	return nil
}

// ReadQuarantine returns why the quarantine is not the one with the ledger's entries, or cannot be listed. It needs Remover,
// Ledger and Store, and changes nothing.
func (r *Reaper) ReadQuarantine() error {
	if r.Remover == nil {
		return nil
	}
	if _, _, err := r.findQuarantine(); err != nil {
		return err
	}
	if _, err := r.Remover.List(); err != nil {
		return fmt.Errorf("cannot list the quarantine: %w", err)
	}
	return nil
}

// findQuarantine returns the quarantine of the ledger's entries, known if it is the saved one, and zero where no entry shows
// which that is.
//
// One entry in it shows that the quarantine is the right one. If the same directory is empty, an operator has emptied it.
func (r *Reaper) findQuarantine() (home quarantineHome, known bool, err error) {
	entries := policy.Listed(r.Ledger.Entries())
	if len(entries) == 0 || r.Store == nil {
		return home, false, nil
	}
	var was quarantineHome
	remembered, err := r.Store.Load("home", &was)
	if err != nil {
		return home, false, err
	}
	parent, quarantine, err := r.Remover.Home()
	if err == nil && was.Quarantine != (policy.DirID{}) && quarantine.Is(was.Quarantine) {
		return was, true, nil
	}
	if err == nil {
		var names []string
		names, err = r.Remover.List()
		if slices.ContainsFunc(entries, func(e policy.EntryState) bool { return slices.Contains(names, e.Entry) }) {
			return quarantineHome{parent, quarantine}, false, nil
		}
	}
	mayHaveMoved := func(e policy.EntryState) bool {
		return e.Phase != policy.PhaseParking && e.Phase != policy.PhaseClearing
	}
	first := was.Quarantine == (policy.DirID{}) && parent.Is(was.Parent) && !slices.ContainsFunc(entries, mayHaveMoved)
	if !remembered || err == nil && first { // the very first move was killed before it made the quarantine
		return home, false, nil
	}
	text := "is its disk mounted? If it was moved, move it back. If what lay there is gone for good, move home.json out of the state directory"
	if err != nil {
		return home, false, fmt.Errorf("%w (%w); %s", errOtherQuarantine, err, text)
	}
	return home, false, fmt.Errorf("%w; %s", errOtherQuarantine, text)
}

// saveHome saves which quarantine is the right one. A failure is only logged: the next pass finds the same.
func (r *Reaper) saveHome(now quarantineHome) {
	if err := r.Store.Save("home", now); err != nil {
		r.Log.Warn("cannot save which directory the quarantine is", slog.Any("error", err))
		return
	}
	r.home = now
}

// rememberQuarantine saves which directory the quarantine is, before a batch moves something there and after it, since the
// batch may have made it.
func (r *Reaper) rememberQuarantine(batch policy.Batch) error {
	moves := func(a policy.Action) bool { return a.Kind == policy.Park || a.Kind == policy.Clear }
	if r.Store == nil || !slices.ContainsFunc(batch.Actions, moves) {
		return nil
	}
	parent, quarantine, err := r.Remover.Home()
	now := quarantineHome{parent, quarantine}
	if err != nil || now == r.home {
		return err
	}
	if r.home.Quarantine != (policy.DirID{}) && !quarantine.Is(r.home.Quarantine) && len(policy.Listed(r.Ledger.Entries())) > 0 {
		return errOtherQuarantine // it was exchanged since the pass began
	}
	if err := r.Store.Save("home", now); err != nil {
		return err
	}
	r.home = now
	return nil
}
