package reaper

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/decide"
)

// Restore puts the youngest quarantine entry of a pod back, by an operator's command. The pod is kept from then on. shown are
// the entries that the operator was shown: if another one is the youngest by now, nothing is put back.
func (r *Reaper) Restore(ctx context.Context, uid parsers.PodUID, shown []policy.EntryState) (policy.Outcome, error) {
	outs, err := r.byPerson(ctx, uid, policy.PutBack, shown, false)
	if err != nil {
		return policy.Outcome{}, err
	}
	return outs[0], nil
}

// PurgeEntries removes all quarantine entries of a pod, data and all, by an operator's command. shown are the entries that
// the operator agreed to: if another one is there by now, nothing is removed. If the pod lives again, nothing is removed
// unless living is true: the entries may be what it misses.
func (r *Reaper) PurgeEntries(ctx context.Context, uid parsers.PodUID, shown []policy.EntryState, living bool) ([]policy.Outcome, error) {
	return r.byPerson(ctx, uid, policy.Purge, shown, living)
}

func (r *Reaper) byPerson(
	ctx context.Context, uid parsers.PodUID, kind policy.ActionKind, shown []policy.EntryState, living bool,
) ([]policy.Outcome, error) {
	leave, err := r.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	begun := r.begun(uid, kind)
	rep := Report{byPerson: true}
	recovered := r.endCutOff(ctx, &rep, r.recover())
	finished := slices.DeleteFunc(recovered, func(o policy.Outcome) bool { return !begun[o.Action.Entry] || !reached(kind, o) })
	meant, err := r.entriesOf(uid, kind)
	if len(finished) > 0 && (err != nil || kind == policy.PutBack) {
		// The same command was killed before it could write down that it was done.
		r.publish(&rep, nil)
		return finished, nil
	}
	if err != nil {
		return nil, err
	}
	// The operator was shown a list that was made without the lock.
	if how := decide.Changed(meant, shown); how != "" {
		return nil, fmt.Errorf("%w of %s: %s; nothing was changed: see orphan-reaper quarantine list, then give the command again", ErrChanged, uid, how)
	}
	for i := range meant { // a look may have found out since that it is a static pod, which returns under its UID
		meant[i].Static = meant[i].Static || r.memory.Static[uid]
	}
	look, err := r.lookAt(ctx, uid, meant)
	if kind == policy.Purge {
		if err == nil {
			err = r.purgeable(ctx, uid, look, meant, living)
		}
		if err != nil {
			return nil, err
		}
	}
	rep.Look.Node = look.Node
	outs := finished
	for _, batch := range r.batches(decide.PlanCommand(meant, look.Resting, kind)) {
		outs = append(outs, r.execute(ctx, &rep, batch)...)
	}
	r.publish(&rep, nil)
	if len(outs) == 0 {
		return nil, fmt.Errorf("cannot write to the ledger, so nothing was done: %v", rep.Look.Errors)
	}
	return outs, nil
}

// reached reports whether the outcome is what the command was for.
func reached(kind policy.ActionKind, o policy.Outcome) bool {
	return o.Ended() && (kind == policy.Purge || o.Result != policy.Gone)
}

// begun returns the entries of the pod on which the same command was begun, with no outcome in
// the ledger.
func (r *Reaper) begun(uid parsers.PodUID, kind policy.ActionKind) map[string]bool {
	begun := map[string]bool{}
	for name, e := range r.Ledger.Entries() {
		if e.UID == uid && e.Phase == policy.Begun(kind) {
			begun[name] = true
		}
	}
	return begun
}

// lookAt looks for signs of life of one pod, of which something lies in quarantine.
func (r *Reaper) lookAt(ctx context.Context, uid parsers.PodUID, entries []policy.EntryState) (policy.Look, error) {
	resting := slices.Clone(entries)
	for i := range resting {
		resting[i].Rests = true
	}
	return r.Prober.Look(ctx, resting, []parsers.PodUID{uid})
}

