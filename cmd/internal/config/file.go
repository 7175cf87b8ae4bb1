package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
	"golang.org/x/sys/unix"
)

// What a wrong file costs, and prints.
const (
	maxFile   = 1 << 20
	maxErrors = 20
)

// read returns the text of the file. It refuses a file that other users can change: it decides what root removes.
func read(name string) ([]byte, error) {
	if name == os.DevNull {
		return nil, nil
	}
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0) // opening a FIFO would wait for a writer
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	owner := -1
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		owner = int(st.Uid)
	}
	switch {
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a file", name)
	case owner != 0 && owner != os.Geteuid(), info.Mode()&0o022 != 0:
		return nil, fmt.Errorf("%s can be changed by others (owner %d, mode %04o): let it belong to root, and run chmod go-w", name, owner, info.Mode().Perm())
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if len(data) > maxFile {
		return nil, fmt.Errorf("%s is larger than 1 MiB", name)
	}
	return data, err
}

// apply sets the values of the file. It returns all errors together, each with the file and the line.
func (c *Config) apply(name string, data []byte) error {
	root, err := parse(name, data)
	if root == nil || err != nil {
		return err
	}
	var errs []error
	fail := func(n *yaml.Node, format string, args ...any) {
		if len(errs) == maxErrors {
			return
		}
		errs = append(errs, fmt.Errorf("%s:%d: %w", name, n.Line, fmt.Errorf(format, args...)))
	}
	if root.Kind != yaml.MappingNode {
		fail(root, "this is no key with a value, such as hold: 5m")
	}
	lines := map[string]int{}
	for i := 0; i+1 < len(root.Content) && root.Kind == yaml.MappingNode; i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		at := slices.IndexFunc(Table, func(s Setting) bool { return s.Key == key.Value })
		if at < 0 {
			fail(key, "unknown key %q%s", key.Value, similar(key.Value))
			continue
		}
		if first := lines[key.Value]; first != 0 {
			fail(key, "%s: line %d has this key, too", key.Value, first)
			continue
		}
		lines[key.Value] = key.Line
		values, err := Table[at].texts(value)
		if err == nil {
			err = Table[at].set(&c.Settings, values...)
		}
		if err != nil {
			fail(key, "%s: %w", key.Value, err)
		}
		c.origins[key.Value] = fmt.Sprintf("%s:%d", name, key.Line)
	}
	return errors.Join(errs...)
}

// parse returns the root of the only document, nil if the file has only comments.
func parse(name string, data []byte) (*yaml.Node, error) {
	number := 0
	for line := range strings.Lines(string(data)) { // the parser gives no line for these
		number++
		if !utf8.ValidString(line) || strings.ContainsFunc(line, func(r rune) bool { return r < ' ' && !strings.ContainsRune("\t\r\n", r) }) {
			return nil, fmt.Errorf("%s:%d: a character that is not text", name, number)
		}
	}
	var doc, more yaml.Node
	loader, err := yaml.NewLoader(strings.NewReader(string(data)))
	if err == nil {
		err = loader.Load(&doc)
	}
	if errors.Is(err, io.EOF) {
		return nil, nil // no document
	}
	if err == nil {
		if err = loader.Load(&more); err == nil {
			return nil, fmt.Errorf("%s:%d: a second document: write all keys in one", name, more.Line)
		}
	}
	if wrong, ok := errors.AsType[*yaml.LoadError](err); ok {
		// The end is a line of its own, and a bad first character has line 0.
		return nil, fmt.Errorf("%s:%d: %s", name, max(1, min(wrong.Mark.Line, number)), wrong.Message)
	}
	if !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	root := doc.Content[0]
	if root.Tag == "!!null" {
		return nil, nil // only comments
	}
	return root, nil
}

// texts returns the values of a key as they are written: the same text as a flag has.
func (s *Setting) texts(n *yaml.Node) (values []string, err error) {
	nodes := []*yaml.Node{n}
	if s.List && n.Kind == yaml.SequenceNode {
		nodes = n.Content
	}
	for _, one := range nodes {
		if one.Kind != yaml.ScalarNode || one.Tag == "!!null" {
			return nil, fmt.Errorf("line %d has no %s: write one, or delete the key", one.Line, s.Type)
		}
		values = append(values, one.Value)
	}
	if len(values) == 0 {
		return nil, fmt.Errorf("the list is empty: write %s, or delete the key", s.Default)
	}
	return values, nil
}

// similar returns a hint for a key that was written with dashes, or in the singular or plural.
func similar(key string) string {
	plain := func(s string) string { return strings.TrimSuffix(strings.ReplaceAll(s, "-", "_"), "s") }
	for _, s := range Table {
		if plain(s.Key) == plain(key) {
			return ": write " + strconv.Quote(s.Key)
		}
	}
	return ""
}
