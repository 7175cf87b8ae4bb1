package reaper

import (
	"fmt"
	"slices"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// entryName returns a free name for a pod in quarantine: UID.N, N being the wall clock in milliseconds, so that the names
// of one pod sort by age.
func entryName(uid parsers.PodUID, now judge.Instant, taken map[string]judge.Entry) string {
	for n := now.Wall.UnixMilli(); ; n++ {
		name := fmt.Sprintf("%s.%d", uid, n)
		if _, ok := taken[name]; !ok {
			return name
		}
	}
}

func uidsOf(moves []judge.Move) []parsers.PodUID {
	uids := make([]parsers.PodUID, 0, len(moves))
	for _, m := range moves {
		uids = append(uids, m.UID)
	}
	return uids
}

// entryUIDs returns the pods of the entries, each once.
func entryUIDs(entries map[string]judge.Entry) []parsers.PodUID {
	var uids []parsers.PodUID
	for _, e := range entries {
		uids = append(uids, e.UID)
	}
	slices.Sort(uids)
	return slices.Compact(uids)
}

// refuse returns outcomes of moves that were not tried.
func refuse(moves []judge.Move, why string) []judge.Outcome {
	outcomes := make([]judge.Outcome, 0, len(moves))
	for _, m := range moves {
		outcomes = append(outcomes, judge.Outcome{Move: m, Result: judge.Refused, Err: why})
	}
	return outcomes
}

// event returns what every event of a move has.
func event(m judge.Move, n judge.Node, now judge.Instant) judge.Event {
	return judge.Event{
		At: now, By: m.By, UID: m.UID, Namespace: m.Namespace, PodName: m.PodName, Static: m.Static,
		Entry: m.Entry, ID: m.ID, Kubelet: n.Kubelet.PID, Reasons: m.Reasons, Remove: m.Remove, Operator: m.By != nil,
	}
}

var intentOf = map[judge.Action]judge.EventKind{
	judge.Quarantine: judge.EventMoving, judge.Restore: judge.EventRestoring, judge.Exchange: judge.EventRestoring,
	judge.Clean: judge.EventCleaning, judge.Purge: judge.EventPurging,
}

// intents returns the events to write before the moves.
func intents(moves []judge.Move, n judge.Node, now judge.Instant) []judge.Event {
	events := make([]judge.Event, 0, len(moves))
	for _, m := range moves {
		e := event(m, n, now)
		e.Kind = intentOf[m.Action]
		events = append(events, e)
	}
	return events
}

// results returns the events to write after the moves. A move that was stopped has none: its intent stays open.
func results(outcomes []judge.Outcome, n judge.Node, now judge.Instant) []judge.Event {
	var events []judge.Event
	for _, o := range outcomes {
		if o.Stopped {
			continue
		}
		e := event(o.Move, n, now)
		e.Kind, e.Err, e.Left, e.VolData, e.Other, e.OtherID = resultOf(o), o.Err, o.Left, o.VolData, o.Other, o.OtherID
		if e.Kind == judge.EventFailed && o.Result == judge.Gone {
			e.Lost, e.Err = true, lost
		}
		for class, t := range o.Taken {
			if e.Taken == nil {
				e.Taken = map[string]judge.Tally{}
			}
			e.Taken[class.String()] = t
		}
		if o.ID != (judge.FileID{}) {
			e.ID = o.ID
		}
		if e.Kind == judge.EventQuarantined || e.Kind == judge.EventCleaned {
			e.Undo = "orphan-reaper quarantine restore " + string(o.Move.UID)
		}
		events = append(events, e)
	}
	return events
}

// resultOf returns the kind of event that a result is.
func resultOf(o judge.Outcome) judge.EventKind {
	moving := o.Move.Action == judge.Quarantine
	back := o.Move.Action == judge.Restore || o.Move.Action == judge.Exchange
	switch o.Result {
	case judge.Done:
		switch {
		case moving:
			return judge.EventQuarantined
		case back:
			return judge.EventRestored
		case len(o.Left) > 0:
			return judge.EventCleaned
		}
		return judge.EventRemoved
	case judge.Partly:
		return judge.EventCleaned
	case judge.Gone:
		switch {
		case moving:
			return judge.EventNotMoved
		case o.Move.Resumed:
			return judge.EventRemoved
		}
		return judge.EventFailed // nobody else may remove it
	case judge.Refused:
		switch {
		case moving:
			return judge.EventNotMoved
		case back:
			return judge.EventNotRestored
		}
		return judge.EventFailed
	case judge.Conflict:
		return judge.EventConflict
	case judge.Failed:
	}
	return judge.EventFailed
}

// conflicts returns the events of entries that cannot be restored, since their pod has another directory in use.
func conflicts(moves []judge.Move, n judge.Node, now judge.Instant) []judge.Event {
	events := make([]judge.Event, 0, len(moves))
	for _, m := range moves {
		e := event(m, n, now)
		e.Kind = judge.EventConflict
		events = append(events, e)
	}
	return events
}

// breakerEvent returns the event that opens the circuit breaker.
func breakerEvent(m judge.Move, n judge.Node, now judge.Instant) judge.Event {
	e := event(m, n, now)
	e.Kind, e.Entry, e.Remove = judge.EventBreaker, "", 0
	return e
}

// lost is the error of an entry that something else has removed.
const lost = "the directory is neither in quarantine nor in the pods directory: another process has removed it"
