package probe

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

func TestNodeExporter(t *testing.T) {
	const service, v1 = "0::/system.slice/node_exporter.service\n", "12:cpu:/\n1:name=systemd:/system.slice/node_exporter.service\n0::/\n"
	told := []string{"/usr/bin/x", "--collector.textfile.directory=/data/textfiles"}
	defaults := filepath.Join(t.TempDir(), "defaults")
	writeText(t, defaults, "ARGS=\"--collector.textfile.directory=/from/defaults\"\n")
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
		proc := procTree(t, fakeProc{pid: 42, comm: c.comm, args: c.args})
		writeText(t, filepath.Join(proc, strconv.Itoa(42), "cgroup"), c.cgroup)
		var files []string
		if c.defaults != "" {
			files = []string{"/nonexistent", c.defaults}
		}
		dir, running := NewNodeExporter(proc, files).Textfile(t.Context())
		if dir != c.dir || running != c.running {
			t.Errorf("%s: %q, %v; want %q, %v", c.name, dir, running, c.dir, c.running)
		}
	}
	// A FIFO in place of the command line does not keep anybody.
	proc := procTree(t, fakeProc{pid: 42, comm: "node_exporter"})
	writeText(t, filepath.Join(proc, "42", "cgroup"), service)
	if err := os.Remove(filepath.Join(proc, "42", "cmdline")); err != nil {
		t.Fatal(err)
	}
	if dir, running := NewNodeExporter(proc, nil).Textfile(t.Context()); dir != "" || running {
		t.Errorf("without a command line: %q, %v", dir, running)
	}
}
