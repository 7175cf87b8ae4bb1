package e2e

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// daemon is the real binary beside a node's kubelet and runtime. What it decides is read by commands of the same binary.
type daemon struct {
	*process
	node    *node
	flags   []string // of every command
	metrics string
	state   string
}

// status is the part of scan -o json that the suite reads.
type status struct {
	Pods       []podStatus
	Quarantine []entry
	Breaker    *json.RawMessage
	Hidden     int
	Operator   bool
	Problems   []string
	CNI        cniStatus
}

type podStatus struct {
	UID, Verdict, Words string
	Operator            bool
	Reasons             []reason
}

type reason struct{ Reason, Detail string }

// entry is a directory in quarantine.
type entry struct {
	Entry, UID, Phase, Error string
	Left                     []struct{ Path, Class string }
	MovedAt                  struct{ Wall time.Time } `json:"moved_at"`
	Reasons                  []reason
}

type cniStatus struct {
	Files, Stale, Waiting, Unknown, Removed int
	Archive                                 string
	Networks                                []struct {
		Name        string
		Used, Stale int
	}
	Kept []struct{ Path, Reason string }
}

// reap starts the daemon with a state of its own and the short times of this suite. It must end with success when the
// scenario ends.
func (n *node) reap(t *testing.T, flags ...string) *daemon {
	t.Helper()
	return n.start(t, append([]string{"--hold", hold.String(), "--confirm", confirm.String()}, flags...)...)
}

// start starts the daemon with all defaults but the places of this node.
func (n *node) start(t *testing.T, flags ...string) *daemon {
	t.Helper()
	d := n.daemon(t, flags...)
	d.run(t, nil)
	return d
}

// daemon returns a daemon that does not run.
func (n *node) daemon(t *testing.T, flags ...string) *daemon {
	t.Helper()
	name := strings.ReplaceAll(t.Name(), "/", "-")
	d := &daemon{node: n, metrics: filepath.Join(n.dir, name+".prom"), state: filepath.Join(n.dir, name+".state")}
	d.flags = append(append(n.places(d.state), "--mode", "enforce", "--metrics-file", d.metrics), flags...) // the last value counts
	return d
}

// run starts the daemon, below the command within, if there is one.
func (d *daemon) run(t *testing.T, within []string) {
	t.Helper()
	log := strings.TrimSuffix(d.metrics, ".prom") + ".log"
	d.process = launch(t, "orphan-reaper", log, slices.Concat(within, []string{d.binary(), "run"}, d.flags)...)
	t.Cleanup(func() {
		d.end(t)
		if code := d.Cmd.ProcessState.ExitCode(); code != 0 {
			t.Errorf("the daemon ended with %d", code)
		}
		if t.Failed() {
			t.Logf("orphan-reaper's log:\n%s", d.Tail(60))
		}
	})
}

// places returns the flags that differ from the defaults only in a path. The kubelet's log is found by the kubelet's
// file descriptors.
func (n *node) places(state string) []string {
	return []string{
		"--config", "/dev/null", "--root-dir", n.root, "--state-dir", state, "--runtime-endpoints", "unix://" + n.endpoint,
		"--cni-dir", mkdirAll(filepath.Join(n.dir, "no-cni")), "--cni-conf-dir", filepath.Join(n.dir, "cni"),
	}
}

func mkdirAll(path string) string {
	_ = os.MkdirAll(path, 0o755) // the program reports it
	return path
}

func (d *daemon) binary() string { return filepath.Join(d.node.host.dir, "orphan-reaper") }

// try runs another command of the binary with the daemon's flags, as far as it has them. It returns stdout, stderr and
// the exit code.
func (d *daemon) try(args ...string) (out, stderr string, code int) {
	cmd := exec.Command(d.binary(), append(args, d.flags...)...)
	b, err := cmd.Output()
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		return string(b), string(e.Stderr), e.ExitCode()
	} else if err != nil {
		return "", err.Error(), -1
	}
	return string(b), "", 0
}

