package probe

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/cri/fakecri"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestListsInALook has the whole way: real processes, sockets with TLS, a runtime and
// cgroups, and a look at three directories of which the lists decide.
func TestListsInALook(t *testing.T) {
	n := newNode(t)
	n.Mkdir(n.PodDir(testkit.UIDHere), n.PodDir(testkit.UIDQuiet), n.PodDir(testkit.UIDAway), "cgroup/kubepods/pod"+string(testkit.UIDHere))
	cri := startCRI(t, fakecri.Options{Version: fakecri.V1})
	here := fakecri.Pod{UID: string(testkit.UIDHere), Namespace: "a", Name: "here", Running: 1}
	cri.SetPods(here)
	api := testkit.TLSServer(t, "", testkit.Answer(testkit.MetadataOf("", testkit.HerePod, testkit.QuietPod)))
	n.cfg.Waive, n.cfg.RootDirSet, n.cfg.RuntimeEndpoint = false, true, cri.Endpoint()
	n.cfg.Kubeconfig = testkit.KubeconfigOf(t, api.URL, testkit.CertOf(api), "token: x")
	kubelet := testkit.TLSServer(t, "", testkit.Serve(map[string]http.HandlerFunc{
		"/pods": testkit.Answer(testkit.ListOf(testkit.HerePod, testkit.StaticPod)), "/runningpods/": testkit.Refuse(403, "forbidden"),
		"/metrics": testkit.Answer("kubelet_orphan_pod_cleaned_volumes 2\nkubelet_orphan_pod_cleaned_volumes_errors 1\n" +
			`kubelet_working_pods{config="desired",lifecycle="sync",static=""} 1` + "\n"),
	}))
	n.cfg.KubeletTokenFile = testkit.File(t, "token", "x")
	self, err := os.Executable()
	testkit.Must(t, err)
	n.Symlink(self, "bin/kubelet")
	look := n.look()
	check(t, find(t, look, testkit.UIDAway), facts{policy.FactReleased: policy.Unknown, policy.FactKubeletLists: policy.Unknown, policy.FactAPILists: policy.No})
	// Of another node, for all that this one shows.
	cri.SetPods(fakecri.Pod{UID: string(newUID()), Namespace: "a", Name: "other", Running: 1})
	check(t, find(t, n.look(), testkit.UIDAway), facts{policy.FactAPILists: policy.Unknown})
	cri.SetPods(here)
	testkit.Must(t, os.Remove(n.Path("cgroup/kubepods/pod"+string(testkit.UIDHere))))
	check(t, find(t, n.look(), testkit.UIDAway), facts{policy.FactAPILists: policy.Unknown})
	n.Mkdir("cgroup/kubepods/pod" + string(testkit.UIDHere))
	testkit.StartProcess(t, "idle", n.Path("bin/kubelet"), "kubelet", "--root-dir", n.Path("kubelet"), "--hostname-override=n1",
		"--port="+testkit.PortOf(t, kubelet), "--tls-cert-file="+testkit.File(t, "kubelet.crt", testkit.CertOf(kubelet)))
	look = n.look()
	check(t, find(t, look, testkit.UIDHere), facts{policy.FactReleased: policy.No, policy.FactKubeletLists: policy.Yes, policy.FactAPILists: policy.Yes})
	check(t, find(t, look, testkit.UIDQuiet), facts{policy.FactReleased: policy.No, policy.FactKubeletLists: policy.No, policy.FactAPILists: policy.Yes})
	check(t, find(t, look, testkit.UIDAway), facts{policy.FactReleased: policy.Yes, policy.FactKubeletLists: policy.No, policy.FactAPILists: policy.No})
	if g := look.Node.Gauges; g.Uncleaned == nil || *g.Uncleaned != 1 || len(g.Working) != 1 {
		t.Errorf("the gauges: %+v", g)
	}
	if len(look.Errors) > 0 {
		t.Errorf("%q", look.Errors)
	}
}

// TestPodListInALook has a real process for the kubelet and another for its port: a pod of
// which nothing but a directory is there, and which the kubelet wants.
func TestPodListInALook(t *testing.T) {
	n, wantedPod, orphan := newNode(t), newUID(), newUID()
	n.Mkdir(n.PodDir(wantedPod), n.PodDir(orphan))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, testkit.ListOf(strings.ReplaceAll(testkit.PlainPod, string(testkit.APIUID), string(wantedPod))))
	}))
	t.Cleanup(s.Close)
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	testkit.Must(t, err)
	self, err := os.Executable()
	testkit.Must(t, err)
	n.Symlink(self, "bin/kubelet")
	look := n.look()
	check(t, find(t, look, wantedPod), but(facts{policy.FactKubeletLists: policy.Unknown}))
	testkit.StartProcess(t, "idle", n.Path("bin/kubelet"), "kubelet", "--root-dir", n.Path("kubelet"), "--read-only-port="+port)
	look = n.look(policy.EntryState{Entry: string(wantedPod) + ".1", UID: wantedPod})
	check(t, find(t, look, wantedPod), but(facts{policy.FactKubeletLists: policy.Yes}))
	check(t, find(t, look, orphan), but(facts{policy.FactKubeletLists: policy.No}))
	check(t, look.Parked[0], facts{policy.FactKubeletLists: policy.Yes})
	s.Close()
	look = n.look()
	check(t, find(t, look, wantedPod), but(facts{policy.FactKubeletLists: policy.Unknown}))
	if len(look.Errors) > 0 {
		t.Errorf("an optional source that is gone is an error: %q", look.Errors)
	}
}
