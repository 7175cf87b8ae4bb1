package probe

import (
	"os"
	"os/exec"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// TestOpenFilesOfALook: a look tells who uses files of its pods, of parked ones too, and gives what
// its walk met to find a file whose path names no pod.
func TestOpenFilesOfALook(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	n, worked, linked, other, parked := newNode(t), newUID(), newUID(), newUID(), newUID()
	const volume = "/volumes/kubernetes.io~empty-dir/d"
	n.Mkdir(n.PodDir(worked), "kubelet/orphan-reaper/"+string(parked)+".1/volumes")
	n.Write(n.PodDir(other)+volume+"/f", "x")
	child(t, nil, n.Path(n.PodDir(worked)), "")
	child(t, nil, n.Path("kubelet/orphan-reaper/"+string(parked)+".1/volumes"), "")
	// A program of the pod, mapped by a name that does not name the pod.
	program, err := os.ReadFile("/bin/sleep")
	must(t, err)
	n.Write(n.PodDir(linked)+volume+"/f", string(program))
	must(t, os.Chmod(n.Path(n.PodDir(linked)+volume+"/f"), 0o755))
	must(t, os.Link(n.Path(n.PodDir(linked)+volume+"/f"), n.Path("link")))
	cmd := exec.CommandContext(t.Context(), n.Path("link"), "1000")
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	look := n.look(policy.EntryState{Entry: string(parked) + ".1", UID: parked})
	check(t, find(t, look, worked), but(facts{policy.FactInUse: policy.Yes}))
	wantDetail(t, find(t, look, worked).Facts[policy.FactInUse], "as cwd")
	check(t, find(t, look, linked), but(facts{policy.FactInUse: policy.Yes}))
	wantDetail(t, find(t, look, linked).Facts[policy.FactInUse], "as a mapped file")
	check(t, find(t, look, other), dead())
	check(t, look.Parked[0], facts{policy.FactInUse: policy.Yes, policy.FactMounted: policy.No})
}

// TestOpenFilesElsewhere: the kernel's tables are read where the settings say.
func TestOpenFilesElsewhere(t *testing.T) {
	for name, set := range map[string]func(n *testNode, file string){
		"a loop device": func(n *testNode, file string) {
			n.Write("block/loop1/loop/backing_file", file+"\n")
			n.cfg.SysBlockDir, n.cfg.DevDir = n.Path("block"), n.Path("dev")
		},
	} {
		t.Run(name, func(t *testing.T) {
			n, uid := newNode(t), newUID()
			n.Write(n.PodDir(uid)+"/volumes/kubernetes.io~empty-dir/d/f", "x")
			check(t, n.one(uid), dead())
			set(n, n.Path(n.PodDir(uid)+"/volumes/kubernetes.io~empty-dir/d/f"))
			check(t, n.one(uid), but(facts{policy.FactInUse: policy.Yes}))
		})
	}
	// A node that is a part of a machine sees the machine's devices.
	n, uid := newNode(t), newUID()
	n.Mkdir(n.PodDir(uid))
	n.Write("block/loop1/loop/backing_file", "/nowhere/f\n")
	n.cfg.SysBlockDir, n.cfg.DevDir = n.Path("block"), n.Path("dev")
	check(t, n.one(uid), dead())
}
