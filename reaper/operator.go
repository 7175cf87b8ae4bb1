package reaper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/decide"
)

// Restore puts the youngest quarantine entry of a pod back, by an operator's command. The pod is kept from then on. If another
// entry than those shown to the operator is the youngest now, nothing is put back.
func (r *Reaper) Restore(ctx context.Context, uid parsers.PodUID, shown []policy.EntryState) (policy.Outcome, error) {
	outs, failed, err := r.command(ctx, []parsers.PodUID{uid}, policy.PutBack, shown, false)
	if err := cmp.Or(err, failed[uid]); err != nil {
		return policy.Outcome{}, err
	}
	return outs[0], nil
}

// PurgeEntries removes all quarantine entries of some pods, with their data, by an operator's command, after one look at all
// of them. If a pod has another entry than those shown to the operator, nothing of it is removed. If a pod lives again, it may
// miss these data: nothing of it is removed unless force is true. failed has the reason for each pod that was left out.
func (r *Reaper) PurgeEntries(
	ctx context.Context, uids []parsers.PodUID, shown []policy.EntryState, force bool,
) (outs []policy.Outcome, failed map[parsers.PodUID]error, err error) {
	return r.command(ctx, uids, policy.Purge, shown, force)
}

// command carries out a restore or purge.
func (r *Reaper) command(
	ctx context.Context, uids []parsers.PodUID, kind policy.ActionKind, shown []policy.EntryState, force bool,
) (outs []policy.Outcome, failed map[parsers.PodUID]error, err error) {
	leave, err := r.enter(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer leave()
	rep := Report{byOperator: true}
	finished := r.finishCutOff(ctx, &rep, kind)
	chosen, failed, err := r.entriesOf(uids, kind)
	if err != nil {
		return nil, nil, err
	}
	for uid := range finished {
		if _, asked := chosen[uid]; !asked && failed[uid] == nil {
			continue
		}
		// The same command was killed before it could record that it was done.
		if outs = append(outs, finished[uid]...); failed[uid] != nil || kind == policy.PutBack {
			delete(failed, uid)
			delete(chosen, uid)
		}
	}
	// The list that the operator was shown was made without the lock.
	seen := byPod(shown)
	for uid, entries := range chosen {
		if how := decide.Changed(entries, seen[uid]); how != "" {
			failed[uid] = fmt.Errorf("%w: %s; nothing of the pod was changed: see orphan-reaper quarantine list, then run the command again", ErrChanged, how)
			delete(chosen, uid)
		}
		for i := range entries { // a later look may have found that it is a static pod, which returns under its UID
			entries[i].Static = entries[i].Static || r.memory.Static[uid]
		}
	}
	if len(chosen) > 0 {
		outs = append(outs, r.carryOutCommand(ctx, &rep, kind, chosen, failed, force)...)
	}
	r.publish(&rep, nil)
	return outs, failed, nil
}

// carryOutCommand looks at the pods once more, and puts back or purges the chosen entries. It adds to failed why a pod was
// left out.
func (r *Reaper) carryOutCommand(
	ctx context.Context, rep *Report, kind policy.ActionKind,
	chosen map[parsers.PodUID][]policy.EntryState, failed map[parsers.PodUID]error, force bool,
) (outs []policy.Outcome) {
	uids := slices.Sorted(maps.Keys(chosen))
	var entries []policy.EntryState
	for _, uid := range uids {
		entries = append(entries, chosen[uid]...)
	}
	look, err := r.lookForLife(ctx, uids, entries)
	rep.Look.Node = look.Node
	if kind == policy.Purge {
		refused := r.refusePurge(ctx, look, entries, err, force)
		maps.Copy(failed, refused)
		entries = slices.DeleteFunc(entries, func(e policy.EntryState) bool { return refused[e.UID] != nil })
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
			failed[a.UID] = fmt.Errorf("cannot write to the ledger, so nothing was done: %s", strings.Join(rep.Look.Errors, "; "))
		}
	}
	return outs
}

