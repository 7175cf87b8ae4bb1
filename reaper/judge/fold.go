package judge

import "github.com/orphan-reaper/orphan-reaper/parsers"

// Folded is what a ledger's events add up to. The zero value is an empty ledger.
type Folded struct {
	Entries  map[string]Entry
	Restored map[parsers.PodUID]Restoration
	// Breaker is the event that opened the circuit breaker, nil if it is closed.
	Breaker *Event
}

// Apply adds one event. Events that are only told to operators change nothing.
func (f *Folded) Apply(ev Event) {
	if f.Entries == nil {
		f.Entries, f.Restored = map[string]Entry{}, map[parsers.PodUID]Restoration{}
	}
	switch ev.Kind {
	case EventBreaker:
		f.Breaker = &ev
	case EventResumed:
		f.Breaker = nil
	case EventReleased:
		f.released(ev.UID)
	case EventMoving:
		f.Entries[ev.Entry] = Entry{
			Name: ev.Entry, UID: ev.UID, Namespace: ev.Namespace, PodName: ev.PodName, Static: ev.Static,
			Phase: Moving, ID: ev.ID, MovedAt: ev.At, By: ev.By, Quarantine: ev.Quarantine,
		}
	case EventNotMoved, EventRemoved:
		delete(f.Entries, ev.Entry)
	case EventRestored:
		f.restored(ev)
	case EventFailed:
		if e, ok := f.Entries[ev.Entry]; ev.Lost {
			delete(f.Entries, ev.Entry)
		} else if ok {
			f.Entries[ev.Entry] = e.apply(ev)
		}
	case EventQuarantined, EventRestoring, EventNotRestored, EventConflict, EventCleaning, EventPurging, EventCleaned:
		if e, ok := f.Entries[ev.Entry]; ok {
			f.Entries[ev.Entry] = e.apply(ev)
		}
	case EventUnmounting, EventUnmounted, EventCNIRemoving, EventCNIRemoved, EventKept, EventStarted, EventStopped:
	}
}

// apply returns the entry after an event about it.
func (e Entry) apply(ev Event) Entry {
	switch ev.Kind {
	case EventQuarantined:
		e.Phase, e.ID, e.MovedAt = Quarantined, ev.ID, ev.At // the rename may have come long after its intent
		e.Err, e.FailedAt = "", Instant{}
	case EventRestoring:
		e.begin(Restoring, ev)
	case EventCleaning:
		e.begin(Cleaning, ev)
	case EventPurging:
		e.begin(Purging, ev)
	case EventConflict:
		e.Phase = InConflict
	case EventNotRestored:
		e.Phase, e.Err, e.FailedAt, e.Failures = e.Before, ev.Err, ev.At, 0
	case EventFailed:
		e.Err, e.FailedAt = ev.Err, ev.At
		if e.Phase == Moving { // the directory may have been moved: recover finds where it is
			return e
		}
		e.Phase = e.Before
		e.Failures, e.Partly = e.Failures+1, e.Partly || len(ev.Taken) > 0
	case EventCleaned:
		e.Left, e.Err, e.Failures = ev.Left, "", 0
		if e.Phase = Retained; e.Before == InConflict {
			e.Phase = InConflict
		}
		if e.ConfirmedAt == (Instant{}) {
			e.ConfirmedAt = ev.At
		}
	default:
	}
	return e
}

// begin notes an intent, and the phase to which the entry returns if it fails.
func (e *Entry) begin(p Phase, ev Event) {
	if e.Phase != p { // a clean that goes on is begun again
		e.Before = e.Phase
	}
	e.Phase, e.Remove, e.By, e.Ordered = p, ev.Remove, ev.By, ev.Operator
}

// restored ends an entry. The directory that it was exchanged with is an entry of its own if something of it is left.
func (f *Folded) restored(ev Event) {
	quarantine := f.Entries[ev.Entry].Quarantine
	delete(f.Entries, ev.Entry)
	r := f.Restored[ev.UID]
	r.At, r.Operator = ev.At, ev.Operator
	if !ev.Operator {
		r.Times++
	}
	f.Restored[ev.UID] = r
	if ev.Other != "" {
		f.Entries[ev.Other] = Entry{
			Name: ev.Other, UID: ev.UID, Namespace: ev.Namespace, PodName: ev.PodName, Static: ev.Static,
			Phase: InConflict, ID: ev.OtherID, MovedAt: ev.At, Quarantine: quarantine,
		}
	}
}

// released ends an operator's restore. How often the pod was restored because it was alive is kept.
func (f *Folded) released(uid parsers.PodUID) {
	r := f.Restored[uid]
	if r.Operator = false; r.Times > 0 {
		f.Restored[uid] = r
		return
	}
	delete(f.Restored, uid)
}
