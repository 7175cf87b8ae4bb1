package textfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

func TestNodeExporter(t *testing.T) {
	const service, v1 = "0::/system.slice/node_exporter.service\n", "12:cpu:/\n1:name=systemd:/system.slice/node_exporter.service\n0::/\n"
	told := []string{"/usr/bin/x", "--collector.textfile.directory=/data/textfiles"}
	defaults := filepath.Join(t.TempDir(), "defaults")
	write(t, defaults, "ARGS=\"--collector.textfile.directory=/from/defaults\"\n")
	for _, c := range []struct {
		name         string
		comm, cgroup string
		args         []string
		defaults     string
		dir          string
		running      bool
	}{
		{"upstream", "node_exporter", service, told, "", "/data/textfiles", true},
		{"Debian, its name cut off", "prometheus-node", "0::/system.slice/prometheus-node-exporter.service\n", told, defaults, "/data/textfiles", true},
		{"cgroup v1", "node_exporter", v1, told, "", "/data/textfiles", true},
		{"told nothing", "prometheus-node", service, []string{"/usr/bin/prometheus-node-exporter"}, "", "", true},
		{"its file was changed since", "prometheus-node", service, []string{"/usr/bin/prometheus-node-exporter"}, defaults, "/from/defaults", true},
		{"not started yet", "bash", service, told, defaults, "/from/defaults", false},
		{"a user's program of that name", "node_exporter", "0::/user.slice/user-1000.slice/session-2.scope\n", told, "", "", false},
		{"a user's service", "node_exporter", "0::/user.slice/user-1000.slice/user@1000.service/app.slice/node_exporter.service\n", told, "", "", false},
		{"a pod's", "node_exporter", "0::/kubepods.slice/kubepods-podx.slice/cri-containerd-y.scope\n", told, "", "", false},
		{"a scope of the system's", "node_exporter", "0::/system.slice/x.scope\n", told, "", "", false},
		{"a v1 controller says nothing", "node_exporter", "12:cpu:/system.slice/a.service\n1:name=systemd:/user.slice\n", told, "", "", false},
	} {
		proc := process(t, c.comm, c.cgroup, c.args)
		var files []string
		if c.defaults != "" {
			files = []string{"/nonexistent", c.defaults}
		}
		dir, running := finder(proc, files, isDir).told()
		if dir != c.dir || running != c.running {
			t.Errorf("%s: %q, %v; want %q, %v", c.name, dir, running, c.dir, c.running)
		}
	}
	// A FIFO in place of the command line does not keep anybody.
	proc := process(t, "node_exporter", service, nil)
	if err := os.Remove(filepath.Join(proc, "42", "cmdline")); err != nil {
		t.Fatal(err)
	}
	testkit.Must(t, unix.Mkfifo(filepath.Join(proc, "42", "cmdline"), 0o600))
	if dir, running := finder(proc, nil, isDir).told(); dir != "" || running {
		t.Errorf("without a command line: %q, %v", dir, running)
	}
}

func finder(proc string, defaults []string, isDir func(string) bool) *Finder {
	f := New(proc)
	f.defaults, f.isDir = defaults, isDir
	return f
}

func write(t *testing.T, path, text string) {
	t.Helper()
	testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
}

// process makes a /proc with one process.
func process(t *testing.T, comm, cgroup string, args []string) string {
	t.Helper()
	proc := t.TempDir()
	dir := filepath.Join(proc, "42")
	testkit.Must(t, os.Mkdir(dir, 0o700))
	write(t, filepath.Join(dir, "comm"), comm+"\n")
	write(t, filepath.Join(dir, "cgroup"), cgroup)
	write(t, filepath.Join(dir, "cmdline"), strings.Join(args, "\x00")+"\x00")
	return proc
}

// TestFind: first what the node exporter was told, then the usual places, of which its packages
// make one. A directory that is not there is none.
func TestFind(t *testing.T) {
	defaults := filepath.Join(t.TempDir(), "defaults")
	write(t, defaults, "ARGS=\"--collector.textfile.directory=/told\"\n")
	for _, c := range []struct{ dirs, want string }{
		{"", ""},
		{"/told", "/told"},
		{"/told /var/lib/node_exporter", "/told"},
		{"/var/lib/prometheus/node-exporter", "/var/lib/prometheus/node-exporter"},
		{"/var/lib/node_exporter", "/var/lib/node_exporter"},
		{"/var/lib/node_exporter /var/lib/node_exporter/textfile_collector", "/var/lib/node_exporter/textfile_collector"},
		{"/var/lib/node_exporter /var/lib/prometheus/node-exporter", "/var/lib/prometheus/node-exporter"},
	} {
		isDir := func(path string) bool { return strings.Contains(" "+c.dirs+" ", " "+path+" ") }
		if got, running := finder(t.TempDir(), []string{defaults}, isDir).Find(t.Context()); got != c.want || running {
			t.Errorf("%q: %q, %t, want %q", c.dirs, got, running, c.want)
		}
	}
}
