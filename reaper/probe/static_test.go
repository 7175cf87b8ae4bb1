package probe

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/cri/fakecri"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestStaticPodInALook runs a look with a real process as the kubelet and a socket as the runtime. It shows why the
// fact is needed: every other fact shows a dead pod.
func TestStaticPodInALook(t *testing.T) {
	n, runtime := runtimeNode(t)
	alive, older, api := newStaticUID(), newStaticUID(), newUID()
	n.Mkdir(n.PodDir(alive), n.PodDir(older), n.PodDir(api), logs+"/kube-system_etcd-node-1_"+string(alive))
	n.Write("manifests/etcd.yaml", testkit.EtcdManifest)
	n.Write("manifests/proxy.yaml", "kind: Pod\nmetadata: {name: proxy, namespace: kube-system}\n")
	n.kubelet("--hostname-override=node-1", "--pod-manifest-path", n.Path("manifests"))
	runs := fakecri.Pod{
		UID: string(newStaticUID()), Namespace: "kube-system", Name: "proxy-node-1", Static: true,
		Created: time.Now().Add(time.Hour).UnixNano(), Running: 1,
	}
	runtime.SetPods(runs)
	n.Mkdir("cgroup/kubepods/besteffort/pod" + runs.UID)
	look := n.look()
	if look.Node.Kubelet.Truth != policy.Yes {
		t.Fatalf("kubelet: %+v", look.Node.Kubelet)
	}
	check(t, find(t, look, alive), but(facts{policy.FactStaticPod: policy.Yes, policy.FactSandbox: policy.No}))
	check(t, find(t, look, older), but(facts{policy.FactStaticPod: policy.Unknown})) // the directory may be etcd's
	check(t, find(t, look, api), but(facts{policy.FactStaticPod: policy.No}))

	parked := policy.EntryState{Entry: string(older) + ".1", UID: older, Namespace: "kube-system", PodName: "proxy-node-1"}
	must(t, os.Remove(n.Path("manifests/etcd.yaml")))
	look = n.look(parked)
	check(t, find(t, look, alive), but(facts{policy.FactStaticPod: policy.No}))
	if find(t, look, older).ID.Btime > 0 {
		check(t, find(t, look, older), but(facts{policy.FactStaticPod: policy.No}))
		wantDetail(t, find(t, look, older).Facts[policy.FactStaticPod], "under another UID: "+runs.UID)
	}
	check(t, look.Parked[0], facts{policy.FactStaticPod: policy.Yes}) // no directory in place to compare with
	runs.NotReady = true
	runtime.SetPods(runs)
	check(t, n.one(older), but(facts{policy.FactStaticPod: policy.Unknown}))
	runs.NotReady, runs.Static = false, false
	runtime.SetPods(runs)
	check(t, n.one(older), but(facts{policy.FactStaticPod: policy.Unknown}))

	n.Write("manifests/half", "")
	look = n.look()
	check(t, find(t, look, alive), but(facts{policy.FactStaticPod: policy.Unknown}))
	check(t, find(t, look, api), but(facts{policy.FactStaticPod: policy.No}))
	known := find(t, look, api) // an earlier look saw its sandbox: then the unread manifest may state its UID, also at the last question
	known.Static = true
	check(t, n.probe().Still(t.Context(), []policy.Evidence{known})[0], facts{policy.FactStaticPod: policy.Unknown})
	if !strings.Contains(strings.Join(look.Errors, "\n"), "manifests/half: it has no kind") {
		t.Errorf("the errors lack the reason: %q", look.Errors)
	}
	must(t, os.Truncate(n.Path("manifests/half"), 11<<20)) // longer than the kubelet reads, so what it states is not known
	check(t, n.one(api), but(facts{policy.FactStaticPod: policy.Unknown}))
}
