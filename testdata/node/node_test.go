package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/encoding/protowire"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/orphan-reaper/orphan-reaper/reaper/cri"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
	"github.com/orphan-reaper/orphan-reaper/testdata/node/nodetest"
)

// nameOuter makes this test binary the program.
const nameOuter = "node"

func TestMain(m *testing.M) {
	own := []string{nameOuter, nameInit, nameControl, nameGate, nameKubelet, nameJournalctl, namePause, nameAgent}
	if slices.Contains(own, filepath.Base(os.Args[0])) {
		main()
		return
	}
	os.Exit(m.Run())
}

// program runs this program with arguments.
func program(args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = append([]string{nameOuter}, args...)
	return cmd
}

// insideOf names the test that runs inside of a node.
const insideOf = "NODE_TEST"

// inside runs the calling test again, as the command of a node, and returns false. In the node it returns true.
func inside(t *testing.T, pods string, flags ...string) (n nodetest.Node, here bool) {
	t.Helper()
	if os.Getenv(insideOf) == t.Name() {
		return nodetest.Here(), true
	}
	n = nodetest.New(t)
	run(t, program(n.Args(t, pods, flags, again(t)...)...))
	return n, false
}

// again returns the command that runs the calling test alone. PID 1 of the node is the test binary.
func again(t *testing.T) []string {
	t.Helper()
	pattern := "^" + strings.ReplaceAll(regexp.QuoteMeta(t.Name()), "/", "$/^") + "$"
	return []string{"/proc/1/exe", "-test.run=" + pattern, "-test.v", "-test.timeout=5m"}
}

// run runs the calling test on a node and passes on its result.
func run(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	cmd.Env = append(os.Environ(), insideOf+"="+t.Name())
	out, err := cmd.CombinedOutput()
	nodetest.SkipRefused(t, string(out))
	if err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name())) {
		t.Fatalf("%v\n%s", err, out)
	}
}

// uid returns the UID of a pod of these tests.
func uid(i int) string { return fmt.Sprintf("%08x-0000-4000-8000-000000000000", i) }

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func podDir(i int) string { return os.Getenv("NODE_PODS") + "/" + uid(i) }

// waitLog waits for a line of the kubelet that matches, after the first bytes, and returns the log after these.
func waitLog(t *testing.T, after int, pattern string) string {
	t.Helper()
	want := regexp.MustCompile(pattern)
	text := nodetest.WaitFile(t, os.Getenv("NODE_LOG"), func(text []byte) bool { return want.Match(text[after:]) })
	return string(text[after:])
}

func logSize(t *testing.T) int {
	t.Helper()
	info, err := os.Stat(os.Getenv("NODE_LOG"))
	testkit.Must(t, err)
	return int(info.Size())
}

// sweeps waits for two whole sweeps of a kubelet at level 5, and returns what it printed.
func sweeps(t *testing.T) string {
	t.Helper()
	report := `kubelet_volumes\.go:(154|26[13])[^\n]*\n`
	return waitLog(t, logSize(t), `(?s)`+report+`.*`+`[^r]`+report+`.*[^r]`+report)
}

// runtimePods returns what the runtime lists of each pod: the state of its sandbox and of its containers.
func runtimePods(t *testing.T, socket string) map[string]string {
	t.Helper()
	l := cri.List(t.Context(), socket, time.Minute, cri.MaxAnswer)
	testkit.Must(t, l.SandboxErr)
	testkit.Must(t, l.ContainerErr)
	pods := map[string]string{}
	for _, s := range l.Sandboxes {
		pods[s.GetMetadata().GetUid()] = strings.TrimPrefix(s.GetState().String(), "SANDBOX_")
	}
	for _, c := range l.Containers {
		pods[c.GetLabels()[cri.LabelUID]] += " " + strings.TrimPrefix(c.GetState().String(), "CONTAINER_")
	}
	return pods
}

