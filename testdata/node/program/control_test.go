package program

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/orphan-reaper/orphan-reaper/reaper/cri"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
	"github.com/orphan-reaper/orphan-reaper/testdata/node/internal/journal"
	"github.com/orphan-reaper/orphan-reaper/testdata/node/internal/kubelet"
	"github.com/orphan-reaper/orphan-reaper/testdata/node/nodetest"
)

// processes returns the PIDs of the node's processes with a name.
func processes(t *testing.T, name string) (pids []string) {
	t.Helper()
	all, err := filepath.Glob("/proc/[1-9]*/comm")
	testkit.Must(t, err)
	for _, path := range all {
		if text, err := os.ReadFile(path); err == nil && string(text) == name+"\n" {
			pids = append(pids, filepath.Base(filepath.Dir(path)))
		}
	}
	return pids
}

// kubelets returns the PIDs of the processes that look like kubelets.
func kubelets(t *testing.T) []string {
	t.Helper()
	return processes(t, nameKubelet)
}

// TestControlPods adds a pod, ends one and lets it return.
func TestControlPods(t *testing.T) {
	n, here := inside(t, "a "+uid(1)+" living csi-data cni=blue\nb "+uid(2)+" dead csi\n", "--kubelet", "1.37", "--every", "20ms")
	if !here {
		return
	}
	state := func(i int) string {
		list, err := listed(t.Context())
		testkit.Must(t, err)
		words := append([]string{cgroupOf(t, i)}, strings.Fields(runtimePods(t, runtimeSocket)[uid(i)])...)
		if slices.Contains(list, uid(i)) {
			words = append(words, "listed")
		}
		return strings.Join(words, " ")
	}
	want := func(i int, what string) {
		t.Helper()
		if got := state(i); got != what {
			t.Errorf("pod %d: %s, want %s", i, got, what)
		}
	}
	n.Control(t, "pod c "+uid(3)+" living mount-elsewhere")
	want(3, "process READY RUNNING listed")
	n.Control(t, "pod d "+uid(4)+" dead csi")
	if info, err := os.Stat(filepath.Dir(podDir(4) + "/" + newCSI("pvc-d").target)); err != nil || time.Since(info.ModTime()) < age/2 {
		t.Errorf("d was made now: %v, %v", info, err)
	}
	for _, line := range []string{"pod c " + uid(5) + " dead", "pod e " + uid(3) + " dead", "pod e"} {
		if got := n.Try(t, line); !strings.HasPrefix(got, "error "+line+": ") {
			t.Error(got)
		}
	}

	want(1, "process READY RUNNING listed")
	n.Control(t, "gone a")
	want(1, "none")
	if !exists(podDir(1)+"/"+newCSI("pvc-data-a").target+"/precious") || !exists(os.Getenv("NODE_CNI")+"/networks/blue/10.88.0.2") {
		t.Error("gone removes files")
	}
	waitLog(t, logSize(t), uid(1)) // it is the first in order

	testkit.Must(t, os.Rename(podDir(1), os.Getenv("NODE_PODS")+"/../moved"))
	n.Control(t, "return a 1h")
	want(1, "empty listed")
	if !exists(podDir(1) + "/volumes/kubernetes.io~empty-dir/cache") {
		t.Error("no emptyDir was set up")
	}
	if got := n.Try(t, "return a"); !strings.HasSuffix(got, "the kubelet already lists a") {
		t.Error(got)
	}
	n.Control(t, "gone a")
	n.Control(t, "return a 1ms")
	n.Ended(t, "return a 1ms")
	want(1, "process READY RUNNING listed")
	if !exists(os.Getenv("NODE_CNI") + "/results/blue-" + hexID("sandbox", uid(1), 2) + "-eth0") {
		t.Error("the new sandbox has no network")
	}
}

