package packages

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/e2e/kit"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// node is a guest with a kubelet and a runtime, and with the packages in /root.
type node struct {
	*guest

	release string
}

// Every node has one living pod, and a user's directory to be mounted.
const (
	living = "5a11fe00-0000-4000-8000-0000000000f0"
	behind = "/srv/behind/precious"
	users  = "a user's"
	fifo   = "/run/kubelet.say" // the stand-in's FIFO
)

// newNode boots a node. The layer has the administrator's files.
func newNode(t *testing.T, release string, layer map[string]string) *node {
	t.Helper()
	dir := mkdir(t, filepath.Join(place, strings.ReplaceAll(t.Name(), "/", "-")))
	top := filepath.Join(dir, "layer")
	files := map[string]string{
		"etc/machine-id":                        "0123456789abcdef0123456789abcdef\n", // without it, the first boot would enable every unit
		"etc/hostname":                          "node-1\n",
		"etc/systemd/system/containerd.service": "[Service]\nExecStart=/usr/local/bin/containerd /run/containerd/containerd.sock " + living + "\n",
		"etc/systemd/system/kubelet.service":    "[Service]\nExecStart=/usr/local/bin/kubelet --root-dir=/var/lib/kubelet --container-runtime-endpoint=unix:///run/containerd/containerd.sock\n",
		behind:                                  users,
	}
	maps.Copy(files, layer)
	for path, text := range files {
		lay(t, filepath.Join(top, path), text)
	}
	copyTo(t, mkdir(t, filepath.Join(top, "usr/local/bin")), filepath.Join(place, "kubelet"))
	if err := os.Symlink("kubelet", filepath.Join(top, "usr/local/bin/containerd")); err != nil {
		t.Fatal(err)
	}
	for to, from := range map[string]string{"root": dist, "root/next": next} {
		copyTo(t, mkdir(t, filepath.Join(top, to)), packagesIn(t, from)...)
	}
	n := &node{guest: boot(t, release, dir), release: release}
	// A cgroup tree without any running pod proves nothing.
	mkdir(t, n.Path("/sys/fs/cgroup/kubepods/besteffort/pod"+living))
	n.pod(t, living)
	n.Run(t, "systemctl", "start", "containerd", "kubelet")
	eventually(t, patience, func() string {
		return missing(exists(n.Path(fifo)), "the kubelet has not started: %s", n.show("kubelet", "ActiveState"))
	})
	return n
}

// packagesIn returns the files of a release in one directory.
func packagesIn(t *testing.T, dir string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(all) == 0 {
		t.Fatalf("no packages in %q: run make packages: %v", dir, err)
	}
	return all
}

// copyTo copies files with their permissions.
func copyTo(t *testing.T, dir string, files ...string) {
	t.Helper()
	for _, path := range files {
		st, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if st.IsDir() {
			continue
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(path)), b, st.Mode()); err != nil {
			t.Fatal(err)
		}
	}
}

func (n *node) dirOf(uid string) string { return n.Path("/var/lib/kubelet/pods/" + uid) }

// nfs is the directory of a plugin in the kubelet's own code.
const nfs = "kubernetes.io~nfs"

// pod makes the residue of a pod, without user data.
func (n *node) pod(t *testing.T, uid string) {
	t.Helper()
	mkdir(t, filepath.Join(n.dirOf(uid), "volumes", nfs, "vol"))
	lay(t, filepath.Join(n.dirOf(uid), "etc-hosts"), "127.0.0.1 localhost\n")
}

// logs makes the stand-in kubelet log the selected line for each pod.
func (n *node) logs(t *testing.T, word string, uids ...string) {
	t.Helper()
	var f *os.File
	eventually(t, patience, func() string {
		// The FIFO has no reader (ENXIO, fifo(7)) while a kubelet starts.
		var err error
		f, err = os.OpenFile(n.Path(fifo), os.O_WRONLY|unix.O_NONBLOCK, 0)
		return missing(err == nil, "cannot write to the kubelet: %v", err)
	})
	defer func() { _ = f.Close() }()
	for _, uid := range uids {
		if _, err := fmt.Fprintf(f, "%s %s\n", word, uid); err != nil {
			t.Fatal(err)
		}
	}
}

func (n *node) show(unit, property string) string {
	out, _ := n.Try("systemctl", "show", "--property="+property, "--value", unit)
	return out
}

