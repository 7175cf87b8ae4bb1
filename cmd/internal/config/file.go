package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
)

// maxConfigFile bounds the read.
const maxConfigFile = 1 << 20

// retiredSection and retiredFlags configured traces, which earlier versions sent. They have no effect; command
// lines and files that still have them work.
const (
	retiredSection = "tracing"
	retiredNote    = "no traces are sent any more; remove it"
)

var retiredFlags = []string{"tracing-endpoint", "tracing-ca-file"}

// readConfigFile reads a regular file, or /dev/null. Anything else is refused: a FIFO would be waited for.
func readConfigFile(name string) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // read only
	if err := checkConfigOwner(f); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxConfigFile+1))
	if err == nil && len(data) > maxConfigFile {
		err = fmt.Errorf("%s is larger than %s", name, human.Size(maxConfigFile))
	}
	return data, err
}

// applyFile applies the file. An unknown key or value is an error: a typing error in a limit must not remove
// the limit. It returns all errors together, each with its file and line.
func (c *Config) applyFile(name string, data []byte) error {
	r := fileReader{c: c, name: name, lines: map[string]int{}}
	root, err := parseYAML(data)
	switch {
	case err != nil:
		r.errs = []error{fmt.Errorf("%s: %s", name, strings.TrimPrefix(err.Error(), "yaml: "))}
	case root != nil:
		r.mapping("", root)
	}
	if len(r.errs) == 0 {
		return nil
	}
	return &exit.Error{Code: exit.UsageCode, Err: errors.Join(r.errs...), Hint: "orphan-reaper config print --config /dev/null lists every key"}
}

// parseYAML returns the first node of the only document, nil for a file that has no keys.
func parseYAML(data []byte) (*yaml.Node, error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil // an empty file has no document
	} else if err != nil {
		return nil, err
	}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, errors.New("the file has a second document; write all keys in one")
	}
	if root := doc.Content[0]; root.Kind != yaml.ScalarNode || root.Tag != "!!null" {
		return root, nil
	}
	return nil, nil // the file has only comments
}

type fileReader struct {
	c     *Config
	name  string
	lines map[string]int // the line of each key
	errs  []error
}

func (r *fileReader) fail(n *yaml.Node, format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf("%s:%d: %w", r.name, n.Line, fmt.Errorf(format, args...)))
}

// mapping sets the keys of the file, or of one section; section ends in a dot.
func (r *fileReader) mapping(section string, n *yaml.Node) {
	if n = target(n); n.Kind != yaml.MappingNode {
		r.fail(n, "%swant keys with values, such as \"hold: 5m\"", strings.Replace(section, ".", ": ", 1))
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		full := section + key.Value
		s := settingByKey(full)
		isSection := slices.ContainsFunc(Settings, func(s Setting) bool { return strings.HasPrefix(s.Key, full+".") })
		first := r.lines[full]
		r.lines[full] = key.Line
		switch {
		case full == retiredSection:
			r.c.unused = append(r.c.unused, fmt.Sprintf("%s:%d: %s: %s", r.name, key.Line, full, retiredNote))
		case !isSection && (s == nil || strings.Contains(key.Value, ".")): // a dotted key is no second spelling
			r.fail(key, "unknown key %s", strconv.Quote(full))
		case first != 0:
			r.fail(key, "key %s is here a second time, after line %d", strconv.Quote(full), first)
		case isSection:
			r.mapping(full+".", value)
		default:
			values, err := s.fromYAML(target(value))
			if err == nil {
				err = s.set(r.c, values)
			}
			if err != nil {
				r.fail(value, "%s: %w", full, err)
				continue
			}
			r.c.sources[full] = valueOrigin{fmt.Sprintf("%s:%d", r.name, key.Line), true}
		}
	}
}

// target returns the node that an alias stands for.
func target(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// fromYAML returns the text of the values. A key without a value is an error.
func (s *Setting) fromYAML(n *yaml.Node) (values []string, err error) {
	nodes := []*yaml.Node{n}
	if s.List() {
		if n.Kind != yaml.SequenceNode {
			return nil, errors.New("want a list, such as [A, B]")
		}
		nodes = n.Content
	}
	for _, one := range nodes {
		one = target(one)
		switch {
		case one.Tag == "!!null":
			return nil, fmt.Errorf("line %d has no value: give one %s, or delete the key", one.Line, s.Meta)
		case one.Kind != yaml.ScalarNode:
			return nil, fmt.Errorf("want one %s in line %d, found a list or a section", s.Meta, one.Line)
		}
		values = append(values, one.Value)
	}
	return values, nil
}
