package e2e

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// ran: two pods that really ran. One is deleted, and the kubelet cannot remove its directory because of a file in it:
// kubelets from 1.33 on still list it in allocated_pods_state, and it is removed all the same. The other has
// completed and lost its sandbox, as on a full disk: only its kubelet lists it, as its log directory shows.
func ran(t *testing.T, n *node) {
	dead := pod{
		uid: n.uid("0badf00d-9000-4000-8000-00000000001_"), name: "dead",
		spec: `volumes: [{name: data, emptyDir: {}}]`, mounts: `[{name: data, mountPath: /data}]`, dirs: `/data`,
		files: []string{"volumes/kubernetes.io~empty-dir/data"},
	}
	done := dead
	done.uid, done.name = n.uid("0badf00d-9000-4000-8000-00000000002_"), "done"
	done.spec += ", restartPolicy: Never"
	n.serve(dead, done)
	t.Cleanup(func() { n.serve() })
	eventually(t, 60*time.Second, func() string { return n.beating(dead) + n.beating(done) })
	logs := func(p pod) string { return filepath.Join(n.podLogs, "e2e_"+p.name+"-e2e_"+p.uid) }
	if !exists(logs(dead)) || !exists(logs(done)) {
		t.Fatalf("no log directories %s and %s", logs(dead), logs(done))
	}
	n.complete(t, done.uid)
	write(t, filepath.Join(mkdir(t, filepath.Join(n.pods, dead.uid, "volumes", "kubernetes.io~csi", "pv-1")), "vol_data.json"), "{}")
	n.serve(done)
	eventually(t, 90*time.Second, func() string {
		return missing(n.logged(dead.uid+`\" found`) && !exists(logs(dead)), "the kubelet has not let go of the deleted pod and its logs")
	})
	stated, err := os.ReadFile(filepath.Join(n.root, "allocated_pods_state"))
	if stale := strings.Contains(string(stated), dead.uid); stale != (err == nil) {
		t.Errorf("allocated_pods_state contains the deleted pod: %t, read with %v", stale, err)
	}

	d := n.reap(t)
	d.waitRecord(t, hold+settle+confirm+60*time.Second, dead.uid, "it is removed", func(r policy.Record) bool {
		return r.Kind == policy.KindStripped || r.Kind == policy.KindRemoved
	})
	if f := d.known(t, done.uid).Logs; f.Value != "yes" || f.Origin != n.podLogs {
		t.Errorf("the completed pod's log directory: %+v", f)
	}
	if k := d.known(t, n.livingPods(t)[0].uid); k.Logs.Value != "yes" || k.Resources.Value != "yes" {
		t.Errorf("facts of a running pod: %+v", k)
	}
	// The kubelet has removed the emptyDir of the completed pod.
	if !exists(filepath.Join(n.pods, done.uid)) || slices.ContainsFunc(d.of(done.uid), kind(policy.KindParking)) {
		t.Errorf("the completed pod was parked:\n%s", d.story())
	}
	d.end(t)
	n.serve()
	eventually(t, 90*time.Second, func() string {
		return missing(!exists(filepath.Join(n.pods, done.uid)), "the kubelet has not removed the completed pod")
	})
}

// complete ends the pod's container with exit code 0, and removes its sandbox after the kubelet has noticed.
func (n *node) complete(t *testing.T, uid string) {
	t.Helper()
	cri := n.cri(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	of := map[string]string{"io.kubernetes.pod.uid": uid}
	containers, err := cri.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{LabelSelector: of}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range containers.GetContainers() {
		if _, err := cri.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: c.GetId(), Timeout: 5}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, 60*time.Second, func() string {
		return missing(strings.Contains(n.get("/pods"), `"phase":"Succeeded"`), "the pod has not completed")
	})
	boxes, err := cri.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{LabelSelector: of}})
	if err != nil {
		t.Fatal(err)
	}
	for _, box := range boxes.GetItems() {
		n.dropSandbox(t, cri, box.GetId())
	}
}

// known has a look's facts about the pod's log directory and about its name on the kubelet's list.
type known struct {
	Logs      fact `json:"pod_logs"`
	Resources fact `json:"pod_resources"`
}

func (d *daemon) known(t *testing.T, uid string) known {
	t.Helper()
	var seen struct {
		Pods []struct {
			UID   string
			Facts known
		}
	}
	if err := json.Unmarshal([]byte(d.command(t, "scan", "-o", "json")), &seen); err != nil {
		t.Fatal(err)
	}
	for _, p := range seen.Pods {
		if p.UID == uid {
			return p.Facts
		}
	}
	return known{}
}
