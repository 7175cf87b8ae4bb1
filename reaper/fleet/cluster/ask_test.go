package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/fleet/report"
)

func TestParseTarget(t *testing.T) {
	for text, want := range map[string]report.Target{
		"http://10.0.0.1:9477":         {Node: "10.0.0.1", URL: "http://10.0.0.1:9477"},
		"https://node-1:9477/":         {Node: "node-1", URL: "https://node-1:9477"},
		"worker-1=http://[fd00::1]:80": {Node: "worker-1", URL: "http://[fd00::1]:80", Named: true},
	} {
		if got, err := ParseTarget(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{
		"", "10.0.0.1:9477", "node-1", "ftp://a", "http://", "http://a/v1/orphans", "http://a?x=1", "http://user:secret@a", "http://a:b", "unix:///run/x",
	} {
		_, err := ParseTarget(text)
		if err == nil {
			t.Errorf("%q was accepted", text)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the error has the password: %v", text, err)
		}
	}
}

// serve serves as one node.
func serve(t *testing.T, h http.HandlerFunc) report.Target {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return report.Target{Node: strings.TrimPrefix(s.URL, "http://"), URL: s.URL}
}

// TestList checks that a node with any fault is reported, delays no other and is never omitted.
func TestList(t *testing.T) {
	good := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"node":"n1","counts":{"keep":3},"of a later version":{}}`)
	})
	bad := map[string]http.HandlerFunc{
		"no answer in time":   func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"no answer in time 2": drip,
		"403": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "only for clients of this host", http.StatusForbidden)
		},
		"302":                    func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, good.URL, http.StatusFound) },
		"not from orphan-reaper": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") },
		"counts less than nothing": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"counts":{"reap":-1000}}`)
		},
		"longer": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"node":"`+strings.Repeat("a", 2<<20)+`"}`)
		},
		"EOF":    func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"node":`) },
		"header": func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("a", 1<<20)) },
	}
	want := map[string]string{}
	var targets []report.Target
	for word, h := range bad {
		at := serve(t, h)
		want[at.URL] = strings.TrimSuffix(word, " 2")
		targets = append(targets, at)
	}
	for range 100 {
		targets = append(targets, good)
	}
	targets = append(targets, report.Target{Node: "gone", URL: "http://127.0.0.1:1"})
	want["http://127.0.0.1:1"] = "refused"
	c := Client{Parallel: 20, Patience: 5 * time.Second} // the good ones answer within it, also on a busy machine
	answered, failed := 0, 0
	c.List(t.Context(), targets, func(at report.Target, r *report.Report, err error) {
		if err == nil {
			answered++
			if r.Node != "n1" || r.Counts.Keep != 3 {
				t.Errorf("%+v", r)
			}
			return
		}
		failed++
		if word := want[at.URL]; word == "" || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %q, want %q", at.URL, err, word)
		}
	})
	if answered != 100 || failed != len(bad)+1 {
		t.Errorf("%d answered, %d failed", answered, failed)
	}
}

// drip sends a byte now and then, forever.
func drip(w http.ResponseWriter, r *http.Request) {
	for r.Context().Err() == nil {
		_, _ = io.WriteString(w, " ")
		if f, ok := w.(http.Flusher); ok {
			f.Flush()
		}
		select {
		case <-r.Context().Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// TestSweepStops checks that a sweep stops after breakers opened on many nodes: however many requests may run at
// once, only a few are sent before the first responses about open breakers.
func TestSweepStops(t *testing.T) {
	for _, c := range []struct{ parallel, from, to, most, asked int }{ // breakers number from to to are open, in the order of requests
		{1, 0, 0, 0, 50},
		{1, 1, 2, 2, 50},
		{1, 1, 3, 2, 3},
		{1, 1, 50, 0, 1},
		{100, 1, 50, 2, 3},
		{100, 1, 50, 0, 1},
		{100, 4, 50, 2, 9},
		{100, 1, 50, 1 << 62, 50},
	} {
		var asked, open atomic.Int64
		at := serve(t, func(w http.ResponseWriter, r *http.Request) {
			n := asked.Add(1)
			if r.Method != http.MethodPost || r.URL.Path != "/v1/sweep" {
				t.Errorf("%s %s", r.Method, r.URL)
			}
			is := n >= int64(c.from) && n <= int64(c.to)
			if is {
				open.Add(1)
			}
			if c.parallel > 1 {
				time.Sleep(50 * time.Millisecond) // so that the group uses all its places
			}
			w.WriteHeader(http.StatusAccepted)
			_, _ = fmt.Fprintf(w, `{"node":"n","look":7,"breaker_open":%t}`, is)
		})
		targets := make([]report.Target, 50)
		for i := range targets {
			targets[i] = at
		}
		results := 0
		client := Client{Parallel: c.parallel, Patience: 10 * time.Second}
		breakers := client.Sweep(t.Context(), targets, c.most, 0, func(_ report.Target, a *report.Swept, err error) {
			if err != nil && !errors.Is(err, report.ErrNotAsked) || err == nil && a.Look != 7 {
				t.Errorf("%+v, %v", a, err)
			}
			results++
		})
		if int(asked.Load()) != c.asked || breakers != int(open.Load()) || results != 50 {
			t.Errorf("%+v: %d asked, %d breakers, %d reported", c, asked.Load(), breakers, results)
		}
	}
}

// TestCredentials checks that credentials are sent to the given nodes only, and not where one of them redirects.
func TestCredentials(t *testing.T) {
	thief := serve(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("the thief received a request: %v", r.Header) })
	at := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if got, want := r.Header.Get("Authorization"), "Basic c3dlZXBlcjpzM2NyZXQ="; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		http.Redirect(w, r, thief.URL, http.StatusTemporaryRedirect)
	})
	c := Client{User: "sweeper", Password: "s3cret", Parallel: 1, Patience: 10 * time.Second}
	check := func(err error) {
		if err == nil || !strings.Contains(err.Error(), "307") || strings.Contains(err.Error(), "s3cret") {
			t.Error(err)
		}
	}
	c.List(t.Context(), []report.Target{at}, func(_ report.Target, _ *report.Report, err error) { check(err) })
	c.Sweep(t.Context(), []report.Target{at}, 0, 0, func(_ report.Target, _ *report.Swept, err error) { check(err) })
}

