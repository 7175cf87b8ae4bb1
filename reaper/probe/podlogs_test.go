package probe

import (
	"os"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/beneath"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/lists"
	"github.com/orphan-reaper/orphan-reaper/reaper/probe/poddir"
)

// TestPodLogs: what the log directory says of one pod.
func TestPodLogs(t *testing.T) {
	uid := newUID()
	own := "logs/shop_web-0_" + string(uid)
	tests := []struct {
		name  string
		setUp func(n *testNode)
		want  policy.Truth
	}{
		{"it is there", func(n *testNode) { n.Mkdir(own) }, policy.Yes},
		{"a static pod's", func(n *testNode) { n.Mkdir("logs/kube-system_etcd-node-1_" + string(newStaticUID())) }, policy.No},
		{"a name that no pod has", func(n *testNode) { n.Mkdir("logs/__" + string(uid)) }, policy.Yes},
		{"another pod's", func(n *testNode) { n.Mkdir("logs/shop_web-0_" + string(newUID())) }, policy.No},
		{"the UID elsewhere in the name", func(n *testNode) { n.Mkdir("logs/shop_" + string(uid) + "_" + string(newUID())) }, policy.No},
		{"a file", func(n *testNode) { n.Write(own, "") }, policy.No},
		{"a symlink", func(n *testNode) { n.Symlink(n.Path("kubelet"), own) }, policy.No},
		{"no log directory at all", func(n *testNode) { must(n.T, os.Remove(n.Path("logs"))) }, policy.No},
		{"the log directory is a file", func(n *testNode) {
			must(n.T, os.Remove(n.Path("logs")))
			n.Write("logs", "")
		}, policy.Unknown},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t)
			n.Mkdir(n.PodDir(uid))
			n.Write(n.PodDir(uid)+"/etc-hosts", "")
			tt.setUp(n)
			if f := n.one(uid).Facts[policy.FactPodLogs]; f.Truth != tt.want {
				t.Errorf("pod_logs is %s (%s), want %s", f.Truth, f.Detail, tt.want)
			}
		})
	}
}

// TestPodLogsCleaned: where a pod of the kubelet's runs and has no log directory, somebody removes
// them, and that another has none says nothing; unless that one never ran.
func TestPodLogsCleaned(t *testing.T) {
	ran, never, runs, foreign := newUID(), newUID(), newUID(), newUID()
	content := func(rows ...policy.Residue) *policy.Evidence {
		e := &policy.Evidence{Residue: rows}
		e.Facts.Set(policy.FactContent, policy.Yes, "", "")
		return e
	}
	dirs := &poddir.Dirs{Names: []beneath.Entry{{Name: string(runs)}}}
	l := &gathering{Dirs: dirs, logs: &lists.PodLogs{Dir: "/var/log/pods", Pods: map[parsers.PodUID]bool{runs: true}}}
	l.runtime.Ready = map[parsers.PodUID]bool{runs: true, foreign: true}
	check := func(step string, e *policy.Evidence, uid parsers.PodUID, want policy.Truth) {
		t.Helper()
		e.UID = uid
		if f := l.logs.Fact(e, l.logs.Logless(l.running())); f.Truth != want {
			t.Errorf("%s: %s (%s), want %s", step, f.Truth, f.Detail, want)
		}
	}
	hosts := policy.Residue{Path: "etc-hosts"}
	check("those of pods that run are there", content(hosts), ran, policy.No)
	delete(l.logs.Pods, runs)
	check("one is missing", content(hosts), ran, policy.Unknown)
	check("one is missing, after containers", content(policy.Residue{Path: "containers/app"}), ran, policy.Unknown)
	check("one is missing, and this never ran", content(policy.Residue{Path: "volumes"}), never, policy.No)
	check("one is missing, and what lies here is not known", &policy.Evidence{}, never, policy.Unknown)
}
