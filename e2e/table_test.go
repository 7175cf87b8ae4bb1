package e2e

import (
	"fmt"
	"os"
	"path/filepath"
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

// cniRow is what became of one kind of what CNI leaves.
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
and containerd is killed and started again. [What CNI left](cni.md) says what is judged.

| CNI left | kubelet | the runtime said | orphan-reaper | then |
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

What real kubelets said of each kind of leftover, what orphan-reaper did with it, and what the kubelet said then. Written by
` + "`E2E_WRITE_DOCS=1 make e2e`" + `, from standalone kubelets with Debian's containerd; ` + "`make e2e`" + ` fails where a run differs from it.
All leftovers lay beside each other, amid pods that lived and did not notice; behind every mount and symlink lay files, and all survived.

The kubelet's words are those after ` + "`orphaned pod \"UID\" found, but`" + `; ` + "`…`" + ` is the pod directory. At its default verbosity a kubelet
says only the first of them, of the first pod in sorted order, until that one is gone. Silence is what hides an orphan from those who read logs: the
metric kubelet_orphan_pod_cleaned_volumes_errors counts it. What is kept for a mount goes when the mount has gone.

| leftover | kubelet | it said | orphan-reaper | then it said |
| --- | --- | --- | --- | --- |
`

// page is the text for the versions, in their order.
func (tb *table) page() string {
	var b strings.Builder
	b.WriteString(about)
	for _, k := range kinds {
		for from := 0; from < len(versions); {
			// Versions that did the same share a row.
			to := from + 1
			for to < len(versions) && tb.rows[versions[to]][k.name] == tb.rows[versions[from]][k.name] {
				to++
			}
			r := tb.rows[versions[from]][k.name]
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", k.name, strings.Join(versions[from:to], ", "),
				cell(r.said, r.did), r.did, cell(r.after, ""))
			from = to
		}
	}
	b.WriteString(aboutCNI)
	for _, kind := range cniKinds {
		for from := 0; from < len(versions); {
			to := from + 1
			for to < len(versions) && tb.cni[versions[to]][kind] == tb.cni[versions[from]][kind] {
				to++
			}
			r := tb.cni[versions[from]][kind]
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", kind, strings.Join(versions[from:to], ", "), r.runtime, r.did, r.then)
			from = to
		}
	}
	return b.String()
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

// check compares the page with the one of the repository, or writes it.
func (tb *table) check(t *testing.T) {
	if t.Failed() || len(tb.rows) != len(versions) || len(tb.cni) != len(versions) {
		return // a part of the run is no table
	}
	page := tb.page()
	if os.Getenv("E2E_WRITE_DOCS") != "" {
		if err := os.WriteFile(compatibility, []byte(page), 0o644); err != nil {
			t.Error(err)
		}
		return
	}
	b, err := os.ReadFile(compatibility)
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range versions {
		if !strings.Contains(string(b), version) {
			t.Logf("docs/compatibility.md does not know kubelet %s: E2E_WRITE_DOCS=1 make e2e writes it", version)
			return
		}
	}
	if string(b) != page && len(versions) > 1 {
		t.Errorf("docs/compatibility.md differs from this run; E2E_WRITE_DOCS=1 make e2e writes it, read the diff:\n%s", page)
	}
}