// TestInterrupted checks that an interrupt ends all requests at once, and that every node still has a result.
func TestInterrupted(t *testing.T) {
	at := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	results := 0
	c := Client{Parallel: 2, Patience: time.Hour}
	c.List(ctx, []report.Target{at, at, at, at}, func(_ report.Target, _ *report.Report, err error) {
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		results++
	})
	if results != 4 {
		t.Errorf("%d reported", results)
	}
}

// TestHostileAnswers checks that a response of 1 MiB costs at most 8 MiB of memory, whatever it contains.
func TestHostileAnswers(t *testing.T) {
	fill := func(begin, item, end string) string {
		return begin + strings.Repeat(item+",", (answerBytes-1024)/(len(item)+1)) + item + end
	}
	deep := strings.Repeat("[", 9000) + strings.Repeat("]", 9000)
	for name, body := range map[string]string{
		"empty pods":    fill(`{"pods":[`, `{}`, `]}`),
		"numbers":       fill(`{"pods":[`, `0`, `]}`),
		"reasons":       fill(`{"pods":[{"why":[`, `{}`, `]}]}`),
		"sums":          fill(`{"sums":[`, `{}`, `]}`),
		"errors":        fill(`{"errors":[`, `""`, `]}`),
		"unknown":       fill(`{"x":[`, `{}`, `]}`),
		"unknown, deep": fill(`{"x":[`, deep, `]}`),
		"keys":          fill(`{`, `"a":0`, `}`),
		"one text":      `{"node":"` + strings.Repeat("a", answerBytes-1024) + `"}`,
		"100 pods":      fill(`{"pods":[`, `{"name":"`+strings.Repeat(`\u0000`, 1700)+`"}`, `]}`),
	} {
		at := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
		var before, after runtime.MemStats
		c := Client{Parallel: 1, Patience: time.Minute}
		runtime.GC()
		runtime.ReadMemStats(&before)
		c.List(t.Context(), []report.Target{at}, func(report.Target, *report.Report, error) {
			runtime.GC()
			runtime.ReadMemStats(&after)
		})
		if all := after.TotalAlloc - before.TotalAlloc; all > 8<<20 {
			t.Errorf("%s: %d KiB allocated", name, all>>10)
		} else {
			t.Logf("%s: %d KiB allocated", name, all>>10)
		}
	}
}

// TestSweepWaits checks that a sweep waits for the end of each look, reports the difference as its effect, and counts
// a breaker that the look opened.
func TestSweepWaits(t *testing.T) {
	polls := 0
	at := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusAccepted)
			_, _ = io.WriteString(w, `{"look":7,"done":{"parked":3}}`)
			return
		}
		polls++
		_, _ = fmt.Fprintf(w, `{"started":"2026-01-01T00:00:00Z","look":%d,"breaker_open":%t,"done":{"parked":5,"bytes":9}}`, 5+polls, polls == 2)
	})
	again := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			_, _ = io.WriteString(w, `{"look":7}`)
			return
		}
		_, _ = fmt.Fprintf(w, `{"started":%q,"look":1}`, time.Now().Format(time.RFC3339Nano))
	})
	c := Client{Parallel: 1, Patience: time.Minute}
	breakers := c.Sweep(t.Context(), []report.Target{at}, 5, time.Minute, func(_ report.Target, s *report.Swept, err error) {
		if err != nil || s.Ended == nil || s.Ended.Look != 7 || s.Ended.Done.Parked-s.Done.Parked != 2 || !s.BreakerOpen {
			t.Errorf("%+v, %v", s, err)
		}
	})
	c.Sweep(t.Context(), []report.Target{again}, 5, time.Minute, func(_ report.Target, _ *report.Swept, err error) {
		if err == nil || !strings.Contains(err.Error(), "started again") {
			t.Error(err)
		}
	})
	if breakers != 1 || polls != 2 {
		t.Errorf("%d breakers, %d polls", breakers, polls)
	}
}

// TestSweepOrder checks that the nodes are asked in a new order each time, so that different ones remain when a sweep
// stops.
func TestSweepOrder(t *testing.T) {
	first := map[string]bool{}
	for range 20 {
		var targets []report.Target
		for i := range 50 {
			targets = append(targets, report.Target{Node: fmt.Sprint(i), URL: "http://127.0.0.1:1"})
		}
		asked := ""
		c := Client{Parallel: 1, Patience: time.Minute}
		c.Sweep(t.Context(), targets, 0, 0, func(at report.Target, _ *report.Swept, _ error) { asked = cmp.Or(asked, at.Node) })
		first[asked] = true
	}
	if len(first) < 5 {
		t.Errorf("the first nodes are all among %v", first)
	}
}
