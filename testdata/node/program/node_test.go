package program

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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

func TestMain(m *testing.M) {
	nodetest.Main(Main)
	os.Exit(m.Run())
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
	run(t, n.Command(t, pods, flags, again(t)...))
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

// cgroupDir returns the directory of a pod's cgroup.
func cgroupDir(t *testing.T, i int) string {
	t.Helper()
	return cgroupRoot + cgroups{}.pod(uid(i))
}

// cgroupOf returns the state of a pod's cgroup: none, empty or process.
func cgroupOf(t *testing.T, i int) string {
	t.Helper()
	dir := cgroupDir(t, i)
	if !exists(dir) {
		return "none"
	}
	pids := ""
	testkit.Must(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
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
	if !strings.Contains(string(text), strings.TrimPrefix(dir, cgroupRoot)) {
		t.Errorf("process %s is in %s", pids, text)
	}
	return "process"
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
		cmd := nodetest.New(t).Command(t, "", nil, "sh", "-c", script)
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
		cmd := nodetest.New(t).Command(t, "", nil, "sh", "-c", `trap 'exit 5' TERM; echo ready; sleep 100000 & wait`)
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
		out, err := nodetest.New(t).Command(t, "", nil, "true").CombinedOutput()
		if exitCode(err) != 2 || !bytes.Contains(out, []byte("node: cannot make namespaces: ")) {
			t.Errorf("%v, %s", err, out)
		}
		return
	}
	testkit.NeedUsers(t)
	dir, err := os.MkdirTemp("", "node-") //nolint:usetesting // t.TempDir is below a directory of root
	testkit.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	testkit.Must(t, os.WriteFile(dir+"/pods", []byte("a "+uid(1)+" living\n"), 0o644))
	const nobody = 65534
	testkit.Must(t, os.Chown(dir, nobody, nobody))
	cmd := nodetest.Node{Dir: dir}.Command(t, "", []string{"--pods", dir + "/pods"}, again(t)...)
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
		"DIR is /run/x: the node has another /run":                  {"/run/x", "--", "true"},
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
