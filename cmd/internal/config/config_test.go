package config

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/cmd/internal/human"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// load makes a configuration from a file's text and flags, with discovery by find.
func load(t *testing.T, text string, find func(context.Context) (string, string, bool), flags ...string) (Config, error) {
	t.Helper()
	in := Input{Given: map[string][]string{}, Discover: find}
	set := pflag.NewFlagSet("test", pflag.ContinueOnError)
	set.StringVar(&in.File, "config", "", "")
	AddFlags(set, in.Given)
	testkit.Must(t, set.Parse(flags))
	if in.File == "" {
		in.File = filepath.Join(t.TempDir(), "config.yaml")
		testkit.Must(t, os.WriteFile(in.File, []byte(text), 0o600))
	}
	return Load(t.Context(), in)
}

// TestPrecedence checks that flags override the file, the file discovery, and discovery the defaults, and that each
// value has its source.
func TestPrecedence(t *testing.T) {
	find := func(context.Context) (string, string, bool) { return "/data/kubelet", "kubelet, PID 812", true }
	c, err := load(t, "# a comment\nhold: 10m\nconfirm: 3m\nlog_files: [/a, /b]\nmax_per_look: 7\n", find,
		"--hold", "1h30m", "--journal-unit", "a.service", "--journal-unit", "b.service", "--log-source", "journald,file", "--state-dir", "rel")
	testkit.Must(t, err)
	wd, err := os.Getwd()
	testkit.Must(t, err)
	for _, v := range []struct{ key, value, source string }{
		{"hold", "1h30m", "flag --hold"},
		{"confirm", "3m", c.File + ":3"},
		{"log_files", "/a,/b", c.File + ":4"},
		{"max_per_look", "7", c.File + ":5"},
		{"retention", "24h", "default"},
		{"root_dir", "/data/kubelet", "discovered: kubelet, PID 812"},
		{"quarantine_dir", "/data/kubelet/orphan-reaper", "default, below root_dir"},
		{"journal_units", "a.service,b.service", "flag --journal-unit"},
		{"log_sources", "journald,file", "flag --log-source"},
		{"state_dir", filepath.Join(wd, "rel"), "flag --state-dir"},
	} {
		if got := strings.Join(settingByKey(v.key).Values(&c), ","); got != v.value {
			t.Errorf("%s: %s, want %s", v.key, got, v.value)
		}
		if got := c.Source(v.key); got != v.source {
			t.Errorf("%s comes from %q, want %q", v.key, got, v.source)
		}
	}
	c, err = load(t, "root_dir: /from/file/\n", find)
	if err != nil || c.RootDir != "/from/file" {
		t.Errorf("root_dir %q, %v: a file overrides discovery", c.RootDir, err)
	}
}

