package show

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// badNight is a node on which everything is wrong at once.
func badNight() reaper.Status {
	s := quarantine(status(900, 0, 1, 2, 3, 4, 5, 6, 7, 8), "data", "retention", "confirm", "conflict", "failed")
	s.Hidden, s.Problems = 1, []string{"cannot ask containerd: " + hostile}
	s.Pods[0].Words = hostile
	s.CNI = &reaper.CNIStatus{Complete: true, Files: 700, Bytes: 2 << 20, Stale: 200, Waiting: 30, Unknown: 2, Networks: []reaper.CNINetwork{
		{Name: "cbr0", Used: 254, Stale: 200, Waiting: 30, Size: 254, Full: true}, {Name: hostile, Used: 2, Keeper: hostile},
	}, Kept: []reaper.CNIFile{{Path: "/var/lib/cni/networks/cbr0/" + hostile, Reason: "its content is not an ID"}}, Problems: []string{hostile}}
	s.Events = []judge.Event{{Kind: judge.EventQuarantined, UID: uid(22), At: now, PodName: hostile, Entry: string(uid(22)) + ".1"}}
	return s
}

// screens are all screens of one node, by the command.
func screens(t *testing.T, s reaper.Status) map[string]string {
	t.Helper()
	all := map[string]string{}
	add := func(name string, screen func(w io.Writer) error) {
		var b bytes.Buffer
		if err := screen(&b); err != nil {
			t.Fatal(err)
		}
		all[name] = b.String()
	}
	add("scan", func(w io.Writer) error { return Scan(w, s) })
	add("doctor", func(w io.Writer) error { return Doctor(w, s) })
	add("quarantine list", func(w io.Writer) error { return QuarantineList(w, s) })
	add("progress", func(w io.Writer) error { return Progress(w, s, 30*time.Second) })
	add("sweep", func(w io.Writer) error { return Sweep(w, s) })
	add("restore", func(w io.Writer) error { return Done(w, s.Events) })
	uids := map[parsers.PodUID]bool{}
	for _, p := range s.Pods {
		uids[p.UID] = true
	}
	for _, e := range s.Quarantine {
		uids[e.UID] = true
	}
	for uid := range uids {
		add("explain "+string(uid), func(w io.Writer) error { return Explain(w, s, s.Explain(uid, s.Events)) })
		u := reaper.Unmounting{Stopped: hostile, Mounts: []reaper.Mount{
			{Path: hostile, Type: hostile, Source: hostile, Keeps: hostile}, {Path: hostile}, {Path: hostile, Result: judge.Refused, Err: hostile},
		}}
		u.Pod, _ = s.Pod(uid)
		add("unmount "+string(uid), func(w io.Writer) error { return Unmount(w, u) })
	}
	return all
}

// TestHostile: no text from a container moves the cursor, turns the direction of writing, or has a line of its own. Text fits
// 80 columns, but for commands and words that have no space.
func TestHostile(t *testing.T) {
	for name, text := range screens(t, badNight()) {
		for line := range strings.Lines(text) {
			line = strings.TrimSuffix(line, "\n")
			for _, r := range line {
				if !strconv.IsPrint(r) {
					t.Errorf("%s prints %q in %q", name, r, line)
				}
			}
			if strings.HasPrefix(strings.TrimSpace(line), "You have nothing to do") && !strings.Contains(line, `\u202e`) {
				t.Errorf("%s: a tenant has written the line %q", name, line)
			}
			words := strings.Fields(line)
			if utf8.RuneCountInString(line) > columns && !strings.HasPrefix(line, "    ") && len(words) > 2 && !strings.Contains(line, "`") {
				t.Errorf("%s: %d columns: %s", name, utf8.RuneCountInString(line), line)
			}
		}
	}
	var b bytes.Buffer
	if err := JSON(&b, badNight()); err != nil {
		t.Fatal(err)
	}
	for _, r := range b.String() {
		if r != '\n' && !strconv.IsPrint(r) {
			t.Fatalf("JSON has %q", r)
		}
	}
	var back reaper.Status
	if err := json.Unmarshal(b.Bytes(), &back); err != nil || back.Pods[0].Words != strings.ToValidUTF8(hostile, "\ufffd") {
		t.Errorf("JSON is not what was printed: %v", err)
	}
}

