package checks

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// figures are the constants of the code that pages tell, each with the words around it: {} is the constant.
var figures = []struct{ file, name, page, says string }{
	{"reaper/policy/record.go", "BatchSize", "docs/how-it-decides.md", "a batch (at most {} pods)"},
	{"reaper/policy/parked.go", "pressedRetention", "docs/how-it-decides.md", "or after {} where the disk nears"},
	{"reaper/policy/hold.go", "soonest", "docs/how-it-decides.md", "The look is repeated after {}"},
	{"reaper/policy/decide/next.go", "lookAgain", "docs/how-it-decides.md", "| an orphan is kept | every {} |"},
	{"reaper/policy/decide/next.go", "lookRarely", "docs/how-it-decides.md", "| otherwise | every {} |"},
	{"reaper/policy/decide/memory.go", "retryFirst", "docs/how-it-decides.md", "it is tried again after {}, doubled up to an hour"},
	{"reaper/policy/decide/memory.go", "retryLast", "docs/how-it-decides.md", "it is tried again after 5 minutes, doubled up to an {}"},
	{"reaper/policy/decide/memory.go", "retryStuck", "docs/how-it-decides.md", "it is tried again after {}, doubled up to an hour"},
	{"reaper/pending.go", "gather", "docs/how-it-decides.md", "lines are gathered over {}"},
	{"reaper/pending.go", "maxGap", "docs/how-it-decides.md", "at most one look in {}"},
	{"reaper/pending.go", "knownGap", "docs/how-it-decides.md", "| after {}, 20 s … 5 minutes |"},
	{"reaper/pending.go", "knownMax", "docs/how-it-decides.md", "| after 10 s, 20 s … {} |"},
	{"reaper/pending.go", "livingMax", "docs/how-it-decides.md", "| after 10 s, 20 s … {}, until one of them lives no more |"},
	{"reaper/probe/poddir/walk.go", "mostEntries", "docs/how-it-decides.md", "more than {} entries in `volumes`"},
	{"reaper/probe/poddir/walk.go", "mostSkeleton", "docs/how-it-decides.md", "or more than {} in all such directories"},
	{"reaper/probe/poddir/walk.go", "mostCounted", "docs/how-it-decides.md", "counts at most {} of them"},
	{"cmd/internal/wire/hear.go", "recalling", "docs/how-it-decides.md", "for at most {}."},
	{"reaper/cni/take.go", "batchSize", "docs/cni.md", "a batch (at most {})"},
	{"reaper/asked.go", "askedGap", "docs/http.md", "begins at least {} after the last one has ended"},
	{"reaper/asked.go", "askedCNIGap", "docs/http.md", "at most every {}"},
}

// constantOf is the value of a constant in a file of Go, of whole numbers and units of time: as people write it.
func constantOf(source, name string) (string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), "", source, 0)
	if err != nil {
		return "", err
	}
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, s := range g.Specs {
			v, ok := s.(*ast.ValueSpec)
			if !ok {
				continue
			}
			for i, id := range v.Names {
				if id.Name == name && i < len(v.Values) {
					return asWords(v.Values[i])
				}
			}
		}
	}
	return "", fmt.Errorf("there is no constant %s", name)
}

// asWords writes N, N * time.UNIT or time.UNIT in words.
func asWords(e ast.Expr) (string, error) {
	units := map[string]string{"Millisecond": "ms", "Second": "s", "Minute": "minute", "Hour": "hour"}
	switch e := e.(type) {
	case *ast.BasicLit:
		n, err := strconv.ParseInt(e.Value, 0, 64)
		return thousands(n), err
	case *ast.SelectorExpr:
		return units[e.Sel.Name], nil
	case *ast.BinaryExpr:
		n, ok := e.X.(*ast.BasicLit)
		unit, isTime := e.Y.(*ast.SelectorExpr)
		if ok && isTime && e.Op == token.MUL {
			words := n.Value + " " + units[unit.Sel.Name]
			if len(units[unit.Sel.Name]) > 2 && n.Value != "1" {
				words += "s"
			}
			return words, nil
		}
	}
	return "", fmt.Errorf("%T is no plain constant", e)
}

// thousands writes a number with commas.
func thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// tells reports whether a page has a sentence with a value; of a unit alone a 1 may stand before it.
func tells(page, says, value string) bool {
	flat := strings.Join(strings.Fields(page), " ")
	return strings.Contains(flat, strings.ReplaceAll(says, "{}", value)) || strings.Contains(flat, strings.ReplaceAll(says, "{}", "1 "+value))
}

// TestFigures: the times and numbers that pages tell of are the code's.
func TestFigures(t *testing.T) {
	for _, f := range figures {
		source, err := os.ReadFile(filepath.Join("../..", f.file))
		if err != nil {
			t.Fatal(err)
		}
		page, err := os.ReadFile(filepath.Join("../..", f.page))
		if err != nil {
			t.Fatal(err)
		}
		value, err := constantOf(string(source), f.name)
		if err != nil {
			t.Errorf("%s: %v", f.file, err)
		} else if !tells(string(page), f.says, value) {
			t.Errorf("%s does not say %q with %s, which is %s in %s", f.page, f.says, value, f.name, f.file)
		}
	}
}

// TestFiguresFinds: another value in the code or on the page is found.
func TestFiguresFinds(t *testing.T) {
	const source = "package p\n\nconst (\n\ta = 5 * time.Minute\n\tb = time.Hour\n\tc = 50_000\n\td = 1 * time.Second\n\te = a + b\n)\n"
	for name, want := range map[string]string{"a": "5 minutes", "b": "hour", "c": "50,000", "d": "1 s"} {
		if got, err := constantOf(source, name); got != want || err != nil {
			t.Errorf("%s is %q, %v", name, got, err)
		}
	}
	for _, name := range []string{"e", "f"} {
		if got, err := constantOf(source, name); err == nil {
			t.Errorf("%s is %q", name, got)
		}
	}
	if !tells("again\nafter 5 minutes,", "again after {},", "5 minutes") || tells("again after 6 minutes,", "again after {},", "5 minutes") {
		t.Error("another figure on the page is not found")
	}
}
