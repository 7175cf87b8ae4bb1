package kubelet

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestKubeletLogFormat: whether a kubelet writes text or JSON decides which lines may be
// its own; where nobody can tell, none in JSON are.
func TestKubeletLogFormat(t *testing.T) {
	dir := t.TempDir()
	testkit.Must(t, os.Mkdir(filepath.Join(dir, "conf.d"), 0o700))
	file := func(name, text string) string { return testkit.WriteText(t, filepath.Join(dir, name), text) }
	plain, asJSON := file("plain.yaml", "kind: KubeletConfiguration\n"), file("json.yaml", "logging:\n  format: json\n  verbosity: 2\n")
	file("conf.d/10-x.conf", "logging: {format: json}\n")
	for name, c := range map[string]struct {
		args []string
		raw  string
		want policy.LogFormat
	}{
		"default":             {args: []string{"kubelet"}, want: policy.LogText},
		"flag":                {args: []string{"kubelet", "--logging-format=json"}, want: policy.LogJSON},
		"file":                {args: []string{"kubelet", "--config", asJSON}, want: policy.LogJSON},
		"flag over file":      {args: []string{"kubelet", "--config", asJSON, "--logging-format", "text"}, want: policy.LogText},
		"drop-in":             {args: []string{"kubelet", "--config", plain, "--config-dir", filepath.Join(dir, "conf.d")}, want: policy.LogJSON},
		"file without a word": {args: []string{"kubelet", "--config", plain}, want: policy.LogText},
		"file that is gone":   {args: []string{"kubelet", "--config", filepath.Join(dir, "none")}, want: policy.LogUnknown},
		"yet another":         {args: []string{"kubelet", "--logging-format=cbor"}, want: policy.LogUnknown},
		"hidden command line": {raw: "/usr/local/bin/k3s server\x00\x00", want: policy.LogUnknown},
	} {
		comm := "kubelet"
		if c.raw != "" {
			comm = "k3s-server"
		}
		ks, err := findKubelets(testkit.ProcTree(t, testkit.FakeProc{PID: 42, Comm: comm, Args: c.args, Raw: c.raw}), DefaultRootDir)
		if err != nil || len(ks.ours) != 1 {
			t.Fatalf("%s: %v, %v", name, ks, err)
		}
		if got := ks.ours[0].logsIn(); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
