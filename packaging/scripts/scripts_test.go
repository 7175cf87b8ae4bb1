// Package scripts_test runs the packages' scripts against directories of its own. That they
// do the right thing to a real systemd is shown by make test-packages.
package scripts_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/state"
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

// remember writes the quarantine's place and the records into the state, as the daemon does.
func (n node) remember(quarantine string, kinds ...policy.Kind) {
	n.t.Helper()
	dir := filepath.Join(n.root, stateDir)
	store, err := state.Open(dir, state.Options{})
	if err != nil {
		n.t.Fatal(err)
	}
	where := struct {
		Dir string `json:"dir"`
	}{filepath.Join(n.root, quarantine)}
	for _, kind := range kinds {
		if _, err := store.Append(policy.Record{Kind: kind}); err != nil {
			n.t.Error(err)
		}
	}
	if err := errors.Join(store.Save("quarantine", where), store.Close()); err != nil {
		n.t.Fatal(err)
	}
}

func (n node) has(name string) bool {
	_, err := os.Lstat(filepath.Join(n.root, name))
	return err == nil
}

// run runs a script in which every absolute path is one below the node's root, with no
// program of systemd's in reach, as in an image that is built without it.
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
	for _, tool := range []string{"du", "grep", "ls", "rm", "rmdir", "sed", "sort", "timeout"} {
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

// TestPurge: the state is removed, unless quarantined data is, or may be, still there. Quarantined data is
// never removed.
func TestPurge(t *testing.T) {
	for _, c := range []struct {
		name  string
		set   func(n node)
		keeps []string // else the state is gone
	}{
		{"nothing there", func(node) {}, nil},
		{"never ran", func(n node) { n.put(stateDir+"/sent", "1\n") }, nil},
		{"empty quarantine", func(n node) {
			n.remember(usual)
			n.put(stateDir+"/archive/cni-20260101-000000-000.tar.gz", "x")
			n.put(usual+"/x", "")
			if err := os.Remove(filepath.Join(n.root, usual, "x")); err != nil {
				n.t.Fatal(err)
			}
		}, nil},
		{"held in the usual quarantine, and the state is lost", func(n node) {
			n.put(stateDir+"/sent", "1\n")
			n.put(usual+"/2c9a/volumes/data", "x")
		}, []string{stateDir + "/sent", usual + "/2c9a/volumes/data"}},
		{"held elsewhere", func(n node) {
			n.remember(elsewhere)
			n.put(elsewhere+"/2c9a/volumes/data", "x")
		}, []string{stateDir + "/ledger.jsonl", elsewhere + "/2c9a/volumes/data"}},
		{"the quarantine's disk is not mounted", func(n node) {
			n.remember(elsewhere, policy.KindParked)
		}, []string{stateDir + "/ledger.jsonl"}},
		{"nothing was ever taken", func(n node) { n.remember(elsewhere, policy.KindKept) }, nil},
		{"a state that cannot be read", func(n node) { n.put(stateDir+"/quarantine.json", "\x00") }, []string{stateDir + "/quarantine.json"}},
		{"a path that cannot be read", func(n node) {
			n.put(stateDir+"/quarantine.json", `{"dir":"/srv/\"q"}`)
		}, []string{stateDir + "/quarantine.json"}},
		{"the quarantine lies in the state directory", func(n node) {
			n.remember(stateDir + "/q")
			n.put(stateDir+"/q/2c9a/data", "x")
		}, []string{stateDir + "/q/2c9a/data", stateDir + "/quarantine.json"}},
		{"something of a person's in the state directory", func(n node) {
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
				t.Errorf("state is there: %t", n.has(stateDir))
			}
			if (len(c.keeps) > 0) != strings.Contains(out, "It stays") {
				t.Errorf("printed %q", out)
			}
			if len(c.keeps) == 0 && (n.has(usual) || n.has("etc/orphan-reaper")) {
				t.Error("an empty directory remains")
			}
		})
	}
}

// TestRemoveTakesMetricsAway: only our metrics are removed, at the default places and the configured one, and
// only with the package, not at an upgrade.
func TestRemoveTakesMetricsAway(t *testing.T) {
	const ours, theirs = "# HELP orphan_reaper_orphans Orphans.\n", "# HELP another_orphans Orphans.\n"
	set := func(n node) {
		n.put("usr/sbin/orphan-reaper", "#!/bin/sh\necho 'metrics_file: "+n.root+"/srv/reaper.prom # "+n.root+"/etc/orphan-reaper/config.yaml:1'\n")
		n.put("srv/reaper.prom", ours)
		n.put("var/lib/prometheus/node-exporter/orphan-reaper.prom", ours)
		n.put("var/lib/node_exporter/orphan-reaper.prom", theirs)
		n.put("var/lib/prometheus/node-exporter/other.prom", ours)
	}
	for _, c := range []struct {
		script, keep, remove string
	}{{"deb.prerm", "upgrade", "remove"}, {"rpm.preun", "1", "0"}} {
		n := newNode(t)
		set(n)
		n.run(c.script, c.keep)
		if !n.has("srv/reaper.prom") || !n.has("var/lib/prometheus/node-exporter/orphan-reaper.prom") {
			t.Errorf("%s: an upgrade removes metrics", c.script)
		}
		n.run(c.script, c.remove)
		if n.has("srv/reaper.prom") || n.has("var/lib/prometheus/node-exporter/orphan-reaper.prom") {
			t.Errorf("%s: metrics remain", c.script)
		}
		if !n.has("var/lib/node_exporter/orphan-reaper.prom") || !n.has("var/lib/prometheus/node-exporter/other.prom") {
			t.Errorf("%s: removed a file that is not ours", c.script)
		}
	}
}

