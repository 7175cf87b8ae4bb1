package program

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestStates plays each state and looks at it from inside.
func TestStates(t *testing.T) {
	pods := []struct{ state, runtime, cgroup, listed, reported string }{
		{"living", "READY RUNNING", "process", "yes", ""},
		{"static", "READY RUNNING", "process", "yes", ""},
		{"waiting", "", "empty", "yes", ""},
		{"completed", "", "none", "yes", ""},
		{"ended", "NOTREADY EXITED", "none", "", "yes"},
		{"dead", "", "none", "", "yes"},
		{"in-manager", "", "none", "", "V(3)"},
		{"lost", "", "process", "yes", ""},
		{"unknown", "READY CREATED UNKNOWN", "empty", "yes", ""},
	}
	name := func(i int) string {
		if pods[i].state == "static" {
			return strings.ReplaceAll(uid(i), "-", "")
		}
		return uid(i)
	}
	var file strings.Builder
	for i, p := range pods {
		fmt.Fprintf(&file, "pod-%d %s %s\n", i, name(i), p.state)
	}
	n, here := inside(t, file.String(), "--kubelet", "1.37", "--every", "50ms")
	if !here {
		return
	}
	if len(pods) != len(states) {
		t.Errorf("%d states are tested, and there are %d", len(pods), len(states))
	}
	runtime := runtimePods(t, runtimeSocket)
	list, err := listed(t.Context())
	testkit.Must(t, err)
	n.Control(t, "kubelet v 5")
	log := sweeps(t)
	for i, p := range pods {
		if got := runtime[name(i)]; got != p.runtime {
			t.Errorf("%s: the runtime lists %q", p.state, got)
		}
		if got := slices.Contains(list, name(i)); got != (p.listed == "yes") {
			t.Errorf("%s: listed is %t", p.state, got)
		}
		if p.state != "static" {
			if got := cgroupOf(t, i); got != p.cgroup {
				t.Errorf("%s: cgroup %s", p.state, got)
			}
		}
		report := strings.Contains(log, `orphaned pod \"`+name(i)+`\" found`)
		v3 := strings.Contains(log, `"Orphaned pod found, but volumes are not cleaned up" podUID="`+name(i)+`"`)
		if report != (p.reported == "yes") || v3 != (p.reported == "V(3)") {
			t.Errorf("%s: reported %t, at V(3) %t", p.state, report, v3)
		}
		if !exists(os.Getenv("NODE_PODS") + "/" + name(i)) {
			t.Errorf("%s has no directory", p.state)
		}
	}
	waitLog(t, 0, regexp.QuoteMeta(`UnmountVolume.TearDown failed for volume "kubernetes.io/csi/csi.example.com^vol-pvc-pod-6"`))
}

// mountsAt returns whether something is mounted at a path, in the mount namespace of a process.
func mountsAt(t *testing.T, pid, path string) bool {
	t.Helper()
	text, err := os.ReadFile("/proc/" + pid + "/mountinfo")
	testkit.Must(t, err)
	return strings.Contains(string(text), " "+path+" ")
}

type wordTest struct {
	words   string
	there   []string // below the pod's directory; %d is the pod's number
	mounted string   // a mount point in the node's namespace
}

