package ui

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/contents"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

var noon = time.Date(2026, 3, 1, 8, 31, 34, 0, time.UTC)

func uid(i int) parsers.PodUID { return parsers.PodUID(fmt.Sprintf("%08x-0000-4000-8000-%012x", i, i)) }

// onTerminal returns the screen of a terminal of 80 columns, with the colours that env allows.
func onTerminal(t *testing.T, env func(string) string, write func(*SweepScreen)) string {
	t.Helper()
	master, tty := testkit.Terminal(t, 80)
	read := make(chan string)
	go func() {
		b, err := io.ReadAll(master)
		if err != nil && !errors.Is(err, unix.EIO) { // how a terminal ends, pty(7)
			b = append(b, err.Error()...)
		}
		read <- string(b)
	}()
	write(&SweepScreen{Printer: func() *Printer { return NewPrinter(tty, env) }})
	testkit.Must(t, tty.Close())
	return strings.ReplaceAll(<-read, "\r\n", "\n")
}

func plain(key string) string { return map[string]string{"NO_COLOR": "1"}[key] }

func because(reason policy.Reason, detail string) []policy.Why {
	return []policy.Why{{Reason: reason, Detail: detail}}
}

// story are records of all looks: with a name and without, of what was removed, what is kept and what failed.
func story() []policy.Record {
	at := func(s int) policy.Instant { return policy.Instant{Wall: noon.Add(time.Duration(s) * time.Second)} }
	return []policy.Record{
		{Kind: policy.KindKept, At: at(0), UID: uid(1), Decision: policy.Wait, Why: because(policy.ReasonHold, "the evidence has been good for 1s of 8s")},
		{
			Kind: policy.KindKept, At: at(0), UID: uid(2), Namespace: "shop", PodName: "reports-0", Decision: policy.Keep,
			Why: because(policy.ReasonMounted, "/pods/x/volumes/kubernetes.io~nfs/share (mounted at /somewhere/else, seen in process 812)"),
		},
		{Kind: policy.KindParked, At: at(8), UID: uid(1), Entry: string(uid(1))},
		{Kind: policy.KindParked, At: at(8), UID: uid(3), Namespace: "shop", PodName: "cart-0", Entry: string(uid(3))},
		{
			Kind: policy.KindStripped, At: at(12), UID: uid(1), Entry: string(uid(1)), Taken: map[string]policy.Tally{"projected": {Entries: 4, Bytes: 30}},
			Left: []policy.Residue{{Class: contents.ClassData, Entries: 1, Bytes: 6}},
		},
		{
			Kind: policy.KindRemoved, At: at(12), UID: uid(3), Namespace: "shop", PodName: "cart-0", Entry: string(uid(3)),
			Taken: map[string]policy.Tally{"skeleton": {Entries: 4, Bytes: 30}},
		},
		{Kind: policy.KindRemovedSandbox, At: at(13), UID: uid(4), Sandbox: strings.Repeat("0123456789abcdef", 4)},
		{Kind: policy.KindFailed, At: at(14), UID: uid(5), Entry: string(uid(5)), Err: "cannot rename: read-only file system"},
	}
}

// TestScreen: one line for each action, aligned and not broken within a UID, and none for a pod that waits.
func TestScreen(t *testing.T) {
	tell := func(s *SweepScreen) {
		for _, r := range story() {
			testkit.Must(t, s.Show(r))
		}
	}
	shown := onTerminal(t, plain, tell)
	for line := range strings.Lines(shown) {
		if n := human.Columns(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if strings.Contains(shown, "Waiting") {
		t.Error("a pod that waits has a line")
	}
	all := onTerminal(t, plain, func(s *SweepScreen) { s.Waiting = true; tell(s) })
	if strings.Count(all, "Waiting with pod ") != 1 {
		t.Errorf("--verbose does not show what waits:\n%s", all)
	}
	painted := onTerminal(t, func(string) string { return "" }, func(s *SweepScreen) { s.Waiting = true; tell(s) })
	for _, want := range []string{"\x1b[33mkept ", "\x1b[31mkept ", "\x1b[32mparked ", "\x1b[32mremoved ", "\x1b[31mfailed "} {
		if !strings.Contains(painted, want) {
			t.Errorf("no %q in\n%s", want, painted)
		}
	}
}

// TestWaits: all that wait for time alone share one line, which is not repeated.
func TestWaits(t *testing.T) {
	rep := func(n int, due time.Duration) *reaper.Report {
		r := &reaper.Report{Look: policy.Look{At: policy.Instant{Wall: noon}}}
		for range n {
			r.Pods = append(r.Pods, policy.Judged{Verdict: policy.Verdict{Decision: policy.Wait, Due: due, Why: because(policy.ReasonHold, "")}})
		}
		r.Pods = append(r.Pods, policy.Judged{Verdict: policy.Verdict{Decision: policy.Keep, Why: because(policy.ReasonMounted, "")}})
		return r
	}
	limited := rep(0, 0)
	waits := policy.Verdict{Decision: policy.Wait, Why: because(policy.ReasonLimit, policy.FirstPod+" is confirmed")}
	limited.Pods, limited.Next = append(limited.Pods, policy.Judged{Verdict: waits}), time.Minute
	shown := onTerminal(t, plain, func(s *SweepScreen) {
		for _, r := range []*reaper.Report{rep(43, 8*time.Second), rep(43, 8*time.Second), rep(1, 9*time.Second), rep(0, 0), limited} {
			testkit.Must(t, s.Waits(r))
		}
	})
	if want := "43 pods wait for their hold, until 08:31:42 UTC\n1 pod waits for its hold, until 08:31:43 UTC\n" +
		"1 pod follows when the first one has been in quarantine without a sign of life; the next look is at 08:32:34 UTC\n"; shown != want {
		t.Errorf("%q, want %q", shown, want)
	}
}
