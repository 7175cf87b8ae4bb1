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
	{"parsers", pure, "", "a parser gets a string or an io.Reader"},
	{"reaper/content", pure, "", "what judges gets values"},
	{"reaper/judge", pure, "parsers reaper/content", "what judges gets values"},
	{"reaper/span", loop, "", "every room may time its steps"},
	{"reaper", loop, "parsers reaper/judge reaper/span", "cmd gives the loop what reads and changes"},

	// These know no rule of ours.
	{"reaper/bounded", reads, "", "it bounds any call"},
	{"reaper/fdpath", reads, "reaper/bounded reaper/content reaper/judge", "it opens and decides nothing"},
	{"reaper/cri/fakecri", tests, "", ""},
	{"reaper/cri", reads, "", "what an answer means is for the package that asks"},
	{"reaper/tracing", reads, "reaper/span", "it sends the times of steps"},

	// The core: none of these knows another, nor CNI, nor the fleet.
	{"reaper/logs", reads, "parsers", "it follows logs and judges nothing"},
	{"reaper/node", reads, "parsers reaper/bounded reaper/content reaper/cri reaper/fdpath reaper/judge reaper/span", "reading never removes"},
	{"reaper/quarantine", changes, "parsers reaper/bounded reaper/content reaper/fdpath reaper/judge reaper/span", "it decides nothing and reads no node"},
	{"reaper/ledger", reads, "parsers reaper/judge", "it keeps records and decides nothing"},
	{"reaper/audit", reads, "reaper reaper/bounded reaper/content reaper/judge", "it records and decides nothing"},
	{"reaper/testkit", tests, "", ""},

	// CNI and the fleet import the core.
	{"reaper/cni", changes, "parsers reaper reaper/bounded reaper/cri reaper/fdpath reaper/judge reaper/quarantine", "the core knows no CNI"},
	{"reaper/fleet", reads, "reaper reaper/bounded reaper/judge reaper/span", "the fleet reports what it was given"},

	{"cmd/internal/config", reads, "reaper/fleet reaper/judge", "settings come from files and flags"},
	{"cmd/internal/show", shows, "parsers reaper reaper/audit reaper/bounded reaper/fleet reaper/judge", "a screen is made of values"},
	{"cmd/orphan-reaper", wires, "cmd/internal/... parsers reaper/... reaper", "it puts the rooms together"},

	{"packaging/...", tests, "", ""},
	{"testdata/...", tests, "", ""},
}

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
