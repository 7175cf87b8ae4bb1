package poddir

import (
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// stateFiles reads the state files for the pods.
func (n *testTree) stateFiles(uids ...parsers.PodUID) *StateFiles {
	n.T.Helper()
	w := parsers.PodSet{}
	for _, uid := range uids {
		w[uid] = true
	}
	return n.StateFiles(n.T.Context(), n.open(), w)
}

func TestStateFiles(t *testing.T) {
	for _, file := range stateFiles {
		t.Run(file, func(t *testing.T) {
			n, uid, other := newTree(t), newUID(), newStaticUID()
			n.Write("kubelet/"+file, `{"entries":{"pod`+string(uid)+`":{"c":"0-3"},"x":"`+string(newUID())+`"}}`)
			a := n.stateFiles(uid, other)
			wantFact(t, a.Fact(uid, n.RootDir), policy.Yes, file)
			wantFact(t, a.Fact(other, n.RootDir), policy.No, "")
		})
	}
	t.Run("several name it, and when they were written", func(t *testing.T) {
		n, uid := newTree(t), newUID()
		written := time.Unix(1_600_000_000, 0)
		want := []policy.StateFile{{Name: "allocated_pods_state", Written: written}, {Name: "cpu_manager_state", Written: written.Add(time.Hour)}}
		for _, f := range want {
			n.Write("kubelet/"+f.Name, string(uid)+" "+string(uid))
			must(t, os.Chtimes(n.Path("kubelet/"+f.Name), f.Written, f.Written))
		}
		a := n.stateFiles(uid)
		if got := a.Files(uid); !slices.Equal(got, want) {
			t.Errorf("state files %v, want %v", got, want)
		}
		wantFact(t, a.Fact(uid, n.RootDir), policy.Yes, "allocated_pods_state and cpu_manager_state")
		n.Mkdir("kubelet/dra_manager_state") // it might contain the pod, too
		a = n.stateFiles(uid)
		wantFact(t, a.Fact(uid, n.RootDir), policy.Yes, "")
		if got := a.Files(uid); got != nil {
			t.Errorf("with an unreadable file: %v", got)
		}
	})
	t.Run("the checkpoint that is in one place whatever the root directory", func(t *testing.T) {
		n, uid := newTree(t), newUID()
		n.Write("device-plugins/"+deviceCheckpoint, string(uid))
		wantFact(t, n.stateFiles(uid).Fact(uid, n.RootDir), policy.Yes, n.DevicePlugins)
	})
	spoil := map[string]func(n *testTree){
		"the checkpoint is a directory": func(n *testTree) { n.Mkdir("device-plugins/" + deviceCheckpoint) },
		"a directory":                   func(n *testTree) { n.Mkdir("kubelet/cpu_manager_state") },
		"a symlink":                     func(n *testTree) { n.Symlink("/etc/passwd", "kubelet/cpu_manager_state") },
		"a FIFO":                        func(n *testTree) { must(n.T, unix.Mkfifo(n.Path("kubelet/cpu_manager_state"), 0o600)) },
		"too long": func(n *testTree) {
			n.Write("kubelet/cpu_manager_state", "")
			must(n.T, os.Truncate(n.Path("kubelet/cpu_manager_state"), biggestStateFile+1))
		},
		"the directory is a file": func(n *testTree) { n.Write("kubelet/device-plugins", "") },
	}
	for name, f := range spoil {
		t.Run(name, func(t *testing.T) {
			for name, mode := range modes {
				t.Run(name, func(t *testing.T) {
					n := mode(t)
					uid := newUID()
					f(n)
					wantFact(t, n.stateFiles(uid).Fact(uid, n.RootDir), policy.Unknown, "")
				})
			}
		})
	}
}
