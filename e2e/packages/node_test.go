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
	"time"

	"github.com/orphan-reaper/orphan-reaper/e2e/kit"
)

// node is a guest with a kubelet and a runtime, and with the packages in /root.
type node struct {
	*guest

	release string
}

const (
	living = "5a11fe00-0000-4000-8000-0000000000f0" // the pod that runs on every node
	behind = "/srv/behind/precious"                 // a user's file, whose directory can be mounted
	users  = "a user's"
	nfs    = "kubernetes.io~nfs" // the directory of a plugin in the kubelet's own code
	config = "/etc/orphan-reaper/config.yaml"
	ours   = "/var/lib/kubelet/orphan-reaper"
)

// dropIn is an administrator's change of the unit: the flags make the daemon quick from its first start.
const (
	dropIn = "etc/systemd/system/orphan-reaper.service.d/quick.conf"
	quick  = "[Service]\nExecStart=\nExecStart=/usr/sbin/orphan-reaper run --hold 2s --confirm 5s --retention 5s\n"
)

// newNode boots a node. The layer has the administrator's files.
func newNode(t *testing.T, release string, layer map[string]string) *node {
	t.Helper()
	dir := kit.Mkdir(t, filepath.Join(place, strings.ReplaceAll(t.Name(), "/", "-")))
	top := filepath.Join(dir, "layer")
	files := map[string]string{
		"etc/machine-id":                        "0123456789abcdef0123456789abcdef\n", // without it, the first boot would enable every unit
		"etc/hostname":                          "node-1\n",
		"etc/systemd/system/containerd.service": "[Service]\nExecStart=/usr/local/bin/containerd /run/containerd/containerd.sock\n",
		"etc/systemd/system/kubelet.service":    "[Service]\nExecStart=/usr/local/bin/kubelet --root-dir=/var/lib/kubelet\n",
		dropIn:                                  quick,
		behind:                                  users,
	}
	maps.Copy(files, layer)
	for path, text := range files {
		lay(t, filepath.Join(top, path), text)
	}
	copyTo(t, kit.Mkdir(t, filepath.Join(top, "usr/local/bin")), filepath.Join(place, "kubelet"))
	if err := os.Symlink("kubelet", filepath.Join(top, "usr/local/bin/containerd")); err != nil {
		t.Fatal(err)
	}
	for to, from := range map[string]string{"root": dist, "root/next": next} {
		copyTo(t, kit.Mkdir(t, filepath.Join(top, to)), packagesIn(t, from)...)
	}
	n := &node{guest: boot(t, release, dir), release: release}
	// Without a cgroup of any pod the daemon would not count on the cgroups.
	kit.Mkdir(t, n.Path("/sys/fs/cgroup/kubepods/besteffort/pod"+living))
	n.knows(t, living)
	lay(t, n.Path("/run/running/"+living), "")
	n.pod(t, living)
	n.Run(t, "systemctl", "start", "containerd", "kubelet")
	return n
}

// lay writes a file that every user of the guest may read.
func lay(t *testing.T, path, text string) {
	t.Helper()
	kit.Lay(t, path, text, 0o644)
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
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(path)), b, st.Mode()); err != nil {
			t.Fatal(err)
		}
	}
}

// knows makes the kubelet know a pod, so that it does not report it.
func (n *node) knows(t *testing.T, uid string) {
	t.Helper()
	lay(t, n.Path("/run/known/"+uid), "")
}

// unknown makes the kubelet forget a pod.
func (n *node) unknown(uid string) error { return os.Remove(n.Path("/run/known/" + uid)) }

func (n *node) dirOf(uid string) string { return n.Path("/var/lib/kubelet/pods/" + uid) }

// pod makes the directory of a pod as an hour ago, with the files in its volume.
func (n *node) pod(t *testing.T, uid string, files ...string) {
	t.Helper()
	made := filepath.Join(n.Path("/var/lib/kubelet"), "making")
	volume := kit.Mkdir(t, filepath.Join(made, "volumes", nfs, "vol"))
	lay(t, filepath.Join(made, "etc-hosts"), "127.0.0.1 localhost\n")
	for _, name := range files {
		lay(t, filepath.Join(volume, name), users)
	}
	hour := time.Now().Add(-time.Hour)
	for _, dir := range kit.Below(made) {
		if err := os.Chtimes(dir, hour, hour); err != nil {
			t.Fatal(err)
		}
	}
	kit.Mkdir(t, filepath.Dir(n.dirOf(uid)))
	if err := os.Rename(made, n.dirOf(uid)); err != nil { // the kubelet would report it half made
		t.Fatal(err)
	}
}

func (n *node) show(unit, property string) string {
	out, _ := n.Try("systemctl", "show", "--property="+property, "--value", unit)
	return out
}

