package main

import (
	"os/exec"
	"strings"
	"testing"
)

// The pods on the full disk: one that is swept while there is room, and the one that fills it.
const (
	before = "1c9a1c3e-5f0e-4c39-9d3b-0d6a1e9f6b11"
	full   = "2c9a1c3e-5f0e-4c39-9d3b-0d6a1e9f6b11"
)

// fullDisk fills a disk with a dead pod, the state directory on it, and has the daemon run until that is gone, or for so many seconds.
// A living pod takes what becomes free meanwhile, and a daemon that was started before has saved what it had to.
const fullDisk = `mount -t tmpfs -o size=32m,mode=700 tmpfs "$DISK"
mkdir -p "$DISK/kubelet/pods/` + before + `/volumes/kubernetes.io~projected/token"
"$@" sweep $NODE >/dev/null
pod="$DISK/kubelet/pods/` + full + `"
mkdir -p "$pod/volumes/kubernetes.io~projected/token"
set +e
cat /dev/zero >"$pod/volumes/kubernetes.io~projected/token/data" 2>/dev/null
timeout -s TERM 1 "$@" run $NODE --hold 1h
timeout -s TERM "$LIMIT" "$@" run $NODE --hold 2s --confirm 1s --settle 0s --log-source file --log-file "$DISK/log" &
daemon=$!
(while kill -0 $daemon; do cat /dev/zero >>"$DISK/alive" 2>/dev/null; sleep 0.05; done) 2>/dev/null &
while kill -0 $daemon 2>/dev/null; do
	if ! [ -e "$pod" ] && [ -z "$(ls -A "$DISK/kubelet/orphan-reaper")" ]; then break; fi
	sleep 0.2
done
kill $daemon 2>/dev/null
wait $daemon
ls "$DISK/kubelet/pods" "$DISK/kubelet/orphan-reaper" | sed 's/^/there: /'`

// TestWholeFullDisk: a pod that is dead has filled the disk, with the state directory on it, to its last block, and others write to it. The
// daemon takes that pod all the same, with the space that was kept for that day. TestReserve shows that without it no intent is written.
func TestWholeFullDisk(t *testing.T) {
	needNamespaces(t)
	n := newWholeNode(t)
	n.mkdir("disk")
	disk := n.path("disk")
	program := n.command("sweep")
	cmd := exec.Command("unshare", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-ec", fullDisk, "sh", program.Args[0])
	cmd.Env = append(program.Env, "DISK="+disk, "LIMIT=60",
		"NODE="+strings.Join(append(n.args, "--root-dir", disk+"/kubelet", "--state-dir", disk+"/state"), " "))
	out, _ := cmd.CombinedOutput() // what is there tells
	if strings.Contains(string(out), "there: "+full) || !strings.Contains(string(out), "a part of the reserve was given up") {
		t.Errorf("the pod is still there:\n%s", out)
	}
}
