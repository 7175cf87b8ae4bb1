package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/ui"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// entry returns the first pod's only entry from quarantine list.
func (n *wholeNode) entry() ui.Entry {
	n.t.Helper()
	out, code := n.run("quarantine", "list", "-o", "json")
	var list struct{ Quarantine []ui.Entry }
	if err := json.Unmarshal([]byte(out), &list); err != nil || code != 0 {
		n.t.Fatalf("%d, %v: %s", code, err, out)
	}
	var found []ui.Entry
	for _, e := range list.Quarantine {
		if e.UID == wholeUID(1) {
			found = append(found, e)
		}
	}
	if len(found) != 1 {
		n.t.Fatalf("%d entries of the pod: %s", len(found), out)
	}
	return found[0]
}

// lives makes the first pod's directory again, as its kubelet would, and returns the file written there.
func (n *wholeNode) lives() (file string) {
	n.t.Helper()
	pod := "root/pods/" + wholeUID(1) + "/"
	n.write(pod+"etc-hosts", "127.0.0.1 localhost\n")
	n.write(pod+"volumes/kubernetes.io~empty-dir/cache/new", "of the living pod")
	return n.path(pod + "volumes/kubernetes.io~empty-dir/cache/new")
}

func (n *wholeNode) holds(file, want string) {
	n.t.Helper()
	text, err := os.ReadFile(file)
	if err != nil || string(text) != want {
		n.t.Fatalf("%s: %q, %v", file, text, err)
	}
}

// TestWholeLivesAgainParked checks a pod that lives again under its UID while its old directory is parked: every
// sweep and restore keeps both directories.
func TestWholeLivesAgainParked(t *testing.T) {
	n := newWholeNode(t)
	n.write("root/pods/"+wholeUID(1)+"/volumes/kubernetes.io~empty-dir/cache/old", "of its elder")
	n.args = append(n.args, "--confirm", "1h", "--retention", "1ns")
	n.run("sweep", "--no-wait")
	if e := n.entry(); e.Phase != "parked" {
		t.Fatalf("%+v", e)
	}
	living := n.lives()
	for range 2 {
		n.run("sweep", "--no-wait")
		n.holds(living, "of the living pod")
	}
	e := n.entry()
	elder := filepath.Join(n.path("root/orphan-reaper"), e.Entry, "volumes/kubernetes.io~empty-dir/cache/old")
	n.holds(elder, "of its elder")
	if e.Phase != "conflict" || e.Purge != "by-a-person" || len(e.Merge) < 2 {
		t.Errorf("%+v", e)
	}
	// The printed commands work.
	if out, _ := n.run("explain", wholeUID(1)); !strings.Contains(out, e.Merge[1]) {
		t.Errorf("explain does not print the merge command %q:\n%s", e.Merge[1], out)
	}
	n.asksForPerson()
	if _, code := n.run("quarantine", "restore", wholeUID(1)); code != 1 {
		t.Errorf("restore beside a living pod ends with %d", code)
	}
	n.holds(living, "of the living pod")
	n.holds(elder, "of its elder")
	if _, code := n.run("quarantine", "purge", "--yes", wholeUID(1)); code != 1 {
		t.Errorf("purge of an entry whose pod lives ends with %d", code)
	}
	n.holds(elder, "of its elder")
	if !strings.HasPrefix(e.Merge[1], "#") {
		t.Errorf("a printed command copies as root into a directory that a living container can replace: %s", e.Merge[1])
	}
	n.holds(living, "of the living pod")
	if out, code := n.run("quarantine", "purge", "--yes", "--force", wholeUID(1)); code != 0 {
		t.Fatalf("%d: %s", code, out)
	}
	n.holds(living, "of the living pod")
	if left, err := os.ReadDir(n.path("root/orphan-reaper")); err != nil || len(left) != 0 {
		t.Errorf("in quarantine: %v, %v", left, err)
	}
}

// asksForPerson checks that after "resume" only the conflict remains and the exit codes report it.
func (n *wholeNode) asksForPerson() {
	n.t.Helper()
	if out, code := n.run("quarantine", "resume"); code != 0 {
		n.t.Fatalf("%d: %s", code, out)
	}
	command := n.given("orphan-reaper explain " + wholeUID(1))
	for _, args := range [][]string{{"scan"}, {"scan", "-o", "json"}, {"sweep", "--dry-run"}, {"doctor"}, {"doctor", "-o", "json"}} {
		out, code := n.run(args...)
		if says := strings.Contains(out, command); code != 3 || !says && args[len(args)-1] != "json" || !says && args[0] == "doctor" {
			n.t.Errorf("%q: code %d\n%s", args, code, out)
		}
	}
}

// TestWholeLivesAgainHeld checks a pod that lives again during the retention of its emptyDir: it is not purged, this
// is reported, and nothing else is removed before the operator decides.
func TestWholeLivesAgainHeld(t *testing.T) {
	n := newWholeNode(t)
	n.write("root/pods/"+wholeUID(1)+"/volumes/kubernetes.io~empty-dir/cache/old", "of its elder")
	n.run("sweep")
	e := n.entry()
	if e.Phase != "held" {
		t.Fatalf("%+v", e)
	}
	n.lives()
	n.pod(2, false)
	n.args = append(n.args, "--retention", "1ns")
	out, code := n.run("sweep", "--no-wait")
	if code != 3 {
		t.Errorf("sweep: %d, %s", code, out)
	}
	if e := n.entry(); e.Phase != "conflict" || len(e.Merge) == 0 {
		t.Errorf("%+v", e)
	}
	n.holds(filepath.Join(n.path("root/orphan-reaper"), e.Entry, "volumes/kubernetes.io~empty-dir/cache/old"), "of its elder")
	if _, err := os.Stat(n.path("root/pods/" + wholeUID(2))); err != nil {
		t.Errorf("the open breaker did not keep the other pod: %v", err)
	}
}

