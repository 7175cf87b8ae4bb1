package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// compatibility is the page that the run writes, with E2E_WRITE_DOCS=1, or must agree with.
var compatibility = filepath.Join("..", "docs", "compatibility.md")

// table gathers the rows of all kubelets.
type table struct {
	mu   sync.Mutex
	rows map[string]map[string]row // by version, by kind
	cni  map[string]map[string]cniRow
}

// cniRow is the result for one kind of CNI residue.
type cniRow struct{ runtime, did, then string }

// The rows of the second table.
const (
	cniLost     = "cache files and both addresses of a sandbox that the runtime has lost; its network namespace is there"
	cniGone     = "the same; its namespace is gone"
	cniGiven    = "one of these addresses, from the archive, while another sandbox has it"
	cniNotReady = "an empty cache file of a sandbox that is not ready"
	cniReady    = "an empty cache file of a sandbox that runs"
)

var cniKinds = []string{cniLost, cniGone, cniGiven, cniNotReady, cniReady}

func (tb *table) addCNI(version, kind string, r cniRow) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	if tb.cni == nil {
		tb.cni = map[string]map[string]cniRow{}
	}
	if tb.cni[version] == nil {
		tb.cni[version] = map[string]cniRow{}
	}
	tb.cni[version][kind] = r
}

const aboutCNI = `
## What CNI left

With Debian's bridge, host-local (IPv4 and IPv6) and loopback plugins. A sandbox is lost as in life: its containers are removed behind CRI's back,
and containerd is killed and started again. [What CNI left](cni.md) shows what is judged.

| CNI left | kubelet | the runtime | orphan-reaper | then |
| --- | --- | --- | --- | --- |
`

func (tb *table) add(version string, rows map[string]row) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	if tb.rows == nil {
		tb.rows = map[string]map[string]row{}
	}
	tb.rows[version] = rows
}

const about = `# Leftovers by kubelet version

After two minutes you know what orphan-reaper does with the leftover on your node: find the kubelet's message below. Each row was seen beside a real
kubelet: its message, what orphan-reaper did, and the message after that. ` + "`E2E_WRITE_DOCS=1 make e2e`" + ` writes this page; ` + "`make e2e`" + ` fails where a run differs.

All leftovers were on one node, among living pods, which lost nothing. Files behind every mount and symlink survived, with one exception: the kubelet itself,
at least of 1.24 to 1.28, removes through a bind of the same file system in ` + "`containers/`" + `, in its first housekeeping run. These kubelets report bind-mounted
volumes, too; 1.30 and later do not.

A message is what follows ` + "`orphaned pod \"UID\" found, but`" + `; ` + "`…`" + ` is the pod directory. At its default verbosity a kubelet logs only the first one, of the first
pod in sorted order, until that pod is gone. A pod without a message is in the metric kubelet_orphan_pod_cleaned_volumes_errors only. A pod that is kept for a
mount is removed when the mount is gone.

| leftover | kubelet | message | orphan-reaper | message after that |
| --- | --- | --- | --- | --- |
`

// line is a row of either table for one kubelet: what is in its columns after the version.
type line struct{ kind, version, cells string }

// lines returns the results of this run.
func (tb *table) lines() []line {
	var all []line
	for _, version := range versions {
		for _, k := range kinds {
			r := tb.rows[version][k.name]
			after := cell(r.after, "")
			if r.after != "" && r.after == r.said {
				after = "the same"
			}
			cells := fmt.Sprintf("%s | %s | %s", cell(r.said, r.did), r.did, after)
			all = append(all, line{k.name, version, cells})
		}
		for _, kind := range cniKinds {
			r := tb.cni[version][kind]
			all = append(all, line{kind, version, fmt.Sprintf("%s | %s | %s", r.runtime, r.did, r.then)})
		}
	}
	return all
}

// parsePage reads the lines of a page, kubelet by kubelet.
func parsePage(page string) []line {
	var all []line
	for text := range strings.Lines(page) {
		cells := strings.SplitN(strings.Trim(text, "| \n"), " | ", 3)
		if len(cells) < 3 || !strings.HasPrefix(cells[1], "1.") {
			continue
		}
		for version := range strings.SplitSeq(cells[1], ", ") {
			all = append(all, line{cells[0], version, cells[2]})
		}
	}
	return all
}

// page writes the lines, kind by kind; kubelets that follow each other and did the same share a row.
func page(lines []line) string {
	var b strings.Builder
	b.WriteString(about)
	for _, k := range kinds {
		writeKind(&b, lines, k.name)
	}
	b.WriteString(aboutCNI)
	for _, kind := range cniKinds {
		writeKind(&b, lines, kind)
	}
	return b.String()
}

func writeKind(b *strings.Builder, lines []line, kind string) {
	lines = slices.DeleteFunc(slices.Clone(lines), func(l line) bool { return l.kind != kind })
	slices.SortFunc(lines, func(x, y line) int { return strings.Compare(x.version, y.version) })
	for len(lines) > 0 {
		same := slices.IndexFunc(lines, func(l line) bool { return l.cells != lines[0].cells })
		if same < 0 {
			same = len(lines)
		}
		var of []string
		for _, l := range lines[:same] {
			of = append(of, l.version)
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", kind, strings.Join(of, ", "), lines[0].cells)
		lines = lines[same:]
	}
}

func cell(said string, did deed) string {
	switch {
	case said != "":
		return "`" + strings.ReplaceAll(said, "; ", "`; `") + "`"
	case did == nothing:
		return "nothing, and removed it"
	}
	return "nothing"
}

// check compares the results of this run with the page of the repository, or writes them there beside those of
// other kubelets.
func (tb *table) check(t *testing.T) {
	if t.Failed() || len(tb.rows) != len(versions) || len(tb.cni) != len(versions) {
		return // a part of the run is no table
	}
	b, err := os.ReadFile(compatibility)
	if err != nil {
		t.Fatal(err)
	}
	was := parsePage(string(b))
	said := tb.lines()
	if os.Getenv("E2E_WRITE_DOCS") != "" {
		others := slices.DeleteFunc(was, func(l line) bool { return slices.Contains(versions, l.version) })
		if err := os.WriteFile(compatibility, []byte(page(append(others, said...))), 0o644); err != nil {
			t.Error(err)
		}
		return
	}
	for _, l := range said {
		switch i := slices.IndexFunc(was, func(o line) bool { return o.kind == l.kind && o.version == l.version }); {
		case i < 0:
			t.Logf("docs/compatibility.md has no row of %q for kubelet %s: E2E_WRITE_DOCS=1 make e2e writes it", l.kind, l.version)
		case was[i].cells != l.cells:
			t.Errorf("docs/compatibility.md has for %q beside kubelet %s:\n%s\nthis run has:\n%s\nE2E_WRITE_DOCS=1 make e2e writes it, read the diff",
				l.kind, l.version, was[i].cells, l.cells)
		}
	}
}

// TestPage checks that the page of the repository is one that page writes: a run changes only its own part.
func TestPage(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile(compatibility)
	if err != nil {
		t.Fatal(err)
	}
	if got := page(parsePage(string(b))); got != string(b) {
		t.Errorf("docs/compatibility.md differs from what its own rows give:\n%s", got)
	}
}
