package main

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/cri/fakecri"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// nodeScript makes a node of its own with PID and mount namespaces: kubelets that do
// nothing but be there, and the log of the first of them, which names the pod every 200 ms.
const nodeScript = `
kubelet() {
	sleep 1000 | env kubelet --root-dir="$ROOT" "$@" &
	pid=$!
	until [ "$(cat /proc/$pid/comm)" = kubelet ]; do :; done
}
name() {
	pid=$1
	while :; do
		printf '%s node1 kubelet[%s]: E%s.048022 %7s kubelet_volumes.go:263] "There were many similar errors. Turn up verbosity to see them." err="orphaned pod \\"%s\\" found, but error occurred when trying to remove the volumes dir: not a directory" numErrs=1\n' \
			"$(date '+%b %d %H:%M:%S')" $pid "$(date '+%m%d %H:%M:%S')" $pid $POD >>"$LOG"
		sleep 0.2
	done &
}
`

// TestContradiction has the real program beside processes named kubelet. The first case is
// what the others differ from: there the pod goes.
func TestContradiction(t *testing.T) {
	needNamespaces(t)
	for _, c := range []struct {
		name, kubelets string
		args           []string
		want           policy.Truth
		words          string
	}{
		{
			"all is told alike", `kubelet --container-runtime-endpoint=unix://$CRI; name $pid`,
			[]string{"--root-dir", "$ROOT", "--runtime-endpoint", "unix://$CRI"},
			policy.Yes, "",
		},
		{"nothing is told", `kubelet --container-runtime-endpoint=unix://$CRI; name $pid`, nil, policy.Yes, ""},
		{
			"one of two is named", `kubelet --container-runtime-endpoint=unix://$CRI; name $pid; kubelet --root-dir=/b`,
			[]string{"--root-dir", "$ROOT"},
			policy.Yes, "",
		},
		{"none of two is named", `kubelet --container-runtime-endpoint=unix://$CRI; name $pid; kubelet --root-dir=/b`, nil, policy.No, "several kubelets run"},
		{
			"another socket", `kubelet --container-runtime-endpoint=unix://$OTHER; name $pid`,
			[]string{"--runtime-endpoint", "unix://$CRI"},
			policy.No,
			"--runtime-endpoint is unix://",
		},
		{
			"a configuration that cannot be read", `kubelet --config=/none.yaml; name $pid`,
			[]string{"--runtime-endpoint", "unix://$CRI"},
			policy.Unknown,
			"cannot find out whether the kubelet",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n := newKubeletNode(t, c.kubelets)
			n.pod(1, false)
			n.mkdir("var/lib")
			if err := os.Symlink("../../root", n.path("var/lib/kubelet")); err != nil { // the usual place
				t.Fatal(err)
			}
			other, err := fakecri.Start(t.Context(), n.path("OTHER"), fakecri.Options{})
			testkit.Must(t, err)
			defer other.Close()
			n.env = append(n.env, "OTHER="+n.path("OTHER"), "POD="+wholeUID(1))
			for _, flag := range []string{"--root-dir", "--runtime-endpoint"} { // the kubelet's, unless the case names them
				at := slices.Index(n.args, flag)
				n.args = slices.Delete(n.args, at, at+2)
			}
			for _, arg := range c.args {
				n.args = append(n.args, os.Expand(arg, func(name string) string { return map[string]string{"ROOT": n.path("root"), "CRI": n.path("CRI")}[name] }))
			}
			do := func(command string) (stdout, stderr string, code int) {
				cmd := n.beside(command, "--log-source", "file", "--log-file", n.path("log"))
				var out, errs bytes.Buffer
				cmd.Stdout, cmd.Stderr = &out, &errs
				_ = cmd.Run() // its exit code is compared
				return out.String(), errs.String(), cmd.ProcessState.ExitCode()
			}

			text, said, code := do("scan -o json")
			var view struct {
				Pods   []struct{ Reasons []policy.Reason }
				Node   struct{ Agrees policy.Fact }
				Errors []string
			}
			if err := json.Unmarshal([]byte(text), &view); err != nil || len(view.Pods) != 1 {
				t.Fatalf("%v in %s%s", err, text, said)
			}
			agrees, reasons := view.Node.Agrees, view.Pods[0].Reasons
			if agrees.Truth != c.want || !strings.Contains(agrees.Detail, c.words) {
				t.Errorf("agrees: %+v, want %s with %q", agrees, c.want, c.words)
			}
			if c.want == policy.Yes {
				if len(reasons) > 0 || len(view.Errors) > 0 || code != 0 {
					t.Errorf("reasons %v, errors %q, exit code %d; want none", reasons, view.Errors, code)
				}
				return
			}
			if !slices.Equal(reasons, []policy.Reason{policy.ReasonContradiction}) || !slices.Contains(view.Errors, agrees.Detail) || code != 3 {
				t.Errorf("reasons %v, errors %q, exit code %d", reasons, view.Errors, code)
			}
			// What is not known for certain is no error of the settings.
			wrong := map[policy.Truth]int{policy.No: 3}[c.want]
			if text, _, code := do("config check"); code != wrong || !strings.Contains(text, "note:") || !strings.Contains(text, "nothing will be removed") {
				t.Errorf("config check: %d, %s", code, text)
			}
			if _, said, code := do("sweep --no-wait"); code != 3 || !strings.Contains(said, "contradiction") {
				t.Errorf("sweep: exit code %d, %s", code, said)
			}
			if _, err := os.Stat(n.path("root/pods/" + wholeUID(1) + "/etc-hosts")); err != nil {
				t.Errorf("the pod was taken: %v", err)
			}
		})
	}
}
