package judge

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"
)

// TestReasonTexts: each constant of ReasonName has one text, and each text can be shown.
func TestReasonTexts(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "reason.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	names := map[ReasonName]int{}
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			if typ, ok := spec.Type.(*ast.Ident); ok && typ.Name == "ReasonName" {
				value, ok := spec.Values[0].(*ast.BasicLit)
				if !ok {
					t.Fatalf("%s is no literal", spec.Names[0].Name)
				}
				name, err := strconv.Unquote(value.Value)
				if err != nil {
					t.Fatal(err)
				}
				names[ReasonName(name)] = 0
			}
		}
		return true
	})
	if len(names) < 20 {
		t.Fatalf("only %d constants were found", len(names))
	}
	for _, text := range ReasonTexts {
		if _, ok := names[text.Name]; !ok {
			t.Errorf("the text of %q is of no reason", text.Name)
		}
		names[text.Name]++
		if text.Meaning == "" || len(text.Commands) > 0 && !strings.HasSuffix(text.Do, ":") && !strings.HasSuffix(text.Do, ".") {
			t.Errorf("%s: %+v", text.Name, text)
		}
		a := text.Name.Advice(dead().Node, uid)
		if (a == nil) != (text.Do == "") {
			t.Errorf("%s has the advice %v", text.Name, a)
		}
		if a == nil {
			continue
		}
		if len(a.Commands) != len(text.Commands) {
			t.Errorf("%s has the commands %q", text.Name, a.Commands)
		}
		for _, command := range a.Commands {
			if strings.ContainsAny(strings.ReplaceAll(command, "-exec rmdir {} +", ""), "{}") {
				t.Errorf("%s: a placeholder is left in %s", text.Name, command)
			}
		}
	}
	for name, n := range names {
		if n != 1 {
			t.Errorf("%q has %d texts", name, n)
		}
	}
}