// TestWholeRestoreRefused checks that a restore that finds the directory made again and in use keeps that sign of
// life: the next sweep keeps the directory, as it does without the restore.
func TestWholeRestoreRefused(t *testing.T) {
	n := newWholeNode(t)
	n.pod(1, true)
	n.run("sweep")
	living := n.lives()
	if out, code := n.run("quarantine", "restore", wholeUID(1)); code != 1 {
		t.Fatalf("restore beside a living pod: %d, %s", code, out)
	}
	n.run("sweep")
	n.holds(living, "of the living pod")
	if e := n.entry(); e.Phase != "conflict" {
		t.Errorf("%+v", e)
	}
}

// These are the pods on the full disk: one that is swept while there is room, and the one that fills it.
const (
	before = "1c9a1c3e-5f0e-4c39-9d3b-0d6a1e9f6b11"
	full   = "2c9a1c3e-5f0e-4c39-9d3b-0d6a1e9f6b11"
)

// fullDisk fills a disk with a dead pod, the state directory on it, and runs the daemon until the pod is gone, or for
// that many seconds. A living pod uses each byte that is freed meanwhile, and an earlier daemon has saved its state.
const fullDisk = `mount -t tmpfs -o size=32m,mode=700 tmpfs "$DISK"
mkdir -p "$DISK/kubelet/pods/` + before + `/volumes/kubernetes.io~projected/token"
"$@" sweep $NODE >/dev/null
pod="$DISK/kubelet/pods/` + full + `"
mkdir -p "$pod/volumes/kubernetes.io~projected/token"
set +e
cat /dev/zero >"$pod/volumes/kubernetes.io~projected/token/data" 2>/dev/null
timeout -s TERM -k 20 1 "$@" run $NODE --hold 1h --confirm 1h --log-source file --log-file "$DISK/log"
timeout -s TERM "$LIMIT" "$@" run $NODE --hold 2s --confirm 1s --log-source file --log-file "$DISK/log" &
daemon=$!
(while kill -0 $daemon; do cat /dev/zero >>"$DISK/alive" 2>/dev/null; sleep 0.05; done) 2>/dev/null &
while kill -0 $daemon 2>/dev/null; do
	if ! [ -e "$pod" ] && [ -z "$(ls -A "$DISK/kubelet/orphan-reaper")" ]; then break; fi
	sleep 0.2
done
kill $daemon 2>/dev/null
wait $daemon
ls "$DISK/kubelet/pods" "$DISK/kubelet/orphan-reaper" | sed 's/^/there: /'`

// TestWholeFullDisk checks that the daemon removes a dead pod that has filled the disk to its last block, with the
// state directory on it and other writers, by using the reserved space. TestReserve shows that without it no intent
// is written.
func TestWholeFullDisk(t *testing.T) {
	needNamespaces(t)
	n := newWholeNode(t)
	n.mkdir("disk")
	disk := n.path("disk")
	program := n.command("sweep")
	cmd := bounded(t, "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-ec", fullDisk, "sh", program.Args[0])
	cmd.Env = append(program.Env, "DISK="+disk, "LIMIT=150",
		"NODE="+strings.Join(append(n.args, "--root-dir", disk+"/kubelet", "--state-dir", disk+"/state"), " "))
	out, _ := cmd.CombinedOutput() // the output is checked
	if strings.Contains(string(out), "there: "+full) || !strings.Contains(string(out), "a part of the reserve was released") {
		t.Errorf("the pod still exists:\n%s", out)
	}
}

// TestWholeLargeVolumes checks that volumes that fill disks are removed like any other. Each number is above the
// limit of one survey or of one read of a directory.
func TestWholeLargeVolumes(t *testing.T) {
	n := newWholeNode(t)
	const files = 10_100
	fill := func(dir string, files int) {
		t.Helper()
		for i := range files {
			sub := n.path(fmt.Sprintf("%s/%03d", dir, i/2000))
			if i%2000 == 0 {
				n.mkdir(fmt.Sprintf("%s/%03d", dir, i/2000))
			}
			testkit.Must(t, os.WriteFile(fmt.Sprintf("%s/%d", sub, i), nil, 0o600))
		}
	}
	pod := "root/pods/" + wholeUID(1)
	fill(pod+"/volumes/kubernetes.io~empty-dir/cache", files)
	fill(pod+"/volumes/kubernetes.io~nfs/share", files)
	n.mkdir(pod + "/containers/app")
	for i := range 10_050 { // one per restart
		testkit.Must(t, os.WriteFile(n.path(fmt.Sprintf("%s/containers/app/%08x", pod, i)), nil, 0o600))
	}
	left := func(below string) int {
		t.Helper()
		found, err := filepath.Glob(n.path("root/orphan-reaper/" + wholeUID(1) + ".*/" + below))
		testkit.Must(t, err)
		return len(found)
	}
	if out, code := n.run("sweep", "-o", "json"); n.outcomes(out)[wholeUID(1)] != "quarantined" {
		t.Errorf("exit %d: %s", code, out)
	}
	if left("*") != 1 || left("volumes/*/*") != 2 {
		t.Errorf("after the strip there are %d directories and %d volumes", left("*"), left("volumes/*/*"))
	}
	if out, code := n.run("sweep", "-o", "json", "--retention", "0s"); code != 0 {
		t.Errorf("exit %d: %s", code, out)
	}
	if left("volumes/*/cache") != 0 || left("volumes/*/share/*/*") != files {
		t.Errorf("after the retention: %d of %d files of data", left("volumes/*/share/*/*"), files)
	}
}
