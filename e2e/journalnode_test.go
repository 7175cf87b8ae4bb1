package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// journalNode is a guest with a kubelet, a runtime, and orphan-reaper as make install
// leaves it.
type journalNode struct{ *guest }

func newJournalNode(t *testing.T) *journalNode {
	t.Helper()
	dir := mkdir(t, filepath.Join(machine.dir, "guest"))
	n := &journalNode{}
	layer := filepath.Join(dir, "layer")
	must(t, "make", "--silent", "-C", "..", "build", "install", "DESTDIR="+layer)
	for path, text := range map[string]string{
		"etc/machine-id":                        "0123456789abcdef0123456789abcdef\n", // a first boot would enable every unit
		"etc/hostname":                          "node-1\n",
		"etc/orphan-reaper/config.yaml":         fmt.Sprintf(guestConfig, shortly),
		"etc/systemd/system/containerd.service": "[Service]\nExecStart=/usr/local/bin/containerd /run/containerd/containerd.sock " + journalLiving + "\n",
		"etc/systemd/system/kubelet.service":    "[Service]\nExecStart=/usr/local/bin/kubelet --root-dir=/var/lib/kubelet --container-runtime-endpoint=unix:///run/containerd/containerd.sock\n",
		"srv/behind/precious":                   "a user's",
	} {
		lay(t, filepath.Join(layer, path), text)
	}
	build := exec.Command("go", "build", "-trimpath", "-tags=grpcnotrace", "-o", filepath.Join(layer, "usr/local/bin/kubelet"), "./standin")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("cannot build the stand-ins: %v\n%s", err, out)
	}
	if err := os.Symlink("kubelet", filepath.Join(layer, "usr/local/bin/containerd")); err != nil {
		t.Fatal(err)
	}
	n.guest = boot(t, dir)
	// A cgroup tree in which no running pod has its cgroup proves nothing.
	mkdir(t, n.path("/sys/fs/cgroup/kubepods/besteffort/pod"+journalLiving))
	n.pod(t, journalLiving)
	n.run(t, "systemctl", "start", "containerd", "kubelet")
	eventually(t, patience, func() string {
		lines := n.journal(t, "_SYSTEMD_UNIT=kubelet.service")
		return missing(len(lines) > 0, "the kubelet has not said a word: %s", n.show("kubelet", "ActiveState"))
	})
	return n
}

// lay writes a file that everybody in the guest may read.
func lay(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (n *journalNode) dirOf(uid string) string { return n.path("/var/lib/kubelet/pods/" + uid) }

// pod makes what a pod has left; nothing of it is a user's.
func (n *journalNode) pod(t *testing.T, uid string) {
	t.Helper()
	mkdir(t, filepath.Join(n.dirOf(uid), "volumes", nfs, "vol"))
	write(t, filepath.Join(n.dirOf(uid), "etc-hosts"), "127.0.0.1 localhost\n")
}

// kubelet has the kubelet say a word of the pods.
func (n *journalNode) kubelet(t *testing.T, word string, uids ...string) {
	t.Helper()
	f, err := os.OpenFile(n.path("/run/kubelet.say"), os.O_WRONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for _, uid := range uids {
		if _, err := fmt.Fprintf(f, "%s %s\n", word, uid); err != nil {
			t.Fatal(err)
		}
	}
}

func (n *journalNode) show(unit, property string) string {
	out, _ := n.try("systemctl", "show", "--property="+property, "--value", unit)
	return out
}

// event is one entry of the journal, in journald's words.
type event map[string]any

func (e event) get(field string) string {
	s, _ := e[field].(string)
	return s
}

// journal returns the entries that match, oldest first.
func (n *journalNode) journal(t *testing.T, match ...string) []event {
	t.Helper()
	out, err := n.try(append([]string{"journalctl", "--no-pager", "--quiet", "--all", "--output=json"}, match...)...)
	// With --grep it ends with 1 and says nothing where nothing matches.
	if e, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || e.ExitCode() != 1 || out != "" || len(e.Stderr) > 0) {
		t.Fatal(err)
	}
	var all []event
	for line := range strings.Lines(out) {
		var e event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		all = append(all, e)
	}
	return all
}

// of are the records of one pod, as an administrator asks for them.
func (n *journalNode) of(t *testing.T, uid string) []event {
	t.Helper()
	return n.journal(t, "--unit=orphan-reaper", "ORPHAN_REAPER_POD_UID="+uid)
}

// tells waits for a record of the kind, with the reason where one is given.
func (n *journalNode) tells(t *testing.T, uid string, kind policy.Kind, reason policy.Reason) event {
	t.Helper()
	var found event
	eventually(t, patience, func() string {
		all := n.of(t, uid)
		for _, e := range all {
			reasons := strings.Split(e.get("ORPHAN_REAPER_REASONS"), ",")
			if e.get("ORPHAN_REAPER_KIND") == string(kind) && (reason == "" || slices.Contains(reasons, string(reason))) {
				found = e
				return ""
			}
		}
		return fmt.Sprintf("no record %s %s of %s: %s", kind, reason, uid, texts(all))
	})
	return found
}

func texts(all []event) string {
	var b strings.Builder
	for _, e := range all {
		b.WriteString("\n" + e.get("ORPHAN_REAPER_KIND") + ": " + e.get("MESSAGE") + " " + e.get("ORPHAN_REAPER_REASON_DETAIL"))
	}
	return b.String()
}

// goes waits until the pod is removed and the record says so.
func (n *journalNode) goes(t *testing.T, uid string) {
	t.Helper()
	n.tells(t, uid, policy.KindRemoved, "")
	if exists(n.dirOf(uid)) {
		t.Errorf("%s is still there", uid)
	}
}

// stays: nothing was taken of the pod.
func (n *journalNode) stays(t *testing.T, uid string) {
	t.Helper()
	if !exists(filepath.Join(n.dirOf(uid), "volumes", nfs, "vol")) {
		t.Errorf("%s has lost its volume: %s", uid, texts(n.of(t, uid)))
	}
	for _, e := range n.of(t, uid) {
		if e.get("ORPHAN_REAPER_KIND") == string(policy.KindParked) {
			t.Errorf("%s was parked: %s", uid, e.get("MESSAGE"))
		}
	}
}

// scan is what the same program says that is no daemon.
func (n *journalNode) scan(t *testing.T) (r struct {
	report
	Node struct {
		KubeletPID int                            `json:"kubelet_pid"`
		MayEnforce struct{ Value, Detail string } `json:"may_enforce"`
	}
},
) {
	t.Helper()
	out, _ := n.try("orphan-reaper", "scan", "-o", "json") // 3 says that something is kept
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	return r
}

// confirm sets how long a parked pod waits, and reloads the daemon.
func (n *journalNode) confirm(t *testing.T, span string) {
	t.Helper()
	const read = "the configuration was read again"
	before := len(n.journal(t, "--unit=orphan-reaper", "--grep", read))
	pid := n.show("orphan-reaper", "MainPID")
	lay(t, n.path("/etc/orphan-reaper/config.yaml"), fmt.Sprintf(guestConfig, span))
	n.run(t, "systemctl", "reload", "orphan-reaper")
	eventually(t, patience, func() string {
		return missing(len(n.journal(t, "--unit=orphan-reaper", "--grep", read)) > before, "the configuration was not read")
	})
	eventually(t, patience, func() string {
		got := n.show("orphan-reaper", "ActiveState") + " " + n.show("orphan-reaper", "MainPID")
		return missing(got == "active "+pid, "after the reload: %s", got)
	})
}
