package reaper

import (
	"context"
	"fmt"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// Restore puts the youngest quarantine entry of a pod back, by a person's word. The pod is
// kept from then on.
func (r *Reaper) Restore(ctx context.Context, uid parsers.PodUID) (policy.Outcome, error) {
	return r.byPerson(ctx, uid, policy.PutBack, 0)
}

// PurgeEntry removes what is left of a quarantine entry, data and all, by a person's word.
func (r *Reaper) PurgeEntry(ctx context.Context, uid parsers.PodUID) (policy.Outcome, error) {
	return r.byPerson(ctx, uid, policy.Purge, policy.TakeAll)
}

func (r *Reaper) byPerson(ctx context.Context, uid parsers.PodUID, kind policy.ActionKind, take policy.ClassSet) (policy.Outcome, error) {
	leave, err := r.Ledger.Enter(ctx)
	if err != nil {
		return policy.Outcome{}, err
	}
	defer leave()
	r.recover(ctx)
	entry, err := r.entryOf(uid, kind)
	if err != nil {
		return policy.Outcome{}, err
	}
	f := r.Prober.Mounts(ctx, []parsers.PodUID{uid})[uid]
	if kind == policy.Purge && f.Truth != policy.No {
		return policy.Outcome{}, fmt.Errorf("cannot purge %s: it is mounted, or the mounts could not be read: %s", entry.Entry, f.Detail)
	}
	action := policy.Action{
		Kind: kind, UID: uid, Entry: entry.Entry, ID: entry.ID, Take: take, ByPerson: true,
		Evidence: &policy.Evidence{UID: uid, Namespace: entry.Namespace, PodName: entry.PodName},
	}
	if entry.Phase == policy.PhaseConflict {
		action.ID = policy.DirID{}
	}
	var rep Report
	outs := r.execute(ctx, &rep, policy.Plan{Actions: []policy.Action{action}})
	r.tell(&rep, nil)
	if len(outs) == 0 {
		return policy.Outcome{}, fmt.Errorf("cannot write to the ledger, so nothing was done: %v", rep.Look.Errors)
	}
	return outs[0], nil
}

// entryOf finds the entry that a person means by a UID: the youngest that is no conflict,
// or, to purge, any.
func (r *Reaper) entryOf(uid parsers.PodUID, kind policy.ActionKind) (policy.EntryState, error) {
	var found *policy.EntryState
	for _, e := range entries(r.Ledger.Entries()) {
		if e.UID == uid && (found == nil || e.Phase != policy.PhaseConflict || kind == policy.Purge) {
			found = &e
		}
	}
	if found == nil {
		names, err := r.Remover.List()
		if err != nil {
			return policy.EntryState{}, err
		}
		for _, e := range Unlisted(names, r.Ledger.Entries()) {
			if e.UID == uid && (found == nil || e.Phase != policy.PhaseConflict || kind == policy.Purge) {
				found = &e
			}
		}
	}
	if found == nil {
		return policy.EntryState{}, fmt.Errorf("cannot find pod %s in quarantine: orphan-reaper quarantine list shows what is there", uid)
	}
	if found.Phase == policy.PhaseConflict && kind == policy.PutBack {
		return policy.EntryState{}, fmt.Errorf("cannot restore %s: it is the directory that a living pod's kubelet made anew; look at it and purge it", found.Entry)
	}
	return *found, nil
}

// Unlisted returns the entries among names, which lie in quarantine, that the ledger does
// not know: the state directory was lost, or this is another one. Which directory it was
// is not known either, so only a person does something about it.
func Unlisted(names []string, known map[string]*policy.EntryState) []policy.EntryState {
	var entries []policy.EntryState
	for _, name := range names {
		if e := known[name]; e != nil && e.Phase != policy.PhaseGone {
			continue
		}
		first, rest, _ := strings.Cut(name, ".")
		uid, ok := parsers.ParsePodUID(first)
		if !ok || rest == "" {
			continue // not ours
		}
		e := policy.EntryState{Entry: name, UID: uid, Phase: policy.PhaseUnlisted}
		if strings.Contains(rest, "conflict") {
			e.Phase = policy.PhaseConflict
		}
		entries = append(entries, e)
	}
	return entries
}

// Resume closes the breaker, by a person's word.
func (r *Reaper) Resume(ctx context.Context) error {
	leave, err := r.Ledger.Enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if _, err := r.Ledger.Append(policy.Record{Kind: policy.KindResumed, At: r.Clock.Now()}); err != nil {
		return err
	}
	var rep Report
	r.tell(&rep, nil)
	return nil
}
