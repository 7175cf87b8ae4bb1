package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
)

// maxConfigFile bounds what is read: a configuration is a page, not a device.
const maxConfigFile = 1 << 20

func readConfigFile(name string) ([]byte, error) {
	f, err := os.Open(name)
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

// applyFile lets the file win over the defaults. Strict: whatever is not understood is an
// error, for a typing error in a limit must not mean that there is none. All errors are
// told at once, each with file, line and key.
func (c *Config) applyFile(name string, data []byte) error {
	root, err := parseYAML(name, data)
	if err != nil {
		return &exit.Error{Code: exit.UsageCode, Err: err}
	}
	if root == nil {
		return nil
	}
	errs := c.applyMapping(name, "", root, map[string]int{})
	if len(errs) > 0 {
		return &exit.Error{Code: exit.UsageCode, Err: errors.Join(errs...), Hint: "orphan-reaper config print --config /dev/null lists every key"}
	}
	return nil
}

// applyMapping takes the keys of the file, or of one section of it; section ends in a dot.
func (c *Config) applyMapping(name, section string, root *yaml.Node, seen map[string]int) (errs []error) {
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		fail := func(n *yaml.Node, format string, args ...any) {
			errs = append(errs, fmt.Errorf("%s:%d: "+format, append([]any{name, n.Line}, args...)...))
		}
		full := section + key.Value
		if full == retiredSection {
			c.unused = append(c.unused, fmt.Sprintf("%s:%d: %s: %s", name, key.Line, full, retiredNote))
			continue
		}
		s := settingByKey(full)
		isSection := section == "" && slices.Contains(sections(), key.Value)
		switch first := seen[full]; {
		case !isSection && (s == nil || strings.Contains(key.Value, ".")): // a dotted key is no second spelling
			fail(key, "unknown key %s%s", strconv.Quote(full), suggestKey(full))
			continue
		case first != 0:
			fail(key, "key %s is here a second time, after line %d", strconv.Quote(full), first)
			continue
		}
		seen[full] = key.Line
		if isSection {
			if value.Kind == yaml.AliasNode {
				value = value.Alias
			}
			if value.Kind != yaml.MappingNode {
				fail(value, "%s: want keys with values, found %s", full, describe(value))
				continue
			}
			errs = append(errs, c.applyMapping(name, full+".", value, seen)...)
			continue
		}
		values, err := s.fromYAML(value)
		if err == nil {
			err = s.set(c, values)
		}
		if err != nil {
			fail(value, "%s: %w", s.Key, err)
			continue
		}
		c.sources[s.Key] = valueOrigin{fmt.Sprintf("%s:%d", name, key.Line), true}
	}
	return errs
}

// sections are the keys under which others stand.
func sections() []string {
	var names []string
	for _, s := range Settings {
		if section, _, ok := strings.Cut(s.Key, "."); ok && !slices.Contains(names, section) {
			names = append(names, section)
		}
	}
	return names
}

// yamlPlace finds the line in the errors of the YAML reader: "yaml: line 3: …".
var yamlPlace = regexp.MustCompile(`^yaml: (?:line ([0-9]+): )?`)

// parseYAML returns the file's one mapping, nil where the file is empty.
func parseYAML(name string, data []byte) (*yaml.Node, error) {
	if line := firstUnsafeLine(data); line > 0 {
		return nil, fmt.Errorf("%s:%d: not text: a control character, or no UTF-8", name, line)
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	err := dec.Decode(&doc)
	if errors.Is(err, io.EOF) {
		return nil, nil // an empty file holds nothing, and is no error
	}
	if err != nil {
		line, text := "1", err.Error() // The reader names every line but the first.
		if m := yamlPlace.FindStringSubmatch(text); m != nil {
			line, text = cmp.Or(m[1], line), text[len(m[0]):]
		}
		return nil, fmt.Errorf("%s:%s: %s", name, line, text)
	}
	var more yaml.Node
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s:%d: a second document; one is all there may be", name, max(more.Line, 1))
	}
	root := doc.Content[0]
	switch {
	case root.Kind == yaml.MappingNode:
		return root, nil
	case root.Kind == yaml.ScalarNode && root.Tag == "!!null":
		return nil, nil // only comments
	}
	return nil, fmt.Errorf("%s:%d: want keys with values, such as \"hold: 5m\"", name, root.Line)
}