// withSystemd has the scripts find a systemd in which a daemon runs as PID 812. The file called has the
// scripts' requests to it.
func (n node) withSystemd() {
	n.put("run/systemd/system/x", "")
	note := "echo \"$@\" >>" + n.root + "/called\n"
	n.put("bin/systemctl", "#!/bin/sh\n[ \"$1\" != show ] || echo MainPID=812\n"+note)
	n.put("bin/deb-systemd-invoke", "#!/bin/sh\n"+note)
	n.put("usr/bin/systemctl", "")
}

// TestUpgradeChecks: a daemon is not restarted with a configuration that is wrong for the new version, and the
// package manager does not fail by that. A check that cannot run does not hold up an upgrade.
func TestUpgradeChecks(t *testing.T) {
	for _, c := range []struct {
		script  string
		args    []string
		code    string
		restart bool
	}{
		{"deb.postinst", []string{"configure", "1.0"}, "0", true},
		{"deb.postinst", []string{"configure", "1.0"}, "2", false},
		{"deb.postinst", []string{"configure", "1.0"}, "1", true},
		{"rpm.postun", []string{"1"}, "0", true},
		{"rpm.postun", []string{"1"}, "2", false},
		{"rpm.postun", []string{"1"}, "1", true},
	} {
		n := newNode(t)
		n.withSystemd()
		n.put("usr/sbin/orphan-reaper", "#!/bin/sh\n[ \"$*\" = 'config check --as 812' ] || exit 2\n"+
			"echo 'config.yaml:3: hold: soon is no time'\nexit "+c.code+"\n")
		out := n.run(c.script, c.args...)
		called, err := os.ReadFile(filepath.Join(n.root, "called"))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(string(called), "restart orphan-reaper.service"); got != c.restart {
			t.Errorf("%s, check ends with %s: called %s", c.script, c.code, called)
		}
		if told := strings.Contains(out, "hold: soon") && strings.Contains(out, "systemctl restart orphan-reaper"); told == c.restart {
			t.Errorf("%s, check ends with %s: printed %q", c.script, c.code, out)
		}
	}
}

// TestFirstInstall: the daemon's actions are printed once, and not at an upgrade. How to have it look only is printed unless it
// only looks.
func TestFirstInstall(t *testing.T) {
	for script, calls := range map[string][2][]string{"deb.postinst": {{"configure", ""}, {"configure", "1.0"}}, "rpm.post": {{"1"}, {"2"}}} {
		for i, args := range calls {
			n := newNode(t)
			n.withSystemd()
			n.put("usr/sbin/orphan-reaper", "#!/bin/sh\necho A daemon that starts now enforces from 04:12\n")
			out := n.run(script, args...)
			if first := i == 0; first != strings.Contains(out, "enforces from 04:12") || first != strings.Contains(out, "mode: observe") {
				t.Errorf("%s %q printed %q", script, args, out)
			}
		}
		n := newNode(t)
		n.withSystemd()
		n.put("usr/sbin/orphan-reaper", "#!/bin/sh\necho 'A daemon that starts now changes nothing (mode observe)'\n")
		if out := n.run(script, calls[0]...); !strings.Contains(out, "changes nothing") || strings.Contains(out, "To look only") {
			t.Errorf("%s in mode observe printed %q", script, out)
		}
	}
}

// TestRemoveSaysWhatStays: entries and size of the quarantine that the configuration names, state and configuration.
func TestRemoveSaysWhatStays(t *testing.T) {
	for script, arg := range map[string]string{"deb.prerm": "remove", "rpm.preun": "0"} {
		n := newNode(t)
		n.put("usr/sbin/orphan-reaper", "#!/bin/sh\necho 'quarantine_dir: "+n.root+"/"+elsewhere+" # default'\n")
		n.put(elsewhere+"/a.1/volumes/data", strings.Repeat("x", 100_000))
		n.put(elsewhere+"/a.1.json", "{}")
		n.put(elsewhere+"/b.2/volumes/data", "x")
		n.put(stateDir+"/sent", "1\n")
		out := n.run(script, arg)
		for _, word := range []string{
			n.root + "/" + elsewhere + " (entries: 2, size: 1", "K)", "stays in " + n.root + "/" + stateDir, n.root + "/etc/orphan-reaper",
		} {
			if !strings.Contains(out, word) {
				t.Errorf("%s does not print %q: %s", script, word, out)
			}
		}
		if !n.has(elsewhere + "/a.1/volumes/data") {
			t.Error("it is gone")
		}
	}
	n := newNode(t)
	n.remember(elsewhere)
	n.put(elsewhere+"/2c9a/volumes/data", strings.Repeat("x", 100_000))
	if out := n.run("deb.postrm", "purge"); !strings.Contains(out, elsewhere+" (entries: 1, size: 1") {
		t.Errorf("purge printed %q", out)
	}
}

// TestWithoutSystemd: no script fails where nothing of systemd is there.
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
