package kubelet

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestPodLogsDir checks that the log directory is that of the running kubelet's configuration.
func TestPodLogsDir(t *testing.T) {
	const uid = parsers.PodUID("2c9a1c3e-5f0e-4c39-9d3b-0d6a1e9f6b11")
	dir := t.TempDir()
	testkit.Must(t, os.MkdirAll(filepath.Join(dir, "elsewhere", "shop_web-0_"+string(uid)), 0o700))
	const old = "7f8e47b71a845b4eb634a44a94e20069"
	testkit.Must(t, os.MkdirAll(filepath.Join(dir, "logs", "__"+old), 0o700))                 // not a pod's name
	testkit.Must(t, os.MkdirAll(filepath.Join(dir, "logs", "shop_"+string(uid)+"_x"), 0o700)) // the UID in the wrong place
	testkit.WriteText(t, filepath.Join(dir, "logs", "shop_file_"+string(uid)), "")
	testkit.Must(t, os.Symlink(dir, filepath.Join(dir, "logs", "shop_link_"+string(uid))))
	config := testkit.WriteText(t, filepath.Join(dir, "config.yaml"), "podLogsDir: "+dir+"/elsewhere\n")
	k := configured(t, "kubelet", "--config="+config)
	r := Reader{LogPodsDir: dir + "/logs", Guard: &bounded.Guard{}}
	got := r.readPodLogs(k)
	if got.Err != nil || len(got.Pods) != 1 || got.Names[uid] != (policy.PodName{Namespace: "shop", Name: "web-0"}) {
		t.Errorf("read %+v", got)
	}
	if got := r.readPodLogs(nil); !got.Pods[old] || len(got.Pods) != 1 || len(got.Names) != 0 || got.Err != nil {
		t.Errorf("without a kubelet: %+v", got)
	}
	r.LogPodsDir = dir + "/none"
	if got := r.readPodLogs(nil); len(got.Pods) != 0 || got.Err != nil {
		t.Errorf("without a log directory: %+v", got)
	}
	r.LogPodsDir = config
	if got := r.readPodLogs(nil); got.Err == nil {
		t.Error("a file was read as the log directory")
	}
	testkit.WriteText(t, config, "podLogsDir: [\n")
	if got := r.readPodLogs(configured(t, "kubelet", "--config="+config)); got.Err == nil || got.Pods[uid] {
		t.Errorf("with an unreadable configuration: %+v", got)
	}
}