func (n *node) state() string {
	enabled, _ := n.Try("systemctl", "is-enabled", "orphan-reaper")
	active, _ := n.Try("systemctl", "is-active", "orphan-reaper")
	return enabled + " " + active
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

// record waits for a record of the kind.
func (n *node) record(t *testing.T, uid, kind string) (found kit.Event) {
	t.Helper()
	kit.Eventually(t, patience, func() string {
		all := n.of(t, uid)
		for _, e := range all {
			if e.Is(kind, "") {
				found = e
				return ""
			}
		}
		scan, _ := n.Try("orphan-reaper", "scan")
		return fmt.Sprintf("no record %s of %s: %s\n%s", kind, uid, kit.Texts(all), scan)
	})
	return found
}

// goes waits until the pod is removed and has a record of that.
func (n *node) goes(t *testing.T, uid string) {
	t.Helper()
	n.record(t, uid, "removed")
	if kit.Exists(n.dirOf(uid)) {
		t.Errorf("%s still exists", uid)
	}
}

// stays checks that nothing of the pod was moved.
func (n *node) stays(t *testing.T, uid string) {
	t.Helper()
	if !kit.Exists(filepath.Join(n.dirOf(uid), "volumes", nfs, "vol")) {
		t.Errorf("%s has lost its volume: %s", uid, kit.Texts(n.of(t, uid)))
	}
	for _, e := range n.of(t, uid) {
		if e.Is("quarantined", "") {
			t.Errorf("%s was moved: %s", uid, e.Get("MESSAGE"))
		}
	}
}

// holdsData checks that the user's file is in quarantine, unchanged.
func (n *node) holdsData(t *testing.T) {
	t.Helper()
	found, err := filepath.Glob(n.Path(ours, "*/volumes", nfs, "vol/precious"))
	if err != nil || len(found) != 1 {
		t.Fatalf("the user's file: %v %v; the quarantine: %s", found, err, n.Run(t, "find", ours))
	}
	if b, err := os.ReadFile(found[0]); err != nil || string(b) != users {
		t.Errorf("the user's file is %q, %v", b, err)
	}
}

// waitReason waits until a scan beside the daemon keeps the pod for a reason.
func (n *node) waitReason(t *testing.T, uid, reason string) {
	t.Helper()
	kit.Eventually(t, patience, func() string {
		var s struct {
			Pods []struct {
				UID     string
				Reasons []struct{ Reason string }
			}
		}
		out, _ := n.Try("orphan-reaper", "scan", "-o", "json") // exit code 3: something is kept
		if err := json.Unmarshal([]byte(out), &s); err != nil {
			t.Fatalf("%v in %s", err, out)
		}
		for _, p := range s.Pods {
			for _, r := range p.Reasons {
				if p.UID == uid && r.Reason == reason {
					return ""
				}
			}
		}
		return out
	})
}

// sh runs a script in the directory of the packages, in an administrator's shell.
func (n *node) sh(t *testing.T, script string) string {
	t.Helper()
	return n.Run(t, "bash", "-euo", "pipefail", "-c", "cd /root\n"+script)
}

// install installs the package with apt, and returns the output.
func (n *node) install(t *testing.T) string {
	t.Helper()
	return n.sh(t, "apt-get install -y ./orphan-reaper_*_amd64.deb 2>&1")
}

// configure writes the configuration and reloads the daemon without a restart.
func (n *node) configure(t *testing.T, text string) {
	t.Helper()
	pid := n.show("orphan-reaper", "MainPID")
	lay(t, n.Path(config), text)
	n.Run(t, "systemctl", "reload", "orphan-reaper")
	if got := n.show("orphan-reaper", "ActiveState") + " " + n.show("orphan-reaper", "MainPID"); got != "active "+pid {
		t.Errorf("after the reload: %s, want PID %s", got, pid)
	}
}

// restarted waits until the daemon runs as another process.
func (n *node) restarted(t *testing.T, pid string) {
	t.Helper()
	kit.Eventually(t, patience, func() string {
		now, state := n.show("orphan-reaper", "MainPID"), n.show("orphan-reaper", "ActiveState")
		return kit.Missing(now != pid && now != "0" && state == "active", "the unit is %s, PID %s, was %s", state, now, pid)
	})
}

// override changes the unit like systemctl edit.
func (n *node) override(t *testing.T, settings string) {
	t.Helper()
	lay(t, n.Path("/etc/systemd/system/orphan-reaper.service.d/zz.conf"), "[Service]\n"+settings)
	n.Run(t, "systemctl", "daemon-reload")
}

func (n *node) read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(n.Path(path))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// exporter asks the guest's node exporter, with programs that every Debian has.
func (n *node) exporter() (string, error) {
	return n.Try("bash", "-c", `exec 3<>/dev/tcp/127.0.0.1/9100; printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3; cat <&3`)
}
