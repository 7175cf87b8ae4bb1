package main

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
	"github.com/orphan-reaper/orphan-reaper/reaper/ledger"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestNamedFiles: of the files that are set only the kubelet's own is one that the kubelet writes.
func TestNamedFiles(t *testing.T) {
	s := newSources(&config.Config{Settings: config.Settings{LogFiles: []string{"/own", "/other"}}}, nil, nil)
	c := s.wanted(judge.Node{Journal: judge.No, Kubelet: judge.Kubelet{PID: 1, Logs: []judge.LogFile{{Path: "/own", Own: true}}}}, false)
	if len(c.Files) != 2 || c.Files[0].Syslog || !c.Files[1].Syslog {
		t.Errorf("%+v", c.Files)
	}
}

// TestFollowNext: a kubelet that starts with another log is followed there.
func TestFollowNext(t *testing.T) {
	clock, err := ledger.NewClock()
	must(t, err)
	s := newSources(new(config.Config), clock, slog.New(slog.DiscardHandler))
	defer s.stop()
	for _, uid := range []string{dead, other} {
		file := testkit.WriteText(t, filepath.Join(t.TempDir(), "log"),
			`E1129 10:00:00.000001    100 kubelet_volumes.go:245] "Orphan pod" err="orphaned pod \"`+uid+`\" found, but x"`+"\n")
		lost := s.follow(t.Context(), judge.Node{Journal: judge.No, Kubelet: judge.Kubelet{PID: 1, Logs: []judge.LogFile{{Path: file, Own: true}}}}, true)
		if f := s.following.Files; len(f) != 1 || f[0].Path != file {
			t.Fatalf("followed are %+v, and not %s", f, file)
		}
		if line := <-s.lines; lost || !strings.Contains(string(line.Text), uid) {
			t.Errorf("not %s, but %s", uid, line.Text)
		}
	}
}