// TestControlMounts ends mounts and makes one.
func TestControlMounts(t *testing.T) {
	n, here := inside(t, "b "+uid(2)+" dead csi\nc "+uid(3)+" dead csi mount staged mount-elsewhere\n", "--every", "20ms")
	if !here {
		return
	}
	mounted := func() bool {
		text, err := os.ReadFile("/proc/self/mountinfo")
		testkit.Must(t, err)
		plugins := filepath.Dir(os.Getenv("NODE_PODS")) + "/plugins/" // the machine has mounts of its own
		return bytes.Contains(text, []byte(uid(3))) || bytes.Contains(text, []byte(plugins))
	}
	if !mounted() {
		t.Error("nothing is mounted")
	}
	n.Control(t, "unmount c")
	if agents := processes(t, nameAgent); mounted() || len(agents) > 0 {
		t.Errorf("mounts are left, and the processes %s", agents)
	}

	target := podDir(2) + "/" + newCSI("pvc-b").target
	data := filepath.Dir(target) + "/vol_data.json"
	n.Control(t, "publish b 1h")
	if info, err := os.Stat(data); err != nil || time.Since(info.ModTime()) > age/2 || mountsAt(t, "self", target) {
		t.Errorf("at its begin: %v, %v", info, err)
	}
	n.Control(t, "publish b 1ms")
	n.Ended(t, "publish b 1ms")
	if !mountsAt(t, "self", target) {
		t.Error("nothing is mounted at", target)
	}
	for _, line := range []string{"publish b", "publish x 1s", "publish b soon", "unmount x"} {
		if got := n.Try(t, line); !strings.HasPrefix(got, "error "+line+": ") {
			t.Error(got)
		}
	}
}

// TestControlKubelet stops and starts the kubelet and changes its level.
func TestControlKubelet(t *testing.T) {
	n, here := inside(t, "a "+uid(1)+" dead csi-data\nb "+uid(2)+" dead csi-data\nc "+uid(3)+" living\n", "--every", "20ms")
	if !here {
		return
	}
	first := kubelets(t)
	if len(first) != 1 {
		t.Fatal(first)
	}
	if text := waitLog(t, logSize(t), `(?s)found.*found.*found`); strings.Contains(text, uid(2)) {
		t.Errorf("at level 2 it reports more than the first: %s", text)
	}
	n.Control(t, "kubelet v 5")
	waitLog(t, logSize(t), `"Orphan pod" err="orphaned pod \\"`+uid(2))
	n.Control(t, "kubelet v 2")
	after := logSize(t)
	if text := waitLog(t, after, `(?s)found.*found`); strings.Contains(text, uid(2)) {
		t.Errorf("it is still at level 5: %s", text)
	}
	n.Control(t, "kubelet stop")
	if got := kubelets(t); len(got) != 0 {
		t.Errorf("after stop: %s", got)
	}
	n.Control(t, "kubelet start")
	second := kubelets(t)
	n.Control(t, "kubelet restart")
	third := kubelets(t)
	if len(second) != 1 || len(third) != 1 || slices.Equal(first, second) || slices.Equal(second, third) {
		t.Errorf("kubelets %s, %s and %s", first, second, third)
	}
	waitLog(t, logSize(t), `E\d{4} [0-9:.]{15} +`+third[0]+` kubelet_volumes`)
	for _, line := range []string{"kubelet", "kubelet start", "kubelet v x", "kubelet off"} {
		if got := n.Try(t, line); !strings.HasPrefix(got, "error "+line+": ") {
			t.Error(got)
		}
	}
	n.Control(t, "kubelet stop")
	if got := n.Try(t, "quote x"); got != "error quote x: the kubelet does not run" {
		t.Error(got)
	}
}

