package source

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestRecall checks that earlier messages are returned youngest first, each text once, and that the log of a kubelet
// that has reported one orphan for days is not read completely.
func TestRecall(t *testing.T) {
	remote := journalRemote(t)
	dir := t.TempDir()
	now := time.Now()
	week := now.Add(-7 * 24 * time.Hour)
	export(t, remote, filepath.Join(dir, "a.journal"), week, kubeletEntry("kubelet.service", orphan(1)))
	export(t, remote, filepath.Join(dir, "b.journal"), week.Add(time.Hour),
		kubeletEntry("kubelet.service", orphan(2)), kubeletEntry("kubelet.service", orphan(3)),
		kubeletEntry("session-1.scope", orphan(90)), kubeletEntry("kubelet.service", orphan(2)))
	every := now
	var dropped time.Time
	recalled := func(from time.Time) []parsers.Line {
		t.Helper()
		lines := make(chan parsers.Line)
		j := NewJournal(JournalOptions{Logger: quiet(), Now: time.Now, Args: []string{"--directory=" + dir}})
		done := make(chan error, 1)
		go func() {
			var err error
			dropped, err = j.Recall(t.Context(), from, every, lines)
			done <- err
			close(lines)
		}()
		var all []parsers.Line
		for l := range lines {
			all = append(all, l)
		}
		testkit.Must(t, <-done)
		return all
	}
	texts := func(all []parsers.Line) (texts []string) {
		for _, l := range all {
			texts = append(texts, string(l.Text))
		}
		return texts
	}
	if got := texts(recalled(week.Add(-time.Hour))); len(got) != 3 || got[0] != orphan(2) || got[1] != orphan(3) || got[2] != orphan(1) {
		t.Errorf("all: %q", got)
	}
	all := recalled(week.Add(30 * time.Minute))
	if got := texts(all); len(got) != 2 || got[0] != orphan(2) || got[1] != orphan(3) {
		t.Errorf("since the kubelet's start: %q", got)
	}
	for _, l := range all {
		if !l.CatchUp || !l.Whole || l.Journal.Time.After(now) {
			t.Errorf("%+v", l.Journal)
		}
	}
	many := make([]string, enoughSame+1)
	for i := range many {
		many[i] = kubeletEntry("kubelet.service", orphan(4))
	}
	export(t, remote, filepath.Join(dir, "c.journal"), week.Add(2*time.Hour), many...)
	if got := texts(recalled(week.Add(-time.Hour))); len(got) != 1 || got[0] != orphan(4) {
		t.Errorf("after many equal messages: %q", got)
	}
	every = week.Add(2*time.Hour - time.Second)
	if got := texts(recalled(week.Add(-time.Hour))); len(got) != enoughSame+4 || got[enoughSame] != orphan(4) || got[enoughSame+1] != orphan(2) {
		t.Errorf("with each recent message: %d", len(got))
	}
	if !dropped.IsZero() {
		t.Errorf("dropped at %s", dropped)
	}
	// With more different texts than are read, the time of the youngest omitted one is returned.
	many = nil
	for i := range maxRecalled + 5 {
		many = append(many, kubeletEntry("kubelet.service", orphan(100+i)))
	}
	flood := week.Add(3 * time.Hour)
	export(t, remote, filepath.Join(dir, "d.journal"), flood, many...)
	every = now
	if got := texts(recalled(week.Add(-time.Hour))); len(got) != maxRecalled || dropped.Before(flood) || dropped.After(flood.Add(time.Minute)) {
		t.Errorf("%d of too many messages, dropped at %s", len(got), dropped)
	}
}
