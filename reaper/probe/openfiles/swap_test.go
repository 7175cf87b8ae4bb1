package openfiles

import (
	"os"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// TestSwapFile: the kernel holds a file that is swap space, and unlink(2) says "operation not
// permitted" for as long. The list of them is made up here: the test changes no host's swap.
func TestSwapFile(t *testing.T) {
	n, uid, alias, other := newNode(t), newUID(), newUID(), newUID()
	n.Write(n.PodDir(uid)+"/volumes/kubernetes.io~empty-dir/d/swap file", "x")
	n.Write(n.PodDir(alias)+"/volumes/kubernetes.io~empty-dir/d/swap", "x")
	n.Write(n.PodDir(other)+"/swap", "x")
	n.Write("x/"+string(other)+"/swap", "x")
	must(t, os.Link(n.Path(n.PodDir(alias)+"/volumes/kubernetes.io~empty-dir/d/swap"), n.Path("link")))
	file := n.Path(n.PodDir(uid) + "/volumes/kubernetes.io~empty-dir/d/swap")
	n.Write("swaps", "Filename\tType\tSize\tUsed\tPriority\n"+
		file+"\\040file\tfile\t524284\t0\t-2\n"+
		n.Path("link")+"\tfile\t524284\t0\t-3\n"+
		n.Path("x/"+string(other)+"/swap")+"\tfile\t524284\t0\t-4\n"+
		"/nowhere\tfile\t524284\t0\t-5\n"+
		n.Path(n.PodDir(other))+"\tpartition\t524284\t0\t-6\n")
	n.unused(n.read(), uid) // the guard off
	n.Swaps = n.Path("swaps")
	a := n.read()
	for uid, path := range map[parsers.PodUID]string{uid: file + " file", alias: n.Path("link")} {
		n.want(a, uid, policy.Yes, "swapoff '"+path+"'")
	}
	n.unused(a, other)
}