// want checks that the parts are in the text, in this order.
func want(t *testing.T, name, text string, parts ...string) {
	t.Helper()
	text = strings.Join(strings.Fields(text), " ")
	at := 0
	for _, part := range parts {
		i := strings.Index(text[at:], part)
		if i < 0 {
			t.Errorf("%s has no %q after %q:\n%s", name, part, text[max(0, at-60):at], text)
			return
		}
		at += i + len(part)
	}
}

// TestDoctor: it begins with the pod that the kubelet reports, then has what this pod hides and how to see it.
func TestDoctor(t *testing.T) {
	s := badNight()
	s.Pods[0].Words = stillPresent
	v := "| kubectl replace --raw /api/v1/nodes/node-1/proxy/debug/flags/v -f -"
	text := screens(t, s)["doctor"]
	if !strings.HasPrefix(text, "The kubelet (PID 812) reports this pod, first 4 min ago") { // and not of the pod that only waits
		t.Errorf("doctor begins with %.80q", text)
	}
	want(t, "doctor", text,
		"The kubelet (PID 812) reports this pod, first 4 min ago, last 1 s ago", "5 errors", string(uid(0)), stillPresent, "tmpfs at",
		"It reports 2 more pods", "it hides 1 other pod", "printf 5 "+v, "sleep 10", "printf 2 "+v,
		"In quarantine", "2 need you", "in 23 h", "restore "+string(uid(21)), "3.0 GiB of 1 pod",
		"CNI", "cbr0 is full", "700 files", "200 files are stale", "orphan-reaper sweep --no-wait", "2 files cannot be judged",
		"What goes by itself", "The daemon (PID 900) moves 1 pod to quarantine, 60 s after",
		"What only you do", "orphan-reaper unmount "+string(uid(0)), "rmdir", "printf 5 "+v, "orphan-reaper unmount "+string(uid(3)), "printf 2 "+v,
		"systemctl restart kubelet.service", "restore "+string(uid(23))+" --replace", "read-only file system",
		"What could not be read or written", "cannot ask containerd")
}

// TestNothingIsClaimed: a screen does not claim what was not read, and "Nothing." only if that is so.
func TestNothingIsClaimed(t *testing.T) {
	for _, test := range []struct {
		name   string
		edit   func(*reaper.Status)
		want   []string
		refute string
	}{
		{"all is well", func(s *reaper.Status) { s.CNI = &reaper.CNIStatus{Complete: true} }, []string{"The daemon (PID 900) runs", "What only you do Nothing."}, "cannot"},
		{"no kubelet", func(s *reaper.Status) { s.Node.KubeletKnown = judge.Fact{Detail: "PIDs 1, 2"} }, []string{"It is not known which kubelet runs: PIDs 1, 2"}, "No report"},
		{"the log was not read", func(s *reaper.Status) { s.Problems = []string{"no log"} }, []string{"was read", "as far as the node could be read", "no log"}, "Nothing. "},
		{"CNI files cannot be removed", func(s *reaper.Status) {
			s.Operator, s.CNI = true, &reaper.CNIStatus{Complete: true, Operator: true, Problems: []string{"read-only file system"}}
		}, []string{"read-only file system", "Stale CNI files could not be"}, "Nothing. "},
		{"a runtime has not answered", func(s *reaper.Status) { s.CNI = &reaper.CNIStatus{Files: 7} }, []string{"Nothing can be judged now", "7 files"}, "stale"},
		{"CNI was not read", func(*reaper.Status) {}, []string{"CNI's files were not read"}, "0 files"},
		{"no daemon", func(s *reaper.Status) { s.Daemon, s.Unit = 0, "orphan-reaper" }, []string{"no daemon runs", "systemctl enable --now orphan-reaper", "orphan-reaper sweep"}, "The daemon"},
		{"more pods follow", func(s *reaper.Status) { *s = status(900, 1); s.Behind = 7 }, []string{"moves 1 pod to quarantine, 60 s after the first good scan (the kubelet", "up to 7 more"}, "need"},
		{"a pod in quarantine is alive", func(s *reaper.Status) {
			*s = quarantine(*s, "confirm")
			s.Quarantine[0].Decision = judge.IsAlive
		}, []string{"The daemon (PID 900) restores 1 pod that is alive"}, "confirms"},
		{"no unit", func(s *reaper.Status) { s.Daemon = 0 }, []string{"no daemon runs", "orphan-reaper sweep"}, "systemctl"},
		{"a sweep runs", func(s *reaper.Status) { s.Daemon, s.Sweep = 0, 77 }, []string{"A sweep (PID 77) runs now", "No daemon runs"}, "The daemon"},
		{"mode observe", func(s *reaper.Status) {
			s.Stopped = &judge.Reason{Reason: judge.ModeObserve, Detail: "the mode is observe"}
		}, []string{"Nothing is moved or removed: the mode is observe", "set mode to enforce"}, "runs. Nothing waits"},
		{"the breaker is open", func(s *reaper.Status) {
			s.Operator, s.Breaker = true, &judge.Event{Kind: judge.EventBreaker, UID: uid(1)}
			s.Stopped = &judge.Reason{Reason: judge.BreakerOpen, Detail: "a quarantined pod turned out to be alive"}
		}, []string{"Nothing is moved", "explain " + string(uid(1)), "orphan-reaper quarantine resume"}, "Nothing. "},
	} {
		s := status(900, 4)
		test.edit(&s)
		text := screens(t, s)["doctor"]
		want(t, test.name, text, test.want...)
		if strings.Contains(strings.Join(strings.Fields(text), " "), test.refute) {
			t.Errorf("%s: the screen has %q:\n%s", test.name, test.refute, text)
		}
	}
}

