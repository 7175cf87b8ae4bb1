package config

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
)

// load returns the configuration of a file's text and of flags, with the file's name.
func load(t *testing.T, text string, flags ...string) (*Config, string, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	AddFlags(set)
	if err := set.Parse(flags); err != nil {
		return nil, file, err
	}
	c, err := Load(set, file)
	return c, file, err
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestWrongFile: each error has the file, the line and the key. A misspelt limit must not remove the limit.
func TestWrongFile(t *testing.T) {
	for text, want := range map[string]string{
		"\n\nhodl: 5m\n":                              `3: unknown key "hodl"`,
		"mode: enforce\nmax-per-scan: 1\n":            `2: unknown key "max-per-scan": write "max_per_scan"`,
		"log_file: /x\n":                              `1: unknown key "log_file": write "log_files"`,
		"<<: {hold: 5m}\n":                            `1: unknown key "<<"`,
		"hold: 5m\nmode: observe\nhold: 6m\n":         `3: hold: line 1 has this key, too`,
		"hold: 300\n":                                 `1: hold: "300" is not a duration: write one such as 90s, 5m or 48h`,
		"\nhold: 1d\n":                                `2: hold: "1d" is not a duration`,
		"hold: -5m\n":                                 `1: hold: -5m is negative`,
		"hold:\n":                                     `1: hold: line 1 has no DURATION`,
		"hold: [5m]\n":                                `1: hold: line 1 has no DURATION`,
		"mode: Enforce\n":                             `1: mode: "Enforce" is not one of observe, enforce`,
		"cni: true\n":                                 `1: cni: "true" is not one of on, off`,
		"max_per_scan: lots\n":                        `1: max_per_scan: "lots" is not a whole number from 0`,
		"max_per_scan: -1\n":                          `1: max_per_scan: "-1" is not a whole number from 0`,
		"max_per_scan: 99999999999999999999\n":        `1: max_per_scan: "99999999999999999999" is not`,
		"state_dir: var/x\n":                          `1: state_dir: "var/x" is not an absolute path`,
		"state_dir: none\n":                           `1: state_dir: "none" is not an absolute path`,
		"state_dir: ''\n":                             `1: state_dir: the path is empty`,
		"state_dir: \"/a\\eb\"\n":                     `1: state_dir: "/a\x1bb" has a character that cannot be printed`,
		"log_files:\n  - /x\n  - {a: b}\n":            `1: log_files: line 3 has no FILE`,
		"log_files: [/x, auto]\n":                     `1: log_files: auto stands alone`,
		"log_files: []\n":                             `1: log_files: the list is empty: write auto`,
		"journal_units: kubelet\n":                    `1: journal_units: "kubelet" is not the name of a unit, such as kubelet.service`,
		"metrics_file: /x/y.txt\n":                    `1: metrics_file: "/x/y.txt" does not end in .prom`,
		"runtime_endpoints: [/run/x.sock]\n":          `1: runtime_endpoints: "/run/x.sock" is not unix:///PATH`,
		"runtime_endpoints: tcp://192.0.2.1\n":        `1: runtime_endpoints: "tcp://192.0.2.1" is not unix:///PATH`,
		"web_listen_address: '9477'\n":                `1: web_listen_address: "9477" is not HOST:PORT`,
		"web_listen_address: [':1', ':70000']\n":      `1: web_listen_address: ":70000" is not HOST:PORT`,
		"web_config_file: /w.yaml\n":                  `1: web_config_file: nothing is answered without web_listen_address`,
		"quarantine_dir: /var/lib/kubelet/pods/x\n":   `1: quarantine_dir: /var/lib/kubelet/pods/x and the pods directory`,
		"quarantine_dir: /var/lib/kubelet/\n":         `1: quarantine_dir: /var/lib/kubelet and the pods directory`,
		"root_dir: /k\nquarantine_dir: /k/pods/../\n": `2: quarantine_dir: /k and the pods directory /k/pods are inside one another`,
		"state_dir: /var/lib/kubelet/pods\n":          `1: state_dir: /var/lib/kubelet/pods and the pods directory`,
		"quarantine_dir: /q\nstate_dir: /q/state\n":   `2: state_dir: /q/state is inside the quarantine /q`,
		"hold: 0s\n":                                  `1: hold: 0s is less than 1s: this is the time`,
		"confirm: 999ms\n":                            `1: confirm: 999ms is less than 1s: this is the time`,
		"- hold\n":                                    `1: this is no key with a value`,
		"hold: 5m\n---\nhold: 6m\n":                   `2: a second document`,
		"hold: &h 5m\nconfirm: *h\n":                  `2: confirm: line 2 has no DURATION`,
		"a: b: c\n":                                   `1: mapping values are not allowed in this context`,
		"hold: 5m\n  mode: x: y\n":                    `2: mapping values are not allowed in this context`,
		"hold: 5m\nmode: \x01\n":                      `2: a character that is not text`,
		"hold: 5m\nmode: \xff\n":                      `2: a character that is not text`,
		"hodl: 1m\nmode: x\nretention: 1d\n":          `3: retention: "1d" is not a duration`, // all errors at once
	} {
		_, file, err := load(t, text)
		if err == nil {
			t.Errorf("%q: no error", text)
			continue
		}
		lines := strings.Split(err.Error(), "\n")
		if len(lines) != 1+2*strings.Count(text, "hodl: 1m") || !strings.HasPrefix(lines[len(lines)-1], file+":"+want) {
			t.Errorf("%q:\n got %v\nwant FILE:%s", text, err, want)
		}
	}
}

// TestWrongFlag: each error has the flag.
func TestWrongFlag(t *testing.T) {
	for _, c := range []struct {
		want  string
		flags []string
	}{
		{"--hold", []string{"--hold", "soon"}},
		{"unknown flag: --hodl", []string{"--hodl", "1m"}},
		{"--log-files", []string{"--log-files", "/a", "--log-files", "auto"}},
		{"--state-dir", []string{"--state-dir", "state"}},
		{"--quarantine-dir: /k/pods", []string{"--root-dir", "/k", "--quarantine-dir", "/k/pods"}},
		{"/nonexistent", []string{"--config", "/nonexistent"}},
		{"cannot read", []string{"--config", ""}},
	} {
		if _, _, err := load(t, "", c.flags...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v", c.flags, err)
		}
	}
}

// TestPrecedence: flags win over the file, and the file over the defaults. Each value has its origin.
func TestPrecedence(t *testing.T) {
	c, file, err := load(t, "# a comment\nhold: 10m\nconfirm: 3m\nlog_files: [/a, /b/]\nmetrics_file: none\ncni: off\nlog_level: warn\n",
		"--hold", "1h", "--hold", "90m", "--journal-units", "a.service", "--journal-units", "b.service", "--metrics-file", "auto")
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string][2]string{
		"hold":               {"1h30m", "--hold"},
		"confirm":            {"3m", file + ":3"},
		"retention":          {"24h", "default"},
		"log_files":          {"/a /b", file + ":4"},
		"journal_units":      {"a.service b.service", "--journal-units"},
		"metrics_file":       {"auto", "--metrics-file"},
		"cni":                {"off", file + ":6"},
		"log_level":          {"warn", file + ":7"},
		"root_dir":           {"auto", "default"},
		"web_listen_address": {"none", "default"},
	} {
		i := indexOf(t, key)
		if got := strings.Join(Table[i].values(&c.Settings), " "); got != want[0] || c.Origin(key) != want[1] {
			t.Errorf("%s: %s from %s, want %s from %s", key, got, c.Origin(key), want[0], want[1])
		}
	}
	if j := c.Judge(); j.Hold != 90*time.Minute || j.Confirm != 3*time.Minute || !j.Observe {
		t.Errorf("%+v", j)
	}
}

