package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"go.yaml.in/yaml/v3"
	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
)

const maxConfigFile = 1 << 20

// readConfigFile reads a regular file, or /dev/null. It refuses any other: a FIFO would block it.
func readConfigFile(name string) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := checkConfigOwner(f); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxConfigFile+1))
	if err == nil && len(data) > maxConfigFile {
		err = fmt.Errorf("%s is larger than %s", name, human.Size(maxConfigFile))
	}
	return data, err
}

// applyFile applies the file. An unknown key or value is an error: a misspelt limit must not remove the limit. It returns all
// errors together, each with its file and line.
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

// parseYAML returns the root of the only document, nil for a file without keys.
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

// checkConfigOwner returns an error for a configuration that other users than root and this one can change: it determines
// which files are removed as root.
func checkConfigOwner(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	name := f.Name()
	if !info.Mode().IsRegular() {
		if st, ok := info.Sys().(*syscall.Stat_t); ok && info.Mode()&fs.ModeCharDevice != 0 && st.Rdev == unix.Mkdev(1, 3) {
			return nil // /dev/null, see null(4)
		}
		return exit.Usagef("", "cannot read the configuration: %s is not a file", name)
	}
	if err := onlyOurs(name, info); err != nil {
		return err
	}
	dir := filepath.Dir(name)
	in, err := os.Stat(dir)
	if err != nil {
		return err
	}
	var on unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &on); err != nil {
		return err
	}
	// /tmp is sticky: only the owner can replace a file there. A ConfigMap is mounted read-only, from a
	// directory of mode 0777.
	if in.Mode()&fs.ModeSticky != 0 || on.Flags&unix.ST_RDONLY != 0 {
		return nil
	}
	return onlyOurs(dir, in)
}

// onlyOurs returns an error if another user than root and this one may write to the file or directory.
func onlyOurs(name string, info fs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	byOwner := st.Uid != 0 && int(st.Uid) != os.Geteuid() && (st.Uid != overflowUID || !inUserNamespace())
	byGroup := info.Mode()&0o020 != 0 && st.Gid != 0 && int(st.Gid) != os.Getegid()
	if !byOwner && !byGroup && info.Mode()&0o002 == 0 {
		return nil
	}
	quoted := clean.Shell(name)
	return exit.Usagef("chown root:root "+quoted+" && chmod go-w "+quoted,
		"cannot use the configuration: %s belongs to user %d and group %d and has mode %04o, so that others may change it",
		name, st.Uid, st.Gid, info.Mode().Perm())
}

// overflowUID is the UID in a user namespace of a user that it does not map (user_namespaces(7)).
const overflowUID = 65534

// inUserNamespace reports whether this is a user namespace that does not map all users: it shows the host's root as nobody.
func inUserNamespace() bool {
	users, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && !strings.Contains(string(users), " 4294967295")
}
