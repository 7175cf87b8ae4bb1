package main

import (
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// foundOut are the keys whose default is found out on the node: to name one, even by the
// value shown, is a word of its own, so the file shows them with what they are mostly.
var foundOut = map[string]string{
	"root_dir":       config.DefaultRootDir,
	"quarantine_dir": config.DefaultRootDir + "/orphan-reaper",
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
#   orphan-reaper config print         each value in force, and its source
#   systemctl reload orphan-reaper     read it again; the journal names what needs a restart
`)
	c, i, section := config.Default(), 0, ""
	c.QuarantineDir = foundOut["quarantine_dir"]
	for _, line := range c.Lines() {
		switch item := strings.Contains(line.Text, "- "); {
		case line.Source == "" && !item:
			section = "#" + line.Text + "\n"
			continue
		case line.Source != "":
			b.WriteString("\n")
			for text := range strings.SplitSeq(configComment(&config.Settings[i]), "\n") {
				b.WriteString(strings.TrimRight("# "+text, " ") + "\n")
			}
			b.WriteString(section)
			section, i = "", i+1
		}
		b.WriteString("#" + line.Text + "\n")
	}
	return b.String()
}

func configComment(s *config.Setting) string {
	var parts []string
	for text := range strings.SplitSeq(manual[s.Key], "\n\n") {
		parts = append(parts, strings.Join(human.Wrap(text, 92), "\n"))
	}
	change := "Needs a restart."
	if s.Live {
		change = "A reload changes it."
	}
	words := "Flag --" + s.Flag + ". " + change
	if len(s.Choices) > 0 {
		words = "One of " + strings.Join(s.Choices, ", ") + ". " + words
		if s.List() {
			words = "Of " + words[len("One of "):]
		}
	}
	return strings.Join(append(parts, strings.Join(human.Wrap(words, 92), "\n")), "\n\n")
}

// TestManual: every key is explained, and nothing else is.
func TestManual(t *testing.T) {
	left := maps.Clone(manual)
	for _, s := range config.Settings {
		if !strings.HasSuffix(left[s.Key], ".") {
			t.Errorf("%s: no whole sentences: %q", s.Key, left[s.Key])
		}
		delete(left, s.Key)
	}
	if len(left) > 0 {
		t.Errorf("explained, and no keys: %v", slices.Sorted(maps.Keys(left)))
	}
}

// TestConfigDoc: the file that is installed is what the code says.
func TestConfigDoc(t *testing.T) {
	testkit.Golden(t, filepath.Join("..", "..", "packaging", "config.yaml"), configDoc())
}

// commentedKey is a line of the file that holds a default, not words about one.
var commentedKey = regexp.MustCompile(`(?m)^#(( {2,4})?[a-z_]+:.*| {2,4}- \S+)$`)

// TestConfigDocIsTheDefault: as it comes the file changes nothing; and with every # taken
// away it is read without an error, names every key, and says the same.
func TestConfigDocIsTheDefault(t *testing.T) {
	want, err := loadText(t, "")
	testkit.Must(t, err)
	asInstalled, err := loadText(t, configDoc())
	testkit.Must(t, err)
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
	for i := range config.Settings {
		s := &config.Settings[i]
		if asInstalled.Named(s.Key) {
			t.Errorf("%s is set in the file as installed", s.Key)
		}
		if !got.Named(s.Key) {
			t.Errorf("%s is not in the file", s.Key)
		}
		if v, ok := foundOut[s.Key]; ok && !slices.Equal(s.Values(&got), []string{v}) {
			t.Errorf("%s is shown as %s", s.Key, v)
		}
	}
}
