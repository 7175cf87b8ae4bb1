package e2e

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// daemon is the real binary, following the node's real log.
type daemon struct {
	*process
	node    *node
	flags   []string
	metrics string
	state   string
	from    int64 // start of the records that count, in its output
}

// forget discards the records up to now.
func (d *daemon) forget() { d.from = d.size() }

// reap starts the daemon with a state of its own. It must end with success when the scenario ends.
func (n *node) reap(t *testing.T, flags ...string) *daemon {
	t.Helper()
	return n.start(t, n.flags, flags...)
}

// start starts the daemon with the flags for a state, then the given ones.
func (n *node) start(t *testing.T, of func(state string) []string, flags ...string) *daemon {
	t.Helper()
	name := strings.ReplaceAll(t.Name(), "/", "-")
	metrics, state := filepath.Join(n.dir, name+".prom"), filepath.Join(n.dir, name+".state")
	d := &daemon{node: n, metrics: metrics, state: state}
	d.flags = append(append(of(state), "--metrics-file", metrics), flags...) // the last value of a flag counts
	d.process = launch(t, "orphan-reaper", filepath.Join(n.dir, name+".log"), append([]string{d.binary(), "run"}, d.flags...)...)
	t.Cleanup(func() {
		d.end(t)
		if code := d.Cmd.ProcessState.ExitCode(); code != 0 {
			t.Errorf("the daemon ended with %d", code)
		}
		if t.Failed() {
			t.Logf("orphan-reaper's records:\n%s", d.story())
		}
	})
	return d
}

func (d *daemon) binary() string { return filepath.Join(d.node.host.dir, "orphan-reaper") }

// command runs another command of the binary with those of the daemon's flags that it has. Exit code 3 is no failure:
// something is kept.
func (d *daemon) command(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command(d.binary(), append(args, d.flags...)...).Output()
	if e, ok := errors.AsType[*exec.ExitError](err); ok && e.ExitCode() != 3 {
		t.Fatalf("orphan-reaper %s: %v\n%s", strings.Join(args, " "), err, e.Stderr)
	} else if err != nil && !ok {
		t.Fatal(err)
	}
	return string(out)
}

// report is the part of scan -o json that the suite reads.
type report struct {
	Pods []struct {
		UID       string
		Directory string
		Verdict   string
		Reasons   []string
		Parked    bool
	}
	Quarantine []entry
	Errors     []string
}

type entry struct {
	UID     string
	Phase   string
	Residue []struct{ Path, Class string }
}

func (d *daemon) scan(t *testing.T) report {
	t.Helper()
	var r report
	if err := json.Unmarshal([]byte(d.command(t, "scan", "-o", "json")), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// criHead is the prefix of each line in a container's log.
var criHead = regexp.MustCompile(`^\S+ (stdout|stderr) [FP] `)

// records returns the daemon's records since forget, in order.
func (d *daemon) records() []policy.Record { return recordsOf(d.since(d.from)) }

func recordsOf(lines []string) []policy.Record {
	var all []policy.Record
	for _, line := range lines {
		line = criHead.ReplaceAllString(line, "")
		var r policy.Record
		if json.Unmarshal([]byte(line), &r) == nil && r.Kind != "" {
			all = append(all, r)
		}
	}
	return all
}

// story returns the text of the last records, for a failure message.
func (d *daemon) story() string {
	var lines []string
	for _, line := range d.since(0) {
		line = criHead.ReplaceAllString(line, "")
		var r struct{ Time, Msg, Error, Text string }
		if json.Unmarshal([]byte(line), &r) != nil {
			lines = append(lines, line)
			continue
		}
		lines = append(lines, r.Time+" "+r.Msg+r.Error+r.Text)
	}
	return strings.Join(lines[max(0, len(lines)-40):], "\n")
}

// of returns the records of one pod.
func (d *daemon) of(uid string) []policy.Record {
	return slices.DeleteFunc(d.records(), func(r policy.Record) bool { return string(r.UID) != uid })
}

// waitRecord waits for a record of the pod that satisfies is, and returns it.
func (d *daemon) waitRecord(t *testing.T, limit time.Duration, uid, what string, is func(policy.Record) bool) policy.Record {
	t.Helper()
	var found policy.Record
	eventually(t, limit, func() string {
		if !d.Running() {
			return "the daemon has ended"
		}
		for _, r := range d.of(uid) {
			if is(r) {
				found = r
				return ""
			}
		}
		return "no record of " + uid + ": " + what
	})
	return found
}

func kind(k policy.Kind) func(policy.Record) bool {
	return func(r policy.Record) bool { return r.Kind == k }
}

// keptFor returns a function that reports whether a record keeps the pod, or makes it wait, for the reason.
func keptFor(reason policy.Reason) func(policy.Record) bool {
	return func(r policy.Record) bool {
		return r.Kind == policy.KindKept && slices.ContainsFunc(r.Why, func(w policy.Why) bool { return w.Reason == reason })
	}
}

// waitMetric waits for a line in the daemon's metrics file.
func (d *daemon) waitMetric(t *testing.T, line string) {
	t.Helper()
	eventually(t, 60*time.Second, func() string {
		b, err := os.ReadFile(d.metrics)
		return missing(err == nil && strings.Contains(string(b), "\norphan_reaper_"+line+"\n"), "%s lacks %q: %v\n%s", d.metrics, line, err, b)
	})
}

// nodeNamespaces is auto, as on any node, unless the suite itself runs in another mount namespace than PID 1, as in a
// chroot made by unshare: then that namespace counts as the node's.
func nodeNamespaces() string {
	if first("/proc/self/mountinfo") == first("/proc/1/mountinfo") {
		return "auto"
	}
	return "self"
}

// first returns the ID of the first mount of a mountinfo(5), which is unique to each namespace.
func first(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	id, _, _ := strings.Cut(string(b), " ")
	return id
}
