// Package checks holds what the tree must be: its import graph as CONTRIBUTING.md draws it,
// and the size of a package.
package checks

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

const module = "github.com/orphan-reaper/orphan-reaper/"

// room is a package of this module.
type room struct {
	name, dir string
	files     []string
	sees      []string // rooms that it imports
	floor     int      // one above the highest that it sees
}

// rooms lists the packages of this module, tests left out.
func rooms(t *testing.T) map[string]*room {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-f", `{{.ImportPath}}|{{.Dir}}|{{join .GoFiles ","}}|{{join .Imports ","}}`, "./...")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*room{}
	for line := range strings.Lines(string(out)) {
		f := strings.Split(strings.TrimSpace(line), "|")
		if f[2] == "" {
			continue
		}
		r := &room{name: strings.TrimPrefix(f[0], module), dir: f[1], files: strings.Split(f[2], ",")}
		for path := range strings.SplitSeq(f[3], ",") {
			if name, ours := strings.CutPrefix(path, module); ours {
				r.sees = append(r.sees, name)
			}
		}
		all[r.name] = r
	}
	for range all { // as many floors as rooms, at the most
		for _, r := range all {
			for _, name := range r.sees {
				r.floor = max(r.floor, all[name].floor+1)
			}
		}
	}
	return all
}

// TestImportGraph compares the picture in CONTRIBUTING.md with the code.
func TestImportGraph(t *testing.T) {
	list := slices.SortedFunc(maps.Values(rooms(t)), func(a, b *room) int {
		return cmp.Or(b.floor-a.floor, strings.Compare(a.name, b.name))
	})
	const width = 115
	var b strings.Builder
	for i, r := range list {
		floor := ""
		if i == 0 || list[i-1].floor != r.floor {
			floor = fmt.Sprint(r.floor)
		}
		line := fmt.Sprintf("%2s  %-22s", floor, r.name)
		for _, name := range r.sees {
			if len(line)+len(name) > width {
				fmt.Fprintln(&b, strings.TrimRight(line, " "))
				line = strings.Repeat(" ", 26)
			}
			line += " " + name
		}
		fmt.Fprintln(&b, strings.TrimRight(line, " "))
	}
	const path, begin, end = "../../CONTRIBUTING.md", "<!-- rooms: begin -->\n```\n", "```\n<!-- rooms: end -->\n"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, also := strings.Cut(rest, end)
	if !ok || !also {
		t.Fatalf("%s has no picture of the rooms", path)
	}
	testkit.Golden(t, path, before+begin+b.String()+end+after)
}
