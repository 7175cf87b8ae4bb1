package ui

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/summary"
)

// doctorScreen renders the screen of a healthy node after change.
func doctorScreen(t *testing.T, change func(*summary.Case)) (Doctor, string) {
	t.Helper()
	x := healthyNode()
	if change != nil {
		change(&x)
	}
	shown := NewDoctor(x, busyContext())
	return shown, printed(t, func(p *Printer) { p.Doctor(&shown) })
}

// healthyNode is a node with a daemon and one living pod.
func healthyNode() summary.Case {
	r := only(busyReport(), uidAlive)
	return summary.Case{
		Root:    true,
		Sources: []summary.Source{{Name: "journald", Read: true, Since: screenNow.Add(-24 * time.Hour)}},
		Daemon:  summary.Daemon{Runs: policy.Yes, PID: 612, Since: screenNow.Add(-50 * time.Hour), Mode: "enforce", Installed: true},
		Looked:  true, Node: r.Look.Node, Pods: r.Pods, Rules: policy.Rules{Confirm: 5 * time.Minute},
	}
}

const oldWords = `orphaned pod "0badf00d-0001-4aaa-8bbb-cccc00000001" found, but volume paths are still present on disk`

// complain makes the kubelet report the removable pod every 2 s, for longer than the log was read.
func complain(x *summary.Case) {
	x.Said = []summary.Said{{
		UID: uidReap, Source: "journald", Lines: 43150, LastHour: 1799, First: screenNow.Add(-24*time.Hour + time.Second),
		Last: screenNow.Add(-time.Second), Now: true, Words: oldWords,
	}}
	r := only(busyReport(), uidReap, uidAlive)
	x.Pods = r.Pods
}

// doctored are the nodes of doctor's tests, by name. Package summary tests more of them.
var doctored = map[string]func(*summary.Case){
	"goes": complain,
	"nodaemon": func(x *summary.Case) {
		complain(x)
		x.Daemon = summary.Daemon{Runs: policy.No, Installed: true}
	},
	"sweeps": func(x *summary.Case) {
		complain(x)
		x.Daemon = summary.Daemon{Runs: policy.No, PID: 612, Since: screenNow.Add(-time.Minute)}
	},
	"observe": func(x *summary.Case) {
		complain(x)
		x.Daemon.Mode, x.Rules.Observe = "observe", true
	},
	// One pod is removable, one waits for its hold, and one for a process.
	"inuse":   doctoredInUse,
	"limited": doctoredLimited,
	"umount":  doctoredUnmount,
	"aging": func(x *summary.Case) {
		x.Aging = summary.Aging{UIDs: []parsers.PodUID{uidHeld}, Bytes: 300 << 10, In: 24*time.Hour - time.Second}
		x.DataPods, x.DataBytes = 2, 4096
	},
	"files": func(x *summary.Case) {
		complain(x)
		x.Sources = []summary.Source{
			{Name: "/var/log/messages", Read: true},
			{Name: "/var/log/syslog", Absent: true, Problem: "stat /var/log/syslog: no such file or directory"},
		}
		s := &x.Said[0]
		s.Source, s.Untimed, s.LastHour, s.First, s.Last = "/var/log/messages", s.Lines, 0, time.Time{}, time.Time{}
	},
	"conflict": func(x *summary.Case) {
		x.Parked, x.Conflicts = []parsers.PodUID{uidHeld, uidElder}, []parsers.PodUID{uidElder}
	},
	"failed": func(x *summary.Case) {
		x.Parked = []parsers.PodUID{uidHeld}
		x.Failed = []policy.EntryState{{UID: uidHeld, Failed: []policy.Why{{Reason: policy.ReasonRemoval, Detail: "unlinkat …/e/f: operation not permitted"}}}}
	},
	"breaker": func(x *summary.Case) {
		complain(x)
		x.Breaker, x.Revived = true, uidReap
	},
	"restored": func(x *summary.Case) {
		complain(x)
		keep(x, policy.ReasonRestored)
		x.DataPods, x.DataBytes = 1, 4096
	},
	"deaf": func(x *summary.Case) {
		x.Sources = []summary.Source{{Name: "journald", Problem: "/var/log/journal/0123/system.journal: permission denied"}}
	},
	"contradiction": func(x *summary.Case) {
		x.Node.Agrees = policy.Fact{Truth: policy.No, Detail: "--root-dir is /data/kubelet, and the kubelet that runs here (PID 812) has /var/lib/kubelet"}
	},
	"user": func(x *summary.Case) {
		complain(x)
		x.Root, x.Looked, x.Pods = false, false, nil
		x.Daemon = summary.Daemon{Problem: "cannot open the state directory: permission denied"}
		x.Err = fmt.Errorf("cannot list the pods directory /var/lib/kubelet/pods: %w", fs.ErrPermission)
	},
	"many": func(x *summary.Case) {
		complain(x)
		for i := range 40 {
			p := x.Pods[0]
			p.UID = another(i)
			if i%2 == 1 {
				p.Unmount = "orphan-reaper unmount " + string(p.UID)
				p.Decision, p.Why = policy.Keep, []policy.Why{{Reason: policy.ReasonMounted}}
			}
			x.Pods = append(x.Pods, p)
		}
		x.Said[0].Words = strings.Repeat(oldWords+" \x1b[2J", 9)
	},
}

