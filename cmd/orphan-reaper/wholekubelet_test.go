package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/cri/fakecri"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// livingUID is the pod that the runtime of a kubeletNode runs.
const livingUID = "77777777-0000-4000-8000-000000000077"

// kubeletNode is a node with a runtime that runs one pod, for commands beside a kubelet.
type kubeletNode struct {
	*wholeNode
	cri    *fakecri.Server
	script string // starts the kubelets, after nodeScript
	env    []string
}

func newKubeletNode(t *testing.T, script string) *kubeletNode {
	t.Helper()
	needNamespaces(t)
	n := &kubeletNode{wholeNode: newNode(t), script: script}
	n.mkdir("cgroup/kubepods/besteffort/pod" + livingUID)
	runtime, err := fakecri.Start(t.Context(), n.path("CRI"), fakecri.Options{})
	testkit.Must(t, err)
	t.Cleanup(runtime.Close)
	runtime.SetPods(fakecri.Pod{UID: livingUID, Namespace: "shop", Name: "db-0", Running: 1})
	n.cri = runtime
	n.env = append(os.Environ(), "DIR="+n.dir, "ROOT="+n.path("root"), "LOG="+n.path("log"), "CRI="+n.path("CRI"))
	n.args = append(n.args, "--runtime-endpoint", "unix://"+n.path("CRI"))
	return n
}

// do runs a command in namespaces in which only the kubelets run.
func (n *kubeletNode) do(command string, args ...string) (stdout, stderr string) {
	n.t.Helper()
	stdout, stderr, _ = outputOf(n.t, n.beside(command, args...))
	return stdout, stderr
}

// beside returns a command for namespaces in which only the kubelets run.
func (n *kubeletNode) beside(command string, args ...string) *exec.Cmd {
	settings := slices.Concat(strings.Fields(command), n.args, args)
	cmd := bounded(n.t, "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-ec",
		nodeScript+n.script+"\norphan-reaper-whole '"+strings.Join(settings, "' '")+"'")
	cmd.Env = n.env
	return cmd
}

// there returns the numbers of the pods that still have a directory.
func (n *kubeletNode) there(of int) (left []int) {
	for i := range of {
		if _, err := os.Stat(n.path("root/pods/" + wholeUID(i+1))); err == nil {
			left = append(left, i+1)
		}
	}
	return left
}

// TestWholeReadsBack checks that scan and sweep follow the log for a moment and then read the running kubelet's
// earlier messages since its start, and that they end if that reading does not.
func TestWholeReadsBack(t *testing.T) {
	for name, c := range map[string]struct {
		pid  string // PID of the kubelet that logged the line
		held string // what journalctl leaves behind with its output open
		want policy.Truth
		left []int
	}{
		"the kubelet that runs":  {pid: "$pid", want: policy.Yes},
		"an earlier one":         {pid: "99999", want: policy.No, left: []int{1}},
		"an output that is held": {pid: "$pid", held: "sleep 1000 &", want: policy.Yes},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The unit's journal has one entry, which only the read of earlier messages finds.
			n := newKubeletNode(t, `kubelet --container-runtime-endpoint=unix://$CRI
sed "s/AT/$(date +%s%6N)/; s/BOOT/$(tr -d - </proc/sys/kernel/random/boot_id)/; s/ONE/`+c.pid+`/g" $DIR/template >$DIR/entry
PATH=$DIR/bin:$PATH`)
			n.write("template", `{"__CURSOR":"s=1","__REALTIME_TIMESTAMP":"AT","_BOOT_ID":"BOOT","_PID":"ONE","_UID":"0","_COMM":"kubelet",`+
				`"_SYSTEMD_UNIT":"kubelet.service","MESSAGE":"E1121 10:00:00.048022 ONE kubelet_volumes.go:263] \"There were many similar errors. `+
				`Turn up verbosity to see them.\" err=\"orphaned pod \\\"`+wholeUID(1)+`\\\" found, `+
				`but error occurred when trying to remove the volumes dir: not a directory\" numErrs=1"}`+"\n")
			n.write("bin/journalctl", `#!/bin/sh
case " $* " in
*" --follow "*) exec sleep 1000 ;;
*" --lines="*) ;;
*" --reverse "*) cat '`+n.path("entry")+`'; `+c.held+`
;;
esac
`)
			if err := os.Chmod(n.path("bin/journalctl"), 0o755); err != nil {
				t.Fatal(err)
			}
			n.pod(1, false)
			out, printed := n.do("scan -o json", "--log-source", "journald")
			var view struct {
				Pods []struct{ Facts map[string]policy.Fact }
			}
			if err := json.Unmarshal([]byte(out), &view); err != nil || len(view.Pods) != 1 {
				t.Fatalf("%v in %s%s", err, out, printed)
			}
			if f := view.Pods[0].Facts["named"]; f.Truth != c.want {
				t.Errorf("reported is %+v, want %s\n%s", f, c.want, printed)
			}
			out, printed = n.do("sweep -o json", "--log-source", "journald")
			if left := n.there(1); !slices.Equal(left, c.left) {
				t.Errorf("remaining pods %v, want %v\n%s%s", left, c.left, out, printed)
			}
		})
	}
}

