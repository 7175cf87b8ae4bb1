package reaper

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// RefusedError is the error of an operator's order that is not carried out. Nothing was changed.
type RefusedError struct {
	UID    parsers.PodUID
	Reason string
}

func (e *RefusedError) Error() string { return fmt.Sprintf("pod %s: %s", e.UID, e.Reason) }

// Restore moves the newest entry of a pod back to the pods directory, by an operator's order. With replace the pod's directory
// there goes to quarantine. It returns the events of what was done.
func (l *Loop) Restore(ctx context.Context, uid parsers.PodUID, replace bool, by *judge.User) ([]judge.Event, error) {
	return l.order(ctx, []parsers.PodUID{uid}, func(entries []judge.Entry, p judge.Pod) ([]judge.Move, error) {
		m, refused := judge.RestoreOrder(entries[len(entries)-1], p, replace, by)
		if refused != "" {
			return nil, &RefusedError{uid, refused}
		}
		return []judge.Move{m}, nil
	})
}

// Purge removes all entries of these pods for ever, by an operator's order. A pod that is refused does not stop the others.
func (l *Loop) Purge(ctx context.Context, uids []parsers.PodUID, by *judge.User) ([]judge.Event, error) {
	return l.order(ctx, uids, func(entries []judge.Entry, p judge.Pod) (moves []judge.Move, err error) {
		for _, e := range entries {
			m, refused := judge.PurgeOrder(e, p, by)
			if refused != "" {
				return nil, &RefusedError{p.UID, refused}
			}
			moves = append(moves, m)
		}
		return moves, nil
	})
}

// Resume closes the circuit breaker. It returns false if that was closed.
func (l *Loop) Resume(ctx context.Context, by *judge.User) (was bool, err error) {
	leave, err := l.Ledger.Enter(ctx)
	if err != nil {
		return false, err
	}
	defer leave()
	if _, open := l.Ledger.Breaker(); !open {
		return false, nil
	}
	p := l.orderPass()
	if !p.write(judge.Event{Kind: judge.EventResumed, At: p.began, By: by}) {
		return true, errors.New(p.problems[0])
	}
	p.record()
	return true, nil
}

// orderPass is a pass for an operator's order: it obeys no mode, and the circuit breaker does not stop it.
func (l *Loop) orderPass() *pass {
	return &pass{Loop: l, opt: Options{Order: true}, began: l.Clock.Now()}
}

// order carries out an operator's order on the entries of these pods: scan, intent, change, result. plan gets the entries of
// one pod, sorted by age.
func (l *Loop) order(ctx context.Context, uids []parsers.PodUID, plan func([]judge.Entry, judge.Pod) ([]judge.Move, error)) ([]judge.Event, error) {
	leave, err := l.Ledger.Enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	p := l.orderPass()
	recovered := p.recover()
	p.snapshot = p.Scanner.Scan(ctx, uids, uids)
	p.node = p.snapshot.Node
	var moves []judge.Move
	var errs []error
	for _, uid := range uids {
		pod, scanned := p.snapshot.Pod(uid)
		entries := p.entriesOf(uid)
		if !scanned || len(entries) == 0 {
			errs = append(errs, &RefusedError{uid, "it is not in quarantine"})
			continue
		}
		planned, err := plan(entries, *pod)
		moves, errs = append(moves, planned...), append(errs, err)
	}
	if recovered { // else the problems have why
		p.carryOut(ctx, moves)
	}
	p.record()
	for _, problem := range p.problems {
		errs = append(errs, errors.New(problem))
	}
	done := slices.DeleteFunc(p.events, func(e judge.Event) bool { return e.Kind.Intent() })
	for _, e := range done {
		if e.Err != "" {
			errs = append(errs, &RefusedError{e.UID, e.Err})
		}
	}
	return done, errors.Join(errs...)
}

// carryOut writes the intents of an operator's moves, carries these out, and writes the results.
func (p *pass) carryOut(ctx context.Context, moves []judge.Move) {
	if len(moves) == 0 {
		return
	}
	permit := p.operatorsPermit()
	if !permit.MayRestore() || moves[0].Action == judge.Purge && !permit.MayRemove() {
		why, _ := permit.Stopped()
		p.problems = append(p.problems, why.Detail)
		return
	}
	if p.write(intents(moves, p.node, p.Clock.Now())...) {
		p.write(results(p.Disk.Execute(ctx, permit, moves), p.node, p.Clock.Now())...)
	}
}

func (p *pass) operatorsPermit() judge.Permit {
	return judge.Standing{Node: p.node, Operator: true}.Gate()
}

// entriesOf returns the entries of a pod, sorted by age.
func (p *pass) entriesOf(uid parsers.PodUID) (entries []judge.Entry) {
	all := p.Ledger.Entries()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if e := all[name]; e.UID == uid {
			e.Name = name
			entries = append(entries, e)
		}
	}
	return entries
}
