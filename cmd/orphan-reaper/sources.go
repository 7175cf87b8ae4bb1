package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
	"github.com/orphan-reaper/orphan-reaper/reaper/logs"
)

// usualUnits run a kubelet. They are followed while none is known, so that the first line of one that starts asks for a scan.
var usualUnits = []string{
	"kubelet.service", "k3s.service", "k3s-agent.service", "rke2-server.service", "rke2-agent.service", "k0scontroller.service",
	"k0sworker.service", "snap.microk8s.daemon-kubelite.service", "snap.microk8s.daemon-kubelet.service",
}

// syslogFiles have the kubelet's lines where there is no journal.
var syslogFiles = []string{"/var/log/syslog", "/var/log/messages"}

// sources follow the log of the kubelet that runs, and another one when that changes.
type sources struct {
	cfg   *config.Config
	clock reaper.Clock
	log   *slog.Logger
	lines chan parsers.Line

	following logs.Config
	follower  *logs.Follower
	cancel    context.CancelFunc
	problem   string // why a source is not followed
}

func newSources(cfg *config.Config, clock reaper.Clock, log *slog.Logger) *sources {
	return &sources{cfg: cfg, clock: clock, log: log, lines: make(chan parsers.Line, 1024), cancel: func() {}}
}

// wanted returns what to follow on a node.
func (s *sources) wanted(n judge.Node, recent bool) logs.Config {
	c := logs.Config{Recent: recent, Units: s.cfg.JournalUnits}
	if len(c.Units) == 0 && n.Journal != judge.No {
		c.Units = usualUnits
		if n.Kubelet.PID != 0 {
			c.Units = nil
			if n.Kubelet.Unit != "" {
				c.Units = []string{n.Kubelet.Unit}
			}
		}
	}
	s.problem = ""
	var noJournal error
	if len(c.Units) > 0 {
		if c.Journalctl, noJournal = logs.FindJournalctl(); noJournal != nil {
			c.Units = nil
		}
	}
	for _, f := range n.Kubelet.Logs {
		c.Files = append(c.Files, logs.File{Path: f.Path})
	}
	if len(s.cfg.LogFiles) > 0 {
		c.Files = nil
		for _, path := range s.cfg.LogFiles {
			own := slices.ContainsFunc(n.Kubelet.Logs, func(f judge.LogFile) bool { return f.Path == path })
			c.Files = append(c.Files, logs.File{Path: path, Syslog: !own})
		}
	} else if n.Journal == judge.No && len(c.Files) == 0 {
		for _, path := range syslogFiles {
			if path = filepath.Join(logs.NodeRoot(), path); exists(path) {
				c.Files = append(c.Files, logs.File{Path: path, Syslog: true})
			}
		}
	}
	switch {
	case len(c.Units)+len(c.Files) > 0 || n.Kubelet.PID == 0:
	case noJournal != nil:
		s.problem = "cannot read the kubelet's log: " + noJournal.Error()
	default:
		s.problem = "cannot find the kubelet's log: there is no journal of its unit, and its fd 1 and 2 lead to no file that has a name; " +
			"name a file by --log-files, or restart a kubelet whose log was deleted"
	}
	return c
}

// useNodesZone sets the local time zone to the node's: a kubelet writes its log in that, and a container has another one.
func useNodesZone() {
	root := logs.NodeRoot()
	if root == "" {
		return
	}
	path := root + "/etc/localtime"
	if target, err := os.Readlink(path); err == nil { // an absolute link leads to our own root directory
		if !filepath.IsAbs(target) {
			target = filepath.Join("/etc", target)
		}
		path = root + target
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return // then it is UTC: localtime(5)
	}
	if zone, err := time.LoadLocationFromTZData("Local", data); err == nil {
		time.Local = zone
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// follow follows what is wanted on a node. It changes nothing if that is followed already. It reports whether it has become
// impossible, which is logged: a daemon without a log does nothing.
func (s *sources) follow(ctx context.Context, n judge.Node, recent bool) (lost bool) {
	was := s.problem
	c := s.wanted(n, recent)
	if lost = s.problem != "" && s.problem != was; lost && !recent { // else a command prints it
		s.log.WarnContext(ctx, "no dead pod is moved", slog.String("problem", s.problem))
	}
	if s.follower != nil && reflect.DeepEqual(c, s.following) {
		return lost
	}
	s.stop()
	s.following = c
	ctx, s.cancel = context.WithCancel(ctx)
	c.Now, c.Log = func() time.Time { return s.clock.Now().Wall }, s.log
	f := logs.Follow(ctx, c)
	s.follower = f
	s.log.DebugContext(ctx, "following the kubelet's log", slog.Any("units", c.Units), slog.Any("files", c.Files))
	go func() {
		for line := range f.Lines() {
			select {
			case s.lines <- line:
			case <-ctx.Done():
			}
		}
	}()
	return lost
}

// stop ends what is followed.
func (s *sources) stop() {
	s.cancel()
	s.follower = nil
}

// problems are why a log cannot be read.
func (s *sources) problems() (all []string) {
	if s.problem != "" {
		all = append(all, s.problem)
	}
	if s.follower == nil {
		return all
	}
	for _, src := range s.follower.Sources() {
		if src.Err != "" {
			all = append(all, fmt.Sprintf("cannot read the kubelet's log from %s: %s", src.Name, src.Err))
		}
	}
	return all
}

const (
	// listenTime is how long a command that runs once listens: a kubelet repeats a report every two seconds.
	listenTime = 5 * time.Second
	// settleTime is how long it listens after a report that is written now: one sweep of a kubelet may report many pods.
	settleTime = 500 * time.Millisecond
)

// mayBeReported reports whether a kubelet can report the pod: what it lists or runs it does not report. A cgroup alone may be that
// of a pod that it reports and has not destroyed.
func mayBeReported(p reaper.PodStatus) bool {
	shows := func(n judge.FactName) bool { return p.Facts[n].Truth == judge.Yes && p.Facts[n].Alive }
	return !shows(judge.Listed) && !shows(judge.Running)
}

// listen reads the lines of the last five minutes, and those that are written now. It ends after listenTime, or shortly after a
// report that is written now. If every pod is listed or runs, it reads what is there.
func (s *sources) listen(ctx context.Context, status reaper.Status, recall func(parsers.Line) (written time.Time, counts bool)) {
	long := settleTime
	if slices.ContainsFunc(status.Pods, mayBeReported) {
		long = listenTime
	}
	ctx, cancel := context.WithTimeout(ctx, long)
	defer cancel()
	began := s.clock.Now().Wall
	s.follow(ctx, status.Node, true)
	var settled <-chan time.Time
	for {
		select {
		case line := <-s.lines:
			if written, counts := recall(line); counts && written.After(began) && settled == nil {
				settled = time.After(settleTime)
			}
		case <-settled:
			return
		case <-ctx.Done():
			return
		}
	}
}