// decode runs a command with -o json. Exit code 3 is no failure: an operator is needed.
func (d *daemon) decode(t *testing.T, to any, args ...string) {
	t.Helper()
	out, stderr, code := d.try(append(args, "-o", "json")...)
	if code != 0 && code != 3 {
		t.Fatalf("orphan-reaper %s: %d\n%s", strings.Join(args, " "), code, stderr)
	}
	if err := json.Unmarshal([]byte(out), to); err != nil {
		t.Fatalf("orphan-reaper %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func (d *daemon) scan(t *testing.T) (s status) {
	t.Helper()
	d.decode(t, &s, "scan")
	return s
}

// pod returns the pod's status; the zero value if it has no directory.
func (s *status) pod(uid string) podStatus {
	i := slices.IndexFunc(s.Pods, func(p podStatus) bool {
		return p.UID == uid || p.UID == "" && slices.ContainsFunc(p.Reasons, func(r reason) bool { return strings.Contains(r.Detail, strconv.Quote(uid)) })
	})
	if i < 0 {
		return podStatus{}
	}
	return s.Pods[i]
}

// entry returns the pod's entry in quarantine; the zero value if there is none.
func (s *status) entry(uid string) entry {
	i := slices.IndexFunc(s.Quarantine, func(e entry) bool { return e.UID == uid })
	if i < 0 {
		return entry{}
	}
	return s.Quarantine[i]
}

// has reports whether the pod is kept or waits for that reason.
func (p *podStatus) has(name string) bool {
	return slices.ContainsFunc(p.Reasons, func(r reason) bool { return r.Reason == name })
}

// await waits until a scan shows what is asked for.
func (d *daemon) await(t *testing.T, limit time.Duration, what string, is func(s status) bool) (s status) {
	t.Helper()
	eventually(t, limit, func() string {
		if d.process != nil && !d.Running() {
			return "the daemon has ended"
		}
		s = d.scan(t)
		return missing(is(s), "%s: %+v %+v", what, s.Pods, s.Quarantine)
	})
	return s
}

// awaitReason waits until the pod is kept or waits for the reason.
func (d *daemon) awaitReason(t *testing.T, uid, name string) podStatus {
	t.Helper()
	s := d.await(t, 60*time.Second, uid+" has the reason "+name, func(s status) bool {
		p := s.pod(uid)
		return p.has(name)
	})
	return s.pod(uid)
}

// awaitMoved waits until the pod is in quarantine, and awaitCleaned until it is confirmed dead, or nothing is left of it.
func (d *daemon) awaitMoved(t *testing.T, uid string) entry {
	t.Helper()
	s := d.await(t, hold+60*time.Second, uid+" is in quarantine", func(s status) bool { return s.entry(uid).Entry != "" })
	return s.entry(uid)
}

func (d *daemon) awaitCleaned(t *testing.T, uid string) {
	t.Helper()
	d.await(t, hold+confirm+60*time.Second, uid+" is cleaned", func(s status) bool {
		e := s.entry(uid)
		return s.pod(uid).Verdict == "" && (e.Entry == "" || e.Phase == "retained")
	})
}

// awaitMetric waits for a line in the daemon's metrics file.
func (d *daemon) awaitMetric(t *testing.T, line string) {
	t.Helper()
	eventually(t, 60*time.Second, func() string {
		b, err := os.ReadFile(d.metrics)
		return missing(err == nil && strings.Contains(string(b), "\norphan_reaper_"+line+"\n"), "%s lacks %q: %v\n%s", d.metrics, line, err, b)
	})
}

// look has the daemon scan now, as `systemctl reload` does: it looks at a pod that is kept every five minutes.
func (d *daemon) look() { d.signal(unix.SIGHUP) }

// calm fails if the circuit breaker is open.
func (d *daemon) calm(t *testing.T) {
	t.Helper()
	if s := d.scan(t); s.Breaker != nil {
		t.Errorf("the circuit breaker is open: %s", *s.Breaker)
	}
}
