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
	n.mkdir("var/log/pods/shop_db-0_" + livingUID)
	runtime, err := fakecri.Start(t.Context(), n.path("CRI"), fakecri.Options{})
	testkit.Must(t, err)
	t.Cleanup(runtime.Close)
	runtime.SetPods(fakecri.Pod{UID: livingUID, Namespace: "shop", Name: "db-0", Running: 1})
	n.cri = runtime
	n.env = append(os.Environ(), "DIR="+n.dir, "ROOT="+n.path("root"), "LOG="+n.path("log"), "CRI="+n.path("CRI"))
	n.args = append(n.args, "--settle", "0s", "--runtime-endpoint", "unix://"+n.path("CRI"))
	return n
}

// do runs a command in namespaces in which nothing runs but the kubelets.
func (n *kubeletNode) do(command string, args ...string) (stdout, stderr string) {
	n.t.Helper()
	cmd := n.beside(command, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run() // exit code 3 says that something is kept
	return out.String(), errs.String()
}

// beside is a command in namespaces in which nothing runs but the kubelets.
func (n *kubeletNode) beside(command string, args ...string) *exec.Cmd {
	settings := slices.Concat(strings.Fields(command), n.args, args)
	cmd := exec.Command("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-ec",
		nodeScript+n.script+"\norphan-reaper-whole '"+strings.Join(settings, "' '")+"'")
	cmd.Env = n.env
	return cmd
}

// there are the pods of so many whose directory is still there, by their numbers.
func (n *kubeletNode) there(of int) (left []int) {
	for i := range of {
		if _, err := os.Stat(n.path("root/pods/" + wholeUID(i+1))); err == nil {
			left = append(left, i+1)
		}
	}
	return left
}

// TestWholeSilence: a pod that the kubelet does not name goes when it names another one; not when it
// names one that never was here, and not while the pods' network is not ready.
func TestWholeSilence(t *testing.T) {
	for name, c := range map[string]struct {
		named   int
		network string
		left    []int
	}{
		"it names another one":                            {named: 1},
		"it names one that this node never had":           {named: 9, left: []int{1, 2}},
		"it names another one, and the network is down":   {named: 1, network: "cni plugin not initialized", left: []int{2}},
		"it names one that never was, and the same again": {named: 9, network: "cni plugin not initialized", left: []int{1, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newKubeletNode(t, `kubelet --container-runtime-endpoint=unix://$CRI; name $pid`)
			n.env = append(n.env, "POD="+wholeUID(c.named))
			n.pod(1, false)
			n.pod(2, false)
			n.cri.SetNetwork(c.network)
			out, said := n.do("sweep -o json", "--log-source", "file", "--log-file", n.path("log"))
			if left := n.there(2); !slices.Equal(left, c.left) {
				t.Errorf("left are %v, want %v\n%s%s", left, c.left, out, said)
			}
		})
	}
}

// TestWholeReadsBack: scan and sweep listen for a moment and then read what the kubelet that runs
// has said since its start, before they did.
func TestWholeReadsBack(t *testing.T) {
	for name, c := range map[string]struct {
		pid  string // of the kubelet that said it
		want policy.Truth
		left []int
	}{
		"the kubelet that runs": {pid: "$pid", want: policy.Yes},
		"an earlier one":        {pid: "99999", want: policy.No, left: []int{1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The unit's journal has one entry, which only a reading back meets.
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
*" --reverse "*) cat '`+n.path("entry")+`' ;;
esac
`)
			if err := os.Chmod(n.path("bin/journalctl"), 0o755); err != nil { //nolint:gosec // a program
				t.Fatal(err)
			}
			n.pod(1, false)
			out, said := n.do("scan -o json", "--log-source", "journald")
			var view struct {
				Pods []struct{ Facts map[string]policy.Fact }
			}
			if err := json.Unmarshal([]byte(out), &view); err != nil || len(view.Pods) != 1 {
				t.Fatalf("%v in %s%s", err, out, said)
			}
			if f := view.Pods[0].Facts["named"]; f.Truth != c.want {
				t.Errorf("named is %+v, want %s\n%s", f, c.want, said)
			}
			out, said = n.do("sweep -o json", "--log-source", "journald")
			if left := n.there(1); !slices.Equal(left, c.left) {
				t.Errorf("left are %v, want %v\n%s%s", left, c.left, out, said)
			}
		})
	}
}