// nodeScript makes a node with PID and mount namespaces: kubelets that only exist, and the log of the first of them,
// which reports the pod every 200 ms.
const nodeScript = `
kubelet() {
	sleep 1000 | env kubelet --root-dir="$ROOT" "$@" &
	pid=$!
	until [ "$(cat /proc/$pid/comm)" = kubelet ]; do kill -0 $pid; done
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

// TestContradiction runs the real program beside processes named kubelet. In the first case, the control, the pod is
// removed. TestAgrees of probe has the other settings.
func TestContradiction(t *testing.T) {
	for _, c := range []struct {
		name, kubelets string
		want           policy.Truth
		reason         policy.Reason // of the pod
		words          string
		check          int // the exit code of config check: a doubt is no error of the settings
	}{
		{"all settings agree", `kubelet --container-runtime-endpoint=unix://$CRI; name $pid`, policy.Yes, "", "", 0},
		{
			"another socket", `kubelet --container-runtime-endpoint=unix://$DIR/other; name $pid`,
			policy.No, policy.ReasonContradiction, "--runtime-endpoint is unix://", 3,
		},
		{
			"a configuration that cannot be read", `kubelet --config=/none.yaml; name $pid`,
			policy.Unknown, policy.ReasonStaticPod, "cannot find out whether the kubelet", 0,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n := newKubeletNode(t, c.kubelets)
			n.pod(1, false)
			n.env = append(n.env, "POD="+wholeUID(1))
			do := func(command string) (stdout, stderr string, code int) {
				return outputOf(t, n.beside(command, "--log-source", "file", "--log-file", n.path("log")))
			}
			text, printed, code := do("scan -o json")
			var view struct {
				Pods   []struct{ Reasons []policy.Reason }
				Node   struct{ Agrees policy.Fact }
				Errors []string
			}
			if err := json.Unmarshal([]byte(text), &view); err != nil || len(view.Pods) != 1 {
				t.Fatalf("%v in %s%s", err, text, printed)
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
			if !slices.Equal(reasons, []policy.Reason{c.reason}) || !slices.Contains(view.Errors, agrees.Detail) || code != 3 {
				t.Errorf("reasons %v, errors %q, exit code %d", reasons, view.Errors, code)
			}
			if text, _, code := do("config check"); code != c.check || !strings.Contains(text, "note:") || !strings.Contains(text, "nothing will be removed") {
				t.Errorf("config check: %d, %s", code, text)
			}
			if _, printed, code := do("sweep --no-wait"); code != 3 || !strings.Contains(printed, string(c.reason)) {
				t.Errorf("sweep: exit code %d, %s", code, printed)
			}
			if _, err := os.Stat(n.path("root/pods/" + wholeUID(1) + "/etc-hosts")); err != nil {
				t.Errorf("the pod was parked: %v", err)
			}
		})
	}
}

