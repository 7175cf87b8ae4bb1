package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/ui"
	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// TestExplainAnswers: each kind of pod has its own answer.
func TestExplainAnswers(t *testing.T) {
	for uid, want := range map[parsers.PodUID]string{
		uidReap:     "Dead, and nothing is mounted or in use. The next sweep moves it to quarantine.",
		uidAlive:    "This pod lives. It is left alone.",
		uidHold:     "Not yet. The reasons end by themselves. The next change comes within 3m.",
		uidParked:   "parked 30s ago, a sign of life may come for 2m0s",
		uidGone:     "Nothing of this pod is left in quarantine.",
		uidLongGone: "Nothing of this pod is in the pods directory or in quarantine. The ledger has its history.",
	} {
		code, out, errs := call(t, "all", "explain", string(uid))
		if code != 0 || errs != "" || !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("code %d, %q; no %q in\n%s", code, errs, want, out)
		}
		fits(t, string(uid), out)
	}
}

// TestTables holds what each command shows a person.
func TestTables(t *testing.T) {
	for _, c := range []struct {
		name string
		code int
		args []string
	}{
		{"scan.txt", 3, []string{"scan"}},
		{"explain-mounted.txt", 3, []string{"explain", string(uidMounted)}},
		{"explain-held.txt", 0, []string{"explain", string(uidHeld)}},
		{"explain-mounted.json", 3, []string{"explain", "-o", "json", string(uidMounted)}},
		{"quarantine-list.txt", 0, []string{"quarantine", "list"}},
		{"quarantine-list.json", 0, []string{"quarantine", "list", "-o", "json"}},
		{"quarantine-restore.txt", 0, []string{"quarantine", "restore", string(uidHeld)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, out, errs := call(t, "all", c.args...)
			if code != c.code || errs != "" {
				t.Errorf("code %d, want %d; stderr %q", code, c.code, errs)
			}
			if strings.HasSuffix(c.name, ".txt") {
				fits(t, c.name, out)
			}
			if strings.ContainsRune(out, '\x1b') {
				t.Error("an escape of the node's, or colour without a terminal")
			}
			golden(t, c.name, out)
		})
	}
}

// TestListStopped: who looks at the quarantine sees first that nothing is taken any more.
func TestListStopped(t *testing.T) {
	code, out, errs := call(t, "stopped", "quarantine", "list")
	if code != 0 || errs != "" {
		t.Errorf("code %d, stderr %q", code, errs)
	}
	if !strings.HasPrefix(out, "STOPPED since ") {
		t.Error(out)
	}
	_, out, _ = call(t, "stopped", "quarantine", "list", "-o", "json")
	var v struct{ Stopped *ui.Stopped }
	if err := json.Unmarshal([]byte(out), &v); err != nil || v.Stopped == nil || v.Stopped.UID != string(uidConflict) {
		t.Errorf("%v in %s", err, out)
	}
	_, out, _ = call(t, "all", "quarantine", "list", "-o", "json")
	if !strings.Contains(out, `"stopped": null`) {
		t.Error("it goes on, and JSON does not say so")
	}
}

// sweepReport is testReport after a pass in which each kind of outcome came up.
func sweepReport() reaper.Report {
	r := testReport()
	act := func(kind policy.ActionKind, uid string, result policy.Result) policy.Outcome {
		parsed := evidence(uidReap, "", "")
		parsed.UID, parsed.Name = uidFrom(uid), uid
		return policy.Outcome{Action: policy.Action{Kind: kind, UID: parsed.UID, Entry: uid, Evidence: &parsed}, Result: result}
	}
	failed := act(policy.Park, "0badf00d-0011-4aaa-8bbb-cccc00000011", policy.Failed)
	failed.Err = "cannot move /var/lib/kubelet/pods/0badf00d-0011-4aaa-8bbb-cccc00000011: input/output error"
	failed.Why = []policy.Why{{Reason: policy.ReasonRemoval, Detail: "input/output error"}}
	refused := act(policy.Park, "0badf00d-0012-4aaa-8bbb-cccc00000012", policy.Refused)
	refused.Why = []policy.Why{{Reason: policy.ReasonCannotMove, Detail: "invalid cross-device link"}}
	partly := act(policy.Strip, "0badf00d-0013-4aaa-8bbb-cccc00000013", policy.Partly)
	partly.Left = []policy.Residue{scratch}
	r.Outcomes = []policy.Outcome{
		act(policy.Park, string(uidReap), policy.Done), act(policy.Strip, string(uidReap), policy.Done),
		failed, refused, partly,
		act(policy.PutBack, "0badf00d-0014-4aaa-8bbb-cccc00000014", policy.Conflict),
		act(policy.Park, "0badf00d-0015-4aaa-8bbb-cccc00000015", policy.Gone),
		act(policy.Park, "0badf00d-0016-4aaa-8bbb-cccc00000016", policy.Done),
	}
	return r
}