// doctoredUnmount has a mounted volume of a dead pod.
func doctoredUnmount(x *summary.Case) {
	complain(x)
	r := only(busyReport(), uidMounted)
	p := r.Pods[0]
	p.Unmount = "orphan-reaper unmount " + string(uidMounted)
	x.Pods = append(x.Pods, p)
}

// doctoredLimited has two removable pods, and a daemon that has just started.
func doctoredLimited(x *summary.Case) {
	complain(x)
	x.Daemon.Since = screenNow.Add(-time.Minute)
	r := only(busyReport(), uidReap, uidHold)
	x.Pods = r.Pods
	x.Pods[1].Due = 0
}

// doctoredInUse has three dead pods: one is removable, one waits for its hold, and one for a process.
func doctoredInUse(x *summary.Case) {
	complain(x)
	r := only(busyReport(), uidHold)
	used := policy.Judged{Evidence: deadEvidence(uidMounted, "db", "postgres-1"), Verdict: policy.Verdict{Decision: policy.Wait}}
	used.Why = []policy.Why{{Reason: policy.ReasonInUse, Detail: "PID 4242 (tail) has volumes/log as an open file"}}
	x.Pods = append(x.Pods, r.Pods[0], used)
}

// keep keeps the removable pod.
func keep(x *summary.Case, reason policy.Reason) {
	x.Pods[0].Decision, x.Pods[0].Why = policy.Keep, []policy.Why{{Reason: reason}}
}

// TestDoctor checks one screen for each kind of node. It fits a terminal of 80 columns and 24 lines, except for
// commands, which are never broken.
func TestDoctor(t *testing.T) {
	doctored["healthy"] = nil
	defer delete(doctored, "healthy")
	easy := strings.Fields("healthy aging goes files restored inuse limited user")
	for name, change := range doctored {
		shown, out := doctorScreen(t, change)
		if shown.NeedsPerson == slices.Contains(easy, name) {
			t.Errorf("%s: needs the operator: %t", name, shown.NeedsPerson)
		}
		words := words(out)
		if acts := strings.Contains(words, "What you have to do"); acts != shown.NeedsPerson {
			t.Errorf("%s: needs the operator: %t, and it shows what to do: %t", name, shown.NeedsPerson, acts)
		}
		if n := strings.Count(out, "\n"); n > 24 && name != "many" || n > 40 {
			t.Errorf("%s: %d lines", name, n)
		}
		for line := range strings.Lines(out) {
			if n := utf8.RuneCountInString(line) - 1; n > 80 && !strings.Contains(line, "umount '") {
				t.Errorf("%s: %d columns: %s", name, n, line)
			}
		}
		if strings.Contains(out, "\x1b") {
			t.Errorf("%s: colours or control characters of the node", name)
		}
	}
}

// TestDoctorCommands checks that a command has a line of its own that no width breaks, so that it can be pasted.
func TestDoctorCommands(t *testing.T) {
	seen := 0
	for name, change := range doctored {
		_, out := doctorScreen(t, change)
		for line := range strings.Lines(out) {
			before, command, found := strings.Cut(line, "orphan-reaper")
			if !found {
				continue
			}
			seen++
			before = strings.TrimSpace(before)
			more := strings.Contains(before, "… and ") // the list is shortened
			if unit := before == "systemctl enable --now"; !more && !unit && (before != "" && before != "sudo" || strings.TrimSpace(command) == "") {
				t.Errorf("%s: %q", name, line)
			}
		}
	}
	if seen < 15 {
		t.Errorf("only %d commands", seen)
	}
}

