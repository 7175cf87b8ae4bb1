package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestCanary: what make test runs each test by finds it where a sweep touches the machine.
// The one directory that is wrong here is the one that the tests did not name once.
func TestCanary(t *testing.T) {
	needNamespaces(t)
	canary := filepath.Join(t.TempDir(), "canary")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", canary, "../../testdata/canary").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, c := range []struct {
		name, script string
		wrong        []string
	}{
		{"a node of its own", `exec "$@"`, nil},
		{
			"the machine's networks", `exec "$@" --cni-conf-dir /etc/cni/net.d --cni-data-dir /var/lib/cni/networks`,
			[]string{"/var/lib/cni/networks/canary/10.99.0.2 is gone"},
		},
		{"the machine's state", `exec "$@" --state-dir /var/lib/orphan-reaper`, []string{"/var/lib/orphan-reaper/append.lock is new"}},
		{"the machine's runtime", `exec "$@" --runtime-endpoint unix:///run/containerd/containerd.sock`, []string{"the runtime was connected to"}},
		{"the machine's journal", `exec "$@" --log-format journal`, []string{"the journal was written to"}},
		{"opened only", `exec 3<>/var/lib/kubelet/orphan-reaper/.keep`, []string{"/var/lib/kubelet/orphan-reaper/.keep was opened for writing"}},
		{"another mode", `chmod 0700 /etc/cni`, []string{"/etc/cni has other attributes", "/etc/cni was mode 40755"}},
		{"a new name", `mkdir /var/lib/orphans`, []string{"/var/lib/orphans is new"}},
	} {
		n := newWholeNode(t)
		n.pod(1, false)
		n.args = append(n.args, "--cni-older-than", "0s")
		sweep := n.command("sweep", "--no-wait").Args
		sweep[0], _ = exec.LookPath(sweep[0]) // the shell would look for it elsewhere
		cmd := exec.Command(canary, append([]string{"sh", "-c", c.script, "sh"}, sweep...)...)
		out, err := cmd.CombinedOutput()
		if (err != nil) != (len(c.wrong) > 0) {
			t.Errorf("%s: %v\n%s", c.name, err, out)
		}
		for _, want := range c.wrong {
			if !strings.Contains(string(out), want) {
				t.Errorf("%s: want %q\n%s", c.name, want, out)
			}
		}
	}
}