// firstUnsafeLine returns the first line that is no text, 0 where all are. The YAML reader
// would refuse it too, without saying where.
func firstUnsafeLine(data []byte) int {
	number := 0
	for line := range bytes.Lines(data) {
		number++
		unsafe := bytes.IndexFunc(line, func(r rune) bool { return r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0x7f })
		if unsafe >= 0 || !utf8.Valid(line) {
			return number
		}
	}
	return 0
}

// fromYAML returns the words of a value of the setting's type, and of no other: 300 is no
// duration, "yes" is no list.
func (s *Setting) fromYAML(n *yaml.Node) ([]string, error) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch s.field(new(Config)).(type) {
	case *[]string:
		return listFromYAML(n)
	case *int:
		if n.Kind != yaml.ScalarNode || n.Tag != "!!int" {
			return nil, fmt.Errorf("want a whole number, found %s", describe(n))
		}
	case *time.Duration:
		if n.Kind == yaml.ScalarNode && (n.Tag == "!!int" || n.Tag == "!!float") && n.Value != "0" {
			return nil, fmt.Errorf("%s has no unit: write a duration such as %ss", n.Value, n.Value)
		}
		if n.Kind != yaml.ScalarNode || (n.Tag != "!!str" && n.Value != "0") {
			return nil, fmt.Errorf("want a duration such as 5m, found %s", describe(n))
		}
	default:
		if n.Kind != yaml.ScalarNode || n.Tag != "!!str" {
			return nil, fmt.Errorf("want text, found %s", describe(n))
		}
	}
	return []string{n.Value}, nil
}

func listFromYAML(n *yaml.Node) ([]string, error) {
	if n.Kind != yaml.SequenceNode {
		hint := ""
		if n.Kind == yaml.ScalarNode && n.Tag == "!!str" {
			hint = fmt.Sprintf(": write [%s]", n.Value)
		}
		return nil, fmt.Errorf("want a list, found %s%s", describe(n), hint)
	}
	var values []string
	for _, item := range n.Content {
		if item.Kind == yaml.AliasNode {
			item = item.Alias
		}
		if item.Kind != yaml.ScalarNode || item.Tag != "!!str" {
			return nil, fmt.Errorf("want a list of text, found %s in line %d", describe(item), item.Line)
		}
		values = append(values, item.Value)
	}
	return values, nil
}

// describe says what a YAML value is.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "keys with values"
	case yaml.SequenceNode:
		return "a list"
	case yaml.ScalarNode, yaml.AliasNode, yaml.DocumentNode:
	}
	switch n.Tag {
	case "!!null":
		return "nothing"
	case "!!int", "!!float":
		return "the number " + n.Value
	case "!!bool":
		return fmt.Sprintf("the truth value %s (quote it to make it text)", n.Value)
	}
	return strconv.Quote(n.Value)
}

func settingByKey(key string) *Setting {
	i := slices.IndexFunc(Settings, func(s Setting) bool { return s.Key == key })
	if i < 0 {
		return nil
	}
	return &Settings[i]
}

// spelled shows how a key is written in the file.
func spelled(key string) string {
	if section, name, ok := strings.Cut(key, "."); ok {
		return fmt.Sprintf("%s below %s", strconv.Quote(name), strconv.Quote(section+":"))
	}
	return strconv.Quote(key)
}

// suggestKey says what an unknown key may have meant.
func suggestKey(key string) string {
	var keys []string
	if key == "runtime" {
		return ": remove_sandboxes, its only key, is no setting any more; delete the section"
	}
	for _, s := range Settings {
		_, inSection, _ := strings.Cut(s.Key, ".")
		if plain := strings.ReplaceAll(key, "-", "_"); plain == strings.ReplaceAll(s.Flag, "-", "_") || inSection != "" && plain == s.Key {
			return fmt.Sprintf(" (did you mean %s?)", spelled(s.Key)) // The flag's name.
		}
		if inSection != "" {
			continue
		}
		keys = append(keys, s.Key)
	}
	if best := human.Nearest(strings.ReplaceAll(key, "-", "_"), keys); best != "" {
		return fmt.Sprintf(" (did you mean %s?)", strconv.Quote(best))
	}
	switch key {
	case "output", "config":
		return fmt.Sprintf(": --%s is a flag only", key)
	}
	return ""
}