// TestDoctorReadsOnly checks that the screen reports only what was read.
func TestDoctorReadsOnly(t *testing.T) {
	for name, tt := range map[string]struct {
		node      func(*summary.Case)
		want, not string
	}{
		"listed, and reported just now": {func(x *summary.Case) {
			complain(x)
			keep(x, policy.ReasonSandbox)
		}, "Something of it is still listed.", "It lives"},
		"listed, and reported long ago": {func(x *summary.Case) {
			complain(x)
			keep(x, policy.ReasonSandbox)
			x.Said[0].Now, x.Said[0].Last = false, screenNow.Add(-time.Hour)
		}, "It lives.", "still listed"},
		"listed, and reported a second ago": {func(x *summary.Case) {
			complain(x)
			keep(x, policy.ReasonSandbox)
			x.Said[0].Now = false
		}, "Something of it is still listed.", "It has stopped"},
		"a missing log file": {func(x *summary.Case) {
			x.Sources = []summary.Source{{Name: "/nowhere.log", Absent: true, Problem: "no such file"}}
		}, "/nowhere.log does not exist", "no such file"},
		"a log file, and all gone": {func(x *summary.Case) {
			doctored["files"](x)
			x.Pods = nil
			x.Said[0].Now = false
		}, "It has stopped: none that it named is left.", "complains of"},
		"a log file, and one left": {func(x *summary.Case) {
			doctored["files"](x)
			x.Said[0].Now = false
		}, "The kubelet complains of 1 pod", "It has stopped"},
		"another root": {func(x *summary.Case) {
			complain(x)
			x.Pods = nil
			doctored["contradiction"](x)
		}, "A setting contradicts the running kubelet: --root-dir", "are gone"},
	} {
		_, out := doctorScreen(t, tt.node)
		if words := words(out); !strings.Contains(words, tt.want) || strings.Contains(words, tt.not) {
			t.Errorf("%s: want %q and not %q:\n%s", name, tt.want, tt.not, out)
		}
		if name == "another root" && (!strings.HasPrefix(out, "A setting contradicts") || strings.Contains(out, "that it named")) {
			t.Errorf("%s:\n%s", name, out)
		}
	}
}

// TestDoctorElsewhere checks that staged volumes and unlisted entries are shown and do not cause exit code 3.
func TestDoctorElsewhere(t *testing.T) {
	shown, text := doctorScreen(t, func(x *summary.Case) {
		x.Staged = []policy.StagedVolume{{Driver: "d", Handle: "vol-1"}, {Driver: "d\x1b[2J", Handle: "vol-2"}, {}, {}}
		x.Unlisted = 1
	})
	for _, want := range []string{
		"4 volumes are staged here that no pod directory names (d vol-1, ",
		"In quarantine is 1 directory that the ledger does not have. Only you can restore or purge it: orphan-reaper quarantine list",
	} {
		if !strings.Contains(words(text), want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if shown.NeedsPerson || strings.Contains(text, "nothing to do") || strings.ContainsRune(text, '\x1b') {
		t.Errorf("%t\n%s", shown.NeedsPerson, text)
	}
	for unlisted, nothing := range []bool{true, false} {
		if _, text := doctorScreen(t, func(x *summary.Case) { x.Unlisted = unlisted }); strings.Contains(text, "nothing to do") != nothing {
			t.Errorf("%d unlisted:\n%s", unlisted, text)
		}
	}
}

// TestDoctorStrays checks that names that must not be pasted are counted, and that the command that shows all names
// is printed.
func TestDoctorStrays(t *testing.T) {
	for _, tt := range []struct {
		names []string
		want  []string
	}{
		{[]string{"a", "b"}, []string{"ls -ld /pods/a", "ls -ld /pods/b"}},
		{[]string{"a", "b", "c\nd"}, []string{"ls -ld /pods/a", "ls -ld /pods/b", "orphan-reaper scan --verdict=keep"}},
		{[]string{"\x1b"}, []string{"orphan-reaper scan --verdict=keep"}},
		{[]string{"a", "b", "c", "d"}, []string{"ls -ld /pods/a", "ls -ld /pods/b", "orphan-reaper scan --verdict=keep"}},
	} {
		v := Doctor{place: Place{PodsDir: "/pods"}}
		v.strays(tt.names)
		if got := v.Todo[0].Commands; !slices.Equal(got, tt.want) || strings.Contains(v.Todo[0].Text, "shows all") != (len(tt.want) == 3 || len(tt.names) == 1) {
			t.Errorf("%q: %q %q", tt.names, v.Todo[0].Text, got)
		}
	}
}

// only keeps the pods with these UIDs in a report, like a survey of them.
func only(r reaper.Report, uids ...parsers.PodUID) reaper.Report {
	r.Look = policy.Look{Node: r.Look.Node}
	r.Pods = slices.DeleteFunc(r.Pods, func(p policy.Judged) bool { return p.UID == "" || !slices.Contains(uids, p.UID) })
	return r
}

// another returns one of many UIDs.
func another(i int) parsers.PodUID {
	return parsers.PodUID(fmt.Sprintf("0badf00d-1%03d-4aaa-8bbb-cccc00000001", i))
}