// journal returns the matching entries, oldest first.
func (n *node) journal(t *testing.T, match ...string) []kit.Event {
	t.Helper()
	out, err := n.Try(append([]string{"journalctl", "--no-pager", "--quiet", "--all", "--output=json"}, match...)...)
	// With --grep journalctl exits with 1 and no output if nothing matches.
	if e, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || e.ExitCode() != 1 || out != "" || len(e.Stderr) > 0) {
		t.Fatal(err)
	}
	return kit.ParseEvents(t, out)
}

// of returns the records of one pod, by an administrator's query.
func (n *node) of(t *testing.T, uid string) []kit.Event {
	t.Helper()
	return n.journal(t, "--unit=orphan-reaper", "ORPHAN_REAPER_POD_UID="+uid)
}

// waitRecord waits for a record of the kind, with the given reason, if any.
func (n *node) waitRecord(t *testing.T, uid string, kind policy.Kind, reason policy.Reason) kit.Event {
	t.Helper()
	var found kit.Event
	eventually(t, patience, func() string {
		all := n.of(t, uid)
		for _, e := range all {
			if e.Is(string(kind), string(reason)) {
				found = e
				return ""
			}
		}
		return fmt.Sprintf("no record %s %s of %s: %s", kind, reason, uid, kit.Texts(all))
	})
	return found
}

// goes waits until the pod is removed and has a record of that.
func (n *node) goes(t *testing.T, uid string) {
	t.Helper()
	n.waitRecord(t, uid, policy.KindRemoved, "")
	if exists(n.dirOf(uid)) {
		t.Errorf("%s still exists", uid)
	}
}

// stays checks that nothing of the pod was removed.
func (n *node) stays(t *testing.T, uid string) {
	t.Helper()
	if !exists(filepath.Join(n.dirOf(uid), "volumes", nfs, "vol")) {
		t.Errorf("%s has lost its volume: %s", uid, kit.Texts(n.of(t, uid)))
	}
	for _, e := range n.of(t, uid) {
		if e.Get("ORPHAN_REAPER_KIND") == string(policy.KindParked) {
			t.Errorf("%s was parked: %s", uid, e.Get("MESSAGE"))
		}
	}
}

// report is the part of scan -o json that the suite reads.
type report struct {
	Pods []struct {
		UID     string
		Verdict string
		Reasons []string
	}
	Quarantine []struct {
		UID   string
		Phase string
	}
	Node struct {
		KubeletPID int                            `json:"kubelet_pid"`
		MayEnforce struct{ Value, Detail string } `json:"may_enforce"`
	}
}

// scan returns the report of the program's scan beside the daemon.
func (n *node) scan(t *testing.T) (r report) {
	t.Helper()
	out, _ := n.Try("orphan-reaper", "scan", "-o", "json") // exit code 3: something is kept
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	return r
}

// short is a configuration with short times and additional lines.
func short(more ...string) string {
	return "hold: 2s\nconfirm: 5s\n" + strings.Join(more, "")
}

const config = "/etc/orphan-reaper/config.yaml"

// install installs the package with apt, and returns the output.
func (n *node) install(t *testing.T) string {
	t.Helper()
	return n.sh(t, "apt-get install -y ./orphan-reaper_*_amd64.deb")
}

// sh runs a script in the directory of the packages, in an administrator's shell.
func (n *node) sh(t *testing.T, script string) string {
	t.Helper()
	return n.Run(t, "bash", "-euo", "pipefail", "-c", "cd /root\n"+script)
}

// configure writes the configuration and reloads the daemon without a restart.
func (n *node) configure(t *testing.T, text string) {
	t.Helper()
	const read = "the configuration was read again"
	before := len(n.journal(t, "--unit=orphan-reaper", "--grep", read))
	pid := n.show("orphan-reaper", "MainPID")
	lay(t, n.Path(config), text)
	n.Run(t, "systemctl", "reload", "orphan-reaper")
	eventually(t, patience, func() string {
		return missing(len(n.journal(t, "--unit=orphan-reaper", "--grep", read)) > before, "the configuration was not read")
	})
	eventually(t, patience, func() string {
		got := n.show("orphan-reaper", "ActiveState") + " " + n.show("orphan-reaper", "MainPID")
		return missing(got == "active "+pid, "after the reload: %s", got)
	})
}
