package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// TestSinceWhen checks that durations with days and dates are accepted, and that anything else is wrong usage.
func TestSinceWhen(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"30d": now.AddDate(0, 0, -30), "12h": now.Add(-12 * time.Hour), "1d12h": now.Add(-36 * time.Hour), "90m": now.Add(-90 * time.Minute),
		"2026-11-01": time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC),
	} {
		if got, err := sinceWhen(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "d", "0d", "-1d", "-5h", "30", "1d-48h", "99999d", "2027-01-01", "yesterday", "1d2", "\x1b[2J"} {
		code, _, errs := call(t, "report", "--since="+text)
		if code != 2 || !strings.Contains(errs, "--since") || strings.Contains(errs, "\x1b") {
			t.Errorf("%q: code %d: %s", text, code, errs)
		}
	}
}

// quietScript runs a kubelet that reports a pod as long as the pod has a directory, and a daemon that is stopped once
// it has recorded that the message stopped. The report follows.
const quietScript = `kubelet --container-runtime-endpoint=unix://$CRI
name $pid & namer=$!
$PROGRAM run $ARGS --log-source file --log-file "$LOG" >&2 & daemon=$!
until [ ! -d "$ROOT/pods/$POD" ]; do kill -0 $daemon; sleep 0.1; done
kill $namer
until grep -q '"kind":"quiet"' "$STATE/ledger.jsonl"; do kill -0 $daemon; sleep 0.1; done
kill $daemon
wait $daemon || :
$PROGRAM report -o json $ARGS
$PROGRAM report $ARGS
`

// TestWholeQuiet checks that the real daemon records when the message of a process named kubelet stopped, and that
// report shows it without a daemon. Without a node or records the report shows nothing else.
func TestWholeQuiet(t *testing.T) {
	t.Parallel()
	n := newKubeletNode(t, "")
	n.pod(1, false)
	n.write("log", "")
	n.env = append(n.env, "PROGRAM="+n.command().Path, "POD="+wholeUID(1), "STATE="+n.path("state"), "ARGS="+strings.Join(n.args, " "))
	// Here the shell that reports the pod is a child that can be ended.
	script := strings.Replace(nodeScript, "done &", "done", 1) + quietScript
	cmd := bounded(t, "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-ec", script)
	var out, errs bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = n.env, &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s%s", err, &out, &errs)
	}
	if printed := errs.String(); !strings.Contains(printed, wholeUID(1)+" quiet: The kubelet's message about the pod stopped at ") {
		t.Errorf("no record of its silence:\n%s", printed)
	}
	for _, want := range []string{
		`"parked": 1`, `"removed": 1`, `"quiet_pods": 1`, `"incomplete": true`,
		"1 moved to quarantine, 1 permanently removed", ") about 1 pod, until the message stopped", "Records        They begin at",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report does not have %q:\n%s", want, &out)
		}
	}
	before := trace(t, n.dir)
	for _, c := range []struct{ flag, dir, want string }{
		{"--state-dir", n.path("none"), "no records in " + n.path("none")},
		{"--state-dir", n.path("net.d"), "no records in " + n.path("net.d")},
		{"--root-dir", n.path("none"), "cannot find the kubelet's root directory " + n.path("none")},
	} {
		cmd := n.command("report")
		cmd.Args = append(cmd.Args, c.flag, c.dir)
		out, err := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(string(out), c.want) || !strings.Contains(string(out), "hint: ") {
			t.Errorf("%s %s: code %d, %v: %s", c.flag, c.dir, code, err, out)
		}
	}
	if after := trace(t, n.dir); after != before {
		t.Errorf("report changed the node:\n%s\n%s", before, after)
	}
}
