package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/ui"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// reported returns two Nodes and the report of the first, with one pod that needs the operator and one that does not,
// as kubectl writes them.
func reported() string {
	const pod = `{"uid":"00000001-0000-4000-8000-00000000000%d","namespace":"shop","name":"db","verdict":"keep","why":[{"reason":"restored"}],"needs_person":%t}`
	return fmt.Sprintf(`{"kind":"List","metadata":{},"items":[{"kind":"Node","metadata":{"name":"worker-1"}},{"kind":"Node","metadata":{"name":"worker-2"}},`+
		`{"kind":"Node","metadata":{"name":"worker-3"}},`+
		`{"kind":"OrphanReport","metadata":{"name":"worker-1"},"report":{"node":"worker-1","at":%[1]q,"mode":"enforce",`+
		`"counts":{"keep":2,"needs_person":1},"pods":[%[2]s,%[3]s]}},`+
		`{"kind":"OrphanReport","metadata":{"name":"worker-3"},"report":{"node":"else","at":%[1]q,"mode":"enforce","counts":{"keep":1}}}]}`,
		time.Now().Format(time.RFC3339), fmt.Sprintf(pod, 1, true), fmt.Sprintf(pod, 2, false))
}

// TestFleetListReports checks that without an address the nodes' OrphanReports are shown.
func TestFleetListReports(t *testing.T) {
	file := testkit.File(t, "reports.json", reported())
	for args, c := range map[string]struct{ shown, hidden string }{
		"":               {"3 nodes, 2 have reported lately.|worker-1|000000000001|NODES THAT ARE SILENT|worker-2|no report|calls itself else", "000000000002"},
		"--wide":         {"000000000001|000000000002", "which are"},
		"--needs-person": {"worker-1 |000000000001|worker-2", "worker-3"},
	} {
		code, out, errs := call(t, append([]string{"fleet", "list", "--reports", file}, strings.Fields(args)...)...)
		if code != 3 || errs != "" || strings.Contains(out, c.hidden) {
			t.Errorf("%s: code %d, %s\n%s", args, code, errs, out)
		}
		for word := range strings.SplitSeq(c.shown, "|") {
			if !strings.Contains(out, word) {
				t.Errorf("%s does not print %q:\n%s", args, word, out)
			}
		}
	}
}

// TestFleetListNobody checks that the exit code and the text report that every daemon may be dead if no node has
// reported and the nodes are unknown.
func TestFleetListNobody(t *testing.T) {
	s := testkit.TLSServer(t, "", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/nodes" {
			testkit.Refuse(http.StatusForbidden, "forbidden")(w, r)
			return
		}
		testkit.Answer(`{"kind":"OrphanReportList","items":[]}`)(w, r)
	})
	empty := testkit.File(t, "reports.json", `{"kind":"List","metadata":{},"items":[]}`)
	for _, from := range [][]string{{"--kubeconfig", testkit.KubeconfigOf(t, s.URL, testkit.CertOf(s), "token: a")}, {"--reports", empty}} {
		for _, more := range [][]string{nil, {"--needs-person"}, {"-o", "json"}} {
			args := slices.Concat([]string{"fleet", "list"}, from, more)
			code, out, printed := call(t, args...)
			if text := strings.Join(strings.Fields(out), " "); code != 3 || printed != "" ||
				!strings.Contains(text, "No node has written a report, and which nodes there are is not known") ||
				len(more) < 2 && !strings.Contains(text, "0 nodes, 0 have reported lately.") {
				t.Errorf("%q: code %d, %s\n%s", args, code, printed, out)
			}
		}
	}
	known := testkit.File(t, "known.json", `{"kind":"List","items":[{"kind":"Node","metadata":{"name":"win","labels":{"kubernetes.io/os":"windows"}}}]}`)
	if code, out, printed := call(t, "fleet", "list", "--reports", known); code != 0 {
		t.Errorf("no node selected by the DaemonSet: %d %s\n%s", code, printed, out)
	}
}