// TestBadFile checks that each error has file, line and key.
func TestBadFile(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"\n\nhodl: 5m\n", `:3: unknown key "hodl"`},
		{"output: json\n", `:1: unknown key "output"`},
		{"hold: 5m\nhold: 5m\n", `:2: key "hold" is here a second time, after line 1`},
		{"hold: 300\n", `:1: hold: "300" is not a duration: write one such as 90s, 5m or 48h`},
		{"hold: 1d\n", `:1: hold: "1d" is not a duration: write one such as 90s, 5m or 48h`},
		{"hold: soon\n", `:1: hold: "soon" is not a duration: write one such as 90s, 5m or 48h`},
		{"hold:\n", `:1: hold: line 1 has no value: give one DURATION, or delete the key`},
		{"hold: [5m]\n", `:1: hold: want one DURATION in line 1, found a list or a section`},
		{"mode: Enforce\n", `:1: mode: "Enforce" is not one of observe, enforce`},
		{"mode: true\n", `:1: mode: "true" is not one of observe, enforce`},
		{"max_per_look: lots\n", `:1: max_per_look: "lots" is not a whole number`},
		{"max_per_look: 99999999999999999999\n", `:1: max_per_look: "99999999999999999999" is not a whole number`},
		{"log_files: /x\n", `:1: log_files: want a list, such as [A, B]`},
		{"log_files:\n  - /x\n  - {a: b}\n", `:2: log_files: want one FILE in line 3, found a list or a section`},
		{"web.config_file: none\n", `:1: unknown key "web.config_file"`},
		{"config_file: none\n", `:1: unknown key "config_file"`},
		{"web: true\n", `:1: web: want keys with values, such as "hold: 5m"`},
		{"web:\n  listen_address: x\n", `:2: unknown key "web.listen_address"`},
		{"web: {hold: 5m}\n", `:1: unknown key "web.hold"`},
		{"web: {config_file: none}\nweb: {config_file: none}\n", `:2: key "web" is here a second time, after line 1`},
		{"- hold\n", `:1: want keys with values, such as "hold: 5m"`},
		{"a: b: c\n", `: mapping values are not allowed in this context`},
		{"hold: 5m\n  mode: x: y\n", `: line 2: mapping values are not allowed in this context`},
		{"hold: 5m\n---\nhold: 6m\n", `: the file has a second document; write all keys in one`},
		{"hold: 5m\nmode: \x01\n", `: control characters are not allowed`},
		{"hold: 5m\nmode: \xff\n", `: invalid leading UTF-8 octet`},
		{"<<: {hold: 5m}\n", `:1: unknown key "<<"`},
		{"hold: -5m\n", `:1: hold: -5m is negative`},
		{"confirm: 0s\n", `:1: confirm: 0s works only with --hold 0s`},
		{"max_per_look: -1\n", `:1: max_per_look: -1 is negative; 0 is no limit`},
		{"state_dir: var/x\n", `:1: state_dir: "var/x" is not an absolute path`},
		{"state_dir: ''\n", `:1: state_dir: is empty`},
		{"state_dir: \"/a\\nb\"\n", `:1: state_dir: "/a\nb" holds a character that cannot be printed`},
		{"state_dir: none\n", `:1: state_dir: "none" is not an absolute path`},
		{"quarantine_dir: /var/lib/kubelet/pods/x\n", `:1: quarantine_dir: /var/lib/kubelet/pods/x and the pods directory /var/lib/kubelet/pods lie in one another`},
		{"quarantine_dir: /var/lib/kubelet\n", `:1: quarantine_dir: /var/lib/kubelet and the pods directory /var/lib/kubelet/pods lie in one another`},
		{"quarantine_dir: /q\nstate_dir: /q/state\n", `:2: state_dir: /q/state lies in the quarantine /q`},
		{"metrics_file: /x/y.txt\n", `:1: metrics_file: "/x/y.txt" does not end in .prom, and the node exporter reads no other`},
		{"log_sources: []\n", `:1: log_sources: is empty`},
		{"log_sources: [auto, file]\n", `:1: log_sources: auto stands alone`},
		{"journal_units: [a/b]\n", `:1: journal_units: "a/b" is not the name of a unit`},
		{"journal_units: []\n", `:1: journal_units: is empty`},
		{"log_sources: [file]\nlog_files: []\n", `:2: log_files: is empty`},
		{"runtime_endpoint: /run/x.sock\n", `:1: runtime_endpoint: "/run/x.sock" has no scheme: write unix:///run/x.sock`},
		{"runtime_endpoint: tcp://1.2.3.4\n", `:1: runtime_endpoint: "tcp://1.2.3.4" is not one of unix:///PATH, auto, none`},
		{"runtime_endpoint: unix://x.sock\n", `:1: runtime_endpoint: "unix://x.sock" is not one of unix:///PATH, auto, none`},
		{"node_root: /n\n", `:1: node_root: another directory than / works only with --node-namespaces self`},
		{"node_namespaces: self\nnode_root: n\n", `:2: node_root: "n" is not an absolute path`},
		{"node_namespaces: self\nnode_root: ''\n", `:2: node_root: is empty`},
		{"web: {listen_addresses: ['9477']}\n", `:1: web.listen_addresses: "9477" is neither HOST:PORT nor systemd`},
		{"web: {listen_addresses: [':0']}\n", `:1: web.listen_addresses: ":0" is neither HOST:PORT nor systemd`},
		{"web: {listen_addresses: [':70000']}\n", `:1: web.listen_addresses: ":70000" is neither HOST:PORT nor systemd`},
		{"web: {listen_addresses: ['node1:9477']}\n", `:1: web.listen_addresses: "node1:9477": write an IP address of this node, or :9477 for all of them`},
		{"web: {listen_addresses: ['[192.0.2.1:9477']}\n", `:1: web.listen_addresses: "[192.0.2.1:9477": write an IP address of this node, or :9477 for all of them`},
		{"web: {listen_addresses: ['::1:9477']}\n", `:1: web.listen_addresses: "::1:9477": write an IP address of this node, or :9477 for all of them`},
		{"web: {config_file: /etc/web.yaml}\n", `:1: web.config_file: web.listen_addresses is empty`},
		{"kubeconfig: in-cluster\n", `:1: kubeconfig: "in-cluster" is not an absolute path`},
		{"web: {listen_addresses: [systemd], config_file: web.yaml}\n", `:1: web.config_file: "web.yaml" is not an absolute path`},
		{"runtime_endpoint: none\n", `:1: runtime_endpoint: none works only with --node-namespaces self`},
	} {
		_, err := load(t, c.text, nil)
		if err == nil {
			t.Errorf("%q: no error", c.text)
			continue
		}
		if exit.Code(err) != exit.UsageCode {
			t.Errorf("%q: code %d", c.text, exit.Code(err))
		}
		if lines := strings.Split(err.Error(), "\n"); len(lines) != 1 || !strings.HasSuffix(err.Error(), c.want) || !strings.Contains(err.Error(), "config.yaml:") {
			t.Errorf("%q:\n got %s\nwant …config.yaml%s", c.text, err, c.want)
		}
	}
}

