package main

import (
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// foundOut are the keys whose default is found out on the node: to name one, even by the
// value shown, is a word of its own, so the file shows them with what they are mostly.
var foundOut = map[string]string{
	"root_dir":       defaultRootDir,
	"quarantine_dir": defaultRootDir + "/orphan-reaper",
}

// configDoc writes packaging/config.yaml, which packages install: every key, what it means,
// and its default, as a comment. So the file as it comes is the default configuration, and a
// new default of a newer version is not held back by an old file.
func configDoc() string {
	var b strings.Builder
	b.WriteString(`# The configuration of orphan-reaper. See orphan-reaper.yaml(5).
#
# Every setting is here with its default: take the # away to change one. An unknown key is an
# error. A flag of the same name wins over the file.
#
#   orphan-reaper config check         is this file good, and does it fit the kubelet that runs?
#   orphan-reaper config print         what holds, and where each value comes from
#   systemctl reload orphan-reaper     read it again; what needs a restart is told in the journal
`)
	c := defaultConfig()
	for i := range settings {
		s := &settings[i]
		b.WriteString("\n")
		for line := range strings.SplitSeq(configComment(s), "\n") {
			b.WriteString(strings.TrimRight("# "+line, " ") + "\n")
		}
		b.WriteString(configDefault(s, &c))
	}
	return b.String()
}

func configComment(s *setting) string {
	var parts []string
	for text := range strings.SplitSeq(manual[s.key], "\n\n") {
		parts = append(parts, strings.Join(wrap(text, 92), "\n"))
	}
	change := "Needs a restart."
	if s.live {
		change = "A reload changes it."
	}
	words := "Flag --" + s.flag + ". " + change
	if len(s.choices) > 0 {
		words = "One of " + strings.Join(s.choices, ", ") + ". " + words
		if s.list() {
			words = "Of " + words[len("One of "):]
		}
	}
	return strings.Join(append(parts, strings.Join(wrap(words, 92), "\n")), "\n\n")
}

// configDefault writes a key with its default in the form in which config print has it.
func configDefault(s *setting, c *Config) string {
	key, indent := s.key, "#"
	var b strings.Builder
	if section, name, ok := strings.Cut(key, "."); ok {
		b.WriteString("#" + section + ":\n")
		key, indent = name, "#  "
	}
	if s.list() {
		b.WriteString(indent + key + ":\n")
		for _, v := range s.values(c) {
			b.WriteString(indent + "  - " + yamlText(v) + "\n")
		}
		return b.String()
	}
	value := s.values(c)[0]
	if v, ok := foundOut[s.key]; ok {
		value = v
	}
	b.WriteString(indent + key + ": " + yamlText(value) + "\n")
	return b.String()
}

// TestManual: every key is explained, and nothing else is.
func TestManual(t *testing.T) {
	left := maps.Clone(manual)
	for _, s := range settings {
		if !strings.HasSuffix(left[s.key], ".") {
			t.Errorf("%s: no whole sentences: %q", s.key, left[s.key])
		}
		delete(left, s.key)
	}
	if len(left) > 0 {
		t.Errorf("explained, and no keys: %v", slices.Sorted(maps.Keys(left)))
	}
}

// TestConfigDoc: the file that is installed is what the code says.
func TestConfigDoc(t *testing.T) {
	goldenFile(t, filepath.Join("..", "..", "packaging", "config.yaml"), configDoc())
}

// commentedKey is a line of the file that holds a default, not words about one.
var commentedKey = regexp.MustCompile(`(?m)^#(( {2,4})?[a-z_]+:.*| {2,4}- \S+)$`)

// TestConfigDocIsTheDefault: as it comes the file changes nothing; and with every # taken
// away it is read without an error, names every key, and says the same.
func TestConfigDocIsTheDefault(t *testing.T) {
	want, err := loadText(t, "")
	if err != nil {
		t.Fatal(err)
	}
	asInstalled, err := loadText(t, configDoc())
	if err != nil {
		t.Fatal(err)
	}
	if live, restart := want.Diff(asInstalled); len(live)+len(restart) > 0 {
		t.Errorf("the file as installed sets %v %v", live, restart)
	}
	text := commentedKey.ReplaceAllString(configDoc(), "$1")
	got, err := loadText(t, text)
	if err != nil {
		t.Fatalf("with every # taken away: %v\n%s", err, text)
	}
	if live, restart := want.Diff(got); len(live)+len(restart) > 0 {
		t.Errorf("not the defaults: %v %v", live, restart)
	}
	for i := range settings {
		s := &settings[i]
		if asInstalled.named(s.key) {
			t.Errorf("%s is set in the file as installed", s.key)
		}
		if !got.named(s.key) {
			t.Errorf("%s is not in the file", s.key)
		}
		if v, ok := foundOut[s.key]; ok && !slices.Equal(s.values(&got), []string{v}) {
			t.Errorf("%s is shown as %s", s.key, v)
		}
	}
}

// yamlText writes a value so that the file's reader reads it again.
func yamlText(v string) string {
	if _, err := strconv.Atoi(v); err == nil || v == "true" || v == "false" {
		return v
	}
	text, err := yaml.Marshal(v)
	if err != nil {
		panic(err)
	}
	return strings.TrimSpace(string(text))
}
