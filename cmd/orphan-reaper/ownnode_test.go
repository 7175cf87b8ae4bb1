package main

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// ownNode refuses to start the program as a test's command on anything but a node that the
// test has made. make test ran as root on a machine with networks of its own, and deleted
// the addresses that it had reserved: one test had not named one directory.
func ownNode(args []string) error {
	at := slices.Index(args, "--node-root")
	if at < 0 || at+1 == len(args) || !filepath.IsAbs(args[at+1]) || args[at+1] == "/" {
		return errors.New("a test starts the program without a node of its own: newNode gives one")
	}
	return nil
}

// TestOwnNode: a test that forgets its node does not start the program.
func TestOwnNode(t *testing.T) {
	for _, args := range [][]string{{"sweep"}, {"scan", "--root-dir", t.TempDir()}, {"sweep", "--node-root"}, {"sweep", "--node-root", "/"}} {
		if ownNode(args) == nil {
			t.Errorf("%q starts the program", args)
		}
	}
	if err := ownNode(append([]string{"sweep"}, newWholeNode(t).args...)); err != nil {
		t.Error(err)
	}
}

// TestOnlyNodesStartTheProgram: no test has another way to the real program than a node's
// command, neither as a process nor in this one.
func TestOnlyNodesStartTheProgram(t *testing.T) {
	allowed := map[string][]string{
		// ownNode holds for all of them.
		"orphan-reaper-whole": {"main_test.go", "whole_test.go", "contradiction_test.go", "wholekubelet_test.go", "wholepaste_test.go", "ownnode_test.go"},
		"benchProgramEnv":     {"bench_test.go", "benchgzip_test.go", "whole_test.go", "ownnode_test.go"},
		"runAs":               {"main_test.go", "parse_test.go", "fleet_test.go"}, // parse and fleet use no node
	}
	files, err := filepath.Glob("*_test.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	seen := map[string]bool{}
	for _, file := range files {
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		testkit.Must(t, err)
		note := func(word string) {
			seen[word] = true
			if !slices.Contains(allowed[word], file) {
				t.Errorf("%s: %s starts the program; newNode has a command for that", file, word)
			}
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				for word := range allowed {
					if strings.Contains(word, "-") && strings.Contains(n.Value, word) {
						note(word)
					}
				}
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.Ident); ok && (f.Name == "run" || f.Name == "runAs") {
					note(f.Name)
				}
			case *ast.Ident:
				if n.Name == "benchProgramEnv" {
					note(n.Name)
				}
			}
			return true
		})
	}
	for word := range allowed {
		if !seen[word] {
			t.Errorf("no test has %s: this one looks for nothing", word)
		}
	}
}