// TestGoodFile checks texts that must be accepted.
func TestGoodFile(t *testing.T) {
	for _, text := range []string{
		"", "# nothing\n", "---\nhold: 5m\n", "hold: 0\nconfirm: 0\n", "hold: 0s\nconfirm: 0s\n", "hold: &d 5m\nconfirm: *d\n",
		"runtime_endpoint: none\nnode_namespaces: self\n", "runtime_endpoint: unix:///run/x.sock\n", "metrics_file: none\n",
		"metrics_file: /var/lib/node/x.prom\n", "log_sources: [file, journald]\n", "hold: 5m\r\nmode: observe\r\n", "log_sources: [file]\njournal_units: []\n",
		"web: {listen_addresses: [systemd, ':9477', '127.0.0.1:9477', '[::1]:9477', 'localhost:9477', '[192.0.2.1]:9477'], config_file: /w.yaml}\n",
	} {
		if _, err := load(t, text, nil); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestNodeRoot checks that a path that is not set is below the node's root, and that the machine's own kubelet is not
// the node's.
func TestNodeRoot(t *testing.T) {
	root := t.TempDir()
	flags := []string{"--node-root", root, "--node-namespaces", "self"}
	c, err := load(t, "state_dir: /elsewhere\n", nil, flags...)
	testkit.Must(t, err)
	for i := range Settings {
		for _, path := range Settings[i].paths(&c) {
			if key := Settings[i].Key; isPath(*path) && key != "state_dir" && !within(*path, root) {
				t.Errorf("%s: %s", key, *path)
			}
		}
	}
	if c.StateDir != "/elsewhere" || c.RootDir != root+"/var/lib/kubelet" {
		t.Errorf("state_dir %s, root_dir %s", c.StateDir, c.RootDir)
	}
	kubelet := func(dir string) func(context.Context) (string, string, bool) {
		return func(context.Context) (string, string, bool) { return dir, "kubelet, PID 812", true }
	}
	c, err = load(t, "", kubelet("/var/lib/kubelet"), flags...)
	if err != nil || c.RootDir != root+"/var/lib/kubelet" || !strings.Contains(c.Source("root_dir"), "PID 812 is not below") {
		t.Errorf("%s from %s: %v", c.RootDir, c.Source("root_dir"), err)
	}
	if c, err = load(t, "", kubelet(root+"/k"), flags...); err != nil || c.RootDir != root+"/k" {
		t.Errorf("%s from %s: %v", c.RootDir, c.Source("root_dir"), err)
	}
	testkit.Must(t, os.MkdirAll(root+"/etc/orphan-reaper", 0o755))
	testkit.Must(t, os.WriteFile(root+DefaultFile, []byte("hold: 7m\n"), 0o600))
	usual := Input{Usual: DefaultFile, Given: map[string][]string{"node-root": {root}, "node-namespaces": {Self}}}
	if c, err := Load(t.Context(), usual); err != nil || c.Hold != 7*time.Minute {
		t.Errorf("default file below the node's root: %v from %s: %v", c.Hold, c.Source("hold"), err)
	}
}

// TestAllErrorsAtOnce checks that one check reports all errors of a file.
func TestAllErrorsAtOnce(t *testing.T) {
	_, err := load(t, "hodl: 1m\nmode: x\nretention: 1d\n", nil)
	if err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("%v: want three lines", err)
	}
}

// TestSection checks a key below another one, from the file and from the flag.
func TestSection(t *testing.T) {
	const key, text = "web.config_file", "hold: 10m\nweb:\n  config_file: /w\n  listen_addresses: [systemd]\n"
	if c, err := load(t, text, nil); err != nil || c.WebConfigFile != "/w" || c.Source(key) != c.File+":3" {
		t.Errorf("%v from %s: %v", c.WebConfigFile, c.Source(key), err)
	}
	if c, err := load(t, text, nil, "--web-config-file=none"); err != nil || c.WebConfigFile != None || c.Source(key) != "flag --web-config-file" {
		t.Errorf("%v from %s: %v", c.WebConfigFile, c.Source(key), err)
	}
}

// TestDurations checks that a printed duration is parsed to the same value.
func TestDurations(t *testing.T) {
	for _, d := range []time.Duration{0, 10 * time.Second, 90 * time.Second, 5 * time.Minute, 90 * time.Minute, time.Hour + time.Second, 24 * time.Hour} {
		if back, err := parseDuration(human.Span(d)); err != nil || back != d {
			t.Errorf("%s reads as %s, %v", human.Span(d), back, err)
		}
	}
}

// TestDiff checks that a change of every setting is detected and is in the right list.
func TestDiff(t *testing.T) {
	base := Default()
	if live, restart := base.Diff(Default()); len(live)+len(restart) > 0 {
		t.Errorf("equal configurations differ: %v %v", live, restart)
	}
	for i := range Settings {
		s := &Settings[i]
		other := Default()
		switch p := s.field(&other).(type) {
		case *string:
			*p += "x"
		case *int:
			*p++
		case *time.Duration:
			*p++
		case *[]string:
			*p = append(slices.Clone(*p), "x")
		default:
			t.Fatalf("%s: unexpected type %T", s.Key, p)
		}
		live, restart := base.Diff(other)
		want, none := live, restart
		if !s.Live {
			want, none = restart, live
		}
		if !slices.Equal(want, []string{s.Key}) || len(none) > 0 {
			t.Errorf("%s: live %v, restart %v", s.Key, live, restart)
		}
	}
}

// FuzzConfigFile checks that no text crashes the reader and that every error has the file.
func FuzzConfigFile(f *testing.F) {
	for _, s := range []string{"hold: 5m", "a: &a [*a]", "{", "? x", "hold: !!binary aGk=", "log_files: [[]]", "\xef\xbb\xbfhold: 5m", "hold: *x"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c := Default()
		if err := c.applyFile("config.yaml", text); err != nil {
			for line := range strings.Lines(err.Error()) {
				if !strings.HasPrefix(line, "config.yaml:") && !strings.HasPrefix(line, "  ") {
					t.Errorf("error without file: %q", line)
				}
			}
		}
	})
}