// purgeable returns why an operator's command may remove nothing of a pod now: from a private mount namespace it would detach
// the node's mounts. Of a pod that lives again only mounts in quarantine count.
func (r *Reaper) purgeable(ctx context.Context, uid parsers.PodUID, look policy.Look, entries []policy.EntryState, living bool) error {
	if may := look.Node.MayEnforce; may.Truth != policy.Yes {
		return fmt.Errorf("cannot purge %s from here: %s", uid, may.Detail)
	}
	signs, lives := decide.LivesAgain(&r.memory.Log, look, entries, r.Rules)
	if lives && !living {
		return fmt.Errorf("the pod %w (%s), and what lies in quarantine may be what it misses; "+
			"orphan-reaper explain %s shows how to merge the two", ErrLives, signs, uid)
	}
	mounts := r.Prober.Mounts
	if lives {
		mounts = r.Prober.MountsParked
	}
	if f := mounts(ctx, []parsers.PodUID{uid})[uid]; f.Truth != policy.No {
		return fmt.Errorf("cannot purge %s: it is mounted, or the mounts could not be read: %s", uid, f.Detail)
	}
	return nil
}

// ErrChanged is for a restore or purge of other entries than the operator was shown.
var ErrChanged = errors.New("since it was shown, there is a change in what lies in quarantine")

// ErrNotThere is for a restore or purge of a pod of which nothing lies in quarantine: the same command may have ended a moment
// before.
var ErrNotThere = errors.New("nothing of the pod lies in quarantine")

// ErrLives is for a purge of what lies in quarantine of a pod that lives.
var ErrLives = errors.New("lives again")

// entriesOf finds what an operator means by a UID.
func (r *Reaper) entriesOf(uid parsers.PodUID, kind policy.ActionKind) ([]policy.EntryState, error) {
	of := func(all []policy.EntryState) []policy.EntryState {
		return slices.DeleteFunc(all, func(e policy.EntryState) bool { return e.UID != uid })
	}
	found := of(policy.Listed(r.Ledger.Entries()))
	if len(found) == 0 || kind == policy.Purge {
		names, err := r.Remover.List()
		if err != nil {
			return nil, err
		}
		found = append(found, of(decide.Unlisted(names, r.Ledger.Entries()))...)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("cannot find %s: %w; orphan-reaper quarantine list shows what is there", uid, ErrNotThere)
	}
	if meant := decide.Meant(found, kind); len(meant) > 0 {
		return meant, nil
	}
	return nil, fmt.Errorf("cannot restore %s: it is the directory that a living pod's kubelet made anew; inspect it and purge it", found[0].Entry)
}

// Resume closes the breaker, by an operator's command.
func (r *Reaper) Resume(ctx context.Context) error {
	return r.Locked(ctx, func() error {
		_, err := r.Ledger.Append(policy.Record{Kind: policy.KindResumed, At: r.Clock.Now()})
		return err
	})
}

// Forget has restored pods judged again, by an operator's command, and returns those that were. All are recorded at once, or
// none.
func (r *Reaper) Forget(ctx context.Context, uids []parsers.PodUID) (forgotten []parsers.PodUID, err error) {
	err = r.Locked(ctx, func() error {
		records := decide.Forgotten(r.Ledger.Entries(), uids, r.Clock.Now())
		if _, err := r.Ledger.Append(records...); err != nil {
			return fmt.Errorf("cannot write to the ledger, so nothing was forgotten: %w", err)
		}
		for _, rec := range records {
			forgotten = append(forgotten, rec.UID)
		}
		return nil
	})
	return slices.Compact(forgotten), err
}

// Locked does something under the ledger's lock, and publishes what it recorded, also after an error.
func (r *Reaper) Locked(ctx context.Context, do func() error) error {
	leave, err := r.Ledger.Enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	err = do()
	var rep Report
	r.publish(&rep, nil)
	return err
}