// TestControlOthers starts other processes that look like kubelets.
func TestControlOthers(t *testing.T) {
	n, here := inside(t, "a "+uid(1)+" living\n", "--every", "20ms")
	if !here {
		return
	}
	logs := filepath.Dir(os.Getenv("NODE_LOG"))
	testkit.Must(t, os.MkdirAll(n.Dir+"/second/pods/"+uid(9)+"/volumes/x/y/z", 0o755))
	n.Control(t, "kubelet2 second")
	nodetest.WaitFile(t, logs+"/kubelet2.log", func(text []byte) bool { return bytes.Contains(text, []byte(uid(9))) })
	n.Control(t, "fake-kubelet")
	forged := nodetest.WaitFile(t, logs+"/fake-kubelet.log", func(text []byte) bool { return bytes.Contains(text, []byte(uid(1))) })
	all := kubelets(t)
	if len(all) != 3 {
		t.Fatal(all)
	}
	fake := ""
	for _, pid := range all {
		cgroup, err := os.ReadFile("/proc/" + pid + "/cgroup")
		testkit.Must(t, err)
		if strings.Contains(string(cgroup), "kubepods") {
			fake = pid
		}
	}
	if out, err := exec.Command("rmdir", filepath.Dir(cgroupDir(t, 1))).CombinedOutput(); err == nil {
		t.Errorf("a cgroup with processes was removed: %s", out)
	}
	n.Control(t, "pod b "+uid(2)+" dead csi cgroup")
	if out, err := exec.Command("rmdir", cgroupDir(t, 2)).CombinedOutput(); err != nil || cgroupOf(t, 2) != "none" {
		t.Errorf("rmdir of an empty cgroup: %v, %s", err, out)
	}
	if fake == "" || !regexp.MustCompile(`^I\d{4} [0-9:.]{15} +`+fake+` `).Match(forged) {
		t.Errorf("no kubelet is in a pod's cgroup, or %s did not write %s", fake, forged)
	}
}

// TestControlRuntime stops and changes both runtimes.
func TestControlRuntime(t *testing.T) {
	n, here := inside(t, "a "+uid(1)+" living\nb "+uid(2)+" dead csi-data\n", "--every", "20ms")
	if !here {
		return
	}
	hangs := func(socket string) {
		t.Helper()
		l := cri.List(t.Context(), socket, 50*time.Millisecond, cri.MaxAnswer)
		if l.SandboxErr == nil || !strings.Contains(l.SandboxErr.Error(), "no answer in time") {
			t.Errorf("%s: %v, %v", socket, l.Sandboxes, l.SandboxErr)
		}
	}
	n.Control(t, "runtime hang")
	hangs(runtimeSocket)
	silent := logSize(t)
	n.Control(t, "runtime stop")
	if l := cri.List(t.Context(), runtimeSocket, time.Minute, cri.MaxAnswer); l.SandboxErr == nil {
		t.Error("it still answers")
	}
	if now := logSize(t); now != silent {
		t.Error("without its runtime the kubelet sweeps")
	}
	n.Control(t, "runtime empty")
	if got := runtimePods(t, runtimeSocket); len(got) != 0 {
		t.Errorf("an empty runtime has %v", got)
	}
	waitLog(t, silent, uid(2))
	n.Control(t, "runtime start")
	if got := runtimePods(t, runtimeSocket); got[uid(1)] != "READY RUNNING" {
		t.Errorf("it has %v", got)
	}
	n.Control(t, "runtime2 start")
	if got := runtimePods(t, secondSocket); len(got) != 0 {
		t.Errorf("the second has %v", got)
	}
	n.Control(t, "runtime2 hang")
	hangs(secondSocket)
	for _, line := range []string{"runtime", "runtime down", "runtime2 stop", "podsapi off"} {
		if got := n.Try(t, line); !strings.HasPrefix(got, "error "+line+": ") {
			t.Error(got)
		}
	}
}

