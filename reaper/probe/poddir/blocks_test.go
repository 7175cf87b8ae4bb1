package poddir

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/reading"
)

// TestBlocks checks that every entry of a block volume is found, and that a pod's are listed only if all are of CSI
// volumes.
func TestBlocks(t *testing.T) {
	const plugins, csi = "kubelet/plugins/kubernetes.io/", "kubelet/plugins/kubernetes.io/csi/volumeDevices/"
	bare, full := reading.BlockEntry{Name: "pv-1", Shown: "pv-1", Bare: true}, reading.BlockEntry{Name: "pv-1", Shown: "pv-1"}
	for name, c := range map[string]struct {
		make  func(n *testTree, uid string)
		found bool
		want  []reading.BlockEntry
		err   string
	}{
		"none":             {func(*testTree, string) {}, false, nil, ""},
		"another pod's":    {func(n *testTree, _ string) { n.Write(csi+"publish/pv-1/"+string(newUID()), "") }, false, nil, ""},
		"published":        {func(n *testTree, uid string) { n.Write(csi+"publish/pv-1/"+uid, "") }, true, []reading.BlockEntry{bare}, ""},
		"mapped":           {func(n *testTree, uid string) { n.Write(csi+"pv-1/dev/"+uid, "") }, true, []reading.BlockEntry{bare}, ""},
		"not bare":         {func(n *testTree, uid string) { n.Write(csi+"publish/pv-1/"+uid, "x") }, true, []reading.BlockEntry{full}, ""},
		"a symlink":        {func(n *testTree, uid string) { n.Symlink("/dev/null", csi+"pv-1/dev/"+uid) }, true, []reading.BlockEntry{full}, ""},
		"a directory":      {func(n *testTree, uid string) { n.Mkdir(csi + "publish/pv-1/" + uid) }, true, []reading.BlockEntry{full}, ""},
		"of another kind":  {func(n *testTree, uid string) { n.Write(plugins+"gce-pd/volumeDevices/disk-1/"+uid, "") }, true, nil, ""},
		"a name around it": {func(n *testTree, uid string) { n.Write(csi+"publish/pv-1/x-"+uid, "") }, false, nil, ""},
		"one of each": {func(n *testTree, uid string) {
			n.Write(csi+"publish/pv-1/"+uid, "")
			n.Write(plugins+"gce-pd/volumeDevices/disk-1/"+uid, "")
		}, true, nil, ""},
		"too deep": {func(n *testTree, _ string) { n.Mkdir(csi + strings.Repeat("d/", 20)) }, false, nil, "deeper than"},
	} {
		for way, mode := range modes {
			t.Run(name+" "+way, func(t *testing.T) {
				n, uid := mode(t), newUID()
				n.Mkdir("kubelet/plugins/kubernetes.io")
				c.make(n, string(uid))
				b := n.Blocks(t.Context(), n.open(), parsers.PodSet{uid: true})
				if got := fmt.Sprint(b.Err); (b.Err == nil) != (c.err == "") || !strings.Contains(got, c.err) {
					t.Errorf("error %v, want %q", b.Err, c.err)
				}
				if words, ok := b.Pods[uid]; ok != c.found || ok && !strings.Contains(words, string(uid)) {
					t.Errorf("found %v: %q", ok, words)
				}
				if got := b.CSI[uid]; !slices.Equal(got, c.want) {
					t.Errorf("entries %+v, want %+v", got, c.want)
				}
			})
		}
	}
}
