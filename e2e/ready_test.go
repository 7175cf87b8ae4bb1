package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy/summary"
)

// ready: a running sandbox of a pod that the kubelet has reported as an orphan. With any settings, only the
// kubelet may end what runs. The kubelet is stopped meanwhile: it would stop unknown sandboxes within seconds,
// so nothing else changes while the pods are counted.
func ready(t *testing.T, n *node) {
	uid := n.uid("0badf00d-9000-4000-8000-00000000001_")
	cri := n.cri(t)
	d := n.reap(t)
	n.kubelet.signal(stopSignal)
	t.Cleanup(func() { n.kubelet.signal(contSignal) })
	id, _ := n.runSandbox(t, cri, uid)
	o := n.plant(t, skeleton, uid)
	eventually(t, 60*time.Second, func() string {
		n.forge(t, uid)
		for _, r := range d.of(uid) {
			if keptFor(policy.ReasonSandbox)(r) {
				return ""
			}
		}
		return "its sandbox does not keep it: " + d.story()
	})
	throughout(t, hold+settle+10*time.Second, func() string {
		n.forge(t, uid)
		now := state(t.Context(), cri, id)
		return missing(now == runtimeapi.PodSandboxState_SANDBOX_READY.String() && exists(o.dir) && n.addressOf(id) != "",
			"the sandbox is %s, its address %q, the directory there: %v", now, n.addressOf(id), exists(o.dir))
	})
	for _, r := range d.of(uid) {
		if r.Kind != policy.KindKept {
			t.Errorf("%s: %s", r.Kind, r.Text)
		}
	}
	for s, count := range n.inventory(t, cri) {
		d.says(t, fmt.Sprintf("pods{state=%q} %d", s, count))
	}

	n.kubelet.signal(contSignal)
	eventually(t, 3*time.Minute, func() string {
		now := state(t.Context(), cri, id)
		return missing(now == "gone" && !exists(o.dir) && n.addressOf(id) == "",
			"the kubelet goes on; the sandbox is %s, its address %q, the directory there: %v", now, n.addressOf(id), exists(o.dir))
	})
	eventually(t, 60*time.Second, func() string {
		rest := d.scan(t).Quarantine
		return missing(len(rest) == 0, "in quarantine: %+v", rest)
	})
}

// inventory counts independently: the entries of the pods directory, the sandboxes of CRI, and the manifests. A
// pod whose sandbox runs is no orphan, whatever a line reports.
func (n *node) inventory(t *testing.T, cri runtimeapi.RuntimeServiceClient) summary.Counts {
	t.Helper()
	dirs, err := os.ReadDir(n.pods)
	if err != nil {
		t.Fatal(err)
	}
	manifests, err := filepath.Glob(filepath.Join(n.dir, "manifests", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	boxes, err := cri.ListPodSandbox(t.Context(), &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		t.Fatal(err)
	}
	containers, err := cri.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{})
	if err != nil {
		t.Fatal(err)
	}
	uids := map[string]bool{}
	for _, box := range boxes.GetItems() {
		uids[box.GetMetadata().GetUid()] = true
	}
	for _, c := range containers.GetContainers() {
		uids[c.GetLabels()["io.kubernetes.pod.uid"]] = true
	}
	return summary.Counts{
		summary.OnDisk: len(dirs), summary.InRuntime: len(uids),
		summary.Static: len(manifests), summary.OrphanedOnDisk: 0,
	}
}
