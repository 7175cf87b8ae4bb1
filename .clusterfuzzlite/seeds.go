// Command seeds writes the inputs of go test's fuzzing in DIR into a zip as OSS-Fuzz expects: one file an input, encoded as
// the targets that compile_native_go_fuzzer_v2 builds decode it. There a target's numbers come first, big-endian; then
// a weight for each string, by which they share the rest; then the strings.
//
//	go run .clusterfuzzlite/seeds.go ZIP DIR
package main

import (
	"archive/zip"
	"encoding/binary"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

func main() {
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "seeds:", err)
		os.Exit(1)
	}
}

func run(out, dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("no inputs in %s", dir)
	}
	f, err := os.Create(out)
	if err != nil {
		return err
	}
	z := zip.NewWriter(f)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		seed, err := encode(string(text))
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		w, err := z.Create(filepath.Base(file))
		if err != nil {
			return err
		}
		if _, err := w.Write(seed); err != nil {
			return err
		}
	}
	if err := z.Close(); err != nil {
		return err
	}
	return f.Close()
}

func encode(text string) ([]byte, error) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if lines[0] != "go test fuzz v1" {
		return nil, fmt.Errorf("not an input of go test: %q", lines[0])
	}
	var numbers []byte
	var blobs []string
	for _, line := range lines[1:] {
		e, err := parser.ParseExpr(line)
		if err != nil {
			return nil, err
		}
		call, ok := e.(*ast.CallExpr)
		if !ok || len(call.Args) != 1 {
			return nil, fmt.Errorf("no value: %s", line)
		}
		literal, ok := call.Args[0].(*ast.BasicLit)
		switch name, _, _ := strings.Cut(line, "("); {
		case ok && literal.Kind == token.STRING:
			blob, err := strconv.Unquote(literal.Value)
			if err != nil {
				return nil, err
			}
			blobs = append(blobs, blob)
		case ok && name == "int64":
			n, err := strconv.ParseInt(literal.Value, 10, 64)
			if err != nil {
				return nil, err
			}
			numbers = binary.BigEndian.AppendUint64(numbers, uint64(n))
		case ok && name == "byte":
			c, _, _, err := strconv.UnquoteChar(strings.Trim(literal.Value, "'"), '\'')
			if err != nil {
				return nil, err
			}
			numbers = append(numbers, byte(c))
		default:
			return nil, fmt.Errorf("no target here has such a value: %s", line)
		}
	}
	weights, err := share(blobs)
	return append(append(numbers, weights...), strings.Join(blobs, "")...), err
}

// share returns the weights that cut the rest where the first of one or two strings ends.
func share(blobs []string) ([]byte, error) {
	if len(blobs) < 2 {
		return make([]byte, len(blobs)), nil
	}
	first, all := len(blobs[0]), len(blobs[0])+len(blobs[1])
	for a := range 256 {
		for b := range 256 {
			if a+b > 0 && all*a/(a+b) == first && len(blobs) == 2 {
				return []byte{byte(a), byte(b)}, nil
			}
		}
	}
	return nil, fmt.Errorf("no weights cut %d bytes after %d", all, first)
}
