package packages

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

const docOrphan = "2badf00d-0000-4000-8000-0000000000a1"

// chapter is one heading of docs/install.md with its commands and their required effect.
type chapter struct {
	heading string
	before  func(t *testing.T, n *node)
	after   func(t *testing.T, n *node, out string)
}

// These are the ways through docs/install.md, each on a node of its own.
var ways = map[string][]chapter{
	"DEB": {
		{"Check the files", nil, docChecked},
		{"Look first", nil, docLooked},
		{"Install and watch", nil, docWatching},
		{"Let it act", nil, docActs},
		{"Upgrade", docNext, docUpgraded("config.yaml.dpkg-dist")},
		{"Remove", nil, docRemoved},
		{"Purge", nil, docPurged},
	},
	"RPM": {
		{"Install and watch by rpm", nil, docWatching},
		{"Let it act", nil, docActs},
		{"Upgrade by rpm", docNext, docUpgraded("config.yaml.rpmnew")},
		{"Remove by rpm", nil, docRemoved},
	},
	// Each of them runs twice: first to observe, then with another configuration to enforce.
	"Many": {
		{"On many nodes", docShips("observe"), docWatching},
		{"On many nodes", docShips("enforce"), docManyAct},
	},
	"ManyRPM": {
		{"On many nodes by rpm", docShips("observe"), docWatching},
		{"On many nodes by rpm", docShips("enforce"), docManyAct},
	},
	"Tarball": {
		{"Unpack", nil, func(t *testing.T, n *node, _ string) {
			if got := n.state(); got != "enabled active notify" {
				t.Errorf("the unit is %s", got)
			}
			n.pod(t, docOrphan)
			docTaken(t, n)
		}},
		{"Remove what was unpacked", nil, docRemoved},
	},
}

// TestInstallDoc runs the commands of docs/install.md literally.
func TestInstallDoc(t *testing.T) {
	t.Parallel()
	blocks := docBlocks(t)
	for heading := range blocks {
		if !slices.ContainsFunc(slices.Collect(chapters), func(c chapter) bool { return c.heading == heading }) {
			t.Errorf("no test runs the commands of docs/install.md below %q", heading)
		}
	}
	for way, all := range ways {
		t.Run(way, func(t *testing.T) {
			everywhere(t, func(t *testing.T, release string) {
				n := newNode(t, release, map[string]string{
					dropIn: quick,
					"etc/systemd/system-preset/99-default-disable.preset": "disable orphan-reaper.service\n",
				})
				if way == "Tarball" {
					lay(t, n.Path(dropIn), strings.ReplaceAll(quick, "/usr/sbin/", "/opt/orphan-reaper/bin/"))
				}
				for _, c := range all {
					docChapter(t, n, c, blocks[c.heading])
				}
				n.stays(t, living)
			})
		})
	}
}

func chapters(yield func(chapter) bool) {
	for _, all := range ways {
		for _, c := range all {
			if !yield(c) {
				return
			}
		}
	}
}

// docChapter runs its commands, block by block, each in a shell of its own.
func docChapter(t *testing.T, n *node, c chapter, blocks []string) {
	t.Helper()
	if len(blocks) == 0 {
		t.Fatalf("docs/install.md has no commands below %q", c.heading)
	}
	if c.before != nil {
		c.before(t, n)
	}
	var out strings.Builder
	for _, block := range blocks {
		out.WriteString(n.sh(t, asRPM+"exec 2>&1\n"+block) + "\n")
	}
	c.after(t, n, out.String())
	if t.Failed() {
		t.Fatalf("that was %q:\n%s", c.heading, out.String())
	}
}

// docBlocks returns the commands below each heading.
func docBlocks(t *testing.T) map[string][]string {
	t.Helper()
	b, err := os.ReadFile("../../docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	heading, block, within := "", "", false
	for line := range strings.Lines(string(b)) {
		switch {
		case within && line == "```\n":
			all[heading] = append(all[heading], block)
			block, within = "", false
		case within:
			block += line
		case line == "```sh\n":
			within = true
		case strings.HasPrefix(line, "#"):
			heading = strings.TrimSpace(strings.TrimLeft(line, "#"))
		}
	}
	return all
}

func docChecked(t *testing.T, _ *node, out string) {
	for _, end := range []string{"_amd64.deb: OK", ".x86_64.rpm: OK", "_linux_amd64.tar.gz: OK"} {
		if !strings.Contains(out, end) {
			t.Errorf("no %q", end)
		}
	}
}

func docLooked(t *testing.T, n *node, out string) {
	if !strings.Contains(out, "1 pod lives and is not listed") || exists(n.Path("/var/lib/orphan-reaper")) {
		t.Error("the first scan does not count the pods, or leaves a trace")
	}
}

// docWatching checks that the daemon runs and removes nothing.
func docWatching(t *testing.T, n *node, _ string) {
	if got := n.state(); got != "enabled active notify" {
		t.Errorf("the unit is %s", got)
	}
	n.pod(t, docOrphan)
	n.logs(t, "names", docOrphan)
	n.waitRecord(t, docOrphan, policy.KindKept, policy.ReasonObserve)
	n.stays(t, docOrphan)
}

func docActs(t *testing.T, n *node, out string) {
	if !strings.Contains(out, "mode: enforce") {
		t.Error("config print does not show the mode")
	}
	docTaken(t, n)
}

// docShips copies the configuration beside the package.
func docShips(mode string) func(*testing.T, *node) {
	return func(t *testing.T, n *node) { n.sh(t, "echo mode: "+mode+" > config.yaml") }
}

func docManyAct(t *testing.T, n *node, _ string) {
	if got := n.state(); got != "enabled active notify" {
		t.Errorf("the unit is %s", got)
	}
	docTaken(t, n)
}

func docTaken(t *testing.T, n *node) {
	t.Helper()
	n.logs(t, "names", docOrphan)
	n.goes(t, docOrphan)
}

// docNext replaces the release by the later one.
func docNext(t *testing.T, n *node) { n.sh(t, "rm orphan-reaper*.* && cp next/* .") }

func docUpgraded(fresh string) func(*testing.T, *node, string) {
	return func(t *testing.T, n *node, _ string) {
		eventually(t, patience, func() string {
			got := n.state()
			return missing(got == "enabled active notify", "the unit is %s", got)
		})
		if out := n.Run(t, "orphan-reaper", "config", "print"); !strings.Contains(out, "mode: enforce  ") {
			t.Errorf("the mode has changed: %s", out)
		}
		if !exists(n.Path(filepath.Join(filepath.Dir(config), fresh))) {
			t.Errorf("no %s", fresh)
		}
	}
}

func docRemoved(t *testing.T, n *node, _ string) { n.uninstalled(t) }

func docPurged(t *testing.T, n *node, _ string) {
	for _, path := range []string{"/etc/orphan-reaper", "/var/lib/orphan-reaper"} {
		if exists(n.Path(path)) {
			t.Errorf("%s still exists: %s", path, n.Run(t, "ls", "-laR", path))
		}
	}
}