// finishCutOff finishes what a crash cut short, and returns the outcomes that are of the same command, by pod.
func (r *Reaper) finishCutOff(ctx context.Context, rep *Report, kind policy.ActionKind) map[parsers.PodUID][]policy.Outcome {
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

// reached reports whether the outcome is the purpose of the command.
func reached(kind policy.ActionKind, o policy.Outcome) bool {
	return o.Ended() && (kind == policy.Purge || o.Result != policy.Gone)
}

// lookForLife looks for signs of life of quarantined pods.
func (r *Reaper) lookForLife(ctx context.Context, uids []parsers.PodUID, entries []policy.EntryState) (policy.Look, error) {
	resting := slices.Clone(entries)
	for i := range resting {
		resting[i].Rests = true
	}
	return r.Prober.Look(ctx, resting, uids)
}

// refusePurge returns, for each pod of which nothing may be purged now, the reason. From a private mount namespace a purge
// would detach the node's mounts. The mounts of a pod that lives again count only in quarantine. err is that of the look.
func (r *Reaper) refusePurge(
	ctx context.Context, look policy.Look, entries []policy.EntryState, err error, force bool,
) map[parsers.PodUID]error {
	refused, alive, dead := map[parsers.PodUID]error{}, []parsers.PodUID{}, []parsers.PodUID{}
	signs := decide.LiveAgain(&r.memory.Log, look, entries, r.Rules)
	for uid := range byPod(entries) {
		sign, lives := signs[uid]
		switch may := look.Node.MayEnforce; {
		case err != nil:
			refused[uid] = err
		case may.Truth != policy.Yes:
			refused[uid] = fmt.Errorf("cannot purge %s from here: %s", uid, may.Detail)
		case lives && !force:
			refused[uid] = fmt.Errorf("the pod %w (%s), and may miss what lies in quarantine; "+
				"orphan-reaper explain %s shows how to merge the two", ErrLives, sign, uid)
		case lives:
			alive = append(alive, uid)
		default:
			dead = append(dead, uid)
		}
	}
	refuseMounted := func(uids []parsers.PodUID, mounts func(context.Context, []parsers.PodUID) map[parsers.PodUID]policy.Fact) {
		if len(uids) == 0 {
			return
		}
		found := mounts(ctx, uids)
		for _, uid := range uids {
			if f := found[uid]; f.Truth != policy.No {
				refused[uid] = fmt.Errorf("cannot purge %s: it is mounted, or the mounts could not be read: %s", uid, f.Detail)
			}
		}
	}
	refuseMounted(dead, r.Prober.Mounts)
	refuseMounted(alive, r.Prober.MountsParked)
	return refused
}

// ErrChanged reports that the quarantine has other entries of the pod than the operator was shown.
var ErrChanged = errors.New("the quarantine has changed since the command showed it")

// ErrNotThere reports that the quarantine has no entry of the pod. The same command may just have ended.
var ErrNotThere = errors.New("nothing of the pod lies in quarantine")

// ErrLives reports that a pod to purge lives again.
var ErrLives = errors.New("lives again")

// entriesOf returns the entries that the command is for by pod, and in failed why a pod has none.
func (r *Reaper) entriesOf(uids []parsers.PodUID, kind policy.ActionKind) (
	chosen map[parsers.PodUID][]policy.EntryState, failed map[parsers.PodUID]error, err error,
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
	chosen, failed = map[parsers.PodUID][]policy.EntryState{}, map[parsers.PodUID]error{}
	for _, uid := range uids {
		entries := decide.Meant(found[uid], kind)
		switch {
		case len(found[uid]) == 0:
			failed[uid] = fmt.Errorf("cannot find %s: %w; orphan-reaper quarantine list shows what is there", uid, ErrNotThere)
		case len(entries) == 0:
			failed[uid] = fmt.Errorf("cannot restore %s: the kubelet made this directory again while the pod was in quarantine; "+
				"inspect it and purge it", found[uid][0].Entry)
		default:
			chosen[uid] = entries
		}
	}
	return chosen, failed, nil
}

// Resume closes the breaker, by an operator's command.
func (r *Reaper) Resume(ctx context.Context) error {
	return r.Locked(ctx, func() error {
		_, err := r.Ledger.Append(policy.Record{Kind: policy.KindResumed, At: r.Clock.Now()})
		return err
	})
}

// Forget ends the protection of restored pods, by an operator's command: they are judged again. It returns their UIDs. It
// records all of them, or none.
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

// Locked calls do with the ledger locked, and publishes what it recorded, even after an error.
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