// TestWords plays each word and looks at it from inside.
func TestWords(t *testing.T) {
	const csi, data = "volumes/kubernetes.io~csi/pvc-pod-%d", "volumes/kubernetes.io~csi/pvc-data-pod-%d"
	words := []wordTest{
		{"csi", []string{csi + "/vol_data.json"}, ""},
		{"csi-data", []string{data + "/vol_data.json", data + "/mount/precious"}, ""},
		{"nfs-data", []string{"volumes/kubernetes.io~nfs/share/precious"}, ""},
		{"emptydir", []string{"volumes/kubernetes.io~empty-dir/cache/precious", "plugins/kubernetes.io~empty-dir/cache/ready"}, ""},
		{"secret", []string{"volumes/kubernetes.io~secret/token/..data/token", "volumes/kubernetes.io~secret/token/token"}, ""},
		{"subpath", []string{subpath + "/precious"}, ""},
		{"block", []string{"volumeDevices/kubernetes.io~csi/pvc-block-pod-%d", "../../plugins/kubernetes.io/csi/volumeDevices/pvc-block-pod-%d/dev"}, ""},
		{"files=3", []string{"volumes/kubernetes.io~empty-dir/cache/file-000002"}, ""},
		{"mount", []string{csi + "/mount/precious"}, csi + "/mount"},
		{"nfs-data csi mount", []string{csi + "/vol_data.json"}, "volumes/kubernetes.io~nfs/share"},
		{"mount-subpath", []string{subpath + "/precious"}, subpath},
		{"mount-elsewhere", []string{data + "/mount/precious"}, ""},
		{"staged", []string{csi + "/vol_data.json"}, "../../plugins/kubernetes.io/csi/csi.example.com/HASH/globalmount"},
		{"process", nil, ""},
		{"cgroup", nil, ""},
		{"young", nil, ""},
		{"cni=blue", nil, ""},
	}
	var file strings.Builder
	for i, w := range words {
		fmt.Fprintf(&file, "pod-%d %s dead %s\n", i, uid(i), w.words)
	}
	if _, here := inside(t, file.String()); !here {
		return
	}
	for _, word := range append(slices.Clone(plainWords), "files", "cni") {
		if !regexp.MustCompile(`dead .*\b` + word + `\b`).MatchString(file.String()) {
			t.Errorf("the word %s is not tested", word)
		}
	}
	for i, w := range words {
		at := func(rel string) string {
			rel = strings.Replace(rel, "HASH", hexID(newCSI(fmt.Sprint("pvc-pod-", i)).handle()), 1)
			return filepath.Join(podDir(i), strings.Replace(rel, "%d", strconv.Itoa(i), 1))
		}
		for _, rel := range w.there {
			if !exists(at(rel)) {
				t.Errorf("%s: there is no %s", w.words, rel)
			}
		}
		if w.mounted != "" && !mountsAt(t, "self", at(w.mounted)) {
			t.Errorf("%s: %s is not mounted", w.words, w.mounted)
		}
		info, err := os.Stat(podDir(i))
		testkit.Must(t, err)
		if old := time.Since(info.ModTime()) > age/2; old == strings.Contains(w.words, "young") {
			t.Errorf("%s: made at %s", w.words, info.ModTime())
		}
		want := map[string]string{"process": "process", "cgroup": "empty"}[w.words]
		if got := cgroupOf(t, i); got != want && (got != "none" || want != "") {
			t.Errorf("%s: cgroup %s", w.words, got)
		}
	}
	elsewhere := slices.IndexFunc(words, func(w wordTest) bool { return w.words == "mount-elsewhere" })
	target := fmt.Sprintf("%s/"+data+"/mount", podDir(elsewhere), elsewhere)
	if agents := processes(t, nameAgent); len(agents) != 1 || mountsAt(t, "self", target) || !mountsAt(t, agents[0], target) {
		t.Errorf("%s is not mounted only by process %s", target, agents)
	}
}

// TestNetworkFiles checks what CNI plugins have of a living and of a dead pod.
func TestNetworkFiles(t *testing.T) {
	if _, here := inside(t, "a "+uid(1)+" living cni=blue\nb "+uid(2)+" dead cni=blue young\n"); !here {
		return
	}
	cni := os.Getenv("NODE_CNI")
	for i, address := range map[int]string{1: "10.88.0.2", 2: "10.88.0.3"} {
		id := hexID("sandbox", uid(i), 0)
		text, err := os.ReadFile(cni + "/networks/blue/" + address)
		if err != nil || string(text) != id+"\r\neth0" {
			t.Errorf("%s: %q, %v", address, text, err)
		}
		result, err := os.ReadFile(cni + "/results/blue-" + id + "-eth0")
		if err != nil || !bytes.Contains(result, []byte(`["K8S_POD_UID","`+uid(i)+`"]`)) {
			t.Errorf("results: %s, %v", result, err)
		}
		for _, file := range []string{"multus/" + id, "flannel/" + id, "results/cni-loopback-" + id + "-lo"} {
			if !exists(cni + "/" + file) {
				t.Errorf("there is no %s", file)
			}
		}
		if netns := "/run/netns/cni-" + id[:8] + "-df8a-4d5c-120b-e9e26d85e3ab"; exists(netns) != (i == 1) {
			t.Errorf("pod %d: %s", i, netns)
		}
	}
	confs, err := os.ReadDir(os.Getenv("NODE_CNI_CONF"))
	if err != nil || len(confs) != 1 || confs[0].Name() != "10-blue.conflist" {
		t.Errorf("configurations: %v, %v", confs, err)
	}
	var run unix.Statx_t
	testkit.Must(t, unix.Statx(unix.AT_FDCWD, "/run", 0, unix.STATX_BTIME, &run))
	for address, younger := range map[string]bool{"10.88.0.2": false, "10.88.0.3": true} {
		info, err := os.Stat(cni + "/networks/blue/" + address)
		testkit.Must(t, err)
		if got := info.ModTime().After(time.Unix(run.Btime.Sec, int64(run.Btime.Nsec))); got != younger && run.Mask&unix.STATX_BTIME != 0 {
			t.Errorf("%s is younger than /run: %t", address, got)
		}
	}
}
