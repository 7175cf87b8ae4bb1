package ui

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

const commandUID = "2c9a1c3e-5f0e-4c39-9d3b-0d6a1e9f6b11"

// TestCommands: each command to paste has the pod's own values, no placeholder, and is one line of valid shell.
func TestCommands(t *testing.T) {
	x := Place{PodsDir: "/var/lib/kubelet/pods", QuarantineDir: "/var/lib/kubelet/orphan-reaper", Node: "n1"}
	e := policy.Evidence{
		UID: commandUID, Namespace: "shop", PodName: "cart-0", Unmount: "orphan-reaper unmount " + commandUID,
		Sandboxes: []policy.Sandbox{{ID: "0af1", Socket: "/run/containerd/containerd.sock"}, {ID: "77aa", Ready: true}},
		VolData: map[string]string{
			"a/vol_data.json": `{"driverName":"ebs.csi.aws.com","volumeHandle":"vol-1"}`, "b/vol_data.json": "{", "c/vol_data.json": `{"driverName":"x\u001b[2J"}`,
		},
		StateFiles: []policy.StateFile{{Name: "allocated_pods_state"}, {Name: "/var/lib/x/y z"}},
	}
	for reason, want := range map[policy.Reason][]string{
		policy.ReasonMounted: {"grep " + commandUID + " /proc/[0-9]*/mountinfo", e.Unmount},
		policy.ReasonSandbox: {"crictl -r unix:///run/containerd/containerd.sock pods --label io.kubernetes.pod.uid=" + commandUID},
		policy.ReasonSandboxOrphaned: {
			"crictl -r unix:///run/containerd/containerd.sock stopp 0af1 && crictl -r unix:///run/containerd/containerd.sock rmp 0af1",
		},
		policy.ReasonStaged:      {"kubectl get csinode n1 -o jsonpath='{.spec.drivers[*].name}' | grep -F ebs.csi.aws.com"},
		policy.ReasonAPILists:    {"kubectl --namespace shop get pod cart-0 -o wide"},
		policy.ReasonKubeletFile: {"grep -c " + commandUID + " /var/lib/kubelet/allocated_pods_state", "grep -c " + commandUID + " '/var/lib/x/y z'"},
		policy.ReasonHold:        nil,
	} {
		c := x.Commands(&e, reason)
		if got := append(c.Look, c.Then...); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", reason, got, want)
		}
	}
	for _, reason := range policy.Reasons() {
		c := x.Commands(&e, reason)
		for _, command := range append(c.Look, c.Then...) {
			for _, placeholder := range []string{"UID", "PATH", "PODS-DIR", "NAME", "CGROUP/"} {
				if strings.Contains(command, placeholder) {
					t.Errorf("%s: %s is not filled in: %s", reason, placeholder, command)
				}
			}
			if out, err := exec.Command("sh", "-n", "-c", command).CombinedOutput(); err != nil || strings.Contains(command, "\n") {
				t.Errorf("%s: a shell rejects %q: %v %s", reason, command, err, out)
			}
		}
	}
}

// TestInUseNamesTheProcess: the command that shows which process has a file of the pod open has its PID.
func TestInUseNamesTheProcess(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), commandUID))
	testkit.Must(t, err)
	command := Place{PodsDir: "/pods"}.Commands(&policy.Evidence{UID: commandUID}, policy.ReasonInUse).Look[0]
	out, _ := exec.Command("sh", "-c", command).Output() // find fails where a process has ended since
	testkit.Must(t, f.Close())
	if !strings.Contains(string(out), fmt.Sprintf("/proc/%d/fd/", os.Getpid())) {
		t.Errorf("%s names no process: %s", command, out)
	}
}

// TestCommandsOfHostileNames: no name from the node runs anything or moves a terminal when it is pasted.
func TestCommandsOfHostileNames(t *testing.T) {
	for _, bad := range []string{"a; touch /tmp/x", "$(reboot)", "`reboot`", "a'b", "a\x1b[2Jb", "a\nb", "a\u202eb", "{name}", "{uid}", ""} {
		x := Place{PodsDir: "/pods", QuarantineDir: "/q", Node: bad}
		e := policy.Evidence{
			UID: commandUID, Namespace: bad, PodName: bad, Sandboxes: []policy.Sandbox{{ID: bad, Socket: "/" + bad}},
			VolData: map[string]string{"a": `{"driverName":"` + bad + `"}`}, StateFiles: []policy.StateFile{{Name: bad}},
		}
		for _, reason := range policy.Reasons() {
			c := x.Commands(&e, reason)
			for _, command := range append(c.Look, c.Then...) {
				if strings.ContainsFunc(command, func(r rune) bool { return r < ' ' || r > '~' }) {
					t.Errorf("%s: %q", reason, command)
				}
				bare := strings.ReplaceAll(strings.ReplaceAll(command, `'a'\''b'`, ""), "'"+bad+"'", "")
				if bad != "" && strings.Contains(bare, bad) && !strings.Contains(bare, "'/"+bad+"'") && !strings.Contains(bare, "/"+bad+"'") {
					t.Errorf("%s: %q is not quoted in %q", reason, bad, command)
				}
			}
		}
	}
	if c := (Place{}).Commands(&policy.Evidence{Name: "lost+found"}, policy.ReasonOwnMount); len(c.Look)+len(c.Then) > 0 {
		t.Errorf("of no pod: %q", c)
	}
}
