package checks

import (
	"errors"
	"go/build"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

const module = "github.com/orphan-reaper/orphan-reaper"

// A layer is a package; if the name ends in /..., also all below it.
type layer struct {
	name string
	kind kind
	ours string // what it may import of this module
	why  string // why nothing else
}

// A package imports its own kind and the kinds before it, as far as its row allows.
type kind int

const (
	pure    kind = iota // parses or judges: no system call, no clock
	loop                // order and time: no system call
	reads               // opens files and sockets, changes nothing on the node
	shows               // makes text of values, opens nothing
	changes             // moves, removes or unmounts
	wires               // puts the others together
	tests               // no part of the program: imports anything
)

// outside lists what a kind may import besides our own packages; a kind without a list imports anything. The bans of
// calls in .golangci.yml do the rest, such as time.Now.
var outside = map[kind][]string{
	pure:  strings.Fields(pureImports),
	loop:  strings.Fields(pureImports + "context log/slog math/rand/v2 sync sync/atomic github.com/prometheus/client_golang/prometheus"),
	shows: strings.Fields(pureImports + "os path/filepath sync syscall text/tabwriter unicode/utf16 golang.org/x/term"),
}

const pureImports = `bufio bytes cmp crypto/sha256 encoding/hex encoding/json errors fmt io iter maps net/netip path regexp slices sort strconv
	strings time unicode/utf8 `

// layers is the import graph. The first row that matches a package counts.
var layers = []layer{
	{"parsers/...", pure, "parsers/...", "a parser gets a string or an io.Reader"},
	{"reaper/clean", pure, "", "every package may import it"},
	{"reaper/progress", loop, "", "every package may import it"},
	{"reaper/policy/...", pure, "parsers reaper/clean reaper/policy/...", "what judges gets values"},
	{"reaper/content", pure, "", "what judges gets values"},
	{"reaper/judge", pure, "parsers/... reaper/content", "what judges gets values"},
	{"reaper/loop", loop, "parsers/... reaper/judge reaper/span", "cmd gives the loop what reads and changes"},
	{"reaper", loop, "parsers reaper/policy/... reaper/progress", "cmd gives the loop what reads and changes"},

	// These know no rule of ours.
	{"reaper/span", loop, "", "every package may import it"},
	{"reaper/bounded", reads, "", "it bounds any call"},
	{"reaper/beneath", reads, "reaper/clean reaper/policy/...", "it opens and decides nothing"},
	{"reaper/fdpath", reads, "reaper/bounded reaper/content reaper/judge", "it opens and decides nothing"},
	{"reaper/cri/fakecri", tests, "", ""},
	{"reaper/cri", reads, "reaper/beneath", "what an answer means is for the package that asks"},
	{"reaper/kube", reads, "reaper/beneath reaper/clean reaper/policy/...", "what an answer means is for the package that asks"},

	// The core: what follows, reads, changes, keeps and records knows none of the others, nor CNI, nor the fleet.
	{"reaper/logs", reads, "parsers/report", "it follows logs and judges nothing"},
	{"reaper/source", reads, "parsers reaper/clean", "it follows logs and judges nothing"},
	{"reaper/node", reads, "parsers reaper/bounded reaper/content reaper/cri reaper/fdpath reaper/judge reaper/span", "reading never removes"},
	{"reaper/probe/procfs", reads, base, "it reads /proc for the sensors"},
	{"reaper/probe", reads, base + "reaper/cri reaper/kube reaper/probe/...", "reading never removes"},
	{"reaper/probe/...", reads, base + "reaper/cri reaper/kube reaper/probe/procfs", "a sensor knows no other, and reading never removes"},
	{"reaper/internal/change", changes, "reaper/beneath", "it makes the system calls that change the disk, and decides nothing"},
	{"reaper/removal/confine", reads, base, "it takes rights away and removes nothing"},
	{"reaper/removal", changes, base + "reaper/internal/change reaper/progress reaper/removal/confine", "removal decides nothing and reads no node"},
	{"reaper/quarantine", changes, "parsers reaper/bounded reaper/content reaper/fdpath reaper/judge reaper/span", "it decides nothing and reads no node"},
	{"reaper/unmount", changes, base + "reaper/internal/change", "unmount decides nothing and reads no node"},
	{"reaper/ledger", reads, "parsers reaper/judge", "it keeps records and decides nothing"},
	{"reaper/state", reads, "parsers reaper/clean reaper/policy/...", "it keeps records and decides nothing"},
	{"reaper/audit", reads, "parsers reaper/bounded reaper/clean reaper/policy/...", "it records and decides nothing"},
	{"reaper/sim", tests, "", ""},
	{"reaper/testkit", tests, "", ""},

	// CNI and the fleet import the core.
	{"reaper/cni", loop, "parsers reaper reaper/policy/... reaper/progress", "what judges gets values"},
	{"reaper/cni/look", reads, base + "reaper/cni reaper/cri reaper/probe/...", "reading never removes"},
	{"reaper/cni/remove", changes, base + "reaper/cni reaper/internal/change reaper/removal/confine reaper/state", "removal decides nothing and reads no node"},
	{"reaper/fleet/report", pure, "reaper/clean reaper/policy/...", "a report is made of values"},
	{"reaper/fleet/...", reads, "reaper/clean reaper/fleet/report reaper/kube reaper/policy/...", "the fleet reports what it was given"},

	// The new edges, which replace those of the same names.
	{"reaper/next/audit", reads, "parsers/... reaper/bounded reaper/content reaper/judge reaper/loop", "it records and decides nothing"},
	{"reaper/next/fleet", reads, "reaper/bounded reaper/judge reaper/loop reaper/span", "it reports what it was given"},
	{"reaper/next/tracing", reads, "reaper/span", "it sends spans, and knows nothing of what they are about"},
	{"reaper/next/cni", changes, "parsers reaper/bounded reaper/cri reaper/fdpath reaper/judge reaper/loop reaper/quarantine", "it reads its own files and asks the runtimes; quarantine has the call that removes"},
	{"cmd/next/internal/show", shows, "parsers/... reaper/bounded reaper/content reaper/judge reaper/loop reaper/next/...", "a screen is made of values"},
	{"cmd/next/...", wires, "cmd/next/... parsers/... reaper/...", "cmd opens what reads and changes"},

	{"cmd/internal/exit", pure, "", "every command may import it"},
	{"cmd/internal/human", pure, "", "every command may import it"},
	{"cmd/internal/config", reads, "cmd/internal/exit cmd/internal/human parsers reaper/clean", "settings come from files and flags"},
	{"cmd/internal/ui", shows, "cmd/internal/human " + values + "reaper/audit", "a screen is made of values"},
	{"cmd/internal/app", wires, "cmd/internal/config cmd/internal/exit parsers reaper/...", "it returns what a command shows"},
	{"cmd/orphan-reaper", wires, "cmd/internal/... " + values, "app opens what reads and changes, for all commands"},

	{"packaging/...", tests, "", ""},
	{"testdata/...", tests, "", ""},
}

// What several rows have in common.
const (
	base   = "parsers reaper/beneath reaper/bounded reaper/clean reaper/policy/... "
	values = "parsers reaper reaper/clean reaper/cni reaper/fleet/report reaper/policy/... reaper/progress "
)

// TestLayers: each package of this module has a row, and imports what the row allows.
func TestLayers(t *testing.T) {
	imports := packages(t, "../..")
	used := make([]bool, len(layers))
	for pkg, paths := range imports {
		at := rowOf(pkg)
		if at < 0 {
			t.Errorf("%s has no row: add one to layers", pkg)
			continue
		}
		used[at] = true
		for _, path := range paths {
			if fault := layers[at].refuses(path); fault != "" {
				t.Errorf("%s imports %s: %s", pkg, path, fault)
			}
		}
	}
	for i, l := range layers {
		if !used[i] {
			t.Errorf("no package has the row %s: remove it", l.name)
		}
		for name := range strings.FieldsSeq(l.ours) {
			if !slices.ContainsFunc(slices.Collect(maps.Keys(imports)), func(pkg string) bool { return matches(name, pkg) }) {
				t.Errorf("no package is %s: remove it from the row %s", name, l.name)
			}
		}
	}
}

// rowOf returns the index of the package's row in layers, or -1.
func rowOf(pkg string) int {
	return slices.IndexFunc(layers, func(l layer) bool { return matches(l.name, pkg) })
}

// refuses returns why a package of this layer must not import the path; "" if it may.
func (l layer) refuses(path string) string {
	if l.kind == tests {
		return ""
	}
	pkg, ours := strings.CutPrefix(path, module+"/")
	if !ours {
		if allowed, limited := outside[l.kind]; limited && !slices.Contains(allowed, path) {
			return l.why
		}
		return ""
	}
	if !slices.ContainsFunc(strings.Fields(l.ours), func(name string) bool { return matches(name, pkg) }) {
		return l.why
	}
	if at := rowOf(pkg); at >= 0 && layers[at].kind > l.kind {
		return "its kind is one that the importing package must not import"
	}
	return ""
}

func matches(name, pkg string) bool {
	dir, below := strings.CutSuffix(name, "/...")
	return pkg == dir || below && strings.HasPrefix(pkg, dir+"/")
}

// packages returns what each package below the root imports, its tests aside. It reads the files itself: go test
// repeats a cached result if only go list, another process, would see what was changed.
func packages(t *testing.T, root string) map[string][]string {
	t.Helper()
	files := build.Default
	files.UseAllFiles = true // those for other machines and build tags, too
	found := map[string][]string{}
	testkit.Must(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if path != root {
			_, err := os.Stat(filepath.Join(path, "go.mod")) // a module of its own
			if err == nil || strings.HasPrefix(d.Name(), ".") {
				return fs.SkipDir
			}
		}
		pkg, err := files.ImportDir(path, 0)
		if _, none := errors.AsType[*build.NoGoError](err); none {
			return nil
		}
		name, _ := filepath.Rel(root, path)
		found[filepath.ToSlash(name)] = pkg.Imports
		return err
	}))
	return found
}