// TestExplain: it has every fact with its answer, its source and its detail, and what was read in the log.
func TestExplain(t *testing.T) {
	s := status(900, 0)
	for i := range s.Pods[0].Facts {
		f := &s.Pods[0].Facts[i]
		f.Source, f.Detail = "source"+strconv.Itoa(i), "detail"+strconv.Itoa(i)
	}
	text := screens(t, s)["explain "+string(uid(0))]
	for i, f := range s.Pods[0].Facts {
		n := strconv.Itoa(i)
		want(t, "explain", text, "FACT ANSWER", judge.FactName(i).String()+" "+f.Truth.String()+" source"+n+": detail"+n)
	}
	want(t, "explain", text, "Verdict: keep", "It needs you", "mounted: ", "What to do now", "orphan-reaper unmount "+string(uid(0)), stillPresent, "5 errors")

	text = screens(t, status(900, 8))["explain "+string(uid(8))]
	want(t, "a runtime that could not be read", text, "Verdict: keep", "running unknown: cannot ask", "Repair what could not be read", "No line about this pod")

	want(t, "a pod on hold", screens(t, status(900, 1))["explain "+string(uid(1))], "Verdict: wait", "moved by the daemon (PID 900), 60 s after")
	want(t, "a pod on hold, no daemon", screens(t, status(0, 1))["explain "+string(uid(1))], "Verdict: wait", "No daemon runs", "orphan-reaper sweep")

	s = quarantine(status(900), "data")
	s.Events = []judge.Event{{Kind: judge.EventQuarantined, UID: uid(20), At: now}}
	if text := screens(t, s)["explain "+string(uid(20))]; !strings.Contains(text, "Moved pod") || strings.Contains(text, "Undo") {
		t.Errorf("what was done has a command that may be refused by now:\n%s", text)
	}
	want(t, "a pod in quarantine", screens(t, s)["explain "+string(uid(20))], "shop/data", "no directory in the pods directory",
		"retained, moved 2 h ago. Left: 3.0 GiB", "kubernetes.io~nfs", "restore "+string(uid(20)), "purge "+string(uid(20)))
}

