package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
)

// plant returns the file's text with the fault.
func (f *fault) plant(root string) ([]byte, error) {
	wrong := func(what string, args ...any) error {
		return fmt.Errorf("%s, %s: %s: %s", f.file, f.in, f.slip, fmt.Sprintf(what, args...))
	}
	b, err := os.ReadFile(filepath.Join(root, f.file))
	if err != nil {
		return nil, wrong("%v", err)
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, f.file, b, parser.SkipObjectResolution)
	if err != nil {
		return nil, wrong("%v", err)
	}
	node := find(file, f.in)
	if node == nil {
		return nil, wrong("the file has no such function, type, variable or constant")
	}
	from, to := set.Position(node.Pos()).Offset, set.Position(node.End()).Offset
	text := string(b)
	if n := strings.Count(text[from:to], f.old); n != 1 {
		return nil, wrong("it has the text %q %d times, and must have it once", f.old, n)
	}
	return []byte(text[:from] + strings.Replace(text[from:to], f.old, f.new, 1) + text[to:]), nil
}

// find returns the declaration of the name, nil if there is none.
func find(file *ast.File, name string) ast.Node {
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if functionName(d) == name {
				return d
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if declares(spec, name) {
					return spec
				}
			}
		}
	}
	return nil
}

// functionName returns Type.Name for a method.
func functionName(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return d.Name.Name
	}
	of := d.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	if of, ok := of.(*ast.Ident); ok {
		return of.Name + "." + d.Name.Name
	}
	return d.Name.Name
}

func declares(spec ast.Spec, name string) bool {
	switch s := spec.(type) {
	case *ast.TypeSpec:
		return s.Name.Name == name
	case *ast.ValueSpec:
		for _, of := range s.Names {
			if of.Name == name {
				return true
			}
		}
	}
	return false
}
