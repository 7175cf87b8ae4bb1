package reporter

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/fleet/report"
	"github.com/orphan-reaper/orphan-reaper/reaper/kube"
)

// Events about objects without a namespace, such as nodes, are in the namespace default.
const eventsPath = "/api/v1/namespaces/default/events"

// There is at most one event of a kind an hour. Its name contains the hour, so a restarted daemon writes no second one.
const (
	eventEvery = time.Hour
	eventStale = 3 * time.Hour // age from which an unwritten event is dropped
)

// event is a pending event.
type event struct {
	at    time.Time // zero if there is none
	count int
}

// events holds at most one pending event of each of the two kinds.
type events struct {
	known   bool            // there was a first report
	open    bool            // whether the breaker was open in the last report
	persons map[string]bool // the pods that needed an operator in the last report, by UID
	breaker event
	person  event
	last    time.Time // when the last event of kind person was written
	logged  bool      // the error of writing events was logged
}

// note compares a report with the one before. The first report causes no event, since the daemon may only have been
// restarted.
func (e *events) note(r *report.Report, now time.Time) {
	persons, news := map[string]bool{}, 0
	for _, p := range r.Pods {
		if p.NeedsPerson {
			persons[p.UID] = true
			if !e.persons[p.UID] {
				news++
			}
		}
	}
	if e.known && r.BreakerOpen && !e.open {
		e.breaker = event{at: now, count: 1}
	}
	if e.known && news > 0 {
		e.person = event{at: now, count: e.person.count + news}
	}
	e.known, e.open, e.persons = true, r.BreakerOpen, persons
}

// The events' reasons, as kubectl shows them.
const (
	reasonBreaker = "OrphanReaperBreakerOpen"
	reasonPerson  = "OrphansNeedPerson"
)

// sendEvents writes the pending events. If that fails it tries again with the next report, and drops an old event.
func (w *Writer) sendEvents(ctx context.Context, s *kube.Server, n identity) {
	e, now := &w.events, w.cfg.Now()
	for _, one := range []*event{&e.breaker, &e.person} {
		if now.Sub(one.at) > eventStale {
			*one = event{}
		}
	}
	if !e.breaker.at.IsZero() {
		text := "A pod that was proved dead showed a sign of life in quarantine. It was put back, and orphan-reaper removes nothing more on this " +
			"node. Find out why, then run orphan-reaper quarantine resume there."
		if w.sendEvent(ctx, s, n, reasonBreaker, text, e.breaker.at) {
			e.breaker = event{}
		}
	}
	if !e.person.at.IsZero() && (e.last.IsZero() || now.Sub(e.last) >= eventEvery) {
		text := fmt.Sprintf("Orphaned pods that need an operator: %d more. kubectl get orphanreport %s -o yaml shows which, and why.", e.person.count, n.name)
		if w.sendEvent(ctx, s, n, reasonPerson, text, e.person.at) {
			e.person, e.last = event{}, now
		}
	}
}

// sendEvent writes one event and reports whether it exists now.
func (w *Writer) sendEvent(ctx context.Context, s *kube.Server, n identity, reason, text string, at time.Time) bool {
	body, err := json.Marshal(eventOf(n, reason, text, at))
	if err == nil {
		err = w.ask(ctx, s, http.MethodPost, eventsPath, "application/json", body, func(io.Reader) error { return nil })
	}
	if err == nil || kube.Refused(err, http.StatusConflict) { // this hour's event exists
		w.events.logged = false
		return true
	}
	if !w.events.logged && ctx.Err() == nil {
		w.events.logged = true
		w.cfg.Log.WarnContext(ctx, "an event about the node cannot be written; the account needs create on events in the namespace default",
			slog.String("event", reason), slog.Any("error", err))
	}
	return false
}

// eventOf makes an Event of Kubernetes' core/v1.
func eventOf(n identity, reason, text string, at time.Time) map[string]any {
	type object = map[string]any
	when := at.UTC().Format(time.RFC3339)
	return object{
		"apiVersion": "v1", "kind": "Event",
		"metadata": object{"name": eventName(n.name, reason, at), "namespace": "default"},
		// Without the UID, use the name, as kubelets do, so that kubectl describe finds the event.
		"involvedObject": object{"apiVersion": "v1", "kind": "Node", "name": n.name, "uid": cmp.Or(n.uid, n.name)},
		"reason":         reason, "message": text, "type": "Warning", "count": 1,
		"firstTimestamp": when, "lastTimestamp": when,
		"source": object{"component": manager, "host": n.name}, "reportingComponent": manager,
	}
}

// mostName is the longest name of an object.
const mostName = 253

// eventName returns the name of a node's event of a kind in an hour.
func eventName(node, reason string, at time.Time) string {
	end := fmt.Sprintf(".%s.%x", strings.ToLower(reason), at.Unix()/int64(eventEvery.Seconds()))
	if len(node)+len(end) > mostName {
		sum := fnv.New32a()
		_, _ = io.WriteString(sum, node) // a hash never fails
		end = fmt.Sprintf("-%x%s", sum.Sum32(), end)
		node = strings.TrimRight(node[:mostName-len(end)], "-.")
	}
	return node + end
}
