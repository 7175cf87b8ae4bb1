package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/ui"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// answering returns the addresses of two daemons and of one that answers nothing. The first has a pod that needs the
// operator and one that does not, whose name controls a terminal; the second calls itself by another name.
func answering(t *testing.T) []string {
	t.Helper()
	const pod = `{"uid":"00000001-0000-4000-8000-00000000000%d","namespace":"shop","name":"d\u001b[2J\u202eb","verdict":"keep",` +
		`"why":[{"reason":"restored"}],"needs_person":%t}`
	var at []string
	for i, text := range []string{
		fmt.Sprintf(`{"node":"worker-1","mode":"enforce","counts":{"keep":2,"needs_person":1},"pods":[%s,%s]}`,
			fmt.Sprintf(pod, 1, true), fmt.Sprintf(pod, 2, false)),
		"",
		`{"node":"else","mode":"enforce","counts":{"keep":1}}`,
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/v1/orphans" || text == "" {
				http.Error(w, "no look has ended yet", http.StatusServiceUnavailable)
				return
			}
			testkit.Answer(text)(w, r)
		}))
		t.Cleanup(s.Close)
		at = append(at, fmt.Sprintf("worker-%d=%s", i+1, s.URL))
	}
	return at
}

// TestFleetList checks what is shown of the nodes that answer and of one that does not.
func TestFleetList(t *testing.T) {
	nodes := answering(t)
	for args, c := range map[string]struct{ shown, hidden string }{
		"":                   {"3 nodes asked, 2 answered.|worker-1|000000000001|NODES THAT ARE SILENT|worker-2|503 Service Unavailable|calls itself else", "000000000002"},
		"--all":              {"000000000001|000000000002", "which are"},
		"--needs-person":     {"worker-1 |000000000001|worker-2", "worker-3"},
		"--top 1":            {"worker-1 |… and 1 more node", "worker-3"},
		"--sort name":        {"worker-1 |worker-3 ", "000000000002"},
		"-n shop":            {"worker-1 |000000000002", "worker-3"},
		"-n other":           {"worker-2", "worker-1"},
		"--reason mounted":   {"worker-2", "worker-1"},
		"--min-bytes 1Ki":    {"worker-2", "worker-1"},
		"--driver x -o json": {`"answered": 2`, "worker-1"},
	} {
		code, out, errs := call(t, append(append([]string{"fleet", "list"}, nodes...), strings.Fields(args)...)...)
		if code != 3 || errs != "" || strings.Contains(out, c.hidden) || strings.ContainsAny(out, "\x1b\u202e") {
			t.Errorf("%s: code %d, %s\n%s", args, code, errs, out)
		}
		for word := range strings.SplitSeq(c.shown, "|") {
			if !strings.Contains(out, word) {
				t.Errorf("%s does not print %q:\n%s", args, word, out)
			}
		}
	}
	_, out, _ := call(t, append([]string{"fleet", "list", "-o", "json"}, nodes...)...)
	var got struct {
		ui.FleetList

		Pods []struct{ Node string } `json:"pods"`
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || got.Totals.Nodes != 3 || got.Totals.Keep != 3 ||
		len(got.Pods) != 1 || got.Pods[0].Node != "worker-1" || len(got.Silent) != 1 || got.Silent[0].Node != "worker-2" {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestFleetListUsage checks the errors of wrong flags.
func TestFleetListUsage(t *testing.T) {
	for args, want := range map[string]string{
		"": "no node is named", "--user a --password-file b": "no node is named", "--ca-file a": "no node is named",
		"--top -1": "negative", "--min-bytes x": "is no size", "--sort x": "not one of worst", "--all --needs-person": "exclude",
		"-o yaml": "not one of text",
	} {
		if code, _, printed := call(t, append([]string{"fleet", "list"}, strings.Fields(args)...)...); code != 2 || !strings.Contains(printed, want) {
			t.Errorf("%s: %d %s", args, code, printed)
		}
	}
}

// TestFleetListCluster checks that a kubeconfig that cannot be used is refused with what to use instead.
func TestFleetListCluster(t *testing.T) {
	old := testkit.KubeconfigOf(t, "https://10.0.0.1", "", "auth-provider: {name: oidc}")
	code, _, printed := call(t, "fleet", "list", "--service", "a/b", "--kubeconfig", old)
	if code != 2 || !strings.Contains(printed, "hint: run it as a pod in the cluster, or use a kubeconfig with a token") {
		t.Errorf("%d %s", code, printed)
	}
}