// TestScan: what needs an operator comes first, and a pod that is alive last.
func TestScan(t *testing.T) {
	s := badNight()
	want(t, "scan", screens(t, s)["scan"], "9 pod directories: 1 alive, 7 kept, 1 waiting. 5 need you.",
		"keep * 1b2c3d00", "mounted", "wait 1b2c3d01", "hold", "running unknown", "alive 1b2c3d04")
	for i := range 100 {
		p := s.Pods[3] // mounted, and the kubelet is silent
		p.UID = uid(100 + i)
		p.Advice = &judge.Advice{Do: p.Advice.Do, Commands: []string{p.Advice.Commands[0], "orphan-reaper unmount " + string(p.UID), p.Advice.Commands[2]}}
		s.Pods = append(s.Pods, p)
	}
	text := screens(t, s)["scan"]
	want(t, "a hundred more", text, "VERDICT PODS WHY", "keep * 101 not-reported, mounted", "alive 1 running", "VERDICT UID", "… and 69 more", "101 pods. The pod seems dead", "printf 5", "unmount "+string(uid(3)), "unmount "+string(uid(100)), "printf 2", "… and 98 more")
	if n := strings.Count(text, "printf 5"); n != 2 { // and once for what is hidden
		t.Errorf("the kubelet's verbosity is switched %d times", n)
	}
}

// TestSweep: progress in one line, then what was done with its undo.
func TestSweep(t *testing.T) {
	s := quarantine(status(0, 1), "confirm")
	s.Mode, s.Events = "enforce", []judge.Event{
		{Kind: judge.EventQuarantined, UID: uid(22), At: now}, {Kind: judge.EventCNIRemoved, At: now, Undo: "tar -C / -xkf /s/a.tar.gz"},
	}
	all := screens(t, s)
	want(t, "progress", all["progress"], "03:00:00 1 moved, 1 CNI sweep; 1 waits, 1 in confirm; next scan in 30 s")
	want(t, "sweep", all["sweep"], "Done: 1 moved, 1 CNI sweep.", "Moved pod "+string(uid(22)), "quarantine restore "+string(uid(22)), "tar -C / -xkf", "hold ends in 60 s")
}

// TestUnmount: before an operator agrees, the screen shows what is lost.
func TestUnmount(t *testing.T) {
	for result, lost := range map[judge.Result]int{"": 1, judge.Done: 0} {
		var b bytes.Buffer
		u := reaper.Unmounting{Mounts: []reaper.Mount{{Path: "/a", Type: "nfs4"}, {Path: "/b", Type: "tmpfs", Result: result}}}
		if err := Unmount(&b, u); err != nil {
			t.Fatal(err)
		}
		if text := b.String(); strings.Count(text, "its files are lost") != lost {
			t.Errorf("%q:\n%s", result, text)
		}
	}
}

// TestUnits: sizes and times as an operator reads them.
func TestUnits(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 1023 << 10: "1.0 MiB", 90 << 20: "90 MiB", 1 << 62: "4096 PiB"} {
		if got := size(n); got != want {
			t.Errorf("%d: %s, not %s", n, got, want)
		}
	}
	p := page{now: now.Wall}
	for d, want := range map[time.Duration]string{
		-3 * time.Second: "0 s", 40 * time.Second: "40 s", 200 * time.Second: "3 min", 5 * time.Hour: "5 h", 100 * time.Hour: "4 days",
	} {
		if ago, in := p.ago(now.Wall.Add(-d)), p.in(now.Wall.Add(d)); ago != want+" ago" || in != "in "+want {
			t.Errorf("%s: %s, %s, not %s", d, ago, in, want)
		}
	}
	s := reaper.Status{Pods: []reaper.PodStatus{{}, {}, {}}}
	for i, uid := range []parsers.PodUID{"0badf00d-0001-4aaa-8bbb-cccc00000001", "0badf00d-0002-4aaa-8bbb-cccc00000001", "1badf00d-0002-4aaa-8bbb-cccc00000001"} {
		s.Pods[i].UID = uid
	}
	uids := shortUIDs(&s)
	if got := cmp.Or(uids[s.Pods[0].UID]) + " " + uids[s.Pods[1].UID] + " " + uids[s.Pods[2].UID]; got != "0badf00d-0001 0badf00d-0002 1badf00d" {
		t.Errorf("short UIDs: %s", got)
	}
}
