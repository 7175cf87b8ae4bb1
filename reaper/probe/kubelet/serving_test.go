package kubelet

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

func TestServingFiles(t *testing.T) {
	dir := t.TempDir()
	config := testkit.WriteText(t, filepath.Join(dir, "k.yaml"), "tlsCertFile: rel/k.crt\nport: 10300\naddress: 10.0.0.5\n")
	testkit.Must(t, os.Mkdir(filepath.Join(dir, "d"), 0o700))
	testkit.WriteText(t, filepath.Join(dir, "d", "1.conf"), "address: 10.0.0.6\n")
	for _, c := range []struct {
		comm string
		args []string
		want string // the last file
		at   string
	}{
		{"kubelet", nil, "/var/lib/kubelet/pki/kubelet.crt", "127.0.0.1:10250"},
		{"kubelet", []string{"--root-dir=/data/kubelet"}, "/var/lib/kubelet/pki/kubelet.crt", "127.0.0.1:10250"},
		{"kubelet", []string{"--cert-dir=/pki", "--port=10251", "--address=::"}, "/pki/kubelet.crt", "127.0.0.1:10251"},
		{"kubelet", []string{"--config", config}, dir + "/rel/k.crt", "10.0.0.5:10300"},
		{"kubelet", []string{"--config", config, "--config-dir", filepath.Join(dir, "d")}, dir + "/rel/k.crt", "10.0.0.6:10300"},
		{"kubelet", []string{"--config", config, "--tls-cert-file=/x.crt", "--address=fd00::1", "--port=1"}, "/x.crt", "[fd00::1]:1"},
		{"k3s-agent", []string{"--data-dir=/k3s"}, "/k3s/agent/serving-kubelet.crt", "127.0.0.1:10250"},
	} {
		k := staticKubelet(t, c.comm, c.args...)
		files, err := k.servingCertificates()
		if err != nil || files[len(files)-1] != c.want || filepath.Base(files[0]) != "kubelet-server-current.pem" {
			t.Errorf("%v: %v, %v, want %s", c.args, files, err, c.want)
		}
		port, err := k.securePort()
		testkit.Must(t, err)
		if at, err := k.hostPort(port); err != nil || at != c.at {
			t.Errorf("%v: %s, %v, want %s", c.args, at, err, c.at)
		}
	}
	k := staticKubelet(t, "kubelet", "--address=localhost")
	if at, err := k.hostPort(1); err == nil {
		t.Errorf("a name is no address: %s", at)
	}
	t.Run("files", func(t *testing.T) {
		dir := t.TempDir()
		k := staticKubelet(t, "kubelet", "--cert-dir="+dir)
		if _, _, err := k.servingLeafs(); err == nil || !strings.Contains(err.Error(), "is not there") {
			t.Errorf("no file: %v", err)
		}
		cert, key := testkit.NewCert(t, "kubelet", time.Now().Add(time.Hour))
		testkit.WriteText(t, filepath.Join(dir, "kubelet-server-current.pem"), key+cert)
		if leafs, _, err := k.servingLeafs(); err != nil || len(leafs) != 1 || leafs[0].Subject.CommonName != "kubelet" {
			t.Errorf("key and certificate: %v, %v", leafs, err)
		}
		testkit.WriteText(t, filepath.Join(dir, "kubelet.crt"), "no certificate")
		if _, _, err := k.servingLeafs(); err == nil || !strings.Contains(err.Error(), "holds no certificate") {
			t.Errorf("a file that holds none: %v", err)
		}
	})
}

func TestReadOnlyPort(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string { return testkit.WriteText(t, filepath.Join(dir, name), text) }
	testkit.Must(t, os.Mkdir(filepath.Join(dir, "on"), 0o700))
	testkit.Must(t, os.Mkdir(filepath.Join(dir, "off"), 0o700))
	testkit.Must(t, os.Mkdir(filepath.Join(dir, "other"), 0o700))
	file("on/1.conf", "readOnlyPort: 10256\n")
	file("off/1.conf", "readOnlyPort: 0\n")
	file("other/1.conf", "maxPods: 7\n")
	on := file("on.yaml", "readOnlyPort: 10255\n")
	for _, c := range []struct {
		args []string
		want int
		err  bool
	}{
		{nil, 0, false},
		{[]string{"--read-only-port=10255"}, 10255, false},
		{[]string{"--read_only_port", "0"}, 0, false},
		{[]string{"--config", on}, 10255, false},
		{[]string{"--config", on, "--read-only-port=0"}, 0, false},
		{[]string{"--config", on, "--config-dir", dir + "/on"}, 10256, false},
		{[]string{"--config", on, "--config-dir", dir + "/off"}, 0, false},
		{[]string{"--config", on, "--config-dir", dir + "/other"}, 10255, false},
		{[]string{"--config", file("none.yaml", "kind: KubeletConfiguration\n")}, 0, false},
		{[]string{"--config", file("large.yaml", "readOnlyPort: 70000\n")}, 70000, true},
		{[]string{"--config", file("word.yaml", "readOnlyPort: on\n")}, 0, true},
		{[]string{"--read-only-port=70000"}, 0, true},
		{[]string{"--config", dir + "/missing"}, 0, true},
	} {
		port, err := staticKubelet(t, "kubelet", c.args...).readOnlyPort()
		if port != c.want || (err != nil) != c.err {
			t.Errorf("%v: %d, %v; want %d", c.args, port, err, c.want)
		}
	}
}
