package main

import (
	"os/exec"
	"strings"
	"testing"
)

// TestWholeFullDisk: a pod that is dead has filled the disk, with the state directory on it, to its last block. The sweep takes it all the
// same, with the space that was kept for that day.
func TestWholeFullDisk(t *testing.T) {
	needNamespaces(t)
	const script = `mount -t tmpfs -o size=32m,mode=700 tmpfs "$DISK"
mkdir -p "$DISK/root/pods/` + before + `/volumes/kubernetes.io~projected/token"
"$@" >/dev/null
volume="$DISK/root/pods/` + full + `/volumes/kubernetes.io~projected/token"
mkdir -p "$volume"
$SPOIL
set +e
cat /dev/zero >"$volume/data" 2>/dev/null
"$@"
code=$?
ls "$DISK/root/pods" | sed 's/^/there: /'
exit $code`
	swept := func(t *testing.T, spoil string) string {
		t.Helper()
		n := newWholeNode(t)
		n.mkdir("disk")
		disk := n.path("disk")
		n.args = append(n.args, "--root-dir", disk+"/root", "--state-dir", disk+"/state")
		sweep := n.command("sweep").Args
		cmd := exec.Command("unshare", append([]string{"--mount", "--pid", "--fork", "--mount-proc", "sh", "-ec", script, "sh"}, sweep...)...)
		cmd.Env = append(cmd.Environ(), "DISK="+disk, "SPOIL="+strings.ReplaceAll(spoil, "$DISK", disk))
		out, _ := cmd.CombinedOutput() // what is there tells
		return string(out)
	}
	if out := swept(t, "true"); strings.Contains(out, "there: ") || !strings.Contains(out, "its reserve was given up") {
		t.Errorf("the pod is still there:\n%s", out)
	}
	if out := swept(t, "rm $DISK/state/reserve"); !strings.Contains(out, "there: "+full) || !strings.Contains(out, "no space left") {
		t.Errorf("without the reserve it should have stayed:\n%s", out)
	}
}

// The pods of it: one that is swept while there is room, and the one that fills the disk.
const (
	before = "1c9a1c3e-5f0e-4c39-9d3b-0d6a1e9f6b11"
	full   = "2c9a1c3e-5f0e-4c39-9d3b-0d6a1e9f6b11"
)