func indexOf(t *testing.T, key string) int {
	t.Helper()
	for i := range Table {
		if Table[i].Key == key {
			return i
		}
	}
	t.Fatalf("no setting %s", key)
	return 0
}

// TestWords: a word in the place of a value is the zero value of the field, and a setting that is not zero is never shown
// as a word.
func TestWords(t *testing.T) {
	c, _, err := load(t, "root_dir: auto\nlog_files: auto\nweb_listen_address: none\nruntime_endpoints: [auto]\n")
	if err != nil || c.RootDir != "" || c.LogFiles != nil || c.WebListenAddress != nil || c.RuntimeEndpoints != nil {
		t.Errorf("%+v, %v", c, err)
	}
	if c, _, err = load(t, "metrics_file: none\n"); err != nil || c.MetricsFile != None {
		t.Errorf("%q, %v", c.MetricsFile, err)
	}
	if c, _, err = load(t, "retention: 0s\n"); err != nil || Table[indexOf(t, "retention")].values(&c.Settings)[0] != "0s" {
		t.Errorf("%v, %v", c, err)
	}
}

// TestSettle: the quarantine is in the kubelet's root directory, and is checked against the one that runs.
func TestSettle(t *testing.T) {
	c, _, err := load(t, "")
	if err != nil || c.Settle("/data/kubelet") != nil || c.QuarantineDir != "/data/kubelet/orphan-reaper" || c.Origin("root_dir") != Auto {
		t.Errorf("%+v, %v", c, err)
	}
	if c, _, err = load(t, "quarantine_dir: /data/kubelet/pods-quarantine\nstate_dir: /data/kubelet/pods.state\n"); err != nil || c.Settle("/data/kubelet") != nil {
		t.Errorf("%+v, %v: directories beside the pods directory", c, err)
	}
	if c, _, err = load(t, "quarantine_dir: /data/kubelet/pods/q\n"); err != nil || c.Settle("/data/kubelet") == nil {
		t.Errorf("%+v, %v: the quarantine is in the pods directory", c, err)
	}
}

