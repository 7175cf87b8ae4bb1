package kubelet

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

func TestServiceOf(t *testing.T) {
	for text, want := range map[string]string{
		"0::/system.slice/k3s-shop.service\n":                                                    "k3s-shop.service",
		"0::/system.slice/k3s-shop.service/init\n":                                               "k3s-shop.service",
		"0::/kube.slice/kube-node.slice/my-kubelet.service":                                      "my-kubelet.service",
		"0::/../../../system.slice/kubelet.service\n":                                            "kubelet.service",
		"0::/../../kubepods-pod2.slice/cri-containerd-3.scope/system.slice/x.service\n":          "",
		"4:memory:/x\n1:name=systemd:/system.slice/kubelet.service\n0::/\n":                      "kubelet.service",
		"0::/system.slice/system-kubelet.slice/kubelet@a.service\n":                              "kubelet@a.service",
		"0::/user.slice/user-0.slice/user@0.service/app.slice/kubelet.service\n":                 "",
		"0::/user.slice/user-0.slice/session-3.scope\n":                                          "",
		"0::/system.slice/docker-0123.scope\n":                                                   "",
		"0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-2.scope/system.slice/x.service\n": "",
		"0::/\n":                                "",
		"0::/kubelet.slice\n":                   "",
		"":                                      "",
		"junk":                                  "",
		"1:cpu:/system.slice/kubelet.service\n": "",
	} {
		if got, ok := serviceOf(text); got != want || ok != (want != "") {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestKubeletUnits checks that the units are those of kubelets that systemd started, and of no other process.
func TestKubeletUnits(t *testing.T) {
	args := []string{"kubelet"}
	dir := testkit.ProcTree(t,
		testkit.FakeProc{PID: 700, Parent: 1, Comm: "k3s-server", Args: []string{"/usr/local/bin/k3s", "server"}},
		testkit.FakeProc{PID: 701, Parent: 1, Comm: "kubelet", Args: args, UID: strconv.Itoa(os.Getuid() + 1)},
		testkit.FakeProc{PID: 702, Parent: 650, Comm: "kubelet", Args: args},
		testkit.FakeProc{PID: 703, Parent: 1, Comm: "kubelet", Args: args, NSpid: "703\t12"},
		testkit.FakeProc{PID: 704, Parent: 1, Comm: "containerd", Args: []string{"containerd"}},
		testkit.FakeProc{PID: 705, Parent: 1, Comm: "kubelet", Args: args},
	)
	for pid, unit := range map[int]string{700: "k3s-shop", 701: "of-a-user", 702: "cron", 703: "in-a-container", 704: "containerd"} {
		testkit.WriteText(t, filepath.Join(dir, strconv.Itoa(pid), "cgroup"), "0::/system.slice/"+unit+".service\n")
	}
	if got := Units(t.Context(), dir); !slices.Equal(got, []string{"k3s-shop.service"}) {
		t.Errorf("units %q", got)
	}
	if got := Units(t.Context(), t.TempDir()); got != nil {
		t.Errorf("without processes: %q", got)
	}
}

// TestKubeletLogs checks that the file that is a kubelet's standard error is found, and no device, pipe, deleted file
// or file of another process.
func TestKubeletLogs(t *testing.T) {
	args := []string{"kubelet"}
	dir := testkit.ProcTree(t,
		testkit.FakeProc{PID: 700, Parent: 1, Comm: "kubelet", Args: args},
		testkit.FakeProc{PID: 701, Parent: 1, Comm: "kubelet", Args: args},
		testkit.FakeProc{PID: 702, Parent: 1, Comm: "containerd", Args: []string{"containerd"}},
	)
	log, other := filepath.Join(t.TempDir(), "kubelet.log"), filepath.Join(t.TempDir(), "containerd.log")
	testkit.WriteText(t, log, "")
	testkit.WriteText(t, other, "")
	for pid, links := range map[int][2]string{700: {log, log}, 701: {"/dev/null", "/nowhere/kubelet.log (deleted)"}, 702: {other, other}} {
		fds := filepath.Join(dir, strconv.Itoa(pid), "fd")
		testkit.Must(t, os.MkdirAll(fds, 0o700))
		testkit.Must(t, os.Symlink(links[0], filepath.Join(fds, "2")))
		testkit.Must(t, os.Symlink(links[1], filepath.Join(fds, "1")))
	}
	if got := Logs(t.Context(), dir); !slices.Equal(got, []string{log}) {
		t.Errorf("logs %q", got)
	}
	if got := Logs(t.Context(), t.TempDir()); got != nil {
		t.Errorf("without processes: %q", got)
	}
}
