package reaper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/decide"
)

// Restore puts the youngest quarantine entry of a pod back, by an operator's command. The pod is kept from then on. shown are
// the entries that the operator was shown: if another one is the youngest by now, nothing is put back.
func (r *Reaper) Restore(ctx context.Context, uid parsers.PodUID, shown []policy.EntryState) (policy.Outcome, error) {
	outs, failed, err := r.byPerson(ctx, []parsers.PodUID{uid}, policy.PutBack, shown, false)
	if err := cmp.Or(err, failed[uid]); err != nil {
		return policy.Outcome{}, err
	}
	return outs[0], nil
}

// PurgeEntries removes all quarantine entries of some pods, data and all, by an operator's command, after one look at all of
// them. shown are the entries that the operator agreed to: of a pod of which another one is there by now nothing is removed.
// If a pod lives again, nothing of it is removed unless living is true: the entries may be what it misses. failed has why
// nothing was removed of each other pod.
func (r *Reaper) PurgeEntries(
	ctx context.Context, uids []parsers.PodUID, shown []policy.EntryState, living bool,
) (outs []policy.Outcome, failed map[parsers.PodUID]error, err error) {
	return r.byPerson(ctx, uids, policy.Purge, shown, living)
}

func (r *Reaper) byPerson(
	ctx context.Context, uids []parsers.PodUID, kind policy.ActionKind, shown []policy.EntryState, living bool,
) (outs []policy.Outcome, failed map[parsers.PodUID]error, err error) {
	leave, err := r.enter(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer leave()
	rep := Report{byPerson: true}
	finished := r.finished(ctx, &rep, kind)
	meant, failed, err := r.entriesOf(uids, kind)
	if err != nil {
		return nil, nil, err
	}
	for uid := range finished {
		if _, asked := meant[uid]; !asked && failed[uid] == nil {
			continue
		}
		// The same command was killed before it could write down that it was done.
		if outs = append(outs, finished[uid]...); failed[uid] != nil || kind == policy.PutBack {
			delete(failed, uid)
			delete(meant, uid)
		}
	}
	// The operator was shown a list that was made without the lock.
	seen := byPod(shown)
	for uid, entries := range meant {
		if how := decide.Changed(entries, seen[uid]); how != "" {
			failed[uid] = fmt.Errorf("%w of %s: %s; nothing was changed: see orphan-reaper quarantine list, then give the command again", ErrChanged, uid, how)
			delete(meant, uid)
		}
		for i := range entries { // a look may have found out since that it is a static pod, which returns under its UID
			entries[i].Static = entries[i].Static || r.memory.Static[uid]
		}
	}
	if len(meant) > 0 {
		outs = append(outs, r.carryOutByPerson(ctx, &rep, kind, meant, failed, living)...)
	}
	r.publish(&rep, nil)
	return outs, failed, nil
}

// carryOutByPerson looks at the pods once more and does what the operator asked for. It adds to failed why nothing was done
// with a pod.
func (r *Reaper) carryOutByPerson(
	ctx context.Context, rep *Report, kind policy.ActionKind, meant map[parsers.PodUID][]policy.EntryState, failed map[parsers.PodUID]error, living bool,
) (outs []policy.Outcome) {
	uids := slices.Sorted(maps.Keys(meant))
	var entries []policy.EntryState
	for _, uid := range uids {
		entries = append(entries, meant[uid]...)
	}
	look, err := r.lookAt(ctx, uids, entries)
	rep.Look.Node = look.Node
	if kind == policy.Purge {
		why := r.purgeable(ctx, look, entries, err, living)
		maps.Copy(failed, why)
		entries = slices.DeleteFunc(entries, func(e policy.EntryState) bool { return why[e.UID] != nil })
	}
	rests := map[string]policy.Evidence{}
	for _, e := range look.Resting {
		rests[e.Entry] = e
	}
	for _, batch := range r.batches(decide.PlanCommand(entries, rests, kind)) {
		done := r.execute(ctx, rep, batch)
		if outs = append(outs, done...); len(done) > 0 {
			continue
		}
		for _, a := range batch.Actions {
			failed[a.UID] = fmt.Errorf("cannot write to the ledger, so nothing was done: %v", rep.Look.Errors)
		}
	}
	return outs
}

// finished ends what a crash cut short, and returns what it ended of the same command, by pod.
func (r *Reaper) finished(ctx context.Context, rep *Report, kind policy.ActionKind) map[parsers.PodUID][]policy.Outcome {
	begun := map[string]bool{}
	for name, e := range r.Ledger.Entries() {
		begun[name] = e.Phase == policy.Begun(kind)
	}
	done := map[parsers.PodUID][]policy.Outcome{}
	for _, o := range r.endCutOff(ctx, rep, r.recover()) {
		if begun[o.Action.Entry] && reached(kind, o) {
			done[o.Action.UID] = append(done[o.Action.UID], o)
		}
	}
	return done
}

func byPod(entries []policy.EntryState) map[parsers.PodUID][]policy.EntryState {
	of := map[parsers.PodUID][]policy.EntryState{}
	for _, e := range entries {
		of[e.UID] = append(of[e.UID], e)
	}
	return of
}

// reached reports whether the outcome is what the command was for.
func reached(kind policy.ActionKind, o policy.Outcome) bool {
	return o.Ended() && (kind == policy.Purge || o.Result != policy.Gone)
}

// lookAt looks for signs of life of pods of which something lies in quarantine.
func (r *Reaper) lookAt(ctx context.Context, uids []parsers.PodUID, entries []policy.EntryState) (policy.Look, error) {
	resting := slices.Clone(entries)
	for i := range resting {
		resting[i].Rests = true
	}
	return r.Prober.Look(ctx, resting, uids)
}

// purgeable returns of which pods, and why, an operator's command may remove nothing now: from a private mount namespace it
// would detach the node's mounts. Of a pod that lives again only mounts in quarantine count. err is why the look failed.
func (r *Reaper) purgeable(
	ctx context.Context, look policy.Look, entries []policy.EntryState, err error, living bool,
) map[parsers.PodUID]error {
	not, alive, dead := map[parsers.PodUID]error{}, []parsers.PodUID{}, []parsers.PodUID{}
	signs := decide.LiveAgain(&r.memory.Log, look, entries, r.Rules)
	for uid := range byPod(entries) {
		sign, lives := signs[uid]
		switch may := look.Node.MayEnforce; {
		case err != nil:
			not[uid] = err
		case may.Truth != policy.Yes:
			not[uid] = fmt.Errorf("cannot purge %s from here: %s", uid, may.Detail)
		case lives && !living:
			not[uid] = fmt.Errorf("the pod %w (%s), and what lies in quarantine may be what it misses; "+
				"orphan-reaper explain %s shows how to merge the two", ErrLives, sign, uid)
		case lives:
			alive = append(alive, uid)
		default:
			dead = append(dead, uid)
		}
	}
	mounted := func(uids []parsers.PodUID, mounts func(context.Context, []parsers.PodUID) map[parsers.PodUID]policy.Fact) {
		if len(uids) == 0 {
			return
		}
		found := mounts(ctx, uids)
		for _, uid := range uids {
			if f := found[uid]; f.Truth != policy.No {
				not[uid] = fmt.Errorf("cannot purge %s: it is mounted, or the mounts could not be read: %s", uid, f.Detail)
			}
		}
	}
	mounted(dead, r.Prober.Mounts)
	mounted(alive, r.Prober.MountsParked)
	return not
}

// ErrChanged is for a restore or purge of other entries than the operator was shown.
var ErrChanged = errors.New("since it was shown, there is a change in what lies in quarantine")

// ErrNotThere is for a restore or purge of a pod of which nothing lies in quarantine: the same command may have ended a moment
// before.
var ErrNotThere = errors.New("nothing of the pod lies in quarantine")

// ErrLives is for a purge of what lies in quarantine of a pod that lives.
var ErrLives = errors.New("lives again")

// entriesOf finds what an operator means by each UID, or why nothing is meant.
func (r *Reaper) entriesOf(uids []parsers.PodUID, kind policy.ActionKind) (
	meant map[parsers.PodUID][]policy.EntryState, failed map[parsers.PodUID]error, err error,
) {
	all := r.Ledger.Entries()
	found := byPod(policy.Listed(all))
	if kind == policy.Purge || slices.ContainsFunc(uids, func(uid parsers.PodUID) bool { return len(found[uid]) == 0 }) {
		names, err := r.Remover.List()
		if err != nil {
			return nil, nil, err
		}
		for uid, more := range byPod(decide.Unlisted(names, all)) {
			if kind == policy.Purge || len(found[uid]) == 0 {
				found[uid] = append(found[uid], more...)
			}
		}
	}
	meant, failed = map[parsers.PodUID][]policy.EntryState{}, map[parsers.PodUID]error{}
	for _, uid := range uids {
		entries := decide.Meant(found[uid], kind)
		switch {
		case len(found[uid]) == 0:
			failed[uid] = fmt.Errorf("cannot find %s: %w; orphan-reaper quarantine list shows what is there", uid, ErrNotThere)
		case len(entries) == 0:
			failed[uid] = fmt.Errorf("cannot restore %s: it is the directory that a living pod's kubelet made anew; inspect it and purge it", found[uid][0].Entry)
		default:
			meant[uid] = entries
		}
	}
	return meant, failed, nil
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