// TestCommandLine checks that a printed command has the given flags, quoted and with absolute paths, except those
// that repeat a default or the file. A path is always kept: without it the command would use another node.
func TestCommandLine(t *testing.T) {
	t.Chdir(t.TempDir())
	dir, err := os.Getwd()
	testkit.Must(t, err)
	testkit.Must(t, os.WriteFile("my c.yaml", []byte("retention: 1h\ncgroup_root: /cg\n"), 0o600))
	in := Input{File: "my c.yaml", Given: map[string][]string{}}
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	AddFlags(set, in.Given)
	if err := set.Parse([]string{
		"--metrics-file", "none", "--log-level", "debug", "--log-format", "json", "--hold", "3s", "--hold", "1s", "--mode", "enforce", "--confirm", "300s",
		"--runtime-endpoint", "none", "--log-file", "a", "--log-file", "/b b", "--state-dir", "../state", "--web-listen-address", "systemd",
		"--retention", "60m", "--cgroup-root", "/cg", "--root-dir", "/var/lib/kubelet",
	}); err != nil {
		t.Fatal(err)
	}
	want := "--config '" + dir + "/my c.yaml' --root-dir /var/lib/kubelet --hold 1s --state-dir " + filepath.Join(dir, "../state") +
		" --log-file " + dir + "/a --log-file '/b b' --runtime-endpoint none --metrics-file none --web-listen-address systemd"
	if got := in.CommandLine(); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if got := (Input{}).CommandLine(); got != "" {
		t.Error(got)
	}
}

