package checks

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// dialect matches words that messages must not use: readers would have to translate them.
var dialect = regexp.MustCompile(`(?i)\b(says?|said|tells?|told|heard|whoever|nobody|somebody|a person|lets? (it|them|the pod) go|turned out to live)\b`)

// TestPlainMessages: no message, screen or help text of the program contains such a word.
func TestPlainMessages(t *testing.T) {
	texts := 0
	check := func(path string) {
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		testkit.Must(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING || !strings.Contains(lit.Value, " ") {
				return true
			}
			texts++
			if word := dialect.FindString(lit.Value); word != "" {
				t.Errorf("%s: %q in %s", set.Position(lit.Pos()), word, lit.Value)
			}
			return true
		})
	}
	for _, dir := range []string{"../../cmd", "../../reaper", "../../parsers"} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") && !strings.Contains(path, "/testkit/") && !d.IsDir() {
				check(path)
			}
			return err
		})
		testkit.Must(t, err)
	}
	if texts < 1000 || !dialect.MatchString("a fact that nobody read") {
		t.Errorf("only %d texts were read", texts)
	}
}