// TestControlPodsAPI changes what the kubelet's PodsAPI answers.
func TestControlPodsAPI(t *testing.T) {
	n, here := inside(t, "a "+uid(1)+" living\nb "+uid(2)+" dead csi-data\n", "--kubelet", "1.37", "--every", "20ms")
	if !here {
		return
	}
	ask := func(mode string) ([]string, codes.Code) {
		t.Helper()
		n.Control(t, "podsapi "+mode)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if mode == kubelet.PodsAPIHang {
			ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
		}
		uids, err := listed(ctx)
		return uids, status.Code(err)
	}
	for _, c := range []struct {
		mode string
		want codes.Code
	}{{kubelet.PodsAPIInitializing, codes.FailedPrecondition}, {kubelet.PodsAPIHang, codes.DeadlineExceeded}, {kubelet.PodsAPIOff, codes.Unavailable}} {
		if uids, got := ask(c.mode); got != c.want {
			t.Errorf("%s: %v, %s", c.mode, uids, got)
		}
		if c.mode == kubelet.PodsAPIInitializing {
			after := logSize(t)
			n.Control(t, "log a marker")
			if text := waitLog(t, after, "a marker"); strings.Contains(text, "orphaned pod") {
				t.Errorf("without its sources the kubelet sweeps: %s", text)
			}
		}
	}
	if exists(n.Dir + "/kubelet/pods-api/pods-api.sock") {
		t.Error("off leaves the socket")
	}
	if uids, got := ask(kubelet.PodsAPIOn); got != codes.OK || !slices.Equal(uids, []string{uid(1)}) {
		t.Errorf("on: %v, %s", uids, got)
	}
	waitLog(t, 0, `server\.go:231\] "ListPods called"`)
}

// TestControlLog checks lines of another program, quoted texts and the clock.
func TestControlLog(t *testing.T) {
	n, here := inside(t, "a "+uid(1)+" dead csi-data\n", "--every", "20ms")
	if !here {
		return
	}
	n.Control(t, "log a line of another")
	waitLog(t, 0, `(?m)^a line of another$`)
	n.Control(t, `quote /x\nE1128 forged "orphaned pod \"x\" found"`)
	waitLog(t, 0, `(?m)^E.* mount_linux\.go:272\] Mount failed: [^\n]*\nMounting command: mount\nMounting arguments: -t nfs [^\n]*:/x\nE1128 forged "orphaned pod \\"x\\" found"`)
	pid := kubelets(t)[0]
	if target, err := os.Readlink("/proc/" + pid + "/fd/2"); err != nil || target != os.Getenv("NODE_LOG") {
		t.Errorf("its standard error is %s, %v", target, err)
	}
	for line, sign := range map[string]time.Duration{"clock 7200": 1, "clock -7200": -1} {
		n.Control(t, line)
		text := waitLog(t, logSize(t), `(?m)^E\d{4} [0-9:.]{15} .*found`)
		last := regexp.MustCompile(`(?m)^E(\d{4} [0-9:.]{15}) `).FindAllStringSubmatch(text, -1)
		at, err := time.ParseInLocation("20060102 15:04:05.000000", time.Now().Format("2006")+last[len(last)-1][1], time.Local)
		testkit.Must(t, err)
		// Around New Year the header's year is another.
		if ahead := time.Until(at) * sign; (ahead < time.Hour || ahead > 3*time.Hour) && ahead > -300*24*time.Hour && ahead < 300*24*time.Hour {
			t.Errorf("%s: the kubelet's clock is ahead by %s", line, time.Until(at))
		}
	}
	for _, line := range []string{"clock soon", "log", "boot now", "loog x"} {
		if got := n.Try(t, line); !strings.HasPrefix(got, "error "+line+": ") {
			t.Error(got)
		}
	}
}

// TestControlBoot checks the boot ID and /run after a boot.
func TestControlBoot(t *testing.T) {
	n, here := inside(t, "a "+uid(1)+" dead csi-data young cni=blue\n")
	if !here {
		return
	}
	birth := func() unix.StatxTimestamp {
		var st unix.Statx_t
		testkit.Must(t, unix.Statx(unix.AT_FDCWD, "/run", 0, unix.STATX_BTIME, &st))
		return st.Btime
	}
	id, err := os.ReadFile(journal.BootIDFile)
	testkit.Must(t, err)
	was := birth()
	testkit.Must(t, os.WriteFile("/run/file", nil, 0o600))
	n.Control(t, "boot")
	next, err := os.ReadFile(journal.BootIDFile)
	testkit.Must(t, err)
	if bytes.Equal(id, next) || len(id) != len(next) {
		t.Errorf("the boot ID was %s and is %s", id, next)
	}
	if exists("/run/file") || birth() == was && was.Sec != 0 {
		t.Error("/run is the same")
	}
	if len(runtimePods(t, runtimeSocket)) != 0 {
		t.Error("the runtime has pods")
	}
}
