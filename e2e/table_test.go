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

// compatibility is the page that the run writes with E2E_WRITE_DOCS=1, and otherwise must agree with.
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
	cniLost     = "cache files and addresses of a lost sandbox, whose network namespace is there"
	cniGone     = "the same; its namespace is gone"
	cniGiven    = "one of the addresses, put back while another sandbox has it"
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

With Debian's bridge, host-local (IPv4 and IPv6) and loopback plugins. A sandbox is lost as in life: its containers are
removed behind CRI's back, and containerd is killed and started again. [What CNI left](cni.md) shows what is judged.

| CNI left | kubelets | the runtime | orphan-reaper | then |
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

After two minutes you know what orphan-reaper does with the leftover on your node: search this page for the kubelet's
message. Each item was seen beside a real kubelet. It has what orphan-reaper did, and the kubelet's messages before
that: the text after ` + "`orphaned pod \"UID\" found, but`" + `, where ` + "`…`" + ` is the pod directory. Afterwards there were none, unless
the item states that they stay. ` + "`E2E_WRITE_DOCS=1 make e2e`" + ` writes this page, and ` + "`make e2e`" + ` fails where a run differs.

All leftovers were on one node, among living pods, which lost nothing. Files behind every mount and symlink survived,
with one exception: a kubelet of 1.24 to 1.28 itself removes files through a bind of the same file system in
` + "`containers/`" + `. A pod that is kept for a mount is removed when the mount is gone.

At its default verbosity a kubelet logs only the first message, of the first pod in sorted order, until that pod is
gone. A pod without a message is in the metric kubelet_orphan_pod_cleaned_volumes_errors only.

`

// The kubelets of the page, in its own words.
const aboutVersions = "The kubelets are "

// line is the result of one kind beside one kubelet: an item of the list, or a row of the table, without the
// versions.
type line struct{ kind, version, text string }

// lines returns the results of this run.
func (tb *table) lines() []line {
	var all []line
	for _, version := range versions {
		for _, k := range kinds {
			all = append(all, line{k.name, version, item(tb.rows[version][k.name])})
		}
		for _, kind := range cniKinds {
			r := tb.cni[version][kind]
			all = append(all, line{kind, version, fmt.Sprintf("%s | %s | %s", r.runtime, r.did, r.then)})
		}
	}
	return all
}

// item returns the deed, and a line for each message before it.
func item(r row) string {
	text := string(r.did)
	switch r.after {
	case "":
	case r.before:
		text += "; the messages stay"
	default:
		text += "; then `" + r.after + "`"
	}
	if r.before != "" {
		text += "\n  - `" + strings.ReplaceAll(r.before, "; ", "`\n  - `") + "`"
	}
	return text
}

// parsePage reads the lines of a page, kubelet by kubelet.
func parsePage(page string) []line {
	_, list, _ := strings.Cut(page, aboutVersions)
	list, _, _ = strings.Cut(list, ".\n")
	known := strings.Split(list, ", ")
	var all []line
	add := func(kind, list, text string) {
		for _, version := range expand(list, known) {
			all = append(all, line{kind, version, text})
		}
	}
	kind, list, text := "", "", ""
	for l := range strings.Lines(page + "\n") {
		l = strings.TrimSuffix(l, "\n")
		if l, more := strings.CutPrefix(l, "  - "); more {
			text += "\n  - " + l
			continue
		}
		if list != "" {
			add(kind, list, text)
			list = ""
		}
		switch cells := strings.SplitN(strings.Trim(l, "| "), " | ", 3); {
		case strings.HasPrefix(l, "**"):
			kind = strings.Trim(l, "*")
		case strings.HasPrefix(l, "- "):
			list, text, _ = strings.Cut(strings.TrimPrefix(l, "- "), ": ")
		case len(cells) == 3 && slices.Contains(cniKinds, cells[0]):
			add(cells[0], cells[1], cells[2])
		}
	}
	return all
}

// expand returns the versions of a list in shorten's format.
func expand(list string, known []string) []string {
	if list == "all" {
		return known
	}
	if from, to, ok := strings.Cut(list, " to "); ok {
		return known[slices.Index(known, from) : slices.Index(known, to)+1]
	}
	return strings.Split(list, ", ")
}

// shorten writes versions as "all", as a range of the known ones, or as a list.
func shorten(of, known []string) string {
	first := slices.Index(known, of[0])
	switch {
	case slices.Equal(of, known):
		return "all"
	case len(of) > 1 && len(known) >= first+len(of) && slices.Equal(of, known[first:first+len(of)]):
		return of[0] + " to " + of[len(of)-1]
	}
	return strings.Join(of, ", ")
}

// page writes the lines by kind. Successive kubelets with the same result share an item.
func page(lines []line) string {
	var known []string
	for _, l := range lines {
		known = append(known, l.version)
	}
	slices.Sort(known)
	known = slices.Compact(known)
	var b strings.Builder
	b.WriteString(about + aboutVersions + strings.Join(known, ", ") + ".\n")
	for _, k := range kinds {
		fmt.Fprintf(&b, "\n**%s**\n\n", k.name)
		writeKind(&b, lines, known, k.name, "- %[2]s: %[3]s\n")
	}
	b.WriteString(aboutCNI)
	for _, kind := range cniKinds {
		writeKind(&b, lines, known, kind, "| %s | %s | %s |\n")
	}
	return b.String()
}

func writeKind(b *strings.Builder, lines []line, known []string, kind, format string) {
	lines = slices.DeleteFunc(slices.Clone(lines), func(l line) bool { return l.kind != kind })
	slices.SortFunc(lines, func(x, y line) int { return strings.Compare(x.version, y.version) })
	for len(lines) > 0 {
		same := slices.IndexFunc(lines, func(l line) bool { return l.text != lines[0].text })
		if same < 0 {
			same = len(lines)
		}
		var of []string
		for _, l := range lines[:same] {
			of = append(of, l.version)
		}
		fmt.Fprintf(b, format, kind, shorten(of, known), lines[0].text)
		lines = lines[same:]
	}
}

// check compares the results of this run with the page of the repository, or writes them there beside those of other
// kubelets.
func (tb *table) check(t *testing.T) {
	if t.Failed() || len(tb.rows) != len(versions) || len(tb.cni) != len(versions) {
		return // a partial run has no table
	}
	b, err := os.ReadFile(compatibility)
	if err != nil {
		t.Fatal(err)
	}
	was := parsePage(string(b))
	present := tb.lines()
	if os.Getenv("E2E_WRITE_DOCS") != "" {
		others := slices.DeleteFunc(was, func(l line) bool { return slices.Contains(versions, l.version) })
		if err := os.WriteFile(compatibility, []byte(page(append(others, present...))), 0o644); err != nil {
			t.Error(err)
		}
		return
	}
	for _, l := range present {
		switch i := slices.IndexFunc(was, func(o line) bool { return o.kind == l.kind && o.version == l.version }); {
		case i < 0:
			t.Logf("docs/compatibility.md has no %q for kubelet %s: E2E_WRITE_DOCS=1 make e2e writes it", l.kind, l.version)
		case was[i].text != l.text:
			t.Errorf("docs/compatibility.md has for %q beside kubelet %s:\n%s\nthis run has:\n%s\nE2E_WRITE_DOCS=1 make e2e writes it, read the diff",
				l.kind, l.version, was[i].text, l.text)
		}
	}
}
