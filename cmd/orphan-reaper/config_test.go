package main

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/config"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestPrintIsAFile checks that the output of config print is a configuration file with the same meaning.
func TestPrintIsAFile(t *testing.T) {
	code, out, errs := call(t, "config", "print", "--hold", "90s", "--log-file", "/a b", "--log-file", "/c: d#e", "--max-per-look", "3", "--metrics-file", "none")
	if code != 0 {
		t.Fatalf("code %d: %s", code, errs)
	}
	c, err := loadText(t, out)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := config.Default()
	want.Hold, want.LogFiles, want.MaxPerLook, want.MetricsFile = 90*time.Second, []string{"/a b", "/c: d#e"}, 3, config.None
	if c.Hold != want.Hold || !slices.Equal(c.LogFiles, want.LogFiles) || c.MaxPerLook != want.MaxPerLook || c.MetricsFile != want.MetricsFile {
		t.Errorf("%+v", c)
	}
}

func TestPrintJSON(t *testing.T) {
	_, out, errs := call(t, "config", "print", "-o", "json", "--hold", "90s", "--max-per-look", "3")
	var v struct {
		File     string
		Settings map[string]config.SettingView
	}
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		t.Fatalf("%v: %s %s", err, out, errs)
	}
	if len(v.Settings) != len(config.Settings) {
		t.Errorf("%d settings, want %d", len(v.Settings), len(config.Settings))
	}
	if got := v.Settings["hold"]; got != (config.SettingView{Value: "1m30s", Source: "flag --hold", Flag: "--hold", Reload: true}) {
		t.Errorf("%+v", got)
	}
	if got := v.Settings["max_per_look"].Value; got != 3.0 {
		t.Errorf("max_per_look is %v (%T), want a number", got, got)
	}
}

func loadText(t *testing.T, text string) (config.Config, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	testkit.Must(t, os.WriteFile(file, []byte(text), 0o600))
	return config.Load(t.Context(), config.Input{File: file})
}

// process starts a process with these arguments and those of a node of its own. It ends with the test.
func process(t *testing.T, args ...string) (pid string) {
	t.Helper()
	path, err := exec.LookPath("kubelet") // the tests' own program, which does nothing
	testkit.Must(t, err)
	node := t.TempDir()
	testkit.Must(t, makeNode(node))
	cmd := exec.Command(path, append(args, nodeFlags(node)...)...)
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	testkit.Must(t, err)
	t.Cleanup(func() {
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	return strconv.Itoa(cmd.Process.Pid)
}

// TestConfigCheckAs checks that a reload is checked with the daemon's own file and flags.
func TestConfigCheckAs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	write := func(text string) {
		t.Helper()
		testkit.Must(t, os.WriteFile(file, []byte(text), 0o600))
	}
	write("mode: observe\n")
	daemon := process(t, "run", "--config", file, "--hold", "7m")
	code, out, printed := call(t, "config", "check", "--as", daemon)
	if code != 0 || !strings.Contains(out, "good: "+file) || !strings.Contains(out, "A daemon that starts now changes nothing (mode observe)") {
		t.Errorf("exit code %d: %s%s", code, out, printed)
	}
	write("mode: enforce\n")
	if code, out, printed := call(t, "config", "check", "--as", daemon); code != 0 || !strings.Contains(strings.Join(strings.Fields(out), " "), "seen dead for hold (7m) and that the kubelet reports") {
		t.Errorf("exit code %d: %s%s", code, out, printed)
	}
	write("mode: observe\nhold: soon\n")
	code, out, printed = call(t, "config", "check", "--as", daemon)
	if code != exit.UsageCode || out != "" || !strings.Contains(printed, file+":2") {
		t.Errorf("invalid file: exit code %d: %s%s", code, out, printed)
	}
	// Valid by its file alone, invalid with the daemon's flags.
	write("confirm: 5m\n")
	contradicted := process(t, "run", "--config", file, "--confirm", "0s")
	if code, out, printed := call(t, "config", "check", "--as", contradicted); code != exit.UsageCode || !strings.Contains(printed, "--confirm") {
		t.Errorf("contradiction: exit code %d: %s%s", code, out, printed)
	}
	for _, c := range []struct {
		args []string
		code int
	}{
		{[]string{"--as", process(t, "scan")}, exit.FailedCode},
		{[]string{"--as", process(t, "run", "--config", "config.yaml")}, exit.FailedCode},
		{[]string{"--as", process(t, "run", "--state-dir", "state")}, exit.FailedCode},
		{[]string{"--as", "0"}, exit.FailedCode},
		{[]string{"--as", daemon, "--hold", "1m"}, exit.UsageCode},
		{[]string{"--as", daemon, "--config", file}, exit.UsageCode},
		{[]string{"--as", "me"}, exit.UsageCode},
	} {
		if code, out, printed := call(t, append([]string{"config", "check"}, c.args...)...); code != c.code || printed == "" || out != "" {
			t.Errorf("%q: exit code %d, want %d: %s%s", c.args, code, c.code, out, printed)
		}
	}
}

// foundOut are the keys whose default is discovered on the node. Setting one, even to the discovered value, has a
// meaning of its own, so the file shows them with their most common value.
var foundOut = map[string]string{
	"root_dir":       config.DefaultRootDir,
	"quarantine_dir": config.DefaultRootDir + "/orphan-reaper",
}

// configDoc returns packaging/config.yaml, which packages install: every key with its meaning and its default, as
// comments. So the installed file is the default configuration, and an old file does not hold back a new default.
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

// TestManual checks that exactly the existing keys are explained.
func TestManual(t *testing.T) {
	left := maps.Clone(manual)
	for _, s := range config.Settings {
		if !strings.HasSuffix(left[s.Key], ".") {
			t.Errorf("%s: not in complete sentences: %q", s.Key, left[s.Key])
		}
		delete(left, s.Key)
	}
	if len(left) > 0 {
		t.Errorf("explained, but not keys: %v", slices.Sorted(maps.Keys(left)))
	}
}

// TestConfigDoc checks that the installed file is generated from the code.
func TestConfigDoc(t *testing.T) {
	testkit.Golden(t, filepath.Join("..", "..", "packaging", "config.yaml"), configDoc())
}

// commentedKey matches a line with a default, and not text about one.
var commentedKey = regexp.MustCompile(`(?m)^#(( {2,4})?[a-z_]+:.*| {2,4}- \S+)$`)

// TestConfigDocIsTheDefault checks that the file as installed changes nothing, and that without its # it is valid,
// has every key, and results in the same configuration.
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
		t.Fatalf("with every # removed: %v\n%s", err, text)
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
