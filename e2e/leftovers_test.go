package e2e

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// leftovers makes every kind of leftover beside the living pods, collects the kubelet's messages, runs orphan-reaper,
// and collects the messages again. Each time the stand-in of testdata/node must print the same.
func leftovers(t *testing.T, n *node) {
	kinds := n.kinds(t)
	all, runs := n.observed(t, kinds, func() { n.pauseKubelet(t) }, func() { n.kubelet.signal(contSignal) }, func(level string) { n.verbosity(t, level) })
	t.Cleanup(func() {
		for _, k := range kinds {
			if k.emptied {
				continue // by the kubelet itself
			}
			checkCanaries(t, all[k.name].canary)
		}
	})
	found, _ := n.messages(t, false)
	for _, name := range slices.Sorted(maps.Keys(found)) {
		t.Logf("%s: %s", name, found[name])
	}
	n.compareStandIn(t, kinds, runs)

	waiting := n.waitingPod(t)
	n.forge(t, waiting.uid)
	d := n.reap(t)
	eventually(t, hold+4*confirm, func() string { return wrongDeeds(kinds, d.deeds(t)) })
	_, mark := n.messages(t, true)
	last := n.housekeeping(t, mark, 2)[1:]
	left := slices.DeleteFunc(slices.Clone(kinds), func(k leftover) bool { return !exists(filepath.Join(n.pods, n.uid(k.uid))) })
	n.compareStandIn(t, left, last)
	if s := d.scan(t); s.pod(waiting.uid).Verdict != "alive" {
		t.Errorf("the pod that waits: %+v", s.pod(waiting.uid))
	}

	// Obstacles that only the operator may remove are removed here; then the rest is reaped.
	for _, k := range kinds {
		if k.undo != nil {
			k.undo(all[k.name])
		}
	}
	d.look()
	eventually(t, hold+4*confirm, func() string {
		for _, k := range kinds {
			if exists(filepath.Join(n.pods, n.uid(k.uid))) {
				return k.name + ": " + k.uid + " still exists: " + n.messagesOf(n.uid(k.uid), mark)
			}
		}
		return ""
	})
	n.verbosity(t, "2")
	eventually(t, 10*time.Second, func() string {
		for _, name := range []string{"kubelet_orphan_pod_cleaned_volumes", "kubelet_orphan_pod_cleaned_volumes_errors"} {
			// Kubelet 1.24 has neither.
			if v := n.metric(name); v != "0" && (v != "absent" || n.minor(t) > 24) {
				return name + " is " + v
			}
		}
		return ""
	})
}

// messages returns the kubelet's messages about each kind, by the table's names, and their start in its log. It fails
// if they are not of the recorded kind.
func (n *node) messages(t *testing.T, after bool) (found map[string]string, mark int64) {
	t.Helper()
	found, mark = map[string]string{}, n.kubelet.size()
	n.housekeeping(t, mark, 2)
	for _, k := range n.kinds(t) {
		text := n.messagesOf(n.uid(k.uid), mark)
		found[k.name] = text
		want, got := k.before, reports
		if after {
			want = k.after
		}
		switch {
		case text != "":
		case after || exists(filepath.Join(n.pods, n.uid(k.uid))):
			got = silent
		default:
			got = cleans
		}
		if got != want {
			t.Errorf("%s: the kubelet %s (%q), should be: %s; after orphan-reaper: %v", k.name, got, text, want, after)
		}
	}
	return found, mark
}

// The kubelet's own report, at the default verbosity and at 5, and its message about a volume that it cannot tear
// down.
var (
	orphanLine = regexp.MustCompile(`(?:"Orphan pod"|"There were many similar errors\. Turn up verbosity to see them\.") err="((?:[^"\\]|\\.)*)"`)
	orphanText = regexp.MustCompile(`^orphaned pod "[^"]*" found, but `)
)

// messagesOf returns the kubelet's messages about the orphan since the mark, each once and without parts that differ
// between runs.
func (n *node) messagesOf(uid string, mark int64) string {
	all := map[string]bool{}
	for _, line := range n.kubelet.since(mark) {
		if !strings.Contains(line, uid) {
			continue
		}
		m := orphanLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		text, err := strconv.Unquote(`"` + m[1] + `"`)
		if err != nil || !strings.Contains(text, uid) {
			continue
		}
		all[strings.ReplaceAll(orphanText.ReplaceAllString(text, ""), filepath.Join(n.pods, uid), "…")] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(all)), "; ")
}

// forge writes an orphan's line into the kubelet's log, as the kubelet would, with its PID and the time. In a file it
// cannot be distinguished from a real one.
func (n *node) forge(t *testing.T, uid string) {
	t.Helper()
	f, err := os.OpenFile(n.kubeletLog(), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	_, err = fmt.Fprintf(f, "E%s %7d kubelet_volumes.go:263] \"There were many similar errors. Turn up verbosity to see them.\" "+
		"err=\"orphaned pod \\\"%s\\\" found, but error occurred when trying to remove the volumes dir: not a directory\" numErrs=1\n",
		time.Now().Format("0102 15:04:05.000000"), n.kubelet.Cmd.Process.Pid, uid)
	if err != nil {
		t.Fatal(err)
	}
}

// deeds returns what orphan-reaper did with each kind, by the table's names.
func (d *daemon) deeds(t *testing.T) map[string]deed {
	t.Helper()
	s := d.scan(t)
	all := map[string]deed{}
	for _, k := range kinds {
		all[k.name] = d.deed(s, d.node.uid(k.uid))
	}
	return all
}

func (d *daemon) deed(s status, uid string) deed {
	if p := s.pod(uid); p.Verdict != "" {
		var reasons []string
		for _, r := range p.Reasons {
			// A kubelet at its default verbosity is silent about some that are kept.
			if r.Reason != "not-reported" && r.Reason != "hold" {
				reasons = append(reasons, r.Reason)
			}
		}
		return deed("kept: " + strings.Join(reasons, ", "))
	}
	e := s.entry(uid)
	classes := map[string]bool{}
	for _, l := range e.Left {
		classes[l.Class] = true
	}
	switch {
	case e.Entry == "" && d.recorded("removed", uid):
		return removed
	case e.Entry == "":
		return nothing
	case e.Error != "":
		return heldFailed
	case e.Phase != "retained":
		return deed("quarantine: " + e.Phase)
	case classes["data"]:
		return heldData
	case classes["ephemeral"]:
		return heldAged
	}
	return deed("quarantine: " + strings.Join(slices.Sorted(maps.Keys(classes)), ", "))
}

// recorded reports whether the daemon has written a record of that event of the pod.
func (d *daemon) recorded(event, uid string) bool {
	return slices.ContainsFunc(d.since(0), func(line string) bool {
		return strings.Contains(line, "event="+event+" ") && strings.Contains(line, uid)
	})
}

func wrongDeeds(kinds []leftover, all map[string]deed) string {
	var list []string
	for _, k := range kinds {
		if all[k.name] != k.did {
			list = append(list, fmt.Sprintf("%s (%s): %q, not %q", k.name, k.uid, all[k.name], k.did))
		}
	}
	return strings.Join(list, "; ")
}
