package reporter

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/fleet/report"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// persons returns a pass with the numbered pods, which wait for the operator.
func persons(open bool, numbers ...int) *report.Report {
	p := &report.Pass{BreakerOpen: open}
	for _, i := range numbers {
		p.Pods = append(p.Pods, policy.Judged{
			Evidence: policy.Evidence{UID: parsers.PodUID(fmt.Sprintf("%08x-0000-4000-8000-000000000000", i))},
			Verdict:  policy.Verdict{Decision: policy.Keep, Why: []policy.Why{{Reason: policy.ReasonRemade}}},
		})
	}
	return new(report.New(report.Report{}, p))
}

// written returns the events that the server received, as REASON COUNT-IN-THE-TEXT.
func (s *apiServer) written(t *testing.T) (list []string) {
	t.Helper()
	for _, r := range s.requests {
		if r.line != "POST /api/v1/namespaces/default/events" {
			continue
		}
		var e struct {
			Reason, Message string
			Metadata        struct{ Name, Namespace string }
			InvolvedObject  struct{ Kind, Name, UID string }
		}
		testkit.Must(t, json.Unmarshal(r.body, &e))
		if e.InvolvedObject.Kind != "Node" || e.InvolvedObject.Name != "n1" || e.InvolvedObject.UID != "u1" || !strings.HasPrefix(e.Metadata.Name, "n1.") {
			t.Errorf("%s", r.body)
		}
		_, n, _ := strings.Cut(e.Message, "an operator: ")
		n, _, _ = strings.Cut(n, " more")
		list = append(list, strings.TrimSpace(e.Reason+" "+n))
	}
	s.requests = nil
	return list
}

// TestEvents checks that an open breaker and pods that newly need the operator cause events, at most one an hour and
// with a count, and that nothing from before the start does.
func TestEvents(t *testing.T) {
	s := newAPIServer(t)
	w, _, now := s.writer(token("n1", "u1"))
	for i, step := range []struct {
		after time.Duration
		pass  *report.Report
		want  string
	}{
		{0, persons(false, 1, 2), ""},
		{time.Minute, persons(false, 1, 2), ""},
		{time.Minute, persons(false, 1, 2, 3, 4), "OrphansNeedPerson 2"},
		{time.Minute, persons(false, 1, 2, 3, 4, 5), ""},
		{time.Minute, persons(true, 1, 5, 6), "OrphanReaperBreakerOpen"},
		{time.Minute, persons(true, 1, 5, 6), ""},
		{time.Hour, persons(true, 1), "OrphansNeedPerson 2"},
		{2 * time.Hour, persons(true), ""},
		{time.Minute, persons(false), ""},
		{time.Minute, persons(true), "OrphanReaperBreakerOpen"},
	} {
		*now = now.Add(step.after)
		publish(t, w, step.pass)
		if got := strings.Join(s.written(t), ", "); got != step.want {
			t.Errorf("step %d: events %q, want %q", i, got, step.want)
		}
	}
	w, _, _ = s.writer(token("n1", "u1"))
	publish(t, w, persons(true, 1, 2, 3))
	if got := s.written(t); got != nil {
		t.Errorf("after a start: %q", got)
	}
}

// TestEventsRefused checks that a failed event is retried until it is too old, that an existing one counts as
// written, and that the report is written all the same.
func TestEventsRefused(t *testing.T) {
	s := newAPIServer(t)
	w, log, now := s.writer(token("n1", "u1"))
	publish(t, w, persons(false))
	code := http.StatusForbidden
	s.answer = func(rw http.ResponseWriter, r *http.Request, body []byte) {
		if r.Method == http.MethodPost && code != 0 {
			rw.WriteHeader(code)
			return
		}
		good(rw, r, body)
	}
	publish(t, w, persons(true, 1))
	publish(t, w, persons(true, 1))
	if got := s.written(t); len(got) != 4 || strings.Count(log.String(), "an event about the node cannot be written") != 1 || !w.plan.due.IsZero() {
		t.Errorf("%q, %s", got, log)
	}
	code = http.StatusConflict
	publish(t, w, persons(true, 1))
	if got := s.written(t); len(got) != 2 {
		t.Errorf("%q", got)
	}
	publish(t, w, persons(true, 1))
	if got := s.written(t); got != nil {
		t.Errorf("written again: %q", got)
	}
	code = http.StatusServiceUnavailable
	publish(t, w, persons(false, 1))
	publish(t, w, persons(true, 1))
	s.written(t)
	code, *now = 0, now.Add(eventStale+time.Minute)
	publish(t, w, persons(true, 1))
	if got := s.written(t); got != nil {
		t.Errorf("an old event was written: %q", got)
	}
}

// TestEventName checks that each kind, node and hour has one name, for any node name.
func TestEventName(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	long := strings.Repeat("a", 190) + "." + strings.Repeat("b", 60)
	for _, node := range []string{"n1", long, long + "c"} {
		name := eventName(node, reasonBreaker, at)
		if len(name) > 253 || name != eventName(node, reasonBreaker, at.Add(time.Second)) || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-.") != "" ||
			strings.Contains(name, "..") || strings.Contains(name, ".-") || strings.Contains(name, "-.") {
			t.Errorf("%s", name)
		}
		for _, other := range []string{eventName(node, reasonPerson, at), eventName(node, reasonBreaker, at.Add(time.Hour)), eventName(node+"x", reasonBreaker, at)} {
			if name == other {
				t.Errorf("%s is used twice", name)
			}
		}
	}
}
