package probe

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

func TestServiceOf(t *testing.T) {
	for text, want := range map[string]string{
		"0::/system.slice/k3s-shop.service\n":                                                    "k3s-shop.service",
		"0::/system.slice/k3s-shop.service/init\n":                                               "k3s-shop.service",
		"0::/kube.slice/kube-node.slice/my-kubelet.service":                                      "my-kubelet.service",
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

// TestKubeletUnits: the unit is that of a kubelet which systemd started, and of no other process.
func TestKubeletUnits(t *testing.T) {
	args := []string{"kubelet"}
	dir := procTree(t,
		fakeProc{pid: 700, parent: 1, comm: "k3s-server", args: []string{"/usr/local/bin/k3s", "server"}},
		fakeProc{pid: 701, parent: 1, comm: "kubelet", args: args, uid: strconv.Itoa(os.Getuid() + 1)},
		fakeProc{pid: 702, parent: 650, comm: "kubelet", args: args},
		fakeProc{pid: 703, parent: 1, comm: "kubelet", args: args, nspid: "703\t12"},
		fakeProc{pid: 704, parent: 1, comm: "containerd", args: []string{"containerd"}},
		fakeProc{pid: 705, parent: 1, comm: "kubelet", args: args},
	)
	for pid, unit := range map[int]string{700: "k3s-shop", 701: "of-a-user", 702: "cron", 703: "in-a-container", 704: "containerd"} {
		writeText(t, filepath.Join(dir, strconv.Itoa(pid), "cgroup"), "0::/system.slice/"+unit+".service\n")
	}
	if got := KubeletUnits(t.Context(), dir); !slices.Equal(got, []string{"k3s-shop.service"}) {
		t.Errorf("units %q", got)
	}
	if got := KubeletUnits(t.Context(), t.TempDir()); got != nil {
		t.Errorf("without processes: %q", got)
	}
}