// TestConfigOwner checks that a configuration that another user can write is refused: it decides what root removes.
func TestConfigOwner(t *testing.T) {
	for name, c := range map[string]struct {
		file, dir os.FileMode
		owner     int
		unsafe    bool
	}{
		"usual":                       {0o644, 0o755, -1, false},
		"its own only":                {0o600, 0o700, -1, false},
		"our group's":                 {0o664, 0o775, -1, false},
		"anybody's":                   {0o666, 0o755, -1, true},
		"anybody's to write":          {0o602, 0o755, -1, true},
		"in a directory of anybody's": {0o644, 0o777, -1, true},
		"in one like /tmp":            {0o644, 0o777 | os.ModeSticky, -1, false},
		"another user's":              {0o644, 0o755, 12345, true},
	} {
		dir := filepath.Join(t.TempDir(), "etc")
		testkit.Must(t, os.Mkdir(dir, 0o700))
		file := filepath.Join(dir, "config.yaml")
		testkit.Must(t, os.WriteFile(file, []byte("mode: observe\n"), 0o600))
		if c.owner >= 0 && os.Chown(file, c.owner, -1) != nil {
			continue // Only root can change a file's owner.
		}
		for path, mode := range map[string]os.FileMode{file: c.file, dir: c.dir} {
			testkit.Must(t, os.Chmod(path, mode))
		}
		_, err := load(t, "", nil, "--config", file)
		if e, _ := errors.AsType[*exit.Error](err); (e != nil) != c.unsafe || e != nil && !strings.HasPrefix(e.Hint, "chown root:root ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	fifo := filepath.Join(t.TempDir(), "fifo")
	testkit.Must(t, unix.Mkfifo(fifo, 0o600))
	for _, name := range []string{fifo, "/dev/zero", t.TempDir()} { // opening a FIFO would wait for a writer
		if _, err := readConfigFile(name); err == nil || !strings.Contains(err.Error(), "is not a file") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := readConfigFile(os.DevNull); err != nil {
		t.Errorf("%s: %v", os.DevNull, err)
	}
}