// TestDoctorBesideKubelet checks that beside a kubelet that reports two orphans, with a volume of one still
// mounted, the first is removed automatically, and that the command printed for the second removes the mount.
func TestDoctorBesideKubelet(t *testing.T) {
	t.Parallel() // waits for seconds
	n := newKubeletNode(t, "")
	n.pod(1, false)
	n.pod(2, false)
	volume := "root/pods/" + wholeUID(2) + "/volumes/kubernetes.io~csi/it's a volume/mount"
	n.mkdir(volume)
	for _, flag := range []string{"--root-dir", "--runtime-endpoint"} { // the kubelet's
		at := slices.Index(n.args, flag)
		n.args = slices.Delete(n.args, at, at+2)
	}
	n.args = append(n.args, "--log-source", "file", "--log-file", n.path("log"))
	doctor := n.command("doctor").Args
	program, err := exec.LookPath(doctor[0])
	testkit.Must(t, err)
	doctor[0] = program
	cmd := bounded(t, "unshare", append([]string{"--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-ec", nodeScript + `
mount -t tmpfs tmpfs "$VOLUME"
kubelet --container-runtime-endpoint=unix://$CRI; name $pid; POD=$MOUNTED name $pid
"$@" -o json || [ $? = 3 ]
"$@" >"$SAID" || [ $? = 3 ]
eval "$(sed -n "s|^    orphan-reaper unmount|$1 unmount --yes|p" "$SAID")" >"$SAID.unmount"
"$@" -o json || [ $? = 3 ]
`, "sh"}, doctor...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Env = append(n.env, "POD="+wholeUID(1), "MOUNTED="+wholeUID(2), "VOLUME="+n.path(volume), "SAID="+n.path("printed"))
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s%s", err, out.String(), errs.String())
	}
	type pod struct {
		UID, Fate, Command string
		Reasons            []policy.Reason
	}
	type view struct {
		Complaints struct{ Now bool }
		Pods       []pod
		Missing    []string
	}
	all := json.NewDecoder(&out)
	var before, after view
	testkit.Must(t, all.Decode(&before))
	testkit.Must(t, all.Decode(&after))
	if !before.Complaints.Now || len(before.Missing) > 0 || len(before.Pods) != 2 || len(after.Pods) != 2 {
		t.Fatalf("%+v\n%+v", before, after)
	}
	for _, pods := range [][]pod{before.Pods, after.Pods} {
		slices.SortFunc(pods, func(a, b pod) int { return strings.Compare(a.UID, b.UID) })
	}
	first, second := before.Pods[0], before.Pods[1]
	if first.UID != wholeUID(1) || first.Fate != "goes" || first.Command != "" {
		t.Errorf("reported pod: %+v", first)
	}
	if second.Fate != "person" || !slices.Contains(second.Reasons, policy.ReasonMounted) || !strings.HasPrefix(second.Command, "orphan-reaper unmount "+wholeUID(2)) {
		t.Errorf("mounted pod: %+v", second)
	}
	if second = after.Pods[1]; second.UID != wholeUID(2) || slices.Contains(second.Reasons, policy.ReasonMounted) || second.Command != "" {
		t.Errorf("mounted pod after the command: %+v", second)
	}
}

// TestWholeForgedByAPath checks that a completed pod, of which nothing but its directory is left, is not
// removed by the NFS path of another pod, which mount's error has in the kubelet's log with its newlines.
func TestWholeForgedByAPath(t *testing.T) {
	t.Parallel() // waits for seconds
	n := newKubeletNode(t, `kubelet --container-runtime-endpoint=unix://$CRI
while :; do
	H="E$(date '+%m%d %H:%M:%S').048022 $(printf %7s $pid)"
	printf '%s mount_linux.go:260] Mount failed: exit status 32\nMounting command: mount\nMounting arguments: -t nfs h:/x\n' "$H" >>"$LOG"
	printf '%s kubelet_volumes.go:154] orphaned pod "%s" found, but volume paths are still present on disk\n/y /v\nOutput: no\n' "$H" "$POD" >>"$LOG"
	sleep 0.2
done &
`)
	n.env = append(n.env, "POD="+wholeUID(1))
	n.pod(1, false)
	out, printed := n.do("sweep", "--log-source", "file", "--log-file", n.path("log"))
	if len(n.there(1)) == 0 {
		t.Errorf("removed: %s%s", out, printed)
	}
}
