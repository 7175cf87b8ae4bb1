package e2e

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/e2e/kit"
)

// configure writes the kubelet's configuration.
func (n *node) configure(t *testing.T) {
	t.Helper()
	port, readOnly, minor := freePort(t), freePort(t), n.minor(t)
	n.port, n.readOnly = port, readOnly
	config := filepath.Join(n.dir, "kubelet.yaml")
	text := fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: 127.0.0.1
port: %[1]s
readOnlyPort: %[2]s
healthzPort: 0
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
staticPodPath: %[3]s
volumePluginDir: %[4]s/volume-plugins
cgroupDriver: cgroupfs
cgroupRoot: /%[5]s
enforceNodeAllocatable: []
failSwapOn: false
makeIPTablesUtilChains: false
oomScoreAdj: 0
evictionHard: {memory.available: "0%%", nodefs.available: "0%%", nodefs.inodesFree: "0%%", imagefs.available: "0%%"}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
fileCheckFrequency: 1s
staticPodURL: %[7]s
httpCheckFrequency: 1s
syncFrequency: %[6]s
`, port, readOnly, mkdir(t, filepath.Join(n.dir, "manifests")), n.dir, n.tag, syncFrequency, n.url)
	n.podLogs = "/var/log/pods"
	if minor >= 29 { // kubelets that share a directory remove each other's files
		n.podLogs = mkdir(t, filepath.Join(n.dir, "pod-logs"))
		text += "podLogsDir: " + n.podLogs + "\n"
	}
	if minor >= 31 {
		// A kubelet of 1.35 and newer does not start on cgroup v1 otherwise.
		text += "failCgroupV1: false\n"
	}
	if minor >= 27 {
		text += "containerRuntimeEndpoint: unix://" + n.endpoint + "\n"
	}
	write(t, config, text)
	n.args = []string{
		filepath.Join("..", ".cache", "e2e", n.version, "kubelet"), "--root-dir=" + n.root, "--config=" + config,
		"--cert-dir=" + filepath.Join(n.dir, "pki"), "--hostname-override=e2e", "--v=2",
	}
	if minor < 27 {
		n.args = append(n.args, "--container-runtime-endpoint=unix://"+n.endpoint)
	}
	if minor < 27 && minor >= 24 { // the only alternative, dockershim, was removed in 1.24
		n.args = append(n.args, "--container-runtime=remote")
	}
}

func (n *node) minor(t *testing.T) int {
	t.Helper()
	var minor int
	if _, err := fmt.Sscanf(n.version, "1.%d.", &minor); err != nil {
		t.Fatalf("no version of a kubelet: %s", n.version)
	}
	return minor
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// startKubelet starts the kubelet, which adopts the volumes that it finds.
func (n *node) startKubelet(t *testing.T, flags ...string) {
	t.Helper()
	n.started = (&process{Process: kit.Process{Log: n.kubeletLog()}}).size()
	n.kubelet = launch(t, "kubelet "+n.version, n.kubeletLog(), append(n.args, flags...)...)
}

// restartKubelet kills the kubelet and starts it again. between runs while it is down.
func (n *node) restartKubelet(t *testing.T, between ...func()) {
	t.Helper()
	n.kubelet.Kill()
	for _, do := range between {
		do()
	}
	n.startKubelet(t)
}

// pauseKubelet stops the kubelet's process until it gets SIGCONT.
func (n *node) pauseKubelet(t *testing.T) {
	t.Helper()
	t.Cleanup(func() { n.kubelet.signal(contSignal) })
	n.kubelet.signal(stopSignal)
	eventually(t, 10*time.Second, func() string {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", n.kubelet.Cmd.Process.Pid))
		return missing(err == nil && strings.Contains(string(b), ") T "), "the kubelet runs on: %s %v", b, err)
	})
}

// get sends a request to the kubelet's read-only port.
func (n *node) get(path string) string {
	resp, err := http.Get("http://127.0.0.1:" + n.readOnly + path)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// verbosity switches the running kubelet's -v, as `kubectl replace --raw .../debug/flags/v` does.
func (n *node) verbosity(t *testing.T, level string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "https://127.0.0.1:"+n.port+"/debug/flags/v", strings.NewReader(level))
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // its own certificate
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if b, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("PUT %s: %s %s %v", level, resp.Status, b, err)
	}
}

// metric returns the value of one of the kubelet's gauges.
func (n *node) metric(name string) string {
	for line := range strings.Lines(n.get("/metrics")) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return "absent"
}

func (n *node) logged(text string) bool {
	return slices.ContainsFunc(n.kubelet.since(n.started), func(line string) bool { return strings.Contains(line, text) })
}

// tookOver reports whether the running kubelet has adopted the volumes that it found.
func (n *node) tookOver(t *testing.T) bool {
	t.Helper()
	if n.minor(t) <= 24 {
		return n.logged(`"Reconciler: start to sync state"`)
	}
	return n.logged(`"Volume reconstruction finished"`)
}
