// Package scripts_test runs the packages' scripts against directories of its own. make test-packages shows that they do
// the right thing to a real systemd.
package scripts_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
	"github.com/orphan-reaper/orphan-reaper/reaper/ledger"
)

// node is a root directory for a script to work in.
type node struct {
	t    *testing.T
	root string
}

func newNode(t *testing.T) node {
	t.Helper()
	n := node{t, t.TempDir()}
	for _, dir := range []string{"etc/orphan-reaper", "var/lib/kubelet", "usr/sbin", "run"} {
		if err := os.MkdirAll(filepath.Join(n.root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// put writes a file, and its directory.
func (n node) put(name, text string) {
	n.t.Helper()
	name = filepath.Join(n.root, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		n.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o700); err != nil { // a program, perhaps
		n.t.Fatal(err)
	}
}

// remember writes events into the ledger, as the daemon does.
func (n node) remember(quarantine string, kinds ...judge.EventKind) {
	n.t.Helper()
	store, err := ledger.Open(filepath.Join(n.root, stateDir), ledger.Options{Quarantine: filepath.Join(n.root, quarantine)})
	if err != nil {
		n.t.Fatal(err)
	}
	for _, kind := range kinds {
		if _, e := store.Append(judge.Event{Kind: kind, UID: "2c9a0000-0000-4000-8000-000000000001", Entry: "2c9a.1"}); e != nil {
			err = errors.Join(err, e)
		}
	}
	if err := errors.Join(err, store.Close()); err != nil {
		n.t.Fatal(err)
	}
}

func (n node) has(name string) bool {
	_, err := os.Lstat(filepath.Join(n.root, name))
	return err == nil
}

// run runs a script in which every absolute path is one below the node's root, with no program of systemd's on PATH, as in
// an image that is built without it.
func (n node) run(script string, args ...string) string {
	n.t.Helper()
	text, err := os.ReadFile(script)
	if err != nil {
		n.t.Fatal(err)
	}
	moved := string(text)
	for _, dir := range []string{"/var/lib/", "/etc/orphan-reaper", "/usr/sbin/", "/usr/bin/", "/run/"} {
		moved = strings.ReplaceAll(moved, dir, n.root+dir)
	}
	cmd := exec.CommandContext(n.t.Context(), "sh", append([]string{"-c", moved, script}, args...)...) // our own scripts
	cmd.Env = []string{"PATH=" + filepath.Join(n.root, "bin") + ":" + n.tools()}
	out, err := cmd.CombinedOutput()
	if err != nil {
		n.t.Errorf("%s %s: %v\n%s", script, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// tools is a PATH with what every system has, and nothing else.
func (n node) tools() string {
	n.t.Helper()
	dir := n.t.TempDir()
	for _, tool := range []string{"du", "find", "grep", "rm", "rmdir", "sed", "sort", "timeout"} {
		path, err := exec.LookPath(tool)
		if err != nil {
			n.t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(dir, tool)); err != nil {
			n.t.Fatal(err)
		}
	}
	return dir
}

const (
	stateDir  = "var/lib/orphan-reaper"
	usual     = "var/lib/kubelet/orphan-reaper"
	elsewhere = "srv/quarantine"
)

// TestPurge: the state is removed, unless quarantined data is, or may be, still there. Quarantined data is never removed.
func TestPurge(t *testing.T) {
	for _, c := range []struct {
		name  string
		set   func(n node)
		keeps []string // else the state is gone
	}{
		{"nothing there", func(node) {}, nil},
		{"never ran", func(n node) { n.put(stateDir+"/sent", "1\n") }, nil},
		{"nothing was ever moved", func(n node) { n.remember(elsewhere, judge.EventStarted, judge.EventKept) }, nil},
		{"the quarantine is empty", func(n node) {
			n.remember(usual, judge.EventMoving, judge.EventQuarantined, judge.EventRemoved)
			n.put(stateDir+"/cni-20260101T000000.000000000.tar.gz", "x")
			n.put(usual+"/x", "")
			if err := os.Remove(filepath.Join(n.root, usual, "x")); err != nil {
				n.t.Fatal(err)
			}
		}, nil},
		{"data in the usual quarantine, and the ledger is lost", func(n node) {
			n.put(stateDir+"/sent", "1\n")
			n.put(usual+"/2c9a.1/volumes/data", "x")
		}, []string{stateDir + "/sent", usual + "/2c9a.1/volumes/data"}},
		{"data elsewhere", func(n node) {
			n.remember(elsewhere, judge.EventMoving, judge.EventQuarantined)
			n.put(elsewhere+"/2c9a.1/volumes/data", "x")
		}, []string{stateDir + "/ledger.jsonl", elsewhere + "/2c9a.1/volumes/data"}},
		{"the quarantine's disk is not mounted", func(n node) {
			n.remember(elsewhere, judge.EventMoving)
		}, []string{stateDir + "/ledger.jsonl"}},
		{"the quarantine's path has a quote", func(n node) {
			n.remember(`srv/"q`, judge.EventMoving)
			n.put(`srv/"q/2c9a.1/data`, "x")
		}, []string{stateDir + "/ledger.jsonl", `srv/"q/2c9a.1/data`}},
		{"the ledger is damaged", func(n node) { n.put(stateDir+"/ledger.jsonl", "\x00\x00\n") }, []string{stateDir + "/ledger.jsonl"}},
		{"the ledger does not end", func(n node) { n.put(stateDir+"/ledger.jsonl", `{"seq":1,"kind":"mov`) }, []string{stateDir + "/ledger.jsonl"}},
		{"the quarantine lies in the state directory", func(n node) {
			n.remember(stateDir+"/q", judge.EventMoving)
			n.put(stateDir+"/q/2c9a.1/data", "x")
		}, []string{stateDir + "/q/2c9a.1/data", stateDir + "/ledger.jsonl"}},
		{"a user's directory in the state directory", func(n node) {
			n.put(stateDir+"/sent", "1\n")
			n.put(stateDir+"/mine/data", "x")
		}, []string{stateDir + "/mine/data"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newNode(t)
			c.set(n)
			out := n.run("deb.postrm", "purge")
			for _, name := range c.keeps {
				if !n.has(name) {
					t.Errorf("%s is gone", name)
				}
			}
			if n.has(stateDir) != (len(c.keeps) > 0) {
				t.Errorf("the state exists: %t", n.has(stateDir))
			}
			if (len(c.keeps) > 0) != strings.Contains(out, "It is kept") {
				t.Errorf("printed %q", out)
			}
			if len(c.keeps) == 0 && (n.has(usual) || n.has("etc/orphan-reaper")) {
				t.Error("an empty directory is left")
			}
		})
	}
}

// withSystemd has the scripts find a systemd. The file called has their requests to it. With active the daemon runs.
func (n node) withSystemd(active bool) {
	n.put("run/systemd/system/x", "")
	note := "echo \"$@\" >>" + n.root + "/called\n"
	code := "1"
	if active {
		code = "0"
	}
	n.put("bin/systemctl", "#!/bin/sh\n[ \"$2\" != is-active ] || exit "+code+"\n"+note)
	n.put("bin/deb-systemd-invoke", "#!/bin/sh\n"+note)
	n.put("usr/bin/systemctl", "")
}

// TestUpgradeChecks: a daemon is not restarted with a configuration that is wrong for the new version, and the package
// manager does not fail by that. A check that cannot run delays no upgrade.
func TestUpgradeChecks(t *testing.T) {
	for script, args := range map[string][]string{"deb.postinst": {"configure", "1.0"}, "rpm.postun": {"1"}} {
		for _, c := range []struct {
			code            string
			active, restart bool
		}{{"0", true, true}, {"1", true, true}, {"2", true, false}, {"2", false, true}} {
			n := newNode(t)
			n.withSystemd(c.active)
			n.put("usr/sbin/orphan-reaper", "#!/bin/sh\n[ \"$*\" = 'config check' ] || exit 9\n"+
				"echo 'config.yaml:3: hold: soon is no time' >&2\nexit "+c.code+"\n")
			out := n.run(script, args...)
			called, err := os.ReadFile(filepath.Join(n.root, "called"))
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Contains(string(called), "restart orphan-reaper.service"); got != c.restart {
				t.Errorf("%s, the check ends with %s: called %s", script, c.code, called)
			}
			if got := strings.Contains(out, "hold: soon") && strings.Contains(out, "systemctl restart orphan-reaper"); got == c.restart {
				t.Errorf("%s, the check ends with %s: printed %q", script, c.code, out)
			}
		}
	}
}

// TestFirstInstall: how to observe only is printed once, and unless the configuration has it.
func TestFirstInstall(t *testing.T) {
	for script, args := range map[string][2][]string{"deb.postinst": {{"configure", ""}, {"configure", "1.0"}}, "rpm.post": {{"1"}, {"2"}}} {
		for mode, want := range map[string][2]bool{"enforce": {true, false}, "observe": {false, false}} {
			for i := range args {
				n := newNode(t)
				n.withSystemd(true)
				n.put("usr/sbin/orphan-reaper", "#!/bin/sh\necho 'mode      "+mode+"   /etc/orphan-reaper/config.yaml:16'\n")
				if out := n.run(script, args[i]...); strings.Contains(out, "mode: observe") != want[i] {
					t.Errorf("%s %q in mode %s printed %q", script, args[i], mode, out)
				}
			}
		}
	}
}

// TestWithoutSystemd: no script fails or prints anything where nothing of systemd is there.
func TestWithoutSystemd(t *testing.T) {
	for script, calls := range map[string][][]string{
		"deb.postinst": {{"configure", ""}, {"configure", "1.0"}, {"abort-upgrade", "1.0"}},
		"deb.prerm":    {{"remove"}, {"upgrade", "1.0"}, {"failed-upgrade", "1.0"}},
		"deb.postrm":   {{"remove"}, {"purge"}, {"upgrade", "1.0"}, {"abort-install"}},
		"rpm.post":     {{"1"}, {"2"}},
		"rpm.preun":    {{"0"}, {"1"}},
		"rpm.postun":   {{"0"}, {"1"}},
	} {
		for _, args := range calls {
			if out := newNode(t).run(script, args...); out != "" {
				t.Errorf("%s %v printed %q", script, args, out)
			}
		}
	}
}