// listed returns the UIDs that the kubelet lists at its PodsAPI.
func listed(ctx context.Context) ([]string, error) {
	conn, err := cri.Connect(filepath.Dir(os.Getenv("NODE_PODS"))+"/pods-api/pods-api.sock", cri.MaxAnswer)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	// Its encoding is that of a message with only unknown fields.
	var answer runtimeapi.RemovePodSandboxResponse
	if err := conn.Invoke(ctx, "/v1alpha1.Pods/ListPods", &runtimeapi.RemovePodSandboxResponse{}, &answer); err != nil {
		return nil, err
	}
	var uids []string
	for _, pod := range fields(answer.ProtoReflect().GetUnknown(), 1) {
		for _, meta := range fields(pod, 1) {
			for _, uid := range fields(meta, 5) {
				uids = append(uids, string(uid))
			}
		}
	}
	return uids, nil
}

// fields returns the values of one field of a message.
func fields(b []byte, want protowire.Number) (all [][]byte) {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		b = b[n:]
		if number == want && kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(b)
			all = append(all, value)
		}
		b = b[protowire.ConsumeFieldValue(number, kind, b):]
	}
	return all
}

// cgroupOf returns the state of a pod's cgroup: none, empty or process.
func cgroupOf(t *testing.T, i int) string {
	t.Helper()
	dirs, err := filepath.Glob(cgroupRoot + "/kubepods.slice/*/*" + strings.ReplaceAll(uid(i), "-", "_") + ".slice")
	testkit.Must(t, err)
	if len(dirs) == 0 {
		return "none"
	}
	pids := ""
	testkit.Must(t, filepath.WalkDir(dirs[0], func(path string, d os.DirEntry, err error) error {
		if d.Name() == "cgroup.procs" {
			text, err := os.ReadFile(path)
			pids += string(text)
			return err
		}
		return err
	}))
	if pids == "" {
		return "empty"
	}
	text, err := os.ReadFile("/proc/" + strings.TrimSpace(pids) + "/cgroup")
	testkit.Must(t, err)
	if !strings.Contains(string(text), strings.TrimPrefix(dirs[0], cgroupRoot)) {
		t.Errorf("process %s is in %s", pids, text)
	}
	return "process"
}

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

// TestExitCode checks that COMMAND's exit code is returned, and that the node ends with it.
func TestExitCode(t *testing.T) {
	for script, want := range map[string]int{
		"exit 7":                            7,
		"kill -9 $$":                        137,
		"setsid sleep 100000 & exit 3":      3, // it has the pipe of the output, which Wait reads to its end
		`test "$(cat)" = "from the caller"`: 0,
		`test "$OWN" = x && test -e /tmp/.`: 0,
	} {
		cmd := program(nodetest.New(t).Args(t, "", nil, "sh", "-c", script)...)
		cmd.Env, cmd.Stdin = append(os.Environ(), "OWN=x"), strings.NewReader("from the caller")
		out, _ := cmd.CombinedOutput()
		nodetest.SkipRefused(t, string(out))
		if got := cmd.ProcessState.ExitCode(); got != want {
			t.Errorf("%s: %d, %s", script, got, out)
		}
	}
}

// TestEnds checks that a signal reaches COMMAND, and that all ends where the program is killed.
func TestEnds(t *testing.T) {
	for _, c := range []struct {
		signal syscall.Signal
		want   int
	}{{unix.SIGTERM, 5}, {unix.SIGKILL, -1}} {
		cmd := program(nodetest.New(t).Args(t, "", nil, "sh", "-c", `trap 'exit 5' TERM; echo ready; sleep 100000 & wait`)...)
		out, err := cmd.StdoutPipe()
		testkit.Must(t, err)
		var errs bytes.Buffer
		cmd.Stderr = &errs
		testkit.Must(t, cmd.Start())
		line := make([]byte, len("ready\n"))
		if _, err := out.Read(line); err != nil {
			nodetest.SkipRefused(t, errs.String())
			t.Fatal(err, errs.String())
		}
		testkit.Must(t, cmd.Process.Signal(c.signal))
		for err == nil { // until each process that has the pipe has ended
			_, err = out.Read(line)
		}
		_ = cmd.Wait()
		if got := cmd.ProcessState.ExitCode(); got != c.want {
			t.Errorf("%s: %d, %s", c.signal, got, errs.String())
		}
	}
}

