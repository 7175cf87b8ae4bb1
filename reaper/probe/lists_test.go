package probe

import (
	"net/http"
	"os"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/cri/fakecri"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestListsInALook runs a whole look: real processes, sockets with TLS, a runtime and cgroups, and three directories
// on which the lists decide.
func TestListsInALook(t *testing.T) {
	n, cri := runtimeNode(t)
	n.Mkdir(n.PodDir(testkit.UIDHere), n.PodDir(testkit.UIDQuiet), n.PodDir(testkit.UIDAway), "cgroup/kubepods/pod"+string(testkit.UIDHere))
	here := fakecri.Pod{UID: string(testkit.UIDHere), Namespace: "a", Name: "here", Running: 1}
	cri.SetPods(here)
	api := testkit.TLSServer(t, "", testkit.Answer(testkit.MetadataOf("", testkit.HerePod, testkit.QuietPod)))
	n.cfg.Kubeconfig = testkit.KubeconfigOf(t, api.URL, testkit.CertOf(api), "token: x")
	kubelet := testkit.TLSServer(t, "", testkit.Serve(map[string]http.HandlerFunc{
		"/pods": testkit.Answer(testkit.ListOf(testkit.HerePod, testkit.StaticPod)),
		"/metrics": testkit.Answer("kubelet_orphan_pod_cleaned_volumes 2\nkubelet_orphan_pod_cleaned_volumes_errors 1\n" +
			`kubelet_working_pods{config="desired",lifecycle="sync",static=""} 1` + "\n"),
	}))
	n.cfg.KubeletTokenFile = testkit.File(t, "token", "x")
	look := n.look()
	check(t, find(t, look, testkit.UIDAway), facts{policy.FactReleased: policy.Unknown, policy.FactKubeletLists: policy.Unknown, policy.FactAPILists: policy.No})
	// For all that this node shows, these pods are another node's.
	cri.SetPods(fakecri.Pod{UID: string(newUID()), Namespace: "a", Name: "other", Running: 1})
	check(t, find(t, n.look(), testkit.UIDAway), facts{policy.FactAPILists: policy.Unknown})
	cri.SetPods(here)
	testkit.Must(t, os.Remove(n.Path("cgroup/kubepods/pod"+string(testkit.UIDHere))))
	check(t, find(t, n.look(), testkit.UIDAway), facts{policy.FactAPILists: policy.Unknown})
	n.Mkdir("cgroup/kubepods/pod" + string(testkit.UIDHere))
	n.kubelet("--hostname-override=n1",
		"--port="+testkit.PortOf(t, kubelet), "--tls-cert-file="+testkit.File(t, "kubelet.crt", testkit.CertOf(kubelet)))
	look = n.look()
	check(t, find(t, look, testkit.UIDHere), facts{policy.FactReleased: policy.No, policy.FactKubeletLists: policy.Yes, policy.FactAPILists: policy.Yes})
	check(t, find(t, look, testkit.UIDQuiet), facts{policy.FactReleased: policy.No, policy.FactKubeletLists: policy.No, policy.FactAPILists: policy.Yes})
	check(t, find(t, look, testkit.UIDAway), facts{policy.FactReleased: policy.Yes, policy.FactKubeletLists: policy.No, policy.FactAPILists: policy.No})
	if g := look.Node.Gauges; g.Uncleaned == nil || *g.Uncleaned != 1 || len(g.Working) != 1 {
		t.Errorf("gauges: %+v", g)
	}
	if len(look.Errors) > 0 {
		t.Errorf("%q", look.Errors)
	}
}