// TestRestart: every setting but those of judge.Settings and the level needs a restart.
func TestRestart(t *testing.T) {
	c, _, err := load(t, "")
	if err != nil {
		t.Fatal(err)
	}
	for i := range Table {
		next := *c
		value := map[string]string{
			"DIR": "/x", "FILE": "/x", "PROM_FILE": "/x.prom", "DURATION": "7s", "N": "7", "URL": "unix:///x", "UNIT": "x.service",
			"HOST:PORT": ":7", "on|off": "off", "observe|enforce": "enforce", "debug|info|warn|error": "warn",
		}[Table[i].Type]
		if err := Table[i].set(&next.Settings, value); err != nil {
			t.Fatal(err)
		}
		if reflect.DeepEqual(next.Settings, c.Settings) {
			t.Errorf("%s: %s changes nothing", Table[i].Key, value)
		}
		live := next.Judge() != c.Judge() || next.LogLevel != c.LogLevel
		if keys := c.NeedRestart(&next); live == (len(keys) == 1) {
			t.Errorf("%s: read by a reload: %v; needs a restart: %v", Table[i].Key, live, keys)
		}
	}
}

// TestOwner: a file that another user can change decides nothing, since it decides what root removes.
func TestOwner(t *testing.T) {
	for _, c := range []struct {
		mode    os.FileMode
		owner   int
		refused bool
	}{{0o644, 0, false}, {0o600, 0, false}, {0o664, 0, true}, {0o602, 0, true}, {0o644, 12345, true}} {
		file := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(file, []byte("mode: enforce\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, c.mode); err != nil {
			t.Fatal(err)
		}
		if c.owner != 0 && os.Chown(file, c.owner, -1) != nil {
			continue // only root can
		}
		if _, _, err := load(t, "", "--config", file); (err != nil) != c.refused {
			t.Errorf("mode %o, owner %d: %v", c.mode, c.owner, err)
		}
	}
	usual := filepath.Join(t.TempDir(), "config.yaml")
	must(t, os.WriteFile(usual, []byte("mode: enforce\n"), 0o600))
	must(t, os.Chmod(usual, 0o666))
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	AddFlags(flags)
	if _, err := Load(flags, usual); err == nil {
		t.Error("the usual file is passed over, since others can change it")
	}
	if c, err := Load(flags, usual+".none"); err != nil || c.File != "" {
		t.Errorf("without the usual file: %v", err)
	}
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	big := filepath.Join(t.TempDir(), "big")
	if err := os.WriteFile(big, []byte(strings.Repeat("#\n", maxFile)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{fifo, "/dev/zero", t.TempDir(), big} {
		if _, err := read(name); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if c, _, err := load(t, "", "--config", os.DevNull); err != nil || c.Mode != "observe" {
		t.Errorf("%v", err)
	}
}

// FuzzFile: no text crashes the reader, and each line of an error begins with the file and a line of it.
func FuzzFile(f *testing.F) {
	for _, text := range []string{
		"hold: 5m", "a: &a [*a]", "{", "? x", "hold: !!binary aGk=", "log_files: [[]]", "\xef\xbb\xbfhold: 5m", "hold: *x",
		"%YAML 9", "\r0", "\uffff", "0\r---\r-\r--",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		err := (&Config{origins: map[string]string{}}).apply("F", text)
		if err == nil {
			return
		}
		breaks := 0 // YAML 1.1, 5.4
		for _, r := range string(text) {
			if strings.ContainsRune("\r\n\u0085\u2028\u2029", r) {
				breaks++
			}
		}
		for line := range strings.Lines(err.Error()) {
			number, _, _ := strings.Cut(strings.TrimPrefix(line, "F:"), ":")
			if n, err := strconv.Atoi(number); err != nil || n < 1 || n > 1+breaks {
				t.Errorf("%q", line)
			}
		}
	})
}

// TestPackagedFile: the package's file loads, sets nothing but the mode, and has each other setting with its default.
func TestPackagedFile(t *testing.T) {
	text, err := os.ReadFile("../../../packaging/config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c, _, err := load(t, string(text))
	if err != nil || c.Mode != "enforce" {
		t.Fatalf("mode %+v, %v", c, err)
	}
	packaged := c.Settings
	all := regexp.MustCompile(`(?m)^#([a-z_]+: )`).ReplaceAllString(string(text), "$1")
	c, file, err := load(t, all)
	if err != nil || !reflect.DeepEqual(c.Settings, packaged) {
		t.Errorf("%+v, %v: want %+v", c, err, packaged)
	}
	for _, s := range Table {
		if !strings.HasPrefix(c.Origin(s.Key), file+":") {
			t.Errorf("%s is not in the file", s.Key)
		}
	}
}