// TestUser runs a node as a user without rights, and there one where namespaces are refused.
func TestUser(t *testing.T) {
	if os.Getenv(insideOf) == t.Name() {
		if !exists(podDir(1)) || len(runtimePods(t, runtimeSocket)) != 1 {
			t.Error("it is no node")
		}
		testkit.Must(t, os.WriteFile("/proc/sys/user/max_mnt_namespaces", []byte("0"), 0)) // of this user namespace
		out, err := program(t.TempDir()+"/node", "--", "true").CombinedOutput()
		if exitCode(err) != 2 || !bytes.Contains(out, []byte("node: cannot make namespaces: ")) {
			t.Errorf("%v, %s", err, out)
		}
		return
	}
	testkit.NeedUsers(t)
	dir, err := os.MkdirTemp("", "node-") // t.TempDir is below a directory of root
	testkit.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	testkit.Must(t, os.WriteFile(dir+"/pods", []byte("a "+uid(1)+" living\n"), 0o644))
	const nobody = 65534
	testkit.Must(t, os.Chown(dir, nobody, nobody))
	cmd := program(append([]string{"--pods", dir + "/pods", dir, "--"}, again(t)...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	cmd.Env = []string{"TMPDIR=/tmp", "PATH=" + os.Getenv("PATH"), insideOf + "=" + t.Name()}
	out, err := cmd.CombinedOutput()
	nodetest.SkipRefused(t, string(out))
	if err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name())) {
		t.Fatalf("%v\n%s", err, out)
	}
}

// TestWrongUsage checks that wrong input is an error that names what is wrong, and where.
func TestWrongUsage(t *testing.T) {
	for line, want := range map[string]string{
		"web":                             "pods:2: want NAME UID STATE [WORD…]",
		"Web u dead":                      `pods:2: "Web" is no name of a pod`,
		"web a/b dead":                    `pods:2: "a/b" cannot be the name of a directory`,
		"web u deaf":                      `pods:2: "deaf" is no state: use one of living, static,`,
		"web u dead cis":                  `pods:2: "cis" is no word: use csi,`,
		"web u dead csi csi":              "pods:2: the word csi is there twice",
		"web u dead files=x":              `pods:2: "files=x": use files=N`,
		"web u dead files":                `pods:2: "files" is no word`,
		"web u dead csi=1":                `pods:2: "csi=1" is no word`,
		"web u dead cni=":                 `pods:2: "cni=": use cni=NET`,
		"web " + uid(1) + " static":       "pods:2: the static pod web has the UID " + uid(1) + ": use one without dashes",
		"a u dead\n\nweb u dead":          "pods:4: the UID u is already that of a",
		"web u dead\n# other\nweb v dead": "pods:4: the name web is already used",
	} {
		if _, err := parsePods("pods", "\n"+line+"\n"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", line, err, want)
		}
	}
	dir := t.TempDir()
	for want, args := range map[string][]string{
		"--kubelet is \"1.20\": use one of 1.19, 1.28, 1.33, 1.37":  {"--kubelet", "1.20", dir, "--", "true"},
		"--log is \"file\": use one of text, json, syslog, journal": {"--log", "file", dir, "--", "true"},
		"--cgroup is \"v3\": use one of v1, v2":                     {"--cgroup", "v3", dir, "--", "true"},
		"--every is 0s: use a duration above 0":                     {"--every", "0s", dir, "--", "true"},
		"flag provided but not defined: -hold":                      {"--hold", "1s", dir, "--", "true"},
		"DIR -- COMMAND is missing":                                 {dir, "true"},
		"cannot read --pods: open /nonexistent: no such file":       {"--pods", "/nonexistent", dir, "--", "true"},
		"DIR is \"" + dir + "/a b\": use a path without spaces":     {dir + "/a b", "--", "true"},
	} {
		if _, err := parseArgs(args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", args, err, want)
		}
	}
	if _, err := parsePods("the default pods", defaultPods); err != nil {
		t.Error(err)
	}
}