// TestFleetListCluster checks the use of a kubeconfig, and the alternative in the message if it cannot be used.
func TestFleetListCluster(t *testing.T) {
	nodes := "[" + strings.Split(strings.SplitN(reported(), "[", 2)[1], `,{"kind":"OrphanReport"`)[0] + "]"
	list := reported()
	s := testkit.TLSServer(t, "", func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/v1/nodes":
			testkit.Answer(`{"kind":"PartialObjectMetadataList","items":`+nodes+`}`)(w, r)
			return
		case "/apis/apps/v1/daemonsets":
			testkit.Answer(`{"kind":"DaemonSetList","items":[]}`)(w, r)
			return
		}
		testkit.Answer(`{"kind":"OrphanReportList","items":[`+list[strings.Index(list, `{"kind":"OrphanReport"`):])(w, r)
	})
	code, out, printed := call(t, "fleet", "list", "--kubeconfig", testkit.KubeconfigOf(t, s.URL, testkit.CertOf(s), "token: a"), "-o", "json")
	var got struct {
		ui.FleetList
		Pods []struct{ Node string } `json:"pods"`
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 3 || got.Totals.Nodes != 3 || got.Totals.Answered != 2 || got.Totals.Keep != 3 ||
		len(got.Pods) != 1 || got.Pods[0].Node != "worker-1" || len(got.Silent) != 1 || got.Silent[0].Node != "worker-2" || got.Notes == nil {
		t.Errorf("%d, %v, %s\n%s", code, err, printed, out)
	}
	old := testkit.KubeconfigOf(t, s.URL, testkit.CertOf(s), "auth-provider: {name: oidc}")
	if code, _, printed := call(t, "fleet", "list", "--kubeconfig", old); code != 2 ||
		!strings.Contains(printed, "hint: kubectl get nodes,orphans -o json | orphan-reaper fleet list --reports -") {
		t.Errorf("%d %s", code, printed)
	}
	for args, want := range map[string]string{
		"--user a --password-file b":                      "no node is named",
		"--ca-file a":                                     "no node is named",
		"--reports a http://127.0.0.1":                    "--reports and the daemons to ask (addresses, --from, --service) exclude each other",
		"--wide --needs-person":                           "exclude each other",
		"--reports " + filepath.Join(t.TempDir(), "none"): "no such file",
	} {
		if code, _, printed := call(t, append([]string{"fleet", "list"}, strings.Fields(args)...)...); code != 2 && code != 1 || !strings.Contains(printed, want) {
			t.Errorf("%s: %d %s", args, code, printed)
		}
	}
}

// TestFleetListFormats checks that every format has the nodes, and that a hostile name controls a terminal in none of
// them.
func TestFleetListFormats(t *testing.T) {
	file := testkit.File(t, "reports.json", strings.ReplaceAll(reported(), `"name":"db"`, `"name":"d\u001b[2J\u202eb"`))
	for args, want := range map[string]string{
		"-o wide":                   "VERSION",
		"-o json":                   `"node": "worker-1"`,
		"-o yaml":                   "- node: worker-1\n",
		"-o name":                   "node/worker-1\nnode/worker-3\n",
		"-o name --top 1":           "node/worker-1\n",
		"-o name --sort name":       "node/worker-1\nnode/worker-3\n",
		"-o name --needs-person":    "node/worker-1\n",
		"-o name -n shop":           "node/worker-1\n",
		"-o name -n other":          "",
		"-o name --reason restored": "",
		"-o name --min-bytes 1Ki":   "",
		"--all":                     "00000001-0000-4000-8000-000000000002",
		"-o name --selector !a":     "node/worker-1\nnode/worker-3\n",
		"-o name --selector a=b":    "",
	} {
		code, out, printed := call(t, append([]string{"fleet", "list", "--reports", file}, strings.Fields(args)...)...)
		if printed != "" || code != 3 && !strings.HasSuffix(args, "a=b") || strings.HasPrefix(args, "-o name") && out != want || !strings.Contains(out, want) {
			t.Errorf("%s: code %d, %q, want %q, %s", args, code, out, want, printed)
		}
		if strings.ContainsAny(out, "\x1b\u202e") {
			t.Errorf("%s: %q", args, out)
		}
	}
	for args, want := range map[string]string{
		"--top -1": "negative", "--min-bytes x": "is no size", "--sort x": "not one of worst", "--selector ==": "--selector", "--all --needs-person": "exclude",
		"--selector a=b http://127.0.0.1": "leave out the daemons", "-o xml": "not one of text, wide", "--watch --reports -": "cannot read standard input again",
	} {
		if code, _, printed := call(t, append([]string{"fleet", "list"}, strings.Fields(args)...)...); code != 2 || !strings.Contains(printed, want) {
			t.Errorf("%s: %d %s", args, code, printed)
		}
	}
}

// TestPluginCommand checks that "kubectl orphans" is "fleet list", also for shell completion.
func TestPluginCommand(t *testing.T) {
	for call, want := range map[string]string{
		"orphan-reaper scan":                    "scan",
		"/usr/bin/kubectl-orphans":              "fleet list",
		"kubectl-orphans -l a=b --context c":    "fleet list -l a=b --context c",
		"kubectl-orphans list -o wide":          "fleet list -o wide",
		"kubectl-orphans sweep --wait":          "fleet sweep --wait",
		"kubectl-orphans https://10.0.0.1:9477": "fleet list https://10.0.0.1:9477",
		"kubectl-orphans version":               "version",
		"kubectl-orphans __complete --":         "__complete fleet list --",
		"kubectl-orphans __complete sweep --m":  "__complete fleet sweep --m",
	} {
		words := strings.Fields(call)
		if got := strings.Join(pluginCommand(words[0], words[1:]), " "); got != want {
			t.Errorf("%s: %q, want %q", call, got, want)
		}
	}
}
