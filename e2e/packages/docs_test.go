package packages

import (
	"os"
	"strings"
	"testing"
)

const docOrphan = "2badf00d-0000-4000-8000-0000000000a1"

// installDoc is the page whose commands are run.
const installDoc = "../../docs/install.md"

// TestInstallDoc runs the commands of docs/install.md as they stand there.
func TestInstallDoc(t *testing.T) {
	t.Parallel()
	docs := docBlocks(t)
	for way, run := range map[string]func(*testing.T, *node){
		"Watch": func(t *testing.T, n *node) {
			docRun(t, n, docs["Check the files"])
			docRun(t, n, docs["DEB"][1:])
			n.pod(t, docOrphan)
			n.observed(t, docOrphan)
			docRun(t, n, docs["Let it act"])
		},
		"DEB":     func(t *testing.T, n *node) { docRun(t, n, docs["DEB"][:1]); n.pod(t, docOrphan) },
		"RPM":     func(t *testing.T, n *node) { docRun(t, n, docs["RPM"]); n.pod(t, docOrphan) },
		"Tarball": func(t *testing.T, n *node) { docRun(t, n, docs["Tarball"]); n.pod(t, docOrphan) },
	} {
		t.Run(way, func(t *testing.T) {
			everywhere(t, func(t *testing.T, release string) {
				layer := map[string]string{}
				switch way {
				case "RPM":
					layer[preset] = disabled
				case "Tarball":
					layer[dropIn] = strings.ReplaceAll(quick, "/usr/sbin/", "/opt/orphan-reaper/bin/")
				}
				n := newNode(t, release, layer)
				run(t, n)
				if got := n.state(); got != "enabled active" {
					t.Errorf("the unit is %s", got)
				}
				n.goes(t, docOrphan)
				n.stays(t, living)
			})
		})
	}
}

// docRun runs blocks of commands, each in a shell of its own.
func docRun(t *testing.T, n *node, blocks []string) {
	t.Helper()
	if len(blocks) == 0 {
		t.Fatal("the page has no such commands")
	}
	for _, block := range blocks {
		n.sh(t, asRPM+"exec 2>&1\napt() { command apt -y \"$@\"; }\n"+block)
	}
}

// docBlocks returns the commands below each heading.
func docBlocks(t *testing.T) map[string][]string {
	t.Helper()
	b, err := os.ReadFile(installDoc)
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