func TestPrintSweep(t *testing.T) {
	for _, c := range []struct {
		name   string
		dryRun bool
		report reaper.Report
		code   int
	}{
		{"sweep.txt", false, sweepReport(), exit.FailedCode},
		{"sweep-dry-run.txt", true, testReport(), exit.AttentionCode},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			a := &cli{stdout: &out, env: func(string) string { return "" }, deps: fakeDeps(func(string) string { return "" }), output: "text"}
			if code := exit.Code(a.printSweep(config.Default(), c.report, c.dryRun)); code != c.code {
				t.Errorf("code %d, want %d", code, c.code)
			}
			fits(t, c.name, out.String())
			golden(t, c.name, out.String())
		})
	}
}

// TestSweepJSON: a sweep has the keys of a scan, and the outcome of each pod.
func TestSweepJSON(t *testing.T) {
	var out bytes.Buffer
	a := &cli{stdout: &out, env: func(string) string { return "" }, deps: fakeDeps(func(string) string { return "" }), output: "json"}
	if code := exit.Code(a.printSweep(config.Default(), sweepReport(), false)); code != exit.FailedCode {
		t.Errorf("code %d", code)
	}
	var v struct {
		Pods []struct{ UID, Outcome, Error string }
	}
	if err := json.Unmarshal(out.Bytes(), &v); err != nil {
		t.Fatal(err)
	}
	var outcomes []string
	for _, p := range v.Pods {
		outcomes = append(outcomes, p.Outcome)
		if failed := p.Outcome == "failed"; failed != strings.Contains(p.Error, "input/output error") {
			t.Errorf("%s: %s, %q", p.UID, p.Outcome, p.Error)
		}
	}
	if got := strings.Join(outcomes, " "); got != "removed kept kept kept kept kept quarantined failed kept quarantined kept removed quarantined" {
		t.Error(got)
	}
}

// TestScanJSON checks the keys of the contract, and that no list is null.
func TestScanJSON(t *testing.T) {
	for _, held := range []string{"", "all"} {
		_, out, _ := call(t, held, "scan", "-o", "json")
		var top map[string]json.RawMessage
		if err := json.Unmarshal([]byte(out), &top); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"pods", "cni", "errors"} {
			if !strings.HasPrefix(string(top[key]), "[") {
				t.Errorf("FAKE=%q: %s is no list: %.20s", held, key, top[key])
			}
		}
		if strings.Contains(strings.ReplaceAll(out, `"purge_at": null`, ""), "null") {
			t.Errorf("FAKE=%q: null in %s", held, out)
		}
		var pods []map[string]json.RawMessage
		if err := json.Unmarshal(top["pods"], &pods); err != nil {
			t.Fatal(err)
		}
		for _, pod := range pods {
			for _, key := range []string{"uid", "namespace", "name", "verdict", "reasons", "facts", "residue"} {
				if _, ok := pod[key]; !ok {
					t.Errorf("pod without %s: %v", key, pod)
				}
			}
			if string(pod["uid"]) == `""` && string(pod["directory"]) != `"\"lost+found\\x1b[2J\""` {
				t.Errorf("a name that is no UID: directory %s", pod["directory"])
			}
			var facts map[string]policy.Fact
			if err := json.Unmarshal(pod["facts"], &facts); err != nil {
				t.Error(err)
			}
			for n := range policy.NumFacts {
				if _, ok := facts[n.String()]; !ok && n != policy.FactRemade && n != policy.FactUsed {
					t.Errorf("no fact %s", n)
				}
			}
		}
	}
}

// TestWaitFollowsSettings: how long a sweep waits is what hold and confirm are set to, where no daemon waits for it.
func TestWaitFollowsSettings(t *testing.T) {
	for _, daemon := range []string{"none", "unknown"} {
		env := func(key string) string { return map[string]string{"FAKE": "all", "FAKE_DAEMON": daemon}[key] }
		for settings, want := range map[string]string{"--hold 8s --confirm 6s": "some 14s:", "": "some 10m:"} {
			for _, command := range []string{"scan", "explain " + string(uidHold)} {
				var out, errs bytes.Buffer
				runWith(fakeDeps(env), strings.Fields(command+" "+settings), strings.NewReader(""), &out, &errs, env)
				words := strings.Join(strings.Fields(strings.ReplaceAll(out.String(), "\n#", "\n")), " ")
				if !strings.Contains(words, "waits out hold and confirm, "+want) {
					t.Errorf("%s, %s %s: not %q: %s%s", daemon, command, settings, want, &out, &errs)
				}
			}
		}
	}
}
