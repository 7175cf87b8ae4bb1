package kubelet

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// configured returns a kubelet on node-1 with the given arguments.
func configured(t *testing.T, comm string, args ...string) *Kubelet {
	t.Helper()
	k, ok := parseCommand(comm, append([]string{comm}, args...))
	if !ok {
		t.Fatalf("%s %v was not recognized as a kubelet", comm, args)
	}
	if k.configure(); k.rootErr != nil {
		t.Fatal(k.rootErr)
	}
	k.config.Hostname = "Node-1"
	return k
}

// TestSettings checks that a flag overrides the drop-in directory, which overrides the configuration file.
func TestSettings(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		testkit.Must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		return testkit.WriteText(t, filepath.Join(dir, name), text)
	}
	config := file("all.yaml", `kind: KubeletConfiguration
containerRuntimeEndpoint: unix:///file
staticPodPath: /file
staticPodURL: http://file
podLogsDir: /logs
address: 10.0.0.5
port: 10300
logging: {format: json, verbosity: 2}
`)
	silent, large := file("silent.yaml", "kind: KubeletConfiguration\n"), file("large", strings.Repeat("#\n", maxConfig))
	file("d/10.conf", "containerRuntimeEndpoint: unix:///10\nport: 10301\n")
	file("d/20.conf", "containerRuntimeEndpoint: unix:///20\nstaticPodPath: \"\"\nlogging: {format: text}\n")
	file("d/30.yaml", "containerRuntimeEndpoint: unix:///ignored\n")
	k3s := file("k3s.yaml", "container-runtime-endpoint: unix:///k3s\nkubelet-arg: [v=2, address=fd00::1]\ndata-dir: /data\n")
	file("k3s.yaml.d/1.yaml", "kubelet-arg+: logging-format=json\n")
	args := file("args", "# comment\n--port=\"10251\"\n--pod-manifest-path ${SNAP_DATA}/manifests\n--bare\n")
	for _, c := range []struct {
		comm, args string
		want       string // endpoint, static path and URL, address of its port, log format
	}{
		{"kubelet", "", "|||127.0.0.1:10250|text"},
		{
			"kubelet", "--container_runtime_endpoint /x --pod-manifest-path=/m --manifest-url=http://x --address=:: --port=1 --logging-format json",
			"/x|/m|http://x|127.0.0.1:1|json",
		},
		{"kubelet", "--port=0", "|||127.0.0.1:10250|text"},
		{"kubelet", "--config=" + config, "unix:///file|/file|http://file|10.0.0.5:10300|json"},
		{"kubelet", "--config " + config + " --config-dir=" + dir + "/d", "unix:///20|/file|http://file|10.0.0.5:10301|text"},
		{"kubelet", "--config " + config + " --config-dir=" + dir + "/d --container-runtime-endpoint=/x --port=9", "/x|/file|http://file|10.0.0.5:9|text"},
		{"kubelet", "--config=" + file("a.json", `{"staticPodPath":"/m","port":7}`), "|/m||127.0.0.1:7|text"},
		{"kubelet", "--config=" + file("rel.yaml", "staticPodPath: m\n"), "|" + dir + "/m||127.0.0.1:10250|text"},
		{"kubelet", "--config=" + silent, "|||127.0.0.1:10250|text"},
		{"kubelet", "--logging-format=cbor", "|||127.0.0.1:10250|"},
		{"kubelet", "--address=localhost", "|||error|text"},
		{"kubelet", "--port=70000", "|||error|text"},
		{"k3s", "server --config " + k3s, "unix:///k3s|/data/agent/pod-manifests||[fd00::1]:10250|json"},
		{"k3s", "agent --config " + k3s + " --data-dir=/d --container-runtime-endpoint=/x --kubelet-arg address=::1", "/x|/d/agent/pod-manifests||[::1]:10250|json"},
		{"kubelite", "--kubelet-args-file=" + args, "|/var/snap/microk8s/current/manifests||127.0.0.1:10251|text"},
		// If the configuration cannot be read, the flags remain.
		{"kubelet", "--container-runtime-endpoint=/x --logging-format=json --config " + dir + "/missing", "/x|error||error|json"},
		{"kubelet", "--config " + dir, "error|error||error|"},
		{"kubelet", "--config relative", "error|error||error|"},
		{"kubelet", "--config " + large, "error|error||error|"},
		{"kubelet", "--config " + file("broken", "port: [\n"), "error|error||error|"},
		{"kubelet", "--config-dir " + dir + "/missing", "error|error||error|"},
	} {
		k := configured(t, c.comm, strings.Fields(c.args)...)
		or := func(value string, err error) string {
			if err != nil {
				return "error"
			}
			return value
		}
		paths, err := k.manifestPaths()
		static := or(strings.Join(paths, " "), err)
		got := []string{or(k.endpoint()), static, k.config.StaticPodURL, or(k.hostPort()), string(k.logFormat())}
		if s := strings.Join(got, "|"); s != c.want {
			t.Errorf("%s %s: %s, want %s", c.comm, c.args, s, c.want)
		}
	}
	hidden := configured(t, "k3s", "server")
	hidden.hidden = true
	if f := hidden.logFormat(); f != policy.LogUnknown {
		t.Errorf("log format with a hidden command line: %q", f)
	}
}

func TestServingFiles(t *testing.T) {
	dir := t.TempDir()
	config := testkit.WriteText(t, filepath.Join(dir, "k.yaml"), "tlsCertFile: rel/k.crt\n")
	for _, c := range []struct{ comm, args, want string }{
		{"kubelet", "--root-dir=/data/kubelet", "[/var/lib/kubelet/pki/kubelet-server-current.pem /var/lib/kubelet/pki/kubelet.crt]"},
		{"kubelet", "--cert-dir=/pki", "[/pki/kubelet-server-current.pem /pki/kubelet.crt]"},
		{"kubelet", "--cert-dir=/pki --config " + config, "[/pki/kubelet-server-current.pem " + dir + "/rel/k.crt]"},
		{"kubelet", "--cert-dir=/pki --tls-cert-file=/x.crt --config " + config, "[/pki/kubelet-server-current.pem /x.crt]"},
		{"k3s-agent", "--data-dir=/k3s", "[/var/lib/kubelet/pki/kubelet-server-current.pem /k3s/agent/serving-kubelet.crt]"},
	} {
		if got := fmt.Sprint(configured(t, c.comm, strings.Fields(c.args)...).servingCertificates()); got != c.want {
			t.Errorf("%s: %s, want %s", c.args, got, c.want)
		}
	}
	k := configured(t, "kubelet", "--cert-dir="+dir)
	if _, _, err := k.servingLeafs(); err == nil || !strings.Contains(err.Error(), "is not there") {
		t.Errorf("missing file: %v", err)
	}
	cert, key := testkit.NewCert(t, "kubelet", testkit.Later)
	testkit.WriteText(t, filepath.Join(dir, "kubelet-server-current.pem"), key+cert)
	if leafs, _, err := k.servingLeafs(); err != nil || len(leafs) != 1 || leafs[0].Subject.CommonName != "kubelet" {
		t.Errorf("key and certificate: %v, %v", leafs, err)
	}
	testkit.WriteText(t, filepath.Join(dir, "kubelet.crt"), "no certificate")
	if _, _, err := k.servingLeafs(); err == nil || !strings.Contains(err.Error(), "holds no certificate") {
		t.Errorf("file without a certificate: %v", err)
	}
}
